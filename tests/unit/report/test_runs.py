# SPDX-License-Identifier: Apache-2.0
"""What the commands on runs say of a run, in lists and one by one."""

import dataclasses
import json
import re
from types import SimpleNamespace

import pytest

from osc_placement.batch import journal, service
from osc_placement.batch.difference import list_differences
from osc_placement.batch.execute import execute_plan
from osc_placement.batch.gate import Gate
from osc_placement.batch.guards import guard
from osc_placement.batch.guards.devices import DeviceInUse
from osc_placement.batch.guards.names import refuse_unknown
from osc_placement.batch.inventory import InventoryDeletion, InventoryEdit, RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import EXIT_PARTIAL, Gone, Outcome, Policy, Report, Result, make_plan
from osc_placement.batch.service import Pace
from osc_placement.batch.undo import plan_undo
from osc_placement.commands import batch_run
from osc_placement.errors import Forbidden, PlacementError
from osc_placement.report.changes import (
    SHORT_COLUMNS,
    Page,
    make_table,
    rows_of_plan,
    rows_of_report,
    rows_of_run,
)
from osc_placement.report.runs import (
    advise_next,
    advise_to_resume,
    describe_left,
    describe_resume,
    describe_run,
    name_next_commands,
    read_list,
    shorten_title,
)
from osc_placement.report.summary import sum_up
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import SERVER, Cloud, read_with, record
from tests.unit.commands.shell import make


class Runs:
    """Runs on a cloud in memory, with journals where commands look for them."""

    def __init__(self, *names):
        self.cloud = Cloud(*names, inventories=processors(1.0))

    def set_ratio(self, ratio):
        """Return the ID of a run that sets the ratio everywhere."""
        return self._make(RatioEdit({"VCPU": ratio}))

    def set_fields(self, *names, **fields):
        """Return the ID of a run that sets fields of the inventory of some providers, or everywhere."""
        return self._make(InventoryEdit({"VCPU": fields}), names)

    def add_traits(self, *names, verb="add"):
        """Return the ID of a run that adds traits everywhere, or removes them."""
        return self._make(TraitEdit(verb, frozenset(names)))

    def delete_inventories(self, name):
        """Return the ID of a run that deletes the inventories of a class."""
        return self._make(InventoryDeletion((name,)))

    def _make(self, edit, names=()):
        providers = [each for each in self.cloud.providers if not names or each.name in names]
        plan = make_plan(edit, read_with(self.cloud)(providers, edit.facets))
        return record(self.cloud, journal.state_directory(), plan).stem

    def undo(self, run_id, *, force=False):
        """Return the ID of an undo of a run."""
        plan = plan_undo(journal.Journals().read(run_id), read_with(self.cloud), force=force)
        return record(self.cloud, journal.state_directory(), plan, undoes=run_id).stem

    def touch(self, ratio, *names):
        """Set the ratio of some providers, as somebody else does."""
        for name in names:
            self.cloud.touch(name, inventories=processors(ratio))


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Runs on three providers."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Runs("a", "b", "c")


def state_of(run_id):
    """Return the state that the facts of a run say, without its label."""
    (line,) = [line for line in describe_run(journal.Journals().read(run_id)) if line.startswith("state:")]
    return line.removeprefix("state:").strip()


def list_states():
    """Return the states and the undos of the list of runs, the oldest first."""
    return [(row[1], row[-1]) for row in read_list(journal.identify_server(SERVER), None, pytest.fail).rows]


def test_run_of_which_a_part_was_undone_is_partly_undone(runs):
    """Its undo is partly done, and not refused, as it has changed something."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    undo = runs.undo(run)
    assert list_states() == [("partly undone", undo), ("partly done", "")]
    assert state_of(run) == f"partly undone: 2 of 3, by run {undo}"
    assert state_of(undo) == "partly done"
    redo = runs.undo(undo)
    assert list_states() == [("done", ""), ("undone", redo), ("done", "")]
    assert state_of(run) == "done"


def test_long_list_says_when_runs_ended_and_how_many_changes_are_undone(runs):
    """It has the facts that begin a page about one run, also where nothing but the last line is read."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    runs.undo(run)
    listed = read_list(journal.identify_server(SERVER), None, pytest.fail).describe(200)
    shown = [
        line for each in journal.Journals().list_ids() for line in describe_run(journal.Journals().read(each))
    ]
    assert [line for line in listed if line.startswith("ended: ")] == [
        line for line in shown if line.startswith("ended: ")
    ]
    assert sum(line.startswith("ended: ") for line in listed) == 2
    assert f"state:     {state_of(run)}" in listed


def add_cloud(listed):
    """Return a list of runs with the last one for another cloud as well."""
    last = listed.runs[-1]
    header = dataclasses.replace(last.header, server="http://other.test/placement")
    return dataclasses.replace(listed, runs=[*listed.runs, dataclasses.replace(last, header=header)])


def test_list_of_runs_has_whole_ids_beside_what_was_applied(runs):
    """What was applied is left out before the ID of an undone run is cut."""
    run = runs.set_ratio(4.0)
    server = journal.identify_server(SERVER)
    runs.touch(9.0, "b", "c")
    runs.undo(run)
    head, _, undo = read_list(server, None, pytest.fail).draw(90, with_clouds=False)
    assert head.split()[-3:] == ["state", "applied", "what"]
    assert undo.split()[1:4] == ["partly", "done", "1/3"]
    assert undo.endswith(f"undo of {run}")
    *_, undo, told = read_list(server, None, pytest.fail).draw(75, with_clouds=False)
    assert undo.endswith(f"undo of {run}")
    assert told == "Columns not shown: applied (--full shows it)"
    found = add_cloud(read_list(server, None, pytest.fail))
    assert found.draw(80, with_clouds=True)[-2].endswith(f"...{run[-3:]}")
    assert "applied" in found.draw(120, with_clouds=True)[0]
    assert "changes:   1 of 3 applied, 2 failed or refused" in found.describe(80)


