# SPDX-License-Identifier: Apache-2.0
"""A reshape as the changes of a run, and back: nothing of it is lost on the way."""

import pytest

from osc_placement import microversion
from osc_placement.batch import journal, reshape_run, service
from osc_placement.batch.execute import execute_reshape
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.plan import RESHAPE, Change, Consumer, Result
from osc_placement.batch.reshape import Moves, RecordedReshape, Replacement, ReshapeRefused
from osc_placement.batch.service import Job
from osc_placement.batch.undo import OtherKind, plan_undo
from osc_placement.model import Inventory
from tests.unit.batch.cloud import conflict
from tests.unit.batch.test_reshape import make_world, plan_reshape, undo_of, vgpu

SERVER = "http://placement.test"


class FakeServer:
    """Answers reshapes with these, an exception or nothing, and keeps what was asked."""

    version = microversion.MAX

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)

    def reshape(self, payload, _version):
        self.asked.append(payload)
        answer = self._answers.pop(0) if self._answers else None
        if answer:
            raise answer


def test_plan_is_rebuilt_from_its_changes():
    """The inventories of the classes that move, and what moves with them; their way back undoes them."""
    world = make_world({"a": Inventory(8), "b": None, "c": Inventory(2)}, {"a": {"c1": 3, "c2": 2}})
    plan = plan_reshape(world, [vgpu("a", "b", 4), vgpu("a", "c", 4)])
    again = RecordedReshape("again", plan.changes)
    assert sorted(again.transfers, key=str) == sorted(plan.transfers, key=str)
    assert again.plan(world).inventories == plan.inventories
    assert (undo_of(plan.changes).is_done(world), again.is_done(world)) == (True, False)


def test_other_classes_of_a_provider_are_not_part_of_the_record():
    """What somebody does to these later is no reason to refuse an undo."""
    world = make_world({"a": {"VGPU": Inventory(4), "VCPU": Inventory(8)}, "b": {"VCPU": Inventory(1)}})
    undo = undo_of(plan_reshape(world, [vgpu("a", "b", 4)]).changes)
    assert undo.classes == {"a": set(), "b": {"VGPU"}}
    now = make_world({"a": {"VCPU": Inventory(6)}, "b": {"VCPU": Inventory(2), "VGPU": Inventory(4)}})
    assert undo.plan(now).inventories == {
        "a": {"VCPU": Inventory(6), "VGPU": Inventory(4)},
        "b": {"VCPU": Inventory(2)},
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": {"X": 3}, "b": {"X": 1}}, {"c": {"X": 4}}),
        ({"a": {"X": 3, "Y": 1}}, {"b": {"X": 2}, "c": {"X": 1, "Y": 1}}),
        ({"a": {"X": 3}, "b": {"X": 2}}, {"c": {"X": 4}, "d": {"X": 1}}),
    ],
)
def test_transfers_sum_to_the_differences_of_states(before, after):
    """What each provider gave and got of each class is what the states say."""
    consumer = Consumer("c1")
    change = Change(consumer, ProviderState(allocations=before), ProviderState(allocations=after))
    held = {(uuid, name): amount for uuid, amounts in before.items() for name, amount in amounts.items()}
    for one in RecordedReshape("again", [change]).transfers:
        for uuid, amount in ((one.source, -one.amount), (one.target, one.amount)):
            held[uuid, one.resource_class] = held.get((uuid, one.resource_class), 0) + amount
    wanted = {(uuid, name): amount for uuid, amounts in after.items() for name, amount in amounts.items()}
    assert {key: amount for key, amount in held.items() if amount} == wanted


def test_the_moves_are_told_in_a_line():
    """Two of them by name, the others by their number."""
    world = make_world({"a": Inventory(8), "b": None, "c": None, "d": None})
    moves = [vgpu("a", target, 2) for target in "bcd"]
    assert Moves(moves[:1]).describe(world) == "reshape VGPU=2 from a to b"
    words = "reshape VGPU=2 from a to b, VGPU=2 from a to c and 1 more"
    assert Moves(moves).describe(world) == words


@pytest.fixture(autouse=True)
def worlds(monkeypatch):
    """What is there at each reading, the last for ever."""
    worlds = []
    monkeypatch.setattr(reshape_run, "read_world", lambda *_: worlds.pop(0) if len(worlds) > 1 else worlds[0])
    return worlds


