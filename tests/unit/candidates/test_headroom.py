# SPDX-License-Identifier: Apache-2.0
"""Headroom: moves that can be made one after the other, and consumers that have no place."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osc_placement.candidates.headroom import Headroom, Rules
from osc_placement.candidates.node import DISABLED_TRAIT, SHARING_TRAIT
from osc_placement.candidates.query import Membership, Traits
from tests.unit.candidates import brute_force
from tests.unit.report.clouds import cloud, node, stock, storage

ANY = Rules(same_traits=False)


def make(records, holdings, rules=ANY):
    """Return the view of a cloud in which the holdings are used, and what judges it."""
    used = {}
    for allocations in holdings.values():
        for uuid, amounts in allocations.items():
            for name, amount in amounts.items():
                used[uuid, name] = used.get((uuid, name), 0) + amount
    for record in records:
        uuid = record.provider.uuid
        record.usages.update({name: used.get((uuid, name), 0) for name in record.usages})
    view = cloud(*records)
    return view, Headroom(view, holdings.items(), rules)


def judge(records, holdings, lost, rules=ANY):
    """Judge providers by name; check first that the moves can be made in their order."""
    view, headroom = make(records, holdings, rules)
    slots = {view.snapshot.slot_by_uuid[name] for name in lost}
    outcome = headroom.judge(slots)
    assert outcome == headroom.judge(slots), "a judgment leaves nothing behind"
    replay(view, holdings, lost, outcome)
    return outcome


def replay(view, holdings, lost, outcome):
    """Make the moves one after the other, as a server would that is asked to replace each allocation."""
    now = {consumer: dict(allocations) for consumer, allocations in holdings.items()}
    for move in outcome.moves:
        assert not set(move.allocations) & set(lost)
        now[move.consumer] = move.allocations
        for uuid, amounts in move.allocations.items():
            for name, amount in amounts.items():
                inventory = view.node(uuid).stocks[name].inventory
                held = sum(each.get(uuid, {}).get(name, 0) for each in now.values())
                assert inventory.fits_unit(amount)
                assert held <= inventory.capacity
    for one in outcome.unplaced:
        assert now[one.consumer] == holdings[one.consumer]
    return now


def hosts_of(outcome):
    return {move.consumer: move.host.name for move in outcome.moves}


def missing(outcome):
    return [one.consumer for one in outcome.unplaced]


def test_everything_on_a_host_fits_elsewhere():
    """A host with two consumers may fail if the others have room for both."""
    records = [node("a", VCPU=8), node("b", VCPU=4), node("c", VCPU=4)]
    outcome = judge(records, {"x": {"a": {"VCPU": 4}}, "y": {"a": {"VCPU": 4}}}, ["a"])
    assert outcome.fits
    assert sorted(hosts_of(outcome).values()) == ["b", "c"]


def test_two_consumers_cannot_both_have_the_last_place():
    """Each fits by itself, and only one of them fits."""
    records = [node("a", VCPU=8), node("b", VCPU=4)]
    outcome = judge(records, {"x": {"a": {"VCPU": 3}}, "y": {"a": {"VCPU": 4}}}, ["a"])
    assert hosts_of(outcome) == {"y": "b"}
    (one,) = outcome.unplaced
    assert (one.consumer, one.amounts, one.hosts) == ("x", {"VCPU": 3}, 1)
    assert (one.shortage.resource_class, one.shortage.amount, one.shortage.free) == ("VCPU", 3, 0)
    assert one.shortage.closest.name == "b"


def test_consumers_that_are_not_on_the_providers_stay():
    """Nobody is moved but those who lose something."""
    records = [node("a", VCPU=8), node("b", VCPU=8)]
    outcome = judge(records, {"x": {"a": {"VCPU": 3}}, "y": {"b": {"VCPU": 4}}}, ["a"])
    assert hosts_of(outcome) == {"x": "b"}


def test_no_host_has_enough_of_both_classes():
    """Each class is free on some host, and all of it on none: the shortage names no class."""
    records = [
        node("a", VCPU=8, MEMORY_MB=8),
        node("b", VCPU=8, MEMORY_MB=1),
        node("c", VCPU=1, MEMORY_MB=8),
    ]
    outcome = judge(records, {"x": {"a": {"VCPU": 4, "MEMORY_MB": 4}}}, ["a"])
    assert outcome.unplaced[0].shortage.resource_class is None


@pytest.mark.parametrize(("units", "is_cut"), [(100, True), (30, False)])
def test_a_search_that_was_cut_does_not_tell_that_there_is_no_place(units, is_cut):
    """To pack many amounts may take too many steps; devices that are too small are known to be no place."""
    # all but one are multiples of three, so that a device of a hundred has one unit left over
    amounts = [*[27, 33, 39] * 11, 30, 33, 40]
    held = {f"a{number}": {"PGPU": amount} for number, amount in enumerate(amounts)}
    records = [node("a"), node("b")]
    records += [node(f"a{number}", "a", PGPU=40) for number in range(len(amounts))]
    records += [node(f"b{number}", "b", PGPU=units) for number in range(12)]
    outcome = judge(records, {"x": held}, ["a", *held], Rules(same_traits=False, isolated=False))
    assert [one.is_cut for one in outcome.unplaced] == [is_cut]


@pytest.mark.parametrize(
    "limits", [{"max_unit": 3}, {"min_unit": 5}, {"step_size": 3}, {"reserved": 5}, {"allocation_ratio": 0.4}]
)
def test_units_reserved_and_ratio_count(limits):
    """A host that would not accept the amount is no place."""
    records = [node("a", VCPU=8), node("b", VCPU=stock(8, **limits))]
    assert missing(judge(records, {"x": {"a": {"VCPU": 4}}}, ["a"])) == ["x"]


def test_a_disabled_host_takes_nothing():
    """The trait of a disabled compute service excludes a host, and is not asked for."""
    records = [node("a", traits=[DISABLED_TRAIT], VCPU=8), node("b", traits=[DISABLED_TRAIT], VCPU=8)]
    held = {"x": {"a": {"VCPU": 4}}}
    assert missing(judge(records, held, ["a"])) == ["x"]
    assert missing(judge(records, held, ["a"], Rules())) == ["x"]
    assert hosts_of(judge([*records, node("c", VCPU=8)], held, ["a"], Rules())) == {"x": "c"}


@pytest.mark.parametrize(
    ("present", "other", "fits"),
    [
        (["HW_A"], ["HW_A"], True),
        (["HW_A"], ["HW_A", "HW_B"], True),
        (["HW_A"], [], False),
        (["HW_A"], ["HW_A", "CUSTOM_LICENSED"], False),
        (["CUSTOM_LICENSED"], [], False),
    ],
)
@pytest.mark.parametrize("below", [[], ["g"]], ids=["lone", "tree"])
def test_new_hosts_have_the_traits_of_the_present_one(present, other, fits, below):
    """All of its traits, and no custom trait beside them; with other rules the traits do not count."""
    records = [node("a", traits=present, VCPU=8), node("b", traits=other, VCPU=8)]
    records += [node(name, "b", VGPU=1) for name in below]
    held = {"x": {"a": {"VCPU": 4}}}
    outcome = judge(records, held, ["a"], Rules())
    assert outcome.fits == fits
    assert judge(records, held, ["a"]).fits
    if not fits:
        assert outcome.unplaced[0].despite_traits.name == "b"


def test_required_and_forbidden_traits_are_those_of_the_root():
    """Conditions that are given count beside the traits of the present host."""
    records = [node("a", VCPU=8), node("b", traits=["HW_A"], VCPU=8), node("c", VCPU=8)]
    held = {"x": {"a": {"VCPU": 4}}}
    wanted = frozenset(["HW_A"])
    assert hosts_of(judge(records, held, ["a"], Rules(Traits((wanted,))))) == {"x": "b"}
    assert hosts_of(judge(records, held, ["a"], Rules(Traits((), (wanted,))))) == {"x": "c"}


def test_consumers_stay_within_their_zone():
    """A consumer of a zone stays in it, another one goes anywhere, and --member-of is for all."""
    records = [
        node("a", aggregates=["az1"], VCPU=8),
        node("b", aggregates=["az2"], VCPU=8),
        node("c", VCPU=8),
        node("d", aggregates=["az1"], VCPU=1),
    ]
    held = {"x": {"a": {"VCPU": 4}}, "y": {"c": {"VCPU": 4}}}
    outcome = judge(records, held, ["a", "c"], Rules(within=frozenset(["az1", "az2"])))
    assert (hosts_of(outcome), missing(outcome)) == ({"y": "b"}, ["x"])
    member = Rules(membership=Membership((frozenset(["az1"]),)))
    assert missing(judge(records, held, ["a", "c"], member)) == ["x", "y"]


def test_shared_storage_stays_where_the_new_host_has_it():
    """The disk on a full pool is given back first, and taken again from there by the new host."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        node("b", aggregates=["s"], VCPU=8),
        storage("pool", ["s"], DISK_GB=10),
        storage("another", ["s"], DISK_GB=10),
    ]
    outcome = judge(records, {"x": {"a": {"VCPU": 4}, "pool": {"DISK_GB": 10}}}, ["a"], Rules())
    assert outcome.moves[0].allocations == {"b": {"VCPU": 4}, "pool": {"DISK_GB": 10}}


