# SPDX-License-Identifier: Apache-2.0
"""Inventories of a provider and what is held of it, changed at once: what is sent, and what is refused."""

import pytest

from osc_placement import codes
from osc_placement.batch.attempt import keep_before, run_change
from osc_placement.batch.facets import ProviderState, describe_owner
from osc_placement.batch.holdings import make_room
from osc_placement.batch.merge import settle
from osc_placement.batch.plan import Change, Result, plan_change
from osc_placement.batch.repeat import Repeat
from osc_placement.batch.service import _resume_step
from osc_placement.batch.undo import _undo_step
from osc_placement.batch.writers.provider import write_change
from osc_placement.batch.writers.reshape import MayNotReshape, Ownerless
from osc_placement.errors import Conflict, VersionTooLow
from osc_placement.model import Inventory, Provider
from tests.unit.fake_placement import FakePlacement, error

NODE = Provider("node", "node", 5)
CONFLICT = error(409, "resource provider generation conflict", code=codes.CONCURRENT_UPDATE)
BEFORE = ProviderState(inventories={"VCPU": Inventory(8)}, allocations={"c": {"VCPU": 2}})
AFTER = ProviderState(inventories={"CUSTOM_X": Inventory(1, reserved=1)}, allocations={"c": {"CUSTOM_X": 1}})
ROOMY = ProviderState(inventories=make_room(AFTER), allocations=AFTER.allocations)
CHANGE = Change(NODE, BEFORE, AFTER, halves=(ROOMY,))


def holding(generation=3, consumer_type="INSTANCE", **claims):
    """The document of a consumer."""
    return {
        "allocations": {
            provider: {"resources": amounts, "generation": 5} for provider, amounts in claims.items()
        },
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": consumer_type,
    }


def placement(consumer, *answers, **settings):
    """A placement where a consumer holds this."""
    return (
        FakePlacement(**settings)
        .on("GET", "/allocations/c", consumer)
        .on("POST", "/reshaper", *(answers or [(204, "")]))
        .on("GET", "/resource_providers/node", {"uuid": "node", "name": "node", "generation": 6})
        .on(
            "PUT",
            "/resource_providers/node/inventories/CUSTOM_X",
            {"resource_provider_generation": 7, "total": 1},
        )
    )


def sent(fake, path="/reshaper"):
    """The bodies of what was written there."""
    return [asked.body for asked in fake.asked if asked.path == path and asked.method != "GET"]