MOVES = Moves([vgpu("a", "b", 8)])


def carry_out(directory, server, request=MOVES):
    """A reshape, of all that `a` has to `b`, and its run."""
    job = Job.for_reshape(server, request)
    recorder = journal.Journals(directory).create(SERVER, job.plan, settings={"kind": RESHAPE})
    report = execute_reshape(server, job.reshape, job.plan, recorder)
    recorder.end_sitting(report)
    recorder.close()
    return report, journal.Journals(directory).read(recorder.id)


def test_the_journal_has_the_plan_that_was_carried_out(tmp_path, worlds):
    """A consumer went and another came between reading and writing: undo knows of the second alone."""
    world = make_world({"a": Inventory(8), "b": None}, {"a": {"went": 3}})
    later = make_world({"a": Inventory(8), "b": None}, {"a": {"came": 2}})
    server = FakeServer(conflict())
    worlds += [world, later]
    report, run = carry_out(tmp_path, server)
    assert [set(asked["allocations"]) for asked in server.asked] == [{"went"}, {"came"}]
    assert (report.exit_status, run.state) == (0, "done")
    assert {outcome.change.uuid: str(outcome.result) for outcome in report.outcomes} == {
        "a": "applied",
        "b": "applied",
        "went": "unchanged",
        "came": "applied",
    }
    assert [one.consumer for one in undo_of(run.intents.values()).transfers] == ["came"]


def test_refusal_is_recorded_for_every_change(tmp_path, worlds):
    """Nothing was changed, and the run says why."""
    worlds.append(make_world({"a": Inventory(8), "b": None}, {"a": {"c1": 3}}))
    refusal = conflict()
    refusal.document = {"code": "placement.undefined_code"}
    report, run = carry_out(tmp_path, FakeServer(refusal))
    assert {outcome.result for outcome in report.outcomes} == {Result.FAILED}
    assert report.halted.startswith("nothing was changed: ")
    assert (report.exit_status, run.state, run.failed) == (3, "refused", 3)


def test_reshape_is_not_undone_or_resumed_change_by_change(tmp_path, worlds):
    """What would break it into its parts refuses it, as the migration tool's undo does."""
    worlds.append(make_world({"a": Inventory(8), "b": None}))
    _, run = carry_out(tmp_path, FakeServer())
    for plan in (plan_undo, service.plan_resume):
        with pytest.raises(OtherKind, match=f"Run {run.header.id} is a reshape, .* undo {run.header.id}$"):
            plan(run, lambda *_: [])


def test_undo_is_planned_from_the_journal(tmp_path, worlds):
    """Read back from the disk it says the same."""
    worlds.append(make_world({"a": Inventory(8), "b": None}, {"a": {"c1": 3}}))
    _, run = carry_out(tmp_path, FakeServer())
    now = make_world({"a": {}, "b": Inventory(8)}, {"b": {"c1": 3}})
    undo = undo_of(run.intents.values())
    back = undo.plan(now)
    assert back.inventories == {"a": {"VGPU": Inventory(8)}, "b": {}}
    assert back.amounts_of("c1") == {"a": {"VGPU": 3}}


def test_what_moved_to_a_provider_that_stayed_as_it_was_comes_back():
    """Four came to `b` and four went: its consumers are read as well, on the way there and back."""
    world = make_world({"b": Inventory(4), "c": None, "a": Inventory(4)}, {"a": {"c1": 3}})
    changes = plan_reshape(world, [vgpu("b", "c", 4), vgpu("a", "b", 4)]).changes
    undo = undo_of(changes)
    assert (undo.classes["b"], RecordedReshape("", changes).classes["a"]) == ({"VGPU"}, {"VGPU"})
    assert undo.classes["a"] == set()


@pytest.fixture
def replaced(tmp_path, worlds):
    """The changes, from the journal, of a reshape that moved all VGPU of `a` to `b`, which kept its own."""
    worlds.append(make_world({"a": Inventory(8), "b": Inventory(9)}, {"a": {"c1": 3}, "b": {"c2": 1}}))
    _, run = carry_out(tmp_path, FakeServer(), Replacement("a", "b"))
    assert set(run.intents) == {"a", "c1"}
    return tuple(run.intents.values())


