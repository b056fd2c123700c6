# SPDX-License-Identifier: Apache-2.0
"""Runs that are created, resumed and undone: what both command lines call."""

import dataclasses
import threading

import pytest

from osc_placement.batch import journal, service
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.journal.file import WrongServer
from osc_placement.batch.plan import EXIT_DONE, EXIT_INTERRUPTED, Change, Consumer, Plan, make_plan
from osc_placement.batch.repeat import Recorded
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud, make, read_with, resume


@pytest.fixture
def cloud():
    """Two providers with processors."""
    return Cloud("a", "b", inventories=processors(1.0))


@pytest.fixture
def job(cloud):
    """Give both of them another ratio."""
    edit = RatioEdit({"VCPU": 4.0})
    return service.Job(make_plan(edit, read_with(cloud)(cloud.providers, edit.facets)), "all of them")


def stop_before_the_first_write(cloud, job, directory):
    """Start a run that changes nothing; return its ID."""
    stop = threading.Event()
    stop.set()
    recorder = service.Runs(directory).start(cloud, job)
    report = service.carry_out(cloud, job, recorder, stop=stop)
    assert report.exit_status == EXIT_INTERRUPTED
    return recorder.id


def test_a_job_cannot_be_changed(job):
    """What was shown is what is done."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        job.is_atomic = True


def test_journal_keeps_the_pace_for_a_resume(cloud, job, tmp_path):
    """Defaults are left out, so that a later version may change them; an earlier version kept nothing."""
    pace = service.Pace(concurrency=2, rate=2.5, max_failures=0, canary=1)
    recorder = service.Runs(tmp_path).start(cloud, job, pace)
    recorder.close()
    settings = journal.Journals(tmp_path).read(recorder.id).header.settings
    kept = service.Pace.from_settings(settings)
    assert kept == dataclasses.replace(pace, canary=0)
    with service.Runs(tmp_path).resume(cloud, recorder.id, read_with(cloud)) as resumed:
        assert resumed.pace == kept
    other = service.Runs(tmp_path).start(cloud, job, service.Pace())
    other.close()
    settings = journal.Journals(tmp_path).read(other.id).header.settings
    assert settings.keys() == {"atomic", "capacity"}
    assert service.Pace.from_settings(settings) == service.Pace()


def test_classes_are_created_before_the_journal_and_the_journal_before_the_first_write(cloud, job, tmp_path):
    """An undo must know of every change, and leaves the classes."""
    created = []
    cloud.ensure_resource_class = created.append
    recorder = service.Runs(tmp_path).start(cloud, dataclasses.replace(job, classes=frozenset({"CUSTOM_A"})))
    recorder.close()
    run = journal.Journals(tmp_path).read(recorder.id)
    assert created == ["CUSTOM_A"]
    assert (run.is_planned, set(run.intents), run.header.selection) == (True, {"a", "b"}, "all of them")
    assert cloud.facets["a"]["inventories"] == processors(1.0)


def test_a_run_is_resumed_in_its_own_journal_and_undone_in_another(cloud, job, tmp_path):
    """Afterwards everything is as before."""
    before = cloud.contents
    run_id = stop_before_the_first_write(cloud, job, tmp_path)
    with service.Runs(tmp_path).resume(cloud, run_id, read_with(cloud)) as resumed:
        report = service.carry_out(cloud, resumed, service.Runs(tmp_path).start(cloud, resumed))
    assert report.exit_status == EXIT_DONE
    assert cloud.contents != before
    back = service.Runs(tmp_path).undo(cloud, run_id, read_with(cloud))
    assert back.undoes == run_id
    recorder = service.Runs(tmp_path).start(cloud, back)
    assert service.carry_out(cloud, back, recorder).exit_status == EXIT_DONE
    assert cloud.contents == before
    assert journal.Journals(tmp_path).read(recorder.id).header.undoes == run_id


def test_a_journal_is_locked_while_a_resume_is_planned_and_shown(cloud, job, tmp_path):
    """Two who resume the same run would write the same twice; who declines leaves it to others."""
    run_id = stop_before_the_first_write(cloud, job, tmp_path)
    read = read_with(cloud)
    with service.Runs(tmp_path).resume(cloud, run_id, read):
        with pytest.raises(journal.JournalError, match="under way in another process"):
            service.Runs(tmp_path).resume(cloud, run_id, read)
        with pytest.raises(journal.JournalError, match="under way in another process"):
            service.Runs(tmp_path).undo(cloud, run_id, read)
        service.Runs(tmp_path).resume(cloud, run_id, read, dry_run=True)
    with service.Runs(tmp_path).resume(cloud, run_id, read) as again:
        assert again.is_needed


def test_a_resume_with_nothing_to_do_writes_nothing(cloud, job, tmp_path):
    """The run ended when its last change was made."""
    run_id = stop_before_the_first_write(cloud, job, tmp_path)
    resume(cloud, run_id, tmp_path)
    path = tmp_path / f"{run_id}.jsonl"
    content = path.read_bytes()
    with service.Runs(tmp_path).resume(cloud, run_id, read_with(cloud)) as again:
        assert not again.is_needed
    assert path.read_bytes() == content


def test_a_run_of_another_server_is_refused_and_its_journal_closed(cloud, job, tmp_path):
    """It can be resumed where it belongs."""
    run_id = stop_before_the_first_write(cloud, job, tmp_path)
    cloud.endpoint = "http://elsewhere.test"
    runs = service.Runs(tmp_path)
    for prepare in (runs.resume, runs.undo):
        with pytest.raises(WrongServer):
            prepare(cloud, run_id, read_with(cloud))
    assert not journal.Journals(tmp_path).read(run_id).is_running


def test_a_reshape_that_is_done_leaves_nothing_to_undo_the_second_time(tmp_path):
    """It is undone in one transaction, and then everything is as it was before."""
    made = make("reshape", tmp_path)
    back = service.Runs(tmp_path).undo(made.cloud, made.id, read_with(made.cloud))
    assert back.is_reshape
    assert back.is_atomic
    report = service.carry_out(made.cloud, back, service.Runs(tmp_path).start(made.cloud, back))
    assert report.exit_status == EXIT_DONE
    assert made.cloud.contents == made.before
    again = service.Runs(tmp_path).undo(made.cloud, made.id, read_with(made.cloud))
    assert (again.reshape, again.is_needed) == (None, False)


@pytest.mark.parametrize("is_resumed", [False, True])
def test_allocations_that_a_consumer_got_anew_are_not_taken(tmp_path, is_resumed):
    """They are the same amounts as those that were planned on, and have another generation."""
    cloud = Cloud()

    def claim(uuid):
        """Let the consumer hold it, in place of what it held."""
        generation = cloud.claims.get(uuid, {}).get("consumer_generation", 0)
        held = {"p": {"resources": {"VCPU": 1}}}
        owner = {"project_id": "project", "user_id": "user"}
        cloud.claims[uuid] = {"allocations": held, "consumer_generation": generation + 1, **owner}
        cloud.before_write = lambda _: None

    claim("c")
    held, nothing = ({"p": {"VCPU": 1}}, {})
    consumer = Consumer("c", 1, "project", "user", "INSTANCE")
    change = Change(consumer, ProviderState(allocations=held), ProviderState(allocations=nothing))
    edit = Recorded("orphaned allocations", ("allocations",))
    job = service.Job(Plan(edit, (change,)))
    if is_resumed:
        run_id = stop_before_the_first_write(cloud, job, tmp_path)
        claim("c")
        report = resume(cloud, run_id, tmp_path)
    else:
        cloud.before_write = claim
        report = service.carry_out(cloud, job, service.Runs(tmp_path).start(cloud, job))
    (outcome,) = report.outcomes
    assert "c holds something else since it was looked at" in str(outcome.error)
    assert read_with(cloud)([consumer], ("allocations",))[0].state.allocations == held
