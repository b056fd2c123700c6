# SPDX-License-Identifier: Apache-2.0
"""What the request filters of nova's scheduler ask for, and the hosts that they remove."""

import os_traits
import pytest

from osc_placement.candidates.fit import make_request
from osc_placement.candidates.fit_filtered import count_filtered, describe_removal
from osc_placement.candidates.image import make_image
from osc_placement.candidates.nova_filters import (
    NAMES,
    READ_AGGREGATES,
    SWITCHES,
    Boot,
    HostAggregate,
    Options,
    Refused,
    State,
    ask_filters,
)
from osc_placement.flavor import Flavor, NoClaim
from tests.unit.report.clouds import cloud, node, storage

FLAVOR = Flavor(1, 64, 1)
KNOWN = os_traits.get_traits()
ALL_ON = Options(**dict.fromkeys(SWITCHES.values(), True))
ZONE = HostAggregate("z", "zone-hosts", {"availability_zone": "az1"})
GOLD = HostAggregate("g", "gold-hosts", {"trait:CUSTOM_GOLD": "required"})


def ask(name, boot, options=ALL_ON, forced=()):
    """The answer of one filter."""
    return next(one for one in ask_filters(boot, options, forced) if one.name == name)


def test_every_filter_has_a_state_and_a_reason():
    """In nova's order, with nova's defaults, without nova.conf, and with all of them on."""
    for options in (Options(), None, ALL_ON):
        asked = ask_filters(Boot(FLAVOR), options)
        assert [one.name for one in asked] == list(NAMES)
        assert all(one.reason for one in asked)


def test_without_nova_conf_it_is_unknown_which_filters_are_on():
    """Those that always are apply; one that is asked for by name is on."""
    states = {one.name: one.state for one in ask_filters(Boot(FLAVOR, traits=KNOWN), None)}
    assert {name for name, state in states.items() if state is State.UNKNOWN} >= SWITCHES.keys()
    assert states["compute_status_filter"] is State.APPLIED
    boot = Boot(FLAVOR, aggregates=[GOLD])
    assert ask("isolate_aggregates", boot, None, ["isolate_aggregates"]).state is State.APPLIED


@pytest.mark.parametrize("name", sorted(READ_AGGREGATES))
def test_aggregates_that_cannot_be_read_are_unknown(name):
    """They are not taken for none."""
    boot = Boot(FLAVOR, project="p", zone="az1", aggregates=None)
    one = ask(name, boot)
    assert (one.state, one.reason) == (
        State.UNKNOWN,
        "the host aggregates of the compute service cannot be read",
    )


def test_what_is_not_known_of_the_instance_is_unknown():
    """Its project, its image, its networks and its ports."""
    states = {one.name: one.state for one in ask_filters(Boot(FLAVOR), ALL_ON)}
    assert {name for name, state in states.items() if state is State.UNKNOWN} == {
        "require_tenant_aggregate",
        "require_image_type_support",
        "transform_image_metadata",
        "routed_networks_filter",
        "remote_managed_ports_filter",
    }