def test_reshape_to_a_provider_that_kept_its_inventories_is_undone(replaced):
    """The journal has no change of `b`; it is read all the same, and its generation is compared."""
    undo = undo_of(replaced)
    assert undo.classes == {"a": set(), "b": {"VGPU"}}
    assert RecordedReshape("", replaced).classes == {"a": {"VGPU"}, "b": set()}
    now = make_world({"a": {}, "b": Inventory(9)}, {"b": {"c1": 3, "c2": 1}})
    back = undo.plan(now)
    assert back.inventories == {"a": {"VGPU": Inventory(8)}, "b": {"VGPU": Inventory(9)}}
    assert (back.consumers, back.amounts_of("c1")) == (["c1"], {"a": {"VGPU": 3}})


def test_resume_does_not_double_a_claim(replaced):
    """A consumer that got the class of the target meanwhile is refused, with the command that helps."""
    resume = RecordedReshape("", replaced)
    full = {"a": Inventory(8), "b": Inventory(9)}
    assert resume.plan(make_world(full, {"a": {"c1": 3}, "b": {"c2": 1}})).consumers == ["c1"]
    with pytest.raises(
        ReshapeRefused, match=r"c1 got VGPU of b meanwhile.*--provider a --resource-class VGPU c1"
    ):
        resume.plan(make_world(full, {"a": {"c1": 3}, "b": {"c1": 3}}))


def test_undo_does_not_double_a_claim(replaced):
    """A consumer that got the class of the provider to which it goes back is refused."""
    now = make_world({"a": {}, "b": Inventory(9)}, {"a": {"c1": 3}, "b": {"c1": 3}})
    with pytest.raises(ReshapeRefused, match="c1 got VGPU of a meanwhile"):
        undo_of(replaced).plan(now)


def test_undo_does_not_split_a_claim_that_grew(replaced):
    """An instance that was resized since would hold a part of each provider."""
    now = make_world({"a": {}, "b": Inventory(9)}, {"b": {"c1": 5}})
    with pytest.raises(ReshapeRefused, match="c1 holds 5 of VGPU of b now, and held 3 when this was planned"):
        undo_of(replaced).plan(now)


def test_undo_adds_up_what_was_divided_before():
    """What a consumer held of both providers before the reshape is no second claim."""
    world = make_world({"a": Inventory(8), "b": Inventory(9)}, {"a": {"c1": 2}, "b": {"c1": 1}})
    moved = ProviderState(allocations={"b": {"VGPU": 3}})
    had, has = (ProviderState(inventories=held) for held in (world.inventories["a"], {}))
    changes = (
        Change(world.providers["a"], had, has),
        Change(Consumer("c1"), ProviderState(allocations=world.consumers["c1"].allocations), moved),
    )
    assert RecordedReshape("", changes).plan(world).amounts_of("c1") == {"b": {"VGPU": 3}}
    now = make_world({"a": {}, "b": Inventory(9)}, {"b": {"c1": 3}})
    assert undo_of(changes).plan(now).amounts_of("c1") == {"a": {"VGPU": 2}, "b": {"VGPU": 1}}


@pytest.mark.parametrize("held", [3, 4, 6, 7])
def test_undo_does_not_divide_a_claim_that_shrank(held):
    """What came from two providers and is less than both parts now belongs to neither of them alone."""
    world = make_world({"a": Inventory(5), "c": Inventory(3), "b": None}, {"a": {"c1": 5}, "c": {"c1": 3}})
    undo = undo_of(plan_reshape(world, [vgpu("a", "b", 5), vgpu("c", "b", 3)]).changes)
    full = {"a": None, "c": None, "b": Inventory(8)}
    back = undo.plan(make_world(full, {"b": {"c1": 8}}))
    assert back.amounts_of("c1") == {"a": {"VGPU": 5}, "c": {"VGPU": 3}}
    assert undo.plan(make_world(full)).consumers == []
    with pytest.raises(
        ReshapeRefused, match=f"c1 holds {held} of VGPU of b now, and 8 would have to go to a and c"
    ):
        undo.plan(make_world(full, {"b": {"c1": held}}))