def test_a_host_without_the_storage_is_no_place():
    """The server's rule: a sharing provider gives to the trees in its aggregates only."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        node("b", VCPU=8),
        storage("pool", ["s"], DISK_GB=10),
    ]
    assert missing(judge(records, {"x": {"a": {"VCPU": 4}, "pool": {"DISK_GB": 5}}}, ["a"])) == ["x"]


def test_what_leaves_a_pool_makes_room_for_those_that_had_none():
    """A host on which the first of two equal consumers found no place takes the second one."""
    records = [
        node("a", aggregates=["z1"], VCPU=8),
        node("b", aggregates=["z2"], VCPU=8),
        node("c", aggregates=["z1", "s"], VCPU=8),
        node("d", aggregates=["z2"], VCPU=4, DISK_GB=3),
        storage("full", ["s", "z1"], DISK_GB=3),
        storage("other", ["t"], DISK_GB=6),
    ]
    held = {
        "x": {"a": {"VCPU": 4}, "other": {"DISK_GB": 3}},
        "y": {"b": {"VCPU": 4}, "full": {"DISK_GB": 3}},
        "z": {"a": {"VCPU": 4}, "other": {"DISK_GB": 3}},
    }
    outcome = judge(records, held, ["a", "b"], Rules(within=frozenset(["z1", "z2"]), same_traits=False))
    assert (hosts_of(outcome), missing(outcome)) == ({"y": "d", "z": "c"}, ["x"])


def test_equal_consumers_may_have_rules_of_their_own():
    """What is known of one does not count for the other, in reasons neither."""
    records = [node("a", VCPU=8), node("b", aggregates=["x"], VCPU=8), node("c", aggregates=["y"], VCPU=8)]
    held = {"p": {"a": {"VCPU": 1}}, "q": {"a": {"VCPU": 1}}, "r": {"a": {"VCPU": 1}}}
    wanted = {"p": "x", "q": "y", "r": "z"}

    def rules_of(consumer):
        return Rules(membership=Membership((frozenset(wanted[consumer]),)), same_traits=False)

    outcome = judge(records, held, ["a"], rules_of)
    assert {move.consumer: move.host.name for move in outcome.moves} == {"p": "b", "q": "c"}
    assert [(one.consumer, one.hosts) for one in outcome.unplaced] == [("r", 0)]


def test_consumer_that_was_tried_before_a_pool_got_room_is_tried_again():
    """The larger one comes first, and needs what the smaller one gives back."""
    records = [
        node("a", aggregates=["z1"], VCPU=8),
        node("b", aggregates=["z2"], VCPU=8),
        node("c", aggregates=["z1", "s"], VCPU=8),
        node("d", aggregates=["z2"], VCPU=4, DISK_GB=3),
        storage("full", ["s", "z1"], DISK_GB=3),
        storage("other", ["t"], DISK_GB=6),
    ]
    held = {
        "x": {"a": {"VCPU": 5}, "other": {"DISK_GB": 3}},
        "y": {"b": {"VCPU": 4}, "full": {"DISK_GB": 3}},
    }
    outcome = judge(records, held, ["a", "b"], Rules(within=frozenset(["z1", "z2"]), same_traits=False))
    assert (list(hosts_of(outcome).items()), missing(outcome)) == ([("y", "d"), ("x", "c")], [])


def test_each_of_two_equal_consumers_keeps_its_pool():
    """They ask for the same, and hold it of different pools."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        node("b", aggregates=["s"], VCPU=8),
        *(storage(name, ["s"], DISK_GB=100) for name in ("p", "q")),
    ]
    held = {"x": {"a": {"VCPU": 4}, "p": {"DISK_GB": 5}}, "y": {"a": {"VCPU": 4}, "q": {"DISK_GB": 5}}}
    moves = judge(records, held, ["a"]).moves
    pools = {move.consumer: set(move.allocations) - {"b"} for move in moves}
    assert pools == {"x": {"p"}, "y": {"q"}}


