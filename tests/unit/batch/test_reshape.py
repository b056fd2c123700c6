# SPDX-License-Identifier: Apache-2.0
"""What a reshape moves, where it finds room, and what it refuses."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.api.consumer import Consumer
from osc_placement.batch.reshape import Move, Moves, RecordedReshape, ReshapeRefused, World
from osc_placement.model import Inventory, Provider


def make_world(inventories, holdings=None):
    """A world of providers named as their UUIDs: inventories and amounts by class, or those of VGPU."""
    held = {
        uuid: {
            consumer: {"VGPU": amounts} if isinstance(amounts, int) else amounts
            for consumer, amounts in (holdings or {}).get(uuid, {}).items()
        }
        for uuid in inventories
    }
    consumers = {consumer for amounts in held.values() for consumer in amounts}
    return World(
        {uuid: Provider(uuid, uuid, 7) for uuid in inventories},
        {
            uuid: {"VGPU": inventory} if isinstance(inventory, Inventory) else inventory or {}
            for uuid, inventory in inventories.items()
        },
        held,
        {
            name: Consumer(
                name,
                3,
                "p",
                "u",
                None,
                {uuid: amounts[name] for uuid, amounts in held.items() if name in amounts},
            )
            for name in consumers
        },
    )


def vgpu(source, target, amount):
    return Move(source, target, "VGPU", amount)


def plan_reshape(world, moves, pins=None):
    return Moves(moves, pins or {}).plan(world)


def undo_of(changes):
    """The request that undoes the changes of a reshape."""
    return RecordedReshape("undo", [change.back for change in changes])


def test_target_gets_the_inventory_fields_of_the_source():
    """All of it goes: the class leaves the source, and what was the largest unit stays the whole."""
    given = Inventory(8, reserved=1, max_unit=8, step_size=2, allocation_ratio=2.0)
    plan = plan_reshape(make_world({"a": given, "b": None}), [vgpu("a", "b", 8)])
    assert plan.inventories == {"a": {}, "b": {"VGPU": given}}
    assert plan.transfers == ()


def test_partial_move_leaves_the_rest():
    """Reserved stays as far as it fits, and a max_unit that was no total is kept."""
    given = Inventory(8, reserved=5, max_unit=4)
    plan = plan_reshape(make_world({"a": given, "b": Inventory(2, max_unit=2)}), [vgpu("a", "b", 5)])
    assert plan.inventories["a"]["VGPU"] == replace(given, total=3, reserved=3)
    assert plan.inventories["b"]["VGPU"] == Inventory(7, reserved=2, max_unit=7)


def test_moves_that_cancel_out_are_refused():
    """Pins alone would move allocations then, and a lost answer could not be read back."""
    world = make_world({"a": Inventory(8), "b": Inventory(8)}, {"a": {"c1": 2}})
    with pytest.raises(ReshapeRefused, match="The moves cancel out: no inventory"):
        plan_reshape(world, [vgpu("a", "b", 4), vgpu("b", "a", 4)], {"c1": "b"})


def test_only_necessary_consumers_move():
    """The source keeps four, of which three are used: nobody moves."""
    world = make_world({"a": Inventory(8), "b": None}, {"a": {"c1": 2, "c2": 1}})
    assert plan_reshape(world, [vgpu("a", "b", 4)]).transfers == ()


def test_largest_consumers_move_first_to_the_emptiest_target():
    """Everything leaves the source; each consumer stays whole, and the payload says so."""
    world = make_world({"a": Inventory(8), "b": None, "c": None}, {"a": {"c1": 3, "c2": 2, "c3": 3}})
    plan = plan_reshape(world, [vgpu("a", "b", 5), vgpu("a", "c", 3)])
    assert [(move.consumer, move.target) for move in plan.transfers] == [
        ("c1", "b"),
        ("c3", "c"),
        ("c2", "b"),
    ]
    payload = plan.to_json()
    assert payload["allocations"]["c2"] == {
        "allocations": {"b": {"resources": {"VGPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 3,
    }
    assert payload["inventories"]["a"] == {"inventories": {}, "resource_provider_generation": 7}
    assert (plan.used("a", "VGPU"), plan.used("b", "VGPU"), plan.used("c", "VGPU")) == (0, 5, 3)


CLASSES = ("VCPU", "MEMORY_MB")
AMOUNTS = st.fixed_dictionaries({}, optional=dict.fromkeys(CLASSES, st.integers(1, 3)))
HELD = st.fixed_dictionaries({}, optional=dict.fromkeys(("c1", "c2", "c3"), AMOUNTS))


@given(st.fixed_dictionaries({"a": HELD, "b": HELD}), st.permutations([*itertools.product("ab", CLASSES)]))
def test_moves_of_several_classes_do_not_depend_on_their_order(holdings, order):
    """Each class of each source by itself, so that the order of the moves changes nothing."""
    full = dict.fromkeys(CLASSES, Inventory(9))
    world = make_world({"a": full, "b": full, "target": None}, holdings)
    plan = plan_reshape(world, [Move(source, "target", name, 9) for source, name in order])
    assert {(move.consumer, move.source, move.resource_class, move.amount) for move in plan.transfers} == {
        (consumer, source, name, amount)
        for source, held in holdings.items()
        for consumer, amounts in held.items()
        for name, amount in amounts.items()
    }
    assert len(plan.transfers) == sum(len(amounts) for held in holdings.values() for amounts in held.values())


def test_pinned_consumer_moves_to_its_target():
    """A pinned consumer goes where it is told; one that is pinned to the source stays."""
    world = make_world({"a": Inventory(8), "b": None}, {"a": {"c1": 3, "c2": 2}})
    plan = plan_reshape(world, [vgpu("a", "b", 4)], {"c2": "b"})
    assert [move.consumer for move in plan.transfers] == ["c2"]
    stays = plan_reshape(world, [vgpu("a", "b", 4)], {"c1": "a"})
    assert [move.consumer for move in stays.transfers] == ["c2"]


def test_other_allocations_of_a_consumer_stay():
    """It adds up on a provider where it had some of the class before."""
    world = make_world({"a": Inventory(4), "b": Inventory(4)}, {"a": {"c1": 2}, "b": {"c1": 1}})
    plan = plan_reshape(world, [vgpu("a", "b", 4)])
    assert plan.amounts_of("c1") == {"b": {"VGPU": 3}}


@pytest.mark.parametrize(
    ("world", "moves", "pins", "message"),
    [
        (make_world({"a": None, "b": None}), [vgpu("a", "b", 1)], {}, "a has none of VGPU, 1 cannot"),
        (make_world({"a": Inventory(2), "b": None}), [vgpu("a", "b", 3)], {}, "a has only 2 of VGPU"),
        (make_world({"a": Inventory(2)}), [vgpu("a", "a", 1)], {}, "cannot give VGPU to itself"),
        (
            make_world(
                {"a": Inventory(4, max_unit=2), "b": Inventory(4, max_unit=2), "c": None},
                {"a": {"c1": 2}, "b": {"c1": 2}},
            ),
            [vgpu("a", "c", 4), vgpu("b", "c", 4)],
            {},
            "min_unit, max_unit or step_size forbid it there",
        ),
        (
            make_world({"a": Inventory(4), "b": None, "c": None}, {"a": {"c1": 3}}),
            [vgpu("a", "b", 2), vgpu("a", "c", 2)],
            {},
            (
                r"3 of VGPU would be allocated from a beyond what is left there; the 3 of consumer c1 fit "
                r"nowhere \(1 short: b has room for 2, c has room for 2\)"
            ),
        ),
        (
            make_world({"a": Inventory(4, max_unit=1), "b": Inventory(2, max_unit=1)}, {"a": {"c1": 2}}),
            [vgpu("a", "b", 4)],
            {},
            "min_unit, max_unit or step_size forbid it there",
        ),
        (
            make_world({"a": Inventory(4), "b": None}, {"a": {"c1": 1}}),
            [vgpu("a", "b", 4)],
            {"c9": "b"},
            "Consumer c9 has nothing that is moved",
        ),
        (
            make_world({"a": Inventory(4), "b": None, "c": None}, {"a": {"c1": 1}}),
            [vgpu("a", "b", 4)],
            {"c1": "c"},
            "Nothing that consumer c1 has is moved to c",
        ),
        (
            make_world({"a": Inventory(4), "b": None}, {"a": {"c1": 3}}),
            [vgpu("a", "b", 2)],
            {"c1": "b"},
            "the 3 of consumer c1 fit nowhere",
        ),
        (
            make_world({"a": Inventory(4), "b": None}, {"a": {"c1": 3}}),
            [vgpu("a", "b", 4)],
            {"c1": "a"},
            "the consumers that are left are pinned elsewhere",
        ),
    ],
)
def test_impossible_moves_are_refused_with_the_reason(world, moves, pins, message):
    """With what is wrong, and by how much."""
    with pytest.raises(ReshapeRefused, match=message):
        plan_reshape(world, moves, pins)


def after(plan):
    """The world once a plan has been carried out."""
    world = plan.world
    consumers = {
        name: replace(consumer, allocations=plan.amounts_of(name)) if name in plan.consumers else consumer
        for name, consumer in world.consumers.items()
    }
    holdings = {
        uuid: {name: one.allocations[uuid] for name, one in consumers.items() if uuid in one.allocations}
        for uuid in world.providers
    }
    return replace(world, inventories=dict(plan.inventories), holdings=holdings, consumers=consumers)


def test_undo_restores_inventories_and_allocations():
    """Inventories and allocations are as before; a consumer that is gone stays gone."""
    world = make_world({"a": Inventory(4, max_unit=4), "b": None}, {"a": {"c1": 2, "c2": 1}})
    plan = plan_reshape(world, [vgpu("a", "b", 4)])
    then = after(plan)
    undo = undo_of(plan.changes).plan(then)
    assert undo.inventories == world.inventories
    assert after(undo).holdings == world.holdings
    without = replace(then, holdings={**then.holdings, "b": {"c2": {"VGPU": 1}}})
    assert undo_of(plan.changes).plan(without).consumers == ["c2"]


def test_undo_is_refused_when_things_have_changed():
    """Another inventory, or allocations for which there is no room without the target."""
    world = make_world({"a": Inventory(4), "b": None}, {"a": {"c1": 2}})
    plan = plan_reshape(world, [vgpu("a", "b", 4)])
    then = after(plan)
    changed = replace(then, inventories={**then.inventories, "b": {"VGPU": Inventory(5)}})
    with pytest.raises(ReshapeRefused, match="VGPU on b was changed since"):
        undo_of(plan.changes).plan(changed)
    crowded = replace(then, holdings={**then.holdings, "b": {"c1": {"VGPU": 2}, "c5": {"VGPU": 1}}})
    with pytest.raises(ReshapeRefused, match="1 of VGPU are allocated from b since"):
        undo_of(plan.changes).plan(crowded)
