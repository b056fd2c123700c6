# SPDX-License-Identifier: Apache-2.0
"""What the server would refuse of the plan of an apply, by the state that the plan leads to."""

from dataclasses import replace

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.guards.staged import Surroundings, judge
from osc_placement.batch.plan import Policy
from osc_placement.model import Inventory, Provider
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import Current, Leftover, plan_apply, plan_run

HOSTS = (Provider("h1", "host-1", 1), Provider("h2", "host-2", 1))


def document(*consumers, total=8):
    """Two hosts with this many VCPU each; consumers by name, with the amount on each host."""
    state = ProviderState({"VCPU": Inventory(total)})
    return Document(
        providers=tuple(ProviderEntry(host.name, host.uuid, None, state) for host in HOSTS),
        consumers=tuple(
            ConsumerEntry(uuid, "p", "u", {f"host-{number}": {"VCPU": amount} for number, amount in held})
            for uuid, *held in consumers
        ),
    )


def judged(wanted, held=(), total=8, capacity="keep"):
    """The refusals and warnings of the plan of a document for hosts of 8 VCPU, and what consumers hold."""
    state = ProviderState({"VCPU": Inventory(8)})
    consumers = {
        uuid: Consumer(uuid, 1, "p", "u", "INSTANCE", {f"h{number}": {"VCPU": amount}})
        for uuid, number, amount in held
    }
    current = Current(
        resource_classes=frozenset({"VCPU"}),
        providers=HOSTS,
        states={host.uuid: (host, state) for host in HOSTS},
        consumers=consumers,
    )
    usages = {
        host.uuid: {"VCPU": sum(amount for _, number, amount in held if f"h{number}" == host.uuid)}
        for host in HOSTS
    }
    surroundings = Surroundings(
        {host.uuid: host for host in HOSTS},
        inventories={host.uuid: {"VCPU": Inventory(8)} for host in HOSTS},
        usages=usages,
    )
    run = plan_run(plan_apply(wanted, current), "apply")
    plan = judge(replace(run, policy=Policy(capacity)), surroundings)
    return {uuid: str(error) for uuid, error in plan.refused.items()}, list(plan.warnings)


def test_consumers_that_exchange_full_hosts_are_not_refused():
    """Each makes room for the other."""
    held = (("a", 1, 8), ("b", 2, 8))
    assert judged(document(("a", (2, 8)), ("b", (1, 8))), held) == ({}, [])


def test_a_consumer_that_cannot_move_keeps_its_place():
    """The one that would have taken it is refused too."""
    held = (("a", 1, 8), ("other", 2, 8))
    refused, _ = judged(document(("b", (1, 8)), ("a", (2, 8))), held)
    assert refused == {"a": "host-2 has 0 VCPU free, not 8", "b": "host-1 has 0 VCPU free, not 8"}


def test_an_amount_that_a_consumer_has_already_may_stay_over_capacity():
    """Placement lets a consumer keep, or reduce, what it has."""
    held = (("a", 1, 8), ("b", 1, 4))
    assert judged(document(("b", (1, 2))), held) == ({}, [])


def test_inventories_are_judged_by_what_their_consumers_hold_afterwards():
    """A host may become smaller if its consumer moves away in the same apply."""
    held = (("a", 1, 8),)
    smaller = document(("a", (1, 4)), total=4)
    assert judged(smaller, held) == ({}, [])
    refused, _ = judged(document(total=4), held)
    assert list(refused) == ["h1"]


def test_capacity_is_left_to_the_server_if_the_policy_says_so():
    """As migrations do; what the server refuses is refused all the same."""
    held = (("a", 1, 8),)
    assert judged(document(total=4), held, capacity="ignore") == ({}, [])
    assert list(judged(document(("b", (1, 8)), total=4), held, capacity="ignore")[0]) == ["b"]


def test_a_warning_about_a_refused_change_is_not_told():
    """What is not done needs no warning; what is refused changes what the others are judged by."""
    held = (("a", 1, 6), ("other", 2, 4))
    # the consumer cannot move to a host that is smaller, so its own host would be over capacity
    refused, warnings = judged(document(("a", (2, 6)), total=4), held, capacity="exceed")
    assert refused == {"a": "host-2 has 0 VCPU free, not 6"}
    assert warnings == ["host-1: VCPU would be over capacity by 2: 6 allocated, the capacity would be 4"]


def test_a_warning_is_not_told_if_its_change_is_refused_because_of_another():
    """The name is not given up, so the new parent is not created, and the host, which got less, not moved."""
    host, gone = HOSTS[0], Provider("g", "rack", 1)
    full, less = ProviderState({"VCPU": Inventory(8)}), ProviderState({"VCPU": Inventory(4)})
    wanted = Document(
        providers=(
            ProviderEntry("rack", "r", None, ProviderState()),
            ProviderEntry(host.name, host.uuid, "rack", less),
        )
    )
    current = Current(
        resource_classes=frozenset({"VCPU"}),
        providers=(host, gone),
        states={host.uuid: (host, full)},
        leftover=Leftover(providers=(gone,), states={"g": full}),
    )
    usages = {host.uuid: {"VCPU": 6}, "g": {"VCPU": 1}}
    surroundings = Surroundings({host.uuid: host, "g": gone}, usages=usages)
    run = plan_run(plan_apply(wanted, current), "apply")
    plan = judge(replace(run, policy=Policy("exceed")), surroundings)
    assert plan.refused.keys() == {"g", "r", host.uuid}
    assert plan.warnings == ()
