# SPDX-License-Identifier: Apache-2.0
"""Binding profiles that are written after a run."""

import threading
from types import SimpleNamespace

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import Change, Outcome, Plan, Report, Result
from osc_placement.batch.repeat import Recorded
from osc_placement.migrate.granting import plan_grants, write_grants
from osc_placement.migrate.migrations.base import Assessment, Grant
from osc_placement.migrate.migrations.port_claims import describe_grant
from osc_placement.migrate.nova.ports import Port
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.migrate.runner import Execution, Run

GRANT = Grant(Port("p", "i"), {"g": "rp"})
OTHER = Problem(Reason.BUSY, "instance x", "it is moving")


class Neutron:
    """A neutron that takes binding profiles, or refuses them for a reason."""

    way, batch = "somehow", 1

    def __init__(self, reason="", refusal=""):
        self.reason = reason
        self.refusal = refusal
        self.granted = []

    def refuse(self, port):
        return self.refusal if port.uuid == "p" else ""

    def grant_all(self, grants):
        self.granted += [(port.uuid, allocation) for port, allocation in grants]
        if isinstance(self.reason, Exception):
            raise self.reason
        return [self.reason] * len(grants)


def write(source, *, result=None, execution=None, problems=(OTHER,), **fields):
    """Write the grant of an instance; ``result`` is that of its change, None if it needs none."""
    change = Change(Consumer("i"), ProviderState(allocations={}), ProviderState(allocations={"rp": {"X": 1}}))
    plan = Plan(Recorded("title", ("allocations",)), (change,) if result else ())
    outcomes = (Outcome(change, result),) if result not in (None, "left") else ()
    assessment = Assessment(plan, problems, grants={"i": (GRANT,)})
    run = Run(Report(plan, outcomes, **fields))

    def open_neutron():
        if isinstance(source, Exception):
            raise source
        return source

    return write_grants(SimpleNamespace(open_neutron=open_neutron), assessment, run, execution or Execution())


@pytest.mark.parametrize("result", [None, Result.APPLIED, Result.UNCHANGED])
def test_profile_is_written_once_the_allocations_are_there(result):
    """Whether this run made them or an earlier one, whose problem is then solved."""
    neutron = Neutron()
    problems = () if result else (describe_grant("i", GRANT),)
    after = write(neutron, result=result, problems=(OTHER, *problems))
    assert (neutron.granted, after.written, list(after.problems)) == ([("p", {"g": "rp"})], ["p"], [OTHER])


@pytest.mark.parametrize("result", [Result.FAILED, Result.SKIPPED, "left"])
def test_profile_of_missing_allocations_is_not_written(result):
    """It would name a provider of which nothing is held."""
    neutron = Neutron()
    after = write(neutron, result=result)
    assert (neutron.granted, after.written) == ([], ())


@pytest.mark.parametrize("fields", [{"interrupted": True}, {"halted": "its journal cannot be written"}])
def test_run_that_was_stopped_writes_no_profiles(fields):
    """The next one does."""
    neutron = Neutron()
    write(neutron, result=Result.APPLIED, **fields)
    assert neutron.granted == []


def test_profile_that_is_refused_is_a_problem_of_its_instance():
    """Its allocations stay, and the line has neutron's reason."""
    after = write(Neutron("not you"), result=Result.APPLIED)
    assert after.written == []
    assert [each.reason for each in after.problems] == [Reason.BUSY, Reason.PORT]
    assert str(after.problems[-1]).endswith(
        "writing the allocation key of the binding profile of its port p failed: not you"
    )


@pytest.mark.parametrize(
    ("source", "reason", "text"),
    [
        (Unreadable("neutron", "silent"), Reason.PORT, "silent"),
        (Neutron(Unreadable("neutron", "silent")), Reason.PORT, "silent"),
        (None, Reason.PORT, "no address"),
    ],
)
def test_neutron_that_cannot_be_opened_is_a_problem(source, reason, text):
    """Nothing else is lost by it."""
    problem = write(source, result=Result.APPLIED).problems[-1]
    assert problem.reason is reason
    assert text in problem.text


def test_signal_between_two_profiles_is_obeyed():
    """The rest is named, and done by the next run."""
    execution, neutron = Execution(), Neutron()
    execution.stop.set()
    after = write(neutron, result=Result.APPLIED, execution=execution)
    assert (neutron.granted, after.written) == ([], [])
    assert "is not written: the command was interrupted" in after.problems[-1].text


def test_neutron_that_is_lost_is_not_asked_again():
    """Each attempt may take as long as the timeout."""
    neutron = Neutron(Unreadable("neutron", "silent"))
    grants = {"i": (GRANT, Grant(Port("q", "i"), {"g": "rp"}))}
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), ()), (), grants=grants)
    run = Run(Report(assessment.plan, ()))
    context = SimpleNamespace(open_neutron=lambda: neutron)
    after = write_grants(context, assessment, run, Execution(concurrency=1))
    assert (len(neutron.granted), len(after.problems)) == (1, 2)