def test_the_traits_of_a_pool_are_not_asked_of_the_host():
    """They are asked of what gives the disk."""
    slow, fast = (node(name, None, [SHARING_TRAIT, *traits], ["s"], DISK_GB=9) for name, traits in POOLS)
    records = [node("a", aggregates=["s"], VCPU=8), node("b", aggregates=["s"], VCPU=8), slow, fast]
    held = {"x": {"a": {"VCPU": 4}, "fast": {"DISK_GB": 5}}, "y": {"a": {"VCPU": 4}, "fast": {"DISK_GB": 4}}}
    assert judge(records, held, ["a"], Rules()).fits
    assert missing(judge(records, held, ["a", "fast"], Rules())) == ["x", "y"]
    assert judge(records, held, ["a", "fast"]).fits


POOLS = [("slow", []), ("fast", ["STORAGE_DISK_SSD"])]


def test_consumers_of_storage_alone_are_not_lost():
    """A volume on shared storage has nothing of the host."""
    records = [node("a", aggregates=["s"], VCPU=8), storage("pool", ["s"], DISK_GB=10)]
    assert judge(records, {"v": {"pool": {"DISK_GB": 5}}}, ["a"]).moves == []


def test_a_pool_that_fails_moves_the_whole_consumer():
    """It may stay on its host if that has another pool."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        storage("pool", ["s"], DISK_GB=10),
        storage("another", ["s"], DISK_GB=10),
    ]
    outcome = judge(records, {"x": {"a": {"VCPU": 8}, "pool": {"DISK_GB": 5}}}, ["pool"])
    assert outcome.moves[0].allocations == {"a": {"VCPU": 8}, "another": {"DISK_GB": 5}}


def test_an_instance_on_two_hosts_keeps_what_it_has_on_the_other():
    """Only the part on the lost host needs a place, and not on the host where the other part is."""
    records = [node("a", VCPU=8), node("b", VCPU=8), node("c", VCPU=8)]
    outcome = judge(records, {"x": {"a": {"VCPU": 4}, "b": {"VCPU": 2}}}, ["a"])
    assert outcome.moves[0].allocations == {"b": {"VCPU": 2}, "c": {"VCPU": 4}}


def test_what_stays_shared_has_to_be_shared_with_the_new_host():
    """The disk that an instance on two hosts keeps on a pool is of use only where the pool shares."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        node("b", aggregates=["s"], VCPU=8),
        node("c", VCPU=8),
        storage("pool", ["s"], DISK_GB=10),
    ]
    held = {"x": {"a": {"VCPU": 4}, "b": {"VCPU": 2}, "pool": {"DISK_GB": 5}}}
    assert missing(judge(records, held, ["a"])) == ["x"]
    records.append(node("d", aggregates=["s"], VCPU=8))
    assert hosts_of(judge(records, held, ["a"])) == {"x": "d"}