@pytest.mark.parametrize(
    ("selection", "where"),
    [
        ("in aggregate rack3 (aaaaaaaa-0003-4000-8000-000000000000)", "rack3"),
        ("in aggregate aaaaaaaa-0003-4000-8000-000000000000", "aaaaaaaa-0003-4..."),
        ("named like compute-r3-*", "compute-r3-*"),
        ("with CUSTOM_GOLD and named like c*", "with CUSTOM_GOL..."),
    ],
)
def test_list_of_runs_says_at_80_columns_where_each_was(runs, selection, where):
    """The aggregate by the name that was given, the beginning of a UUID, or the other conditions."""
    runs.set_ratio(4.0)
    runs.undo(runs.add_traits("CUSTOM_LIQUID_COOLED"))
    found = read_list(journal.identify_server(SERVER), None, pytest.fail)
    listed = [
        dataclasses.replace(run, header=dataclasses.replace(run.header, selection=selection))
        for run in found.runs
    ]
    lines = dataclasses.replace(found, runs=listed).draw(80, with_clouds=False)
    assert max(map(len, lines)) <= 80
    assert re.search(rf"ratio set VCPU=4.0 +{re.escape(where)}$", lines[1])
    assert re.search(rf"add CUSTOM_LIQUID_COOLED +{re.escape(where)}$", lines[2])
    assert re.search(r"undo of \S{22}$", lines[3])
    undo = dataclasses.replace(found, runs=listed[2:]).draw(80, with_clouds=False)
    assert undo[0].endswith("  what")


def test_list_with_shortened_titles_says_how_to_see_them_whole(runs):
    """The last line does, unless no title was shortened."""
    runs.set_fields(reserved=1, allocation_ratio=4.0)
    found = read_list(journal.identify_server(SERVER), None, pytest.fail)
    assert len(found.draw(120, with_clouds=False)) == 2
    _, run, told = found.draw(60, with_clouds=False)
    assert (run.endswith(" ..."), told) == (True, "Columns not shown: applied (--full shows it)")


@pytest.mark.parametrize(
    ("title", "width", "shown"),
    [
        ("ratio set VCPU=4.0", 18, "ratio set VCPU=4.0"),
        ("inventory set VCPU:total=8 VCPU:reserved=2 MEMORY_MB:total=4", 32, "set VCPU:total=8 ..."),
        ("inventory set MEMORY_MB:reserved=7000", 32, "set MEMORY_MB:reserved=7000"),
        ("inventory set MEMORY_MB:allocation_ratio=1.5", 33, "set MEMORY_MB:allocation_ratio..."),
        ("inventory delete CUSTOM_NVME_SLOT VCPU MEMORY_MB", 27, "delete CUSTOM_NVME_SLOT ..."),
        ("trait add CUSTOM_GOLD CUSTOM_SILVER", 25, "add CUSTOM_GOLD ..."),
        ("apply /work/examples/of/a/cloud.yaml", 24, "apply /wo...a/cloud.yaml"),
        ("trait add CUSTOM_LONGER_THAN_THE_LINE", 24, "add CUSTOM_LONGER_THA..."),
    ],
)
def test_title_is_shortened_without_cutting_the_name_of_a_class(title, width, shown):
    """Unless there is no space for one at all."""
    found = shorten_title(title, width)
    assert (found, len(found) <= width) == (shown, True)


def test_change_that_is_not_tried_has_one_word_in_plan_result_and_run(runs):
    """Refused by the plan, or failed if it could not be read; the journal has "failed" of both."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    plan = plan_undo(journal.Journals().read(run), read_with(runs.cloud))
    lost = next(step.uuid for step in plan.steps if step.subject.name == "b")
    plan = dataclasses.replace(plan, unreadable={lost: PlacementError("no answer")})
    planned = {row.change.subject.name: row.result for row in rows_of_plan(plan)}
    assert planned == {"a": "", "b": "failed", "c": "refused"}
    path = record(runs.cloud, journal.state_directory(), plan, undoes=run)
    wanted = {"a": "applied", "b": "failed", "c": "refused"}
    assert {
        row.change.subject.name: row.result for row in rows_of_run(journal.Journals().read(path.stem))
    } == wanted
    assert "refused" not in {json.loads(line).get("result") for line in path.read_text().splitlines()}
    report = execute_plan(runs.cloud, plan)
    wanted["a"] = "unchanged"
    assert {row.change.subject.name: row.result for row in rows_of_report(report)} == wanted
    assert sum_up(report).totals.endswith(": 3 resource providers, 1 unchanged, 1 failed, 1 refused")
    assert (
        describe_run(journal.Journals().read(path.stem))[-1]
        == "changes:   1 of 3 applied, 1 failed, 1 refused"
    )


def test_run_names_the_undo_that_counts_and_no_earlier_one(runs):
    """One that was refused, or undid a part, is of no interest once another has undone the rest."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "a", "b", "c")
    refused = runs.undo(run)
    assert state_of(run) == f"done; undo refused: run {refused}"
    runs.touch(4.0, "a", "b")
    part = runs.undo(run)
    assert state_of(run) == f"partly undone: 2 of 3, by run {part}"
    runs.touch(4.0, "c")
    whole = runs.undo(run)
    assert state_of(run) == f"undone by run {part} (2) and run {whole} (1)"
    assert [state for state, _ in list_states()] == ["undone", "refused", "partly done", "done"]