@pytest.mark.parametrize(
    ("limits", "refusal", "asked", "text"),
    [
        ({"max_count": 1}, "", 1, "port q is not written: --max-count was reached"),
        ({"max_count": 0}, "", 0, "port q is not written: --max-count was reached"),
        ({"max_failures": 0}, "not you", 1, "port q is not written: stopped after more than 0 failures"),
    ],
)
def test_limits_of_the_run_count_binding_profiles(limits, refusal, asked, text):
    """A port may lose its binding when its profile is written, so they are changes like others."""
    neutron = Neutron(refusal)
    grants = {"i": (GRANT, Grant(Port("q", "i"), {"g": "rp"}))}
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), ()), (), grants=grants)
    run = Run(Report(assessment.plan, ()))
    context = SimpleNamespace(open_neutron=lambda: neutron)
    after = write_grants(context, assessment, run, Execution(concurrency=1, **limits))
    assert len(neutron.granted) == asked
    assert text in after.problems[-1].text


@pytest.mark.parametrize(
    ("limits", "sizes"), [({}, [2, 1]), ({"rate": 1000.0}, [1, 1, 1]), ({"max_failures": 9}, [1, 1, 1])]
)
def test_profiles_are_written_together_unless_each_counts(limits, sizes):
    """Under a rate, or where the run ends after some failures, each is written by itself."""
    written = []

    class Database(Neutron):
        way, batch = "to neutron's database", 2

        def grant_all(self, grants):
            written.append(len(grants))
            return super().grant_all(grants)

    grants = {"i": [Grant(Port(port, "i"), {"g": "rp"}) for port in ("p", "q", "r")]}
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), ()), (), grants=grants)
    context, run = SimpleNamespace(open_neutron=Database), Run(Report(assessment.plan, ()))
    after = write_grants(context, assessment, run, Execution(concurrency=1, **limits))
    assert (written, after.written, after.way) == (sizes, ["p", "q", "r"], "to neutron's database")


def test_profiles_are_written_as_many_at_once_as_the_run_allows():
    """Neutron takes long for each, and has several processes; the order of the grants is kept."""
    together = threading.Barrier(2, timeout=10)

    class Slow(Neutron):
        def grant_all(self, grants):
            together.wait()
            return super().grant_all(grants)

    neutron = Slow()
    ports = ["p", "q", "r", "s"]
    grants = {"i": [Grant(Port(port, "i"), {"g": "rp"}) for port in ports]}
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), ()), (), grants=grants)
    run = Run(Report(assessment.plan, ()))
    context = SimpleNamespace(open_neutron=lambda: neutron)
    assert write_grants(context, assessment, run, Execution(concurrency=2)).written == ports


def test_changes_of_the_run_count_before_binding_profiles():
    """The next run writes the profile of what this one allocated."""
    neutron = Neutron()
    after = write(neutron, result=Result.APPLIED, execution=Execution(max_count=1))
    assert neutron.granted == []
    assert "--max-count was reached" in after.problems[-1].text
    assert after.problems[-1].reason is Reason.LATER


def plan(source, max_count=None, *, changes=()):
    """Plan the grants of two instances; return the ports, and the texts of problems."""
    others = {"i": (GRANT,), "j": (Grant(Port("q", "j"), "rp"),)}
    known = [describe_grant(instance, grant) for instance, (grant,) in others.items()]
    steps = tuple(
        Change(Consumer(uuid), ProviderState(allocations={}), ProviderState(allocations={"rp": {"X": 1}}))
        for uuid in changes
    )
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), steps), (OTHER, *known), grants=others)
    after = plan_grants(SimpleNamespace(open_neutron=lambda: source), assessment, max_count)
    return list(after.written), [each.text for each in after.problems]


@pytest.mark.parametrize(
    ("source", "max_count", "changes", "ports", "texts"),
    [
        (Neutron(), None, (), ["p", "q"], []),
        (Neutron(), 1, (), ["p"], ["of its port q is not written: --max-count was reached"]),
        (
            Neutron(refusal="it is bound to no host"),
            None,
            (),
            ["q"],
            ["of its port p is not written: it is bound to no host"],
        ),
        (
            None,
            None,
            (),
            [],
            ["port p is not written: neutron has no", "port q is not written: neutron has no"],
        ),
        # what is refused is none of the changes that may be made
        (
            Neutron(refusal="it is bound to no host"),
            1,
            (),
            ["q"],
            ["of its port p is not written: it is bound to no host"],
        ),
        # j is left for the next run, and its port with it, of which the problem is known
        (
            Neutron(),
            1,
            ("i", "j"),
            [],
            ["port q has no allocation key", "port p is not written: --max-count"],
        ),
    ],
)
def test_plan_names_the_profiles_that_the_run_writes(source, max_count, changes, ports, texts):
    """What it will not write stays a problem, with its reason."""
    written, told = plan(source, max_count, changes=changes)
    assert (written, told[0]) == (ports, OTHER.text)
    assert len(told) == len(texts) + 1
    assert all(text in line for text, line in zip(texts, told[1:], strict=True))


@pytest.mark.parametrize("limits", [{"max_count": 1}, {"max_failures": 0}])
def test_refused_port_counts_for_no_limit(limits):
    """The run writes the ports that the dry run names: what is not tried is no change, and no failure."""
    neutron = Neutron(refusal="it is bound to no host")
    grants = {"i": (GRANT, Grant(Port("q", "i"), {"g": "rp"}))}
    assessment = Assessment(Plan(Recorded("title", ("allocations",)), ()), (), grants=grants)
    context = SimpleNamespace(open_neutron=lambda: neutron)
    execution = Execution(concurrency=1, **limits)
    after = write_grants(context, assessment, Run(Report(assessment.plan, ())), execution)
    assert (neutron.granted, after.written) == ([("q", {"g": "rp"})], ["q"])
    assert [each.text for each in after.problems] == [
        "the allocation key of the binding profile of its port p is not written: it is bound to no host"
    ]