def test_nested_providers_are_needed_each_for_itself():
    """Two devices need two devices, unless the policy lets one do for both."""
    records = [
        node("a", VCPU=8),
        *(node(f"a{number}", "a", VGPU=4) for number in (1, 2)),
        node("b", VCPU=8),
        node("b1", "b", VGPU=4),
    ]
    held = {"x": {"a": {"VCPU": 2}, "a1": {"VGPU": 1}, "a2": {"VGPU": 1}}}
    lost = ["a", "a1", "a2"]
    assert missing(judge(records, held, lost)) == ["x"]
    assert missing(judge([*records, node("c", VCPU=8, VGPU=9)], held, lost)) == ["x"]
    loose = Rules(same_traits=False, isolated=False)
    assert judge(records, held, lost, loose).moves[0].allocations == {"b": {"VCPU": 2}, "b1": {"VGPU": 2}}


def test_a_device_keeps_its_traits():
    """The traits of a nested provider count for the device, not for the host."""
    records = [
        node("a", VCPU=8),
        node("a1", "a", traits=["CUSTOM_FAST"], VGPU=4),
        node("b", VCPU=8),
        node("b1", "b", VGPU=4),
    ]
    held = {"x": {"a": {"VCPU": 2}, "a1": {"VGPU": 1}}}
    assert missing(judge(records, held, ["a", "a1"], Rules())) == ["x"]
    records += [node("c", VCPU=8), node("c1", "c", traits=["CUSTOM_FAST"], VGPU=4)]
    assert hosts_of(judge(records, held, ["a", "a1"], Rules())) == {"x": "c"}