def test_forced_undo_that_leaves_a_part_undoes_the_run_partly(runs):
    """The run, its undo, the summary and the exit status tell how many changes were undone in part."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    runs.cloud.touch("b", inventories={"VCPU": processors(4.0)["VCPU"] | {"reserved": 2}})
    plan = plan_undo(journal.Journals().read(run), read_with(runs.cloud), force=True)
    told = "changed since; what was set since stays"
    assert sum_up(plan).totals == f": 3 resource providers to change (1 in part: {told})"
    undo = runs.undo(run, force=True)
    assert list_states() == [("partly undone", undo), ("partly done", "")]
    assert state_of(run) == f"partly undone: 2 of 3 and 1 in part, by run {undo}"
    assert describe_run(journal.Journals().read(undo))[-1] == "changes:   3 of 3 applied, 1 of them in part"
    listed = read_list(None, None, pytest.fail)
    assert "changes:   3 of 3 applied, 1 of them in part" in listed.describe(200)
    assert "  partly done    3/3 (1 in part)  undo of " in listed.draw(200, with_clouds=False)[-1]
    *_, narrow, note = listed.draw(80, with_clouds=False)
    assert narrow.endswith(f"  partly done    undo of {run}")
    assert note == "Columns not shown: applied (--full shows it)"
    assert [row[4:7] for row in listed.rows] == [(3, 3, 0), (3, 3, 0)]
    (row,) = [row for row in rows_of_run(journal.Journals().read(undo)) if row.is_incomplete]
    told = f"{told}: VCPU:reserved=2"
    assert (row.change.subject.name, row.result, row.reason) == ("b", "in part", told)
    assert Page(80).describe([row])[-1] == f"In part: b: {told}"


def test_undone_run_that_makes_more_changes_in_a_resume_is_partly_undone(runs):
    """What its resume made is left to undo, until an undo has undone that too, or all of it again."""
    run = runs.set_ratio(4.0)
    undo = runs.undo(run)
    undone = read_list(None, None, pytest.fail).runs

    def states(changes, applied, *more):
        """Return the states of the run and its undos, if the run was resumed after the first undo."""
        resumed = dataclasses.replace(
            undone[0], changes=changes, applied=applied, ended="2999-01-01T00:00:00Z"
        )
        return journal.find_undone([resumed, undone[1], *more])[run]

    assert states(3, 3).is_whole
    found = states(5, 5)
    assert (found.is_whole, found.number) == (False, 3)
    header = dataclasses.replace(undone[1].header, id=f"{undo}9", started="2999-01-01T00:00:01Z")
    rest = dataclasses.replace(undone[1], header=header, changes=2, applied=2)
    assert states(5, 5, rest).runs == f"by run {undo} (3) and run {undo}9 (2)"
    again = dataclasses.replace(rest, changes=5, applied=5)
    assert (states(5, 5, again).is_whole, states(5, 5, again).runs) == (True, f"by run {undo}9")


def test_forced_undo_names_what_stays_in_part_and_who_changed_it(runs):
    """The operator need not look for the hosts, nor for the run that stands in the way."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    later = runs.set_fields("b", reserved=2)
    runs.cloud.touch("c", inventories={"VCPU": processors(4.0)["VCPU"] | {"reserved": 3}})
    job = service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True)
    (told,) = job.plan.warnings
    by = f"by run {later} (1), 1 otherwise"
    assert told == f"2 of 3 changes will be undone in part: what was set since {by} stays, on b, c"


def test_what_an_undo_left_names_the_command_that_undoes_more(runs):
    """The later run that set the same, else --force; the same command only if neither helps."""

    def left(run_id, **options):
        job = service.Runs().undo(runs.cloud, run_id, read_with(runs.cloud), **options)
        return describe_left(execute_plan(runs.cloud, job.plan), run_id, "run")

    run = runs.set_ratio(4.0)
    later = runs.set_ratio(5.0)
    again = "then this one again, beginning with: run undo"
    assert left(run) == f"run {run} still has 3 changes to undo; undo the later run first, {again} {later}"
    latest = runs.set_fields("a", allocation_ratio=6.0)
    in_order = f"undo the later runs first, in that order, {again} {latest}"
    assert left(run) == f"run {run} still has 3 changes to undo; {in_order}"
    runs.touch(9.0, "a", "b", "c")
    other = f"run {run} still has 3 changes to undo, when what was set since is undone: run undo {run}"
    assert left(run) == other
    several = runs.set_fields(reserved=1, max_unit=2)
    runs.cloud.touch("b", inventories={"VCPU": processors(9.0)["VCPU"] | {"reserved": 2, "max_unit": 2}})
    parts = "to undo the parts that are as the run left them"
    assert left(several) == f"run {several} still has 1 change to undo; {parts}: run undo {several} --force"
    told = f"run {several} still has 1 change to undo, when what was set since is undone: run undo {several}"
    assert left(several, force=True) == told