@pytest.mark.parametrize(
    ("name", "trait"),
    [
        ("compute_status_filter", "COMPUTE_STATUS_DISABLED"),
        ("tpm_secret_security_filter", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"),
    ],
)
def test_filter_whose_trait_placement_does_not_know_is_off_unless_it_is_asked_for(name, trait):
    """A nova that has the filter needs an os-traits that has the trait, whether it requires or forbids it."""
    flavor = Flavor(1, 64, 1, extra_specs={"hw:tpm_version": "2.0"})
    boot = Boot(flavor, traits=[known for known in KNOWN if known != trait])
    one = ask(name, boot)
    assert (one.state, one.reason) == (State.OFF, f"the placement service has no trait {trait}")
    assert ask(name, boot, forced=[name]).state is State.APPLIED
    assert ask(name, Boot(flavor, traits=KNOWN)).state is State.APPLIED


def test_a_project_without_an_aggregate_is_refused_if_it_needs_one():
    """As the scheduler does, with the option that says so."""
    options = Options(
        limit_tenants_to_placement_aggregate=True, placement_aggregate_required_for_tenants=True
    )
    with pytest.raises(Refused, match="no aggregate has filter_tenant_id=p"):
        ask_filters(Boot(FLAVOR, project="p"), options)
    assert ask("require_tenant_aggregate", Boot(FLAVOR, project="p")).state is State.IDLE


def test_a_setting_that_contradicts_the_image_is_refused():
    """It names the filter."""
    flavor = Flavor(1, 64, 1, extra_specs={"hw:virtio_packed_ring": "true"})
    boot = Boot(flavor, image=make_image({"hw_virtio_packed_ring": "false"}))
    with pytest.raises(Refused, match="packed_virtqueue_filter refuses the request: the hw_virtio"):
        ask_filters(boot, Options())


def test_a_property_without_a_trait_takes_the_others_with_it():
    """Nova drops all traits of the image if os-traits lacks one, which it logs as an error."""
    image = make_image({"hw_disk_bus": "virtio", "hw_vif_model": "netfront"})
    known = ["COMPUTE_STORAGE_BUS_VIRTIO"]
    one = ask("transform_image_metadata", Boot(FLAVOR, image=image, traits=known))
    assert one.state is State.IDLE
    assert "no trait COMPUTE_NET_VIF_MODEL_NETFRONT" in one.reason


def test_a_property_that_nova_refuses_is_an_error():
    """With the values that there are."""
    with pytest.raises(NoClaim, match="hw_disk_bus='odd' is none of fdc, ide"):
        make_image({"hw_disk_bus": "odd"})


def test_the_default_zone_of_nova_conf_is_used_without_another_one():
    """An instance is booted there."""
    options = Options(default_schedule_zone="az1")
    one = ask("map_az_to_placement_aggregate", Boot(FLAVOR, aggregates=[ZONE]), options)
    assert one.membership.required == (frozenset("z"),)
    other = ask("map_az_to_placement_aggregate", Boot(FLAVOR, zone="az2", aggregates=[ZONE]), options)
    assert other.state is State.IDLE


def remove(records, boot, options=ALL_ON, amounts=None):
    """The numbers by host, and the texts of those that were removed."""
    view = cloud(*records)
    asked = [one for one in ask_filters(boot, options) if one.state is State.APPLIED]
    request = make_request(amounts or {"VCPU": 1})
    filtered = count_filtered(view.snapshot, request, asked)
    counts = {fit.host.name: fit.count for fit in filtered.fits.hosts}
    names = {each.uuid: each.name for each in boot.aggregates or ()}
    texts = {uuid: describe_removal(one, view.node(uuid), names) for uuid, one in filtered.removed.items()}
    return counts, filtered.fits.total, texts


def test_the_first_filter_that_does_not_admit_a_host_removes_it():
    """A host in the wrong zone that is disabled too is removed by the zone, which nova asks for first."""
    records = [
        node("in", aggregates=["z"], VCPU=4),
        node("out", traits=["COMPUTE_STATUS_DISABLED"], VCPU=4),
        node("disabled", traits=["COMPUTE_STATUS_DISABLED"], aggregates=["z"], VCPU=4),
        node("isolated", aggregates=["z", "g"], VCPU=4),
    ]
    boot = Boot(FLAVOR, zone="az1", aggregates=[ZONE, GOLD], owner_gap="old", traits=KNOWN)
    assert remove(records, boot) == (
        {"in": 4, "out": 0, "disabled": 0, "isolated": 0},
        4,
        {
            "out": "map_az_to_placement_aggregate: not in aggregate zone-hosts",
            "disabled": "compute_status_filter: has COMPUTE_STATUS_DISABLED",
            "isolated": "isolate_aggregates: in aggregate gold-hosts",
        },
    )


def test_an_isolated_host_is_admitted_to_a_request_with_its_trait():
    """The flavor or the image requires it."""
    records = [node("isolated", traits=["CUSTOM_GOLD"], aggregates=["g"], VCPU=4)]
    boot = Boot(FLAVOR, required=["CUSTOM_GOLD"], aggregates=[GOLD], owner_gap="old", traits=KNOWN)
    assert remove(records, boot) == ({"isolated": 4}, 4, {})


def test_a_host_whose_storage_is_outside_of_the_zone_is_removed_by_the_zone():
    """Placement uses a sharing provider only if it is in the aggregates that are asked for."""
    records = [
        node("in", aggregates=["z", "s"], VCPU=4),
        storage("disks", ["s"], DISK_GB=100),
    ]
    boot = Boot(FLAVOR, zone="az1", aggregates=[ZONE], owner_gap="old", traits=KNOWN)
    counts, total, texts = remove(records, boot, amounts={"VCPU": 1, "DISK_GB": 1})
    assert (counts["in"], total) == (0, 0)
    assert texts["in"] == "map_az_to_placement_aggregate: availability zone az1"


def test_a_full_host_is_not_said_to_be_removed():
    """It says what it lacks."""
    records = [node("full", aggregates=["z"], VCPU=0)]
    boot = Boot(FLAVOR, zone="az1", aggregates=[ZONE], owner_gap="old", traits=KNOWN)
    assert remove(records, boot) == ({"full": 0}, 0, {})


def test_a_zone_and_a_need_of_aggregates_that_nova_conf_may_set_are_unknown():
    """Without nova.conf its default_schedule_zone and placement_aggregate_required_for_tenants are too."""
    boot = Boot(Flavor(1, 1, 1), project="p")

    def state(name, options):
        (one,) = [
            one for one in ask_filters(boot, options, ("require_tenant_aggregate",)) if one.name == name
        ]
        return one.state

    for name in ("map_az_to_placement_aggregate", "require_tenant_aggregate"):
        assert state(name, None) is State.UNKNOWN
        assert state(name, Options()) is State.IDLE