def test_where_nothing_is_left_nothing_is_found():
    """All hosts at once."""
    records = [node("a", VCPU=8), node("b", VCPU=8)]
    outcome = judge(records, {"x": {"a": {"VCPU": 1}}}, ["a", "b"])
    assert (missing(outcome), outcome.unplaced[0].hosts) == (["x"], 0)


def test_a_class_that_no_provider_has_any_more_has_no_place():
    """A consumer may still hold what was removed from every inventory."""
    records = [node("a", VCPU=8), node("b", VCPU=8)]
    outcome = judge(records, {"x": {"a": {"VCPU": 1, "CUSTOM_GONE": 1}}}, ["a"])
    assert outcome.unplaced[0].shortage.resource_class == "CUSTOM_GONE"


def make_random(dice):
    """Return a small cloud with hosts, devices and pools, and what its consumers hold."""
    records = []
    for name in "abcde"[: dice.randint(2, 5)]:
        aggregates = dice.sample(["s", "t"], dice.randint(0, 2))
        traits = dice.sample(["HW_A", "CUSTOM_B"], dice.choice((0, 0, 1)))
        stocks = {"VCPU": stock(dice.randint(1, 8), max_unit=dice.choice((2, 9)))}
        if dice.random() < 0.4:
            stocks["DISK_GB"] = stock(dice.randint(1, 6), step_size=dice.choice((1, 1, 2)))
        records.append(node(name, None, traits, aggregates, **stocks))
        for number in range(dice.choice((0, 0, 1, 2))):
            records.append(
                node(f"{name}{number}", name, dice.choice(([], ["HW_A"])), VGPU=dice.randint(1, 3))
            )
    for name in ("p", "q")[: dice.randint(0, 2)]:
        records.append(storage(name, dice.sample(["s", "t"], 1), DISK_GB=dice.randint(1, 8)))
    holdings, free = {}, {}
    for record in records:
        for name, inventory in record.inventories.items():
            free[record.provider.uuid, name] = inventory.capacity
    for number in range(dice.randint(1, 5)):
        held = {}
        host = dice.choice([record.provider.uuid for record in records if "VCPU" in record.inventories])
        devices = [key for key in free if key[0].startswith(host) and key[1] == "VGPU"]
        disks = [key for key in free if key[1] == "DISK_GB" and key[0] in (host, "p", "q")]
        wanted = [(host, "VCPU"), *dice.sample(devices, min(len(devices), dice.randint(0, 2)))]
        wanted += dice.sample(disks, min(len(disks), dice.randint(0, 1)))
        for uuid, name in wanted:
            amount = dice.randint(1, 3)
            if amount <= free[uuid, name]:
                free[uuid, name] -= amount
                held.setdefault(uuid, {})[name] = amount
        if held:
            holdings[f"x{number}"] = held
    return records, holdings


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_moves_of_random_clouds_can_be_made(seed, same_traits, isolated):
    """`judge` replays the moves: each amount is one that the provider takes, beside all others."""
    dice = random.Random(seed)
    records, holdings = make_random(dice)
    roots = [record.provider.uuid for record in records if record.provider.parent_provider_uuid is None]
    chosen = dice.sample(roots, dice.randint(1, len(roots)))
    lost = [record.provider.uuid for record in records if record.provider.uuid[0] in chosen]
    judge(records, holdings, lost, Rules(same_traits=same_traits, isolated=isolated))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_one_consumer_has_a_place_if_brute_force_finds_one(seed):
    """For a single consumer the search is complete: it says that there is no place only if there is none."""
    dice = random.Random(seed)
    records, holdings = make_random(dice)
    view, headroom = make(records, holdings)
    hosts = [record.provider.uuid for record in records if "VCPU" in record.inventories]
    for host in hosts:
        lost = {slot for slot, each in enumerate(view.nodes) if view.root_of(each.uuid).uuid == host}
        held = [name for name, allocations in holdings.items() if has_any_of(view, allocations, lost)]
        if len(held) == 1:
            outcome = headroom.judge(lost)
            assert outcome.fits == bool(find_places(view, headroom, holdings[held[0]], lost))


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32))
def test_no_consumer_without_a_place_would_fit_after_all_moves(seed):
    """Brute force looks for a place of each, beside all others where they are in the end."""
    records, holdings = make_random(random.Random(seed))
    hosts = [record.provider.uuid for record in records if "VCPU" in record.inventories]
    for host in hosts:
        view, headroom = make(records, holdings)
        lost = {slot for slot, each in enumerate(view.nodes) if view.root_of(each.uuid).uuid == host}
        outcome = headroom.judge(lost)
        now = replay(view, holdings, [view.nodes[slot].uuid for slot in lost], outcome)
        view, headroom = make(records, now)
        for one in outcome.unplaced:
            assert not find_places(view, headroom, holdings[one.consumer], lost)