def test_what_an_undo_left_counts_what_was_refused_for_another_reason(runs):
    """What the server or the plan refused stays to undo; what failed otherwise is for a resume."""
    run = runs.set_ratio(4.0)
    told = f"run {run} still has 1 change to undo, when nothing refuses it any more: run undo {run}"

    def left(plan):
        return describe_left(execute_plan(runs.cloud, plan), run, "run")

    plan = service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan
    assert left(dataclasses.replace(plan, refused={"a": PlacementError("in use")})) == told
    last = Outcome(plan.changes[-1], Result.SKIPPED)
    stopped = execute_plan(runs.cloud, dataclasses.replace(plan, refused={"a": PlacementError("in use")}))
    stopped = dataclasses.replace(stopped, outcomes=(*stopped.outcomes[:-1], last), interrupted=True)
    of_all = told.replace("1 change to undo", "2 changes to undo, 1 of which the resume undoes")
    assert describe_left(stopped, run, "run", has_resume=True) == of_all
    gone = execute_plan(runs.cloud, dataclasses.replace(plan, refused={"a": Gone("a")}))
    assert describe_left(gone, run, "run") == ""
    rest = service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan
    for error, expected in ((Forbidden(403, "not yours", method="PUT"), told), (RuntimeError("lost"), "")):

        def fail(uuid, error=error):
            raise error

        runs.cloud.before_write = fail
        assert left(rest) == expected


def test_what_an_undo_left_looks_at_the_report_once(runs, monkeypatch):
    """Whether all of it was refused takes a look at each outcome, so it is not asked for each of them."""
    run = runs.set_ratio(4.0)

    def fail(uuid):
        raise Forbidden(403, "not yours", method="PUT")

    runs.cloud.before_write = fail
    report = execute_plan(runs.cloud, service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan)
    asked = []
    judge = Report.is_refused.fget
    monkeypatch.setattr(Report, "is_refused", property(lambda self: asked.append(self) or judge(self)))
    assert describe_left(report, run, "run").startswith(
        f"run {run} still has 3 changes to undo, when nothing "
    )
    assert len(asked) == 1
    assert (describe_left(report, None, "run"), len(asked)) == ("", 1)


def test_what_needs_a_deleted_name_is_refused_before_anything_is_written(runs):
    """The undo and the resume of a run name what to create; each write would fail, and the plan look good."""
    run = runs.add_traits("CUSTOM_A")
    removed = runs.add_traits("CUSTOM_A", verb="remove")
    runs.cloud.deleted.add("CUSTOM_A")
    undo = service.Runs().undo(runs.cloud, removed, read_with(runs.cloud))
    why = "The server does not know the trait CUSTOM_A; create it first with: openstack trait create CUSTOM_A"
    assert {str(error) for error in undo.plan.refused.values()} == {why}
    assert (len(undo.plan.refused), undo.plan.changes) == (3, ())
    # what goes need not be known
    assert not service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan.refused
    gone = runs.delete_inventories("VCPU")
    runs.cloud.deleted.add("VCPU")
    (refused,) = set(
        map(str, service.Runs().undo(runs.cloud, gone, read_with(runs.cloud)).plan.refused.values())
    )
    assert refused.startswith("The server does not know the resource class VCPU")


def test_resume_warns_of_what_it_overwrites(runs):
    """A field that somebody set during the interruption; not one that the run does not set."""

    def fail(uuid):
        raise Forbidden(403, "not yours", method="PUT")

    runs.cloud.before_write = fail
    run = runs.set_fields(reserved=3)
    runs.cloud.before_write = lambda _uuid: None
    changed = {"VCPU": processors(1.0)["VCPU"] | {"reserved": 1}}
    runs.cloud.touch("b", inventories=changed)
    runs.touch(9.0, "c")
    plan = service.Runs().resume(runs.cloud, run, read_with(runs.cloud), dry_run=True).plan
    assert plan.warnings == ("1 of 3 changes overwrites what was set since the run was planned, on b",)
    assert len(plan.changes) == 3


def test_a_staged_plan_that_needs_a_deleted_name_is_refused_whole(runs):
    """Its later stages may delete what the refused change was to replace."""
    runs.add_traits("CUSTOM_A")
    removed = runs.add_traits("CUSTOM_A", verb="remove")
    plan = plan_undo(journal.Journals().read(removed), read_with(runs.cloud))
    runs.cloud.deleted.add("CUSTOM_A")
    assert len(refuse_unknown(runs.cloud, plan).refused) == 3
    with pytest.raises(PlacementError, match="Nothing was changed: The server does not know"):
        refuse_unknown(runs.cloud, dataclasses.replace(plan, is_staged=True))