def test_inventory_and_consumer_are_written_before_the_reserved_amount():
    """The first write leaves room for the consumer; what he holds elsewhere, and whose he is, stays."""
    fake = placement(holding(node={"VCPU": 2}, elsewhere={"DISK_GB": 1}))
    assert list(write_change(fake.client(), CHANGE)) == [6, 7]
    (body,) = sent(fake)
    assert body["inventories"]["node"]["resource_provider_generation"] == 5
    assert body["inventories"]["node"]["inventories"] == {"CUSTOM_X": Inventory(1).to_json()}
    assert body["allocations"]["c"] == {
        "allocations": {"elsewhere": {"resources": {"DISK_GB": 1}}, "node": {"resources": {"CUSTOM_X": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": 3,
        "consumer_type": "INSTANCE",
    }
    (last,) = sent(fake, "/resource_providers/node/inventories/CUSTOM_X")
    assert (last["reserved"], last["resource_provider_generation"]) == (1, 6)


def test_untyped_consumer_stays_untyped():
    """A version before there were types leaves that of everybody as it is."""
    fake = placement(holding(consumer_type="unknown", node={"VCPU": 2}))
    list(write_change(fake.client(), CHANGE))
    (asked,) = (asked for asked in fake.asked if asked.path == "/reshaper")
    assert asked.headers["OpenStack-API-Version"] == "placement 1.37"
    assert "consumer_type" not in asked.body["allocations"]["c"]


def test_consumer_that_changed_meanwhile_is_a_conflict():
    """A deletion of what he held moves no generation of the provider, so he is compared."""
    fake = placement({"allocations": {}})
    with pytest.raises(Conflict) as caught:
        list(write_change(fake.client(), CHANGE))
    assert (caught.value.concurrent_update, sent(fake)) == (True, [])


def test_half_written_change_is_finished():
    """Who holds already what he shall is left out; the rest is written."""
    fake = placement(holding(node={"CUSTOM_X": 1}))
    assert list(write_change(fake.client(), CHANGE)) == [6, 7]
    assert sent(fake)[0]["allocations"] == {}


@pytest.mark.parametrize(
    "plan_again",
    [
        lambda: keep_before(CHANGE, plan_change(Repeat("", CHANGE), NODE, settle(CHANGE, ROOMY))),
        lambda: _resume_step(CHANGE, Repeat("", CHANGE), NODE, settle(CHANGE, ROOMY)),
    ],
)
def test_half_written_change_can_be_undone_whole(plan_again):
    """Planned again after the first of both writes, it still says what was there before."""
    again = plan_again()
    assert (again.before, again.after) == (BEFORE, AFTER)


def test_half_written_change_is_undone_as_it_is():
    """Nobody changed anything since; there is only less reserved than planned."""
    step, refusal = _undo_step(CHANGE, NODE, settle(CHANGE.back, ROOMY), force=False)
    assert (step.before, step.after, refusal) == (AFTER, BEFORE, None)


@pytest.mark.parametrize("reserved", [0, 1])
def test_what_was_reserved_before_is_reserved_again(reserved):
    """A class that was there and stays as it was is no difference, and is written all the same."""
    had = {**BEFORE.inventories, "CUSTOM_X": Inventory(1, reserved=reserved)}
    change = Change(
        NODE, ProviderState(inventories=had, allocations=BEFORE.allocations), AFTER, halves=(ROOMY,)
    )
    now = settle(change, ROOMY)
    assert _resume_step(change, Repeat("", change), NODE, now) == change
    assert keep_before(change, plan_change(Repeat("", change), NODE, now)) == change


def test_first_allocation_has_the_owner_of_the_state():
    """Without one nobody knows whose it would be, and nothing is written."""
    owner = describe_owner("p", "u")
    before = ProviderState(inventories={}, allocations={}, owner=owner)
    after = ProviderState(AFTER.inventories, allocations=AFTER.allocations, owner=owner)
    fake = placement({"allocations": {}}, CONFLICT, (204, ""))
    list(write_change(fake.client(), Change(NODE, before, after)))
    bodies = [body["allocations"]["c"] for body in sent(fake)]
    assert [body["consumer_generation"] for body in bodies] == [None, 0]
    assert (bodies[0]["project_id"], bodies[0]["user_id"]) == ("p", "u")
    again = keep_before(Change(NODE, before, after), Change(NODE, ProviderState({}, allocations={}), AFTER))
    assert (again.before.owner, again.after.owner, "owner" in again.facets) == (owner, owner, False)
    with pytest.raises(Ownerless, match="Consumer c"):
        list(write_change(fake.client(), Change(NODE, ProviderState({}, allocations={}), AFTER)))


def test_interference_is_planned_again():
    """The generation moved: provider and holders are read again, and the same is made of what is there."""
    fake = placement(holding(node={"VCPU": 2}), CONFLICT, (204, ""))
    inventories = {"VCPU": Inventory(16).to_json()}
    fake.on(
        "GET",
        "/resource_providers/node/inventories",
        {"inventories": inventories, "resource_provider_generation": 8},
    )
    fake.on(
        "GET",
        "/resource_providers/node/allocations",
        {"allocations": {"c": {"resources": {"VCPU": 2}}}, "resource_provider_generation": 8},
    )
    outcome = run_change(fake.client(), CHANGE, Repeat("", CHANGE))
    assert (outcome.result, outcome.attempts) == (Result.APPLIED, 2)
    assert sent(fake)[1]["inventories"]["node"]["resource_provider_generation"] == 8
    assert outcome.change.before.inventories == {"VCPU": Inventory(16)}


def test_refusal_says_who_may():
    """Placement keeps this route from administrators, unless its policy says otherwise."""
    fake = placement(holding(node={"VCPU": 2}), error(403, "Policy does not allow it"))
    with pytest.raises(MayNotReshape, match="role 'service'"):
        list(write_change(fake.client(), CHANGE))


def test_too_old_placement_error_names_the_version():
    """Before 1.30 there is no such transaction."""
    with pytest.raises(VersionTooLow, match=r"1\.30"):
        list(write_change(placement(holding(), max_version="1.29").client(), CHANGE))


@pytest.mark.parametrize(
    ("inventory", "used", "reserved"),
    [
        (Inventory(1, reserved=1), 1, 0),
        (Inventory(1, reserved=1), 0, 1),
        (Inventory(10, reserved=4), 6, 4),
        (Inventory(10, reserved=4), 8, 2),
        (Inventory(10, reserved=4, allocation_ratio=2.0), 15, 2),
        (Inventory(2, reserved=1), 9, 0),
    ],
)
def test_reserved_amount_is_lowered_no_more_than_needed(inventory, used, reserved):
    """No more is taken from what is reserved than the consumers need."""
    state = ProviderState(inventories={"X": inventory}, allocations={"c": {"X": used}} if used else {})
    assert make_room(state)["X"].reserved == reserved