def has_any_of(view, allocations, lost):
    return any(view.snapshot.slot_by_uuid[uuid] in lost for uuid in allocations)


def find_places(view, headroom, allocations, lost):
    """Return the candidates that brute force finds without the lost providers and what the consumer holds."""
    nodes = []
    for slot, each in enumerate(view.nodes):
        if slot not in lost:
            stocks = {
                name: stock_without(one, allocations.get(each.uuid, {}).get(name, 0))
                for name, one in each.stocks.items()
            }
            nodes.append(type(each)(each.id, each.uuid, each.parent_id, each.root_id, stocks, *rest_of(each)))
    parts = [
        (view.snapshot.slot_by_uuid[uuid], name, amount)
        for uuid, amounts in allocations.items()
        for name, amount in amounts.items()
    ]
    return brute_force.candidates(nodes, headroom._kind_of(parts, (), ANY).request)


def stock_without(one, amount):
    return type(one)(one.inventory, one.used - amount)


def rest_of(each):
    return each.traits, each.aggregates, each.name


def test_small_packings_are_found():
    """Of all ways to fill two hosts exactly, the order finds those that have one amount per host."""
    for first, second in itertools.product(range(1, 5), repeat=2):
        records = [node("a", VCPU=8), node("b", VCPU=first), node("c", VCPU=second)]
        held = {"x": {"a": {"VCPU": first}}, "y": {"a": {"VCPU": second}}}
        assert judge(records, held, ["a"]).fits


def test_a_sharing_trait_is_not_asked_of_a_host():
    """A disk of a pool may become a disk of the host, although that shares with nobody."""
    records = [
        node("a", aggregates=["s"], VCPU=8),
        storage("pool", ["s"], DISK_GB=10),
        node("b", VCPU=8, DISK_GB=10),
    ]
    assert SHARING_TRAIT in records[1].traits
    assert hosts_of(judge(records, {"x": {"a": {"VCPU": 4}, "pool": {"DISK_GB": 5}}}, ["a"], Rules())) == {
        "x": "b"
    }


def test_what_stays_must_still_be_possible():
    """A claim is written as a whole, so limits of units count for what a consumer keeps elsewhere too."""
    records = [node("a", VCPU=8), node("b", VCPU=stock(8, min_unit=4)), node("c", VCPU=8)]
    outcome = judge(records, {"x": {"a": {"VCPU": 4}, "b": {"VCPU": 2}}}, ["a"])
    (one,) = outcome.unplaced
    assert (one.shortage.resource_class, one.shortage.amount, one.shortage.closest.name) == ("VCPU", 2, "b")


def test_what_one_gives_back_does_not_decide_for_the_next():
    """Two racks with a full pool each; the consumers differ in the pool that they give back."""
    records = [
        storage("p1", ["s1"], DISK_GB=10),
        storage("p2", ["s2"], DISK_GB=10),
        node("a1", aggregates=["s1"], VCPU=4),
        node("b1", aggregates=["s1"], VCPU=4),
        node("a2", aggregates=["s2"], VCPU=4),
        node("b2", aggregates=["s2"], VCPU=4),
    ]
    x = {"a2": {"VCPU": 4}, "p2": {"DISK_GB": 10}}
    y = {"a1": {"VCPU": 4}, "p1": {"DISK_GB": 10}}
    for holdings in ({"x": x, "y": y}, {"x": y, "y": x}):
        assert judge(records, holdings, ["a1", "a2"]).fits


def test_a_consumer_may_stay_on_a_full_host_if_only_the_storage_is_lost():
    """There alone is what it gives back."""
    records = [
        storage("p1", ["s"], DISK_GB=10),
        storage("p2", ["s"], DISK_GB=10),
        node("h1", aggregates=["s"], VCPU=4),
        node("h2", aggregates=["s"], VCPU=4),
    ]
    holdings = {
        "x": {"h2": {"VCPU": 4}, "p1": {"DISK_GB": 4}},
        "y": {"h1": {"VCPU": 4}, "p1": {"DISK_GB": 4}},
    }
    assert hosts_of(judge(records, holdings, ["p1"])) == {"x": "h2", "y": "h1"}