def test_an_undo_that_left_something_shows_how_to_undo_the_rest(runs):
    """Not once all is undone, or the undo itself."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "b")
    undo = runs.undo(run)
    rest = [f"To see how the rest of run {run} is undone: batch run undo {run} --dry-run"]
    assert advise_next(journal.Journals().read(undo), "batch run") == rest
    runs.touch(4.0, "b")
    runs.undo(run)
    assert advise_next(journal.Journals().read(undo), "batch run") == []
    other = runs.set_ratio(5.0)
    runs.touch(9.0, "b")
    undo = runs.undo(other)
    runs.undo(undo)
    assert advise_next(journal.Journals().read(undo), "batch run") == []
    journal.Journals().delete(other)
    assert advise_next(journal.Journals().read(undo), "batch run") == []


def test_the_command_that_shows_an_interrupted_run_shows_what_was_not_tried(runs):
    """--failed-only would leave that out, which is what matters of it."""

    def fail(uuid):
        raise Forbidden(403, "not yours", method="PUT")

    runs.cloud.before_write = fail
    edit = RatioEdit({"VCPU": 9.0})
    plan = make_plan(edit, read_with(runs.cloud)(runs.cloud.providers, edit.facets))
    for most, option in ((None, " --failed-only"), (1, "")):
        report = execute_plan(runs.cloud, plan, gate=Gate(max_failures=most), concurrency=1)
        assert name_next_commands("r", report, "run", "run").commands["show"] == f"run show r{option}"


def test_force_that_makes_no_difference_is_told(runs):
    """An operator who forces expects that something is in the way."""
    run = runs.set_ratio(4.0)
    told = "--force makes no difference: all that is left of the run is undone without it"
    assert service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True).plan.warnings == (told,)
    runs.touch(1.0, "a")
    assert service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True).plan.warnings == (told,)
    assert service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan.warnings == ()
    runs.touch(9.0, "a")
    (other,) = service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True).plan.warnings
    assert other.startswith("1 of 3 changes will not be undone")


def test_force_on_a_run_that_is_undone_is_not_told_to_be_unneeded(runs):
    """There is nothing to undo, with force or without."""
    run = runs.set_ratio(4.0)
    undo = runs.undo(run)
    again = service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True)
    told = f"Run {run} was undone by run {undo}; nothing is left to undo"
    assert (again.is_needed, again.plan.warnings) == (False, (told,))


def test_undo_of_a_run_that_was_undone_says_by_which_run_and_what_is_left(runs):
    """It may have been undone by a colleague, in part, or made again since."""

    def told(run_id):
        return service.Runs().undo(runs.cloud, run_id, read_with(runs.cloud)).plan.warnings[0]

    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    part = runs.undo(run)
    assert told(run) == f"Run {run} was partly undone by run {part}; 1 change is left to undo"
    runs.touch(4.0, "c")
    rest = runs.undo(run)
    by = f"by run {part} (2) and run {rest} (1)"
    assert told(run) == f"Run {run} was undone {by}; nothing is left to undo"
    runs.touch(4.0, "a", "b")
    assert told(run) == f"Run {run} was undone {by}, and what 2 of its changes set was set again since"


def test_forced_undo_that_leaves_a_part_ends_with_status_3(runs):
    """Also where it leaves all, which is refused, and there is no run then."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    runs.cloud.touch("b", inventories={"VCPU": processors(4.0)["VCPU"] | {"reserved": 2}})
    job = service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True)
    report = execute_plan(runs.cloud, job.plan)
    assert sum_up(report).totals == ": 3 resource providers, 2 applied, 1 in part"
    assert report.exit_status == EXIT_PARTIAL
    job = service.Runs().undo(runs.cloud, run, read_with(runs.cloud), force=True)
    assert not job.is_needed
    report = execute_plan(runs.cloud, job.plan)
    assert sum_up(report).totals == ": 3 resource providers, 2 unchanged, 1 refused"
    assert report.exit_status == EXIT_PARTIAL


def test_run_that_was_undone_in_parts_names_each_undo_with_its_number(runs):
    """The last one alone did not undo it."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    first = runs.undo(run)
    runs.touch(4.0, "c")
    last = runs.undo(run)
    assert state_of(run) == f"undone by run {first} (2) and run {last} (1)"


def test_change_that_was_undone_made_and_undone_again_counts_once(runs):
    """Whatever else is left of the run is not called undone."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    undos = [runs.undo(run)]
    runs.touch(4.0, "a", "b")
    undos.append(runs.undo(run))
    told = " and ".join(f"run {undo} (2)" for undo in undos)
    assert state_of(run) == f"partly undone: 3 of 3, by {told}"
    asked = []
    delete(run, confirm=asked.append)
    assert asked == [f"Delete run {run}, of which 1 change can still be undone?"]


def test_force_is_advised_only_for_changes_of_which_it_undoes_a_part(runs):
    """A change whose every field was set again has none."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    theirs = {"VCPU": processors(9.0)["VCPU"] | {"reserved": 1}}
    runs.cloud.touch("a", inventories=theirs)
    advice = "use --force, which also undoes the parts of {} that are still as the run left them"
    assert warning_of_undo(runs, run) == ("1 of 3", "", advice.format("it"))
    runs.cloud.touch("b", inventories={"VCPU": processors(9.0)["VCPU"] | {"reserved": 2}})
    assert warning_of_undo(runs, run) == ("2 of 3", "", advice.format("1 of them"))


def test_refused_change_of_an_undo_shows_what_is_there(runs):
    """Not what the run left, and nothing that is as it was before the run already."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    runs.cloud.touch("a", inventories={"VCPU": processors(1.0)["VCPU"] | {"reserved": 2}})
    plan = plan_undo(journal.Journals().read(run), read_with(runs.cloud))
    wanted = ["VCPU:reserved from 2 to 0"]
    for rows in (rows_of_plan(plan), rows_of_report(execute_plan(runs.cloud, plan))):
        (row,) = [row for row in rows if row.result == "refused"]
        assert list(map(str, list_differences(row.change.before, row.change.after))) == wanted
    undo = record(runs.cloud, journal.state_directory(), plan, undoes=run)
    (row,) = [row for row in rows_of_run(journal.Journals().read(undo.stem)) if row.result == "refused"]
    assert list(map(str, list_differences(row.change.before, row.change.after))) == [
        "VCPU:reserved from 1 to 0"
    ]


def test_refused_change_of_an_undo_is_told_in_its_row_with_one_name(runs):
    """A table has no change that will not be made, but what is so, before the undo and of its run."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    runs.touch(3.0, "a")
    plan = plan_undo(journal.Journals().read(run), read_with(runs.cloud), force=True)
    undo = record(runs.cloud, journal.state_directory(), plan, undoes=run)
    told = "was changed since: VCPU:allocation_ratio=4.0 became VCPU:allocation_ratio=3.0"
    listed = (rows_of_plan(plan), rows_of_report(execute_plan(runs.cloud, plan)))
    for rows in (*listed, rows_of_run(journal.Journals().read(undo.stem))):
        lines = Page(120).describe(rows, is_plan=True)
        assert "\n".join(lines).count("| a ") == 1
        (line,) = [line for line in lines if "refused" in line]
        assert line.split(" | ")[1].strip() == told
        assert not [line for line in lines if line.startswith("Refused: ")]
        columns, cells = make_table([row for row in rows if row.result == "refused"], SHORT_COLUMNS)
        assert (columns, cells) == (["name", "change", "result"], [["a", told, "refused"]])


def test_change_of_an_undo_that_is_refused_for_another_reason_is_in_its_row(runs):
    """A device that is in use is not released; the row of the run has that below the table, as its plan."""
    run = runs.set_fields(reserved=8)
    plan = plan_undo(journal.Journals().read(run), read_with(runs.cloud))
    plan = dataclasses.replace(plan, refused={"a": DeviceInUse({"VCPU": 1})})
    undo = record(runs.cloud, journal.state_directory(), plan, undoes=run)
    for rows in (rows_of_plan(plan), rows_of_run(journal.Journals().read(undo.stem))):
        (row,) = [row for row in rows if row.result == "refused"]
        _, (cells,) = make_table([row], SHORT_COLUMNS)
        assert cells == ["a", "VCPU:reserved from 8 to 0", "refused", row.reason]


def test_resume_of_a_run_that_was_undone_warns_of_it(runs):
    """It would change what the run had not changed, which nobody expects of a run that is undone."""

    def fail(uuid):
        if uuid == "c":
            raise Forbidden(403, "not yours", method="PUT")

    runs.cloud.before_write = fail
    run = runs.set_ratio(4.0)
    runs.cloud.before_write = lambda _uuid: None
    read = read_with(runs.cloud)
    assert service.Runs().resume(runs.cloud, run, read, dry_run=True).plan.warnings == ()
    undo = runs.undo(run)
    plan = service.Runs().resume(runs.cloud, run, read, dry_run=True).plan
    (warning,) = plan.warnings
    again = f"to make them again: openstack resource provider batch run undo {undo}"
    none = f"none that was undone; {again}"
    assert warning == (
        f"Run {run} was undone by run {undo}; its resume makes the changes that it had not made, and {none}"
    )
    assert len(plan.changes) == 1
    whole = runs.set_ratio(5.0)
    undo = runs.undo(whole)
    (warning,) = service.Runs().resume(runs.cloud, whole, read, dry_run=True).plan.warnings
    told = f"Run {whole} was undone by run {undo}; its resume makes none of these changes again; "
    assert warning.startswith(told)


def test_resume_of_a_run_that_was_undone_does_not_offer_to_undo_it(runs):
    """What it changed is undone, and the resume changes nothing."""

    def fail(uuid):
        if uuid == "c":
            raise Forbidden(403, "not yours", method="PUT")

    runs.cloud.before_write = fail
    run = runs.set_ratio(4.0)
    for is_undone in (False, True):
        with service.Runs().resume(runs.cloud, run, read_with(runs.cloud)) as job:
            assert job.can_be_undone is not is_undone
            report = execute_plan(runs.cloud, job.plan)
            following = name_next_commands(run, report, "run", "run", can_be_undone=job.can_be_undone)
        assert ("undo" in following.commands) is not is_undone
        # the resume changed nothing, so that the undo needs a word
        made_before = f"{run}, with the changes that it made before"
        assert following.title == (run if is_undone else made_before)
        runs.undo(run)


def test_the_title_of_an_undo_names_one_run_and_what_that_did(runs):
    """It does not grow with each undo of an undo."""
    run = runs.set_ratio(4.0)
    header = journal.Journals().read_header(run)
    assert header.title_of_undo == f"undo of {run} ({header.edit.title})"
    undo = runs.undo(run)
    again = runs.undo(undo)
    assert journal.Journals().read_header(again).edit.title == f"undo of {undo} (undo of {run})"
    assert journal.Journals().read_header(again).title_of_undo == f"undo of {again} (undo of {undo})"


UNDO = "openstack resource provider batch run undo"


def warning_of_undo(runs, run_id, *, force=False):
    """Return the parts of the warning of the undo of a run, as commands plan it."""
    plan = service.Runs().undo(runs.cloud, run_id, read_with(runs.cloud), force=force).plan
    (warning,) = plan.warnings
    reason = warning.partition(" changes will not be undone, because what the run set was changed since")
    return reason[0], *reason[2].split("; ")


def test_undo_names_the_later_runs_that_set_the_same(runs):
    """They come in the order in which they are to be undone; what somebody else set is in no journal."""
    run = runs.set_ratio(4.0)
    assert service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan.warnings == ()
    runs.touch(9.0, "c")
    assert warning_of_undo(runs, run) == ("1 of 3", "", "no part of it is still as the run left it")
    # what is as the run left it now is not in the way
    runs.undo(runs.set_ratio(5.0))
    assert warning_of_undo(runs, run) == ("1 of 3", "", "no part of it is still as the run left it")
    later = [runs.set_ratio(6.0)]
    first = f"undo the later run first: {UNDO} {later[0]}"
    # to undo it helps where nobody else set anything
    assert warning_of_undo(runs, run) == ("3 of 3", f" by run {later[0]} (2), 1 otherwise", first)
    later += [runs.set_ratio(ratio) for ratio in (7.0, 8.0, 2.0, 3.0)]
    told = ", ".join(f"run {each} (2)" for each in later[:1:-1])
    order = f"undo the later runs first, in that order, beginning with: {UNDO} {later[-1]}"
    assert warning_of_undo(runs, run) == ("3 of 3", f" by {told} and 2 more, 1 otherwise", order)


def test_undo_names_the_last_runs_where_more_set_the_same_than_are_read(runs):
    """Those behind them may explain the rest, so that the order is right all the same."""
    run = runs.set_ratio(4.0)
    later = [runs.set_ratio(5.0 + number) for number in range(22)]
    _, by, order = warning_of_undo(runs, run)
    assert by.startswith(f" by run {later[-1]} (3), run {later[-2]} (3)")
    assert order.endswith(f"beginning with: {UNDO} {later[-1]}")


def test_force_that_undoes_nothing_more_is_told_to_make_no_difference(runs):
    """The warning is not the one of an undo without it, and still says what to do."""
    run = runs.set_ratio(4.0)
    runs.touch(9.0, "c")
    none = "--force makes no difference: no part of {} is still as the run left it"
    assert warning_of_undo(runs, run, force=True) == ("1 of 3", "", none.format("it"))
    later = runs.set_ratio(5.0)
    first = f"undo the later run first: {UNDO} {later}"
    assert warning_of_undo(runs, run, force=True)[2:] == (none.format("them"), first)


def test_command_that_undoes_the_later_run_has_a_line_of_its_own(runs):
    """It ends the warning, behind the advice to use --force."""
    run = runs.set_fields(reserved=1, allocation_ratio=4.0)
    later = runs.set_ratio(5.0)
    (warning,) = service.Runs().undo(runs.cloud, run, read_with(runs.cloud)).plan.warnings
    assert " use --force, which also undoes" in warning
    assert Page(80).warn([warning])[-1] == f"{UNDO} {later}"


def test_undo_names_no_later_run_that_was_undone_itself(runs):
    """Nor its undo: the undo of that would set again what nobody wants."""
    first = runs.set_fields(reserved=1, allocation_ratio=2.0)
    undone = runs.set_ratio(4.0)
    wanted = runs.set_fields(reserved=2)
    runs.undo(undone)
    _, by, _ = warning_of_undo(runs, first)
    assert by == f" by run {wanted} (3)"


def test_no_journal_is_read_behind_the_one_that_explains_all(runs, monkeypatch):
    """Nor one of a run that set something else."""
    run = runs.set_ratio(4.0)
    runs.undo(runs.set_ratio(2.0))
    last = runs.set_ratio(8.0)
    runs.add_traits("CUSTOM_A")
    read, names = journal.Journals.read, []
    monkeypatch.setattr(journal.Journals, "read", lambda self, name: names.append(name) or read(self, name))
    assert warning_of_undo(runs, run)[1] == f" by run {last} (3)"
    assert names == [run, last]


def test_list_of_all_clouds_has_addresses_without_their_scheme(runs):
    """What a run did needs the space."""
    runs.set_ratio(2.0)
    listed = read_list(None, None, print)
    lines = add_cloud(listed).draw(80, with_clouds=True)
    assert lines[1].endswith("  placement.test/placement  ratio set VCPU=2.0")
    assert lines[3:] == ["Columns not shown: applied (--full shows it)"]
    assert max(map(len, lines)) <= 80
    head, line, last = listed.draw(80, with_clouds=True)
    assert ("applied" in head, line.split()[-4:]) == (True, ["3", "ratio", "set", "VCPU=2.0"])
    assert last == f"All of them are for {SERVER}"


def test_facts_of_a_run_say_how_many_of_its_changes_were_applied(runs):
    """Whatever else became of the others follows."""
    assert describe_run(journal.Journals().read(runs.set_ratio(4.0)))[-1] == "changes:   3 of 3 applied"
    run = runs.set_ratio(2.0)
    runs.touch(9.0, "c")
    undo = runs.undo(run)
    assert describe_run(journal.Journals().read(undo))[-1] == "changes:   2 of 3 applied, 1 refused"


def test_run_with_changes_that_an_option_allows_has_the_command_that_makes_them(runs):
    """The reason of each names the option, of whatever command the run was."""
    runs.set_ratio(16.0)
    runs.cloud.provider_usages = lambda uuid: {"VCPU": 20 if uuid == "b" else 1}
    edit = RatioEdit({"VCPU": 1.0})
    plan = make_plan(edit, read_with(runs.cloud)(runs.cloud.providers, edit.facets))
    plan = guard(runs.cloud, plan, Policy("keep"))
    run = journal.Journals().read(record(runs.cloud, journal.state_directory(), plan).stem)
    (line,) = advise_to_resume(run, "batch run")
    command = f"batch run resume {run.header.id} --force"
    assert line == f"To make the refused changes all the same: {command}"
    assert advise_to_resume(dataclasses.replace(run, is_running=True), "batch run") == []
    assert advise_to_resume(journal.Journals().read(runs.set_ratio(16.0)), "batch run") == []
    undo = runs.undo(run.header.id)
    assert advise_to_resume(run, "batch run") == []
    delete(undo)
    asked = []
    delete(run.header.id, confirm=asked.append)
    assert asked[0].startswith(f"Delete run {run.header.id}, which can still be resumed, and of which ")


def test_unfinished_run_has_the_command_that_resumes_it(runs):
    """As one has that was refused something; a run that is done has none."""
    run = journal.Journals().read(runs.set_ratio(4.0))
    assert advise_to_resume(run, "batch run") == []
    died = dataclasses.replace(run, endings={})
    (line,) = advise_to_resume(died, "batch run")
    assert line == f"To make the changes that are left: batch run resume {run.header.id}"


def test_run_that_found_a_change_made_is_not_listed_as_if_one_was_missing(runs):
    """A resume finds what the run had written when it was killed."""
    runs.set_ratio(4.0)
    found = read_list(journal.identify_server(SERVER), None, pytest.fail)
    (run,) = found.runs
    for state, failed, told in (("done", 0, "2"), ("unfinished", 0, "2/3"), ("partly done", 1, "2/3")):
        summary = dataclasses.replace(run, applied=2, failed=failed, state=state)
        listed = dataclasses.replace(found, runs=[summary]).draw(200, with_clouds=False)
        assert f" {state.ljust(5)}  {told} " in listed[1]


def delete(*run_ids, confirm=lambda _question: None, last=False, older_than=None):
    """Delete runs; return what is said of it."""
    command = make(batch_run.DeleteRun)
    command.identify_cloud = lambda: journal.identify_server(SERVER)
    command.complain = pytest.fail
    command.is_attended = lambda: True
    options = SimpleNamespace(run=run_ids, last=last, older_than=older_than, yes=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_run, "confirm", lambda question, *_streams: confirm(question))
        command.take_action(options)
    assert command.exit_status == 0
    return command.app.stderr.getvalue() + command.app.stdout.getvalue()


def test_runs_are_deleted_when_that_is_confirmed(runs):
    """The question says how many changes could still be undone; without a yes every run is kept."""
    first, last = runs.set_ratio(4.0), runs.set_ratio(2.0)
    asked = []

    def refuse(question):
        asked.append(question)
        raise PlacementError("not confirmed")

    for names in ((first, first), (first, last)):
        with pytest.raises(PlacementError, match="not confirmed"):
            delete(*names, confirm=refuse)
    assert asked == [
        f"Delete run {first}, of which 3 changes can still be undone?",
        "Delete 2 runs, of which 6 changes can still be undone?",
    ]
    assert len(list_states()) == 2


def test_the_last_run_and_all_runs_can_be_deleted(runs):
    """A terminal is told which run is the last; no age is that of every run that has begun."""
    for ratio in (4.0, 2.0, 5.0):
        last = runs.set_ratio(ratio)
    told = delete(last=True)
    assert told.startswith(f"Last run: {last}, ratio set VCPU=5.0\nDeleted run {last}; ")
    assert delete(older_than=1).startswith("0 runs deleted")
    assert delete(older_than=0).startswith("2 runs deleted; ")


def test_question_before_a_deletion_says_that_a_run_can_be_resumed(runs):
    """What it has not done is lost as well."""

    def fail(uuid):
        if uuid == "c":
            raise Forbidden(403, "not yours", method="PUT")

    done = runs.set_ratio(4.0)
    runs.cloud.before_write = fail
    run = runs.set_ratio(2.0)
    asked = []

    def refuse(question):
        asked.append(question)
        raise PlacementError("not confirmed")

    for names in ((run,), (done, run)):
        with pytest.raises(PlacementError, match="not confirmed"):
            delete(*names, confirm=refuse)
    left = "can still be resumed, and of which at least {} changes can still be undone?"
    assert asked == [
        f"Delete run {run}, which {left.format(2)}",
        f"Delete 2 runs, 1 of which {left.format(5)}",
    ]


def test_deletion_of_runs_tells_how_many_changes_can_no_longer_be_undone(runs):
    """Those that are undone are not among them; what an undo did can be undone too."""
    run, last = runs.set_ratio(4.0), runs.set_ratio(2.0)
    lost = "changes can no longer be undone"
    assert delete(last, run) == f"Deleted 2 runs; 6 {lost}\n"
    run = runs.set_ratio(5.0)
    runs.touch(9.0, "b", "c")
    undo = runs.undo(run)
    assert delete(run) == f"Deleted run {run}; 2 {lost}\n"
    assert delete(undo) == f"Deleted run {undo}; 1 change can no longer be undone\n"
    run = runs.set_ratio(5.0)
    undo = runs.undo(run)
    again = runs.undo(undo)
    warning = f"Warning: run {undo} will not be listed as undone any more"
    assert delete(again).splitlines()[0] == warning
    asked = []
    assert delete(run, confirm=asked.append) == f"Deleted run {run}\n"
    assert asked == [f"Delete run {run}, of which nothing is left to undo?"]


def test_deletion_of_a_run_that_died_does_not_say_that_nothing_is_left(runs):
    """What it changed and did not live to record can be undone only as long as its journal is there."""
    run = runs.set_ratio(4.0)
    path = journal.state_directory() / f"{run}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    outcomes = [number for number, line in enumerate(lines) if b'"outcome"' in line]
    asked = []

    def refuse(question):
        asked.append(question)
        raise PlacementError("not confirmed")

    for recorded in (1, 0):
        path.write_bytes(b"".join(lines[: outcomes[0] + recorded]))
        path.with_suffix(".mark").unlink(missing_ok=True)
        with pytest.raises(PlacementError, match="not confirmed"):
            delete(run, confirm=refuse)
    assert asked == [
        f"Delete run {run}, which can still be resumed, and of which at least 1 change can still be undone?",
        f"Delete run {run}, which can still be resumed, and of which it is not known what was changed?",
    ]


def test_a_resume_names_the_pace_that_differs():
    """From the defaults, and from how the run was started."""
    kept = Pace(concurrency=2, rate=2.5, max_failures=0)
    options = "--throttle 2.5 --concurrency 2 --max-failures 0"
    assert describe_resume(kept, kept) == f"Resuming with {options}, as the run was started"
    options = "--throttle none --concurrency 8 --max-failures none"
    assert describe_resume(Pace(), kept) == f"Resuming with {options}"
    assert describe_resume(Pace(), Pace()) == ""
