# SPDX-License-Identifier: Apache-2.0
"""The comparison of flavors, images and aggregates, from values."""

import pytest

from osc_placement.candidates.flavor_fit import FlavorFit
from osc_placement.candidates.node import DISABLED_TRAIT
from osc_placement.candidates.nova_filters import Options
from osc_placement.errors import UsageError
from osc_placement.flavor import Flavor
from osc_placement.migrate.migrations.base import Context
from osc_placement.migrate.migrations.flavors import Flavors, is_creatable
from osc_placement.migrate.nova.facts import Cell, HostAggregate, Image
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.migrate.problem import Reason
from tests.unit.report.clouds import node, stock

#: the traits of an emulated TPM of version 2.0 and the usual model
TPM = ("COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS")
HOST = node("h1", VCPU=16, MEMORY_MB=65536, DISK_GB=1000)


class Client:
    """Placement with some names and providers."""

    def __init__(self, *providers, traits=("HW_A",), classes=("VCPU", "MEMORY_MB", "DISK_GB", "VGPU")):
        self.providers, self.traits, self.classes = providers, (*traits, DISABLED_TRAIT), classes

    def require(self, *_):
        pass

    def list_traits(self):
        return list(self.traits)

    def list_resource_classes(self):
        return [{"name": name} for name in self.classes]

    def read_providers(self, **_):
        return iter(self.providers)


class Source:
    """Nova with these flavors, aggregates and images; what is an exception is raised."""

    def __init__(self, flavors=(), aggregates=(), images=(), used=(), sees_all=True):
        self.flavors, self.aggregates, self.images = flavors, aggregates, images
        self.used, self.is_admin = used, sees_all

    def list_flavors(self):
        return self._give(self.flavors)

    def list_aggregates(self):
        return self._give(self.aggregates)

    def list_cells(self):
        return [Cell("c1", "cell1")]

    def list_images(self, _cell=None):
        return self._give(self.images)

    def list_image_uuids(self, _cell):
        return self._give(self.used)

    def sees_all(self):
        return self.is_admin

    @staticmethod
    def _give(value):
        if isinstance(value, Exception):
            raise value
        return list(value)


def flavor(name="m1", vcpus=2, memory_mb=2048, root_gb=20, **specs):
    """A flavor."""
    return Flavor(vcpus, memory_mb, root_gb, extra_specs=specs, name=name, flavorid=f"id-{name}")


def survey(source, *providers, glance=None, comparison=None, options=None, gap="no nova.conf", **names):
    """Compare; by default any part of a host may stay unused."""
    context = Context(
        lambda: source,
        Client(*providers, **names),
        1,
        open_glance=lambda: glance,
        read_scheduler_options=lambda: (options, gap),
    )
    return (comparison or Flavors(most_unused=100)).assess(context)


def found_in(result):
    """The reason and text of each finding."""
    return [(each.reason, each.subject, each.text) for each in result.assessment.problems]


def test_names_with_amount_zero_are_not_asked_for():
    """Nova leaves them out of its request, so placement need not know them."""
    result = survey(Source([flavor(**{"resources:CUSTOM_X": "0"})]), HOST)
    assert (found_in(result), result.assessment.plan.changes) == ([], ())


def test_missing_names_are_created_once_for_all_who_ask():
    """The note has the first ones, and the number of the others."""
    flavors = [flavor(f"m{number}", **{"trait:CUSTOM_B": "required"}) for number in range(5)]
    image = Image("1", "cirros", {"trait:CUSTOM_B": "required"})
    result = survey(Source(flavors), HOST, glance=Source(images=[image]), traits=("CUSTOM_BX",))
    (change,) = result.assessment.plan.changes
    note = "trait asked for by flavor m0, flavor m1, flavor m2 and 3 more (is it CUSTOM_BX?)"
    assert (change.subject.kind, change.subject.name, change.reason) == ("trait", "CUSTOM_B", note)
    assert {each.state for each in result.flavors} == {Reason.UNKNOWN_NAME}


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("CUSTOM_X", True),
        ("CUSTOM_", False),
        ("CUSTOM_x", False),
        ("HW_X", False),
        ("CUSTOM_" + "X" * 248, True),
        ("CUSTOM_" + "X" * 249, False),
        ("CUSTOM_É", False),
        ("", False),
    ],
)
def test_only_valid_custom_names_can_be_created(name, is_valid):
    """As placement's API has them."""
    assert is_creatable(name) == is_valid


def test_classes_of_every_group_are_compared():
    """A class that placement does not know fails the boot in whatever group it is."""
    specs = {"resources_a:CUSTOM_X": "1", "resources:FPGA": "1"}
    result = survey(Source([flavor(**specs)]), HOST)
    assert [each.subject.name for each in result.assessment.plan.changes] == ["CUSTOM_X"]
    ((reason, _, text),) = found_in(result)
    assert (reason, "comes with os-resource-classes" in text) == (Reason.UNKNOWN_NAME, True)


def test_trait_that_is_required_and_forbidden_is_refused():
    """Placement refuses such a request, by whatever settings it came to be."""
    specs = {"hw:cpu_thread_policy": "isolate", "trait:HW_CPU_HYPERTHREADING": "required"}
    result = survey(Source([flavor(**specs)]), HOST, traits=("HW_CPU_HYPERTHREADING",))
    ((reason, _, text),) = found_in(result)
    assert (reason, "requires and forbids HW_CPU_HYPERTHREADING" in text) == (Reason.REFUSED, True)


def test_reason_names_the_group_that_fits_nowhere():
    """A flavor may have several."""
    specs = {"resources_gpu:VGPU": "9", "trait_gpu:HW_A": "required"}
    host = [HOST, node("gpu", "h1", traits=["HW_A"], VGPU=8)]
    ((reason, _, text),) = found_in(survey(Source([flavor(**specs)]), *host))
    assert (reason, text) == (
        Reason.NO_HOST,
        "fits on no empty host: VGPU: 9 asked, 8 free, 1 short (group _gpu)",
    )


def test_groups_that_fit_by_themselves_only_are_found():
    """Each constraint leaves a host, and together they leave none."""
    specs = {f"resources{number}:VGPU": "5" for number in (1, 2)} | {"group_policy": "isolate"}
    ((reason, _, text),) = found_in(survey(Source([flavor(**specs)]), HOST, node("gpu", "h1", VGPU=20)))
    assert (reason, text) == (Reason.NO_HOST, "fits on no empty host: its groups fit on no host together")


def test_full_cloud_names_what_is_short():
    """Of the hosts that suit the flavor; others may have it."""
    nodes = [
        node("gold", traits=["HW_A"], VCPU=stock(16, used=15), MEMORY_MB=65536, DISK_GB=1000),
        HOST,
        node("off", traits=["HW_A", "COMPUTE_STATUS_DISABLED"], VCPU=16, MEMORY_MB=65536, DISK_GB=1000),
    ]
    ((reason, _, text),) = found_in(survey(Source([flavor(**{"trait:HW_A": "required"})]), *nodes))
    assert (reason, text) == (Reason.FULL, "fits on no host now: VCPU: 2 asked, 1 free, 1 short")
    ((_, _, text),) = found_in(survey(Source([flavor(**{"trait:HW_A": "required"})]), *nodes[1:]))
    assert text == "fits on no host now: all hosts that suit it are disabled"


def test_amounts_that_are_free_on_different_hosts_are_told():
    """No class alone is short."""
    nodes = [
        node("a", VCPU=stock(16, used=16), MEMORY_MB=65536, DISK_GB=1000),
        node("b", VCPU=16, MEMORY_MB=stock(65536, used=65000), DISK_GB=1000),
    ]
    ((_, _, text),) = found_in(survey(Source([flavor()]), *nodes))
    assert text == "fits on no host now: no host that suits it has all of it free"


def test_equal_requests_are_judged_once_and_reported_each():
    """The names of flavors do not count."""
    flavors = [flavor(name, **{"resources:VGPU": "1"}) for name in "ab"]
    result = survey(Source(flavors), HOST)
    assert [(subject, text) for _, subject, text in found_in(result)] == [
        ("flavor a", "fits on no empty host: no VGPU"),
        ("flavor b", "fits on no empty host: no VGPU"),
    ]


def test_bare_metal_flavor_of_virtual_machines_gets_no_command():
    """Only a class of whole nodes without sizes is one of bare metal."""
    specs = {"resources:CUSTOM_GOLD": "1", "resources:VCPU": "0"}
    metal = node("n1", CUSTOM_GOLD=1)
    ((_, _, text),) = found_in(
        survey(Source([flavor(**specs)]), metal, classes=("CUSTOM_GOLD", "VCPU", "MEMORY_MB", "DISK_GB"))
    )
    assert text.endswith("--property resources:MEMORY_MB=0 --property resources:DISK_GB=0 m1")
    for other in (node("n1", CUSTOM_GOLD=4), node("n1", CUSTOM_GOLD=1, DISK_GB=1)):
        ((_, _, text),) = found_in(
            survey(Source([flavor(**specs)]), other, classes=("CUSTOM_GOLD", "VCPU", "MEMORY_MB", "DISK_GB"))
        )
        assert "openstack flavor set" not in text


def test_unreadable_parts_are_unknown_and_others_are_compared():
    """One line each."""
    broken = Unreadable("nova's API database", "there is no table flavors")
    glance = Source(images=Unreadable("glance", "HTTP 500"))
    aggregate = HostAggregate("u", "fast", frozenset(), {"trait:CUSTOM_X": "required"})
    result = survey(Source(broken, [aggregate]), HOST, glance=glance)
    assert [reason for reason, _, _ in found_in(result)] == [Reason.UNKNOWN, Reason.UNKNOWN]
    assert [each.subject.name for each in result.assessment.plan.changes] == ["CUSTOM_X"]
    assert not any(note.startswith("images") for note in result.assessment.notes)


def test_images_of_cells_are_merged():
    """An image has instances in several cells, made of it at different times."""
    images = [
        Image("1", properties={"trait:HW_Y": "required"}),
        Image("1", properties={"trait:HW_Z": "required"}),
    ]
    result = survey(Source(images=images), HOST)
    assert result.images == 1
    assert len(found_in(result)) == 2


def test_unknown_flavor_is_an_error_unless_flavors_are_unknown():
    """Where nova's flavors cannot be read, nobody knows whether it is one."""
    comparison = Flavors(flavors=frozenset(("m2",)))
    with pytest.raises(UsageError, match="Nova has no flavor m2"):
        survey(Source([flavor()]), HOST, comparison=comparison)
    broken = Unreadable("nova's API", "no route")
    assert found_in(survey(Source(broken), HOST, comparison=comparison))[0][0] is Reason.UNKNOWN


def test_one_name_is_created_alone():
    """One that is not missing is an error."""
    flavors = [flavor(name, **{f"trait:CUSTOM_{name}": "required"}) for name in ("A", "B")]
    result = survey(Source(flavors), HOST, comparison=Flavors(names=frozenset(("CUSTOM_B",))))
    assert [each.subject.name for each in result.assessment.plan.changes] == ["CUSTOM_B"]
    with pytest.raises(UsageError, match="CUSTOM_C is missing"):
        survey(Source(flavors), HOST, comparison=Flavors(names=frozenset(("CUSTOM_C",))))


def test_name_is_not_called_present_while_something_cannot_be_read():
    """What could not be read may ask for it."""
    broken = Unreadable("nova's API database", "there is no table flavor_extra_specs")
    result = survey(Source(broken), HOST, comparison=Flavors(names=frozenset(("CUSTOM_C",))))
    assert (found_in(result)[0][:2], result.assessment.plan.changes) == (
        (Reason.UNKNOWN, "nova's API database"),
        (),
    )


SSD = HostAggregate("ssd-uuid", "ssd", frozenset(), {"trait:HW_A": "required", "availability_zone": "az1"})
ISOLATING = Options(enable_isolated_aggregate_filtering=True)


def test_filter_that_removes_the_last_empty_host_is_named():
    """An isolated aggregate admits only flavors that require its trait."""
    host = node("h1", traits=["HW_A"], aggregates=["ssd-uuid"], VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    flavors = [flavor("m1"), flavor("ssd", **{"trait:HW_A": "required"})]
    result = survey(Source(flavors, [SSD]), host, options=ISOLATING)
    text = (
        "fits on no empty host that nova's filters leave; isolate_aggregates removes the last: not in "
        "aggregate ssd (isolated aggregates)"
    )
    assert found_in(result) == [(Reason.NO_HOST, "flavor m1", text)]
    assert [each.state for each in result.flavors] == [Reason.NO_HOST, "fits"]
    assert found_in(survey(Source(flavors, [SSD]), host)) == []
    unfiltered = Flavors(most_unused=100, applies_filters=False)
    assert found_in(survey(Source(flavors, [SSD]), host, options=ISOLATING, comparison=unfiltered)) == []
    forced = Flavors(most_unused=100, forced_filters=frozenset(("isolate_aggregates",)))
    assert found_in(survey(Source(flavors, [SSD]), host, comparison=forced)) == found_in(result)


def test_filters_remove_hosts_in_the_order_of_nova():
    """The zone leaves one host, which has no trait for the sound device."""
    hosts = [
        node("h1", aggregates=["ssd-uuid"], VCPU=16, MEMORY_MB=65536, DISK_GB=1000),
        node("h2", traits=["COMPUTE_SOUND_MODEL_VIRTIO"], VCPU=16, MEMORY_MB=65536, DISK_GB=1000),
    ]
    source = Source([flavor(**{"hw:sound_model": "virtio"})], [SSD])
    options = Options(default_schedule_zone="az1")
    result = survey(source, *hosts, options=options, traits=("COMPUTE_SOUND_MODEL_VIRTIO", "HW_A"))
    ((reason, _, text),) = found_in(result)
    assert reason is Reason.NO_HOST
    assert text == (
        "fits on no empty host that nova's filters leave; virtio_sound_filter removes the last: root has "
        "COMPUTE_SOUND_MODEL_VIRTIO (virtio sound device)"
    )
    assert "availability zone az1 and no image properties are assumed" in result.assessment.notes[-1]


def test_only_hosts_that_filters_leave_are_free_and_best():
    """What is isolated is neither where a flavor fits now nor where it leaves the least unused."""
    hosts = [
        node("h1", traits=["HW_A"], aggregates=["ssd-uuid"], VCPU=2, MEMORY_MB=2048, DISK_GB=20),
        node("h2", VCPU=stock(16, used=16), MEMORY_MB=65536, DISK_GB=1000),
    ]
    result = survey(Source([flavor()], [SSD]), *hosts, options=ISOLATING)
    ((reason, _, text),) = found_in(result)
    assert (reason, text) == (Reason.FULL, "fits on no host now: VCPU: 2 asked, 0 free, 2 short")
    assert result.flavors[0].best.host.name == "h2"


def test_filters_that_depend_on_an_instance_are_named_and_not_applied():
    """So are those that nova.conf would enable, if there is none."""
    (note,) = survey(Source([flavor()]), HOST, comparison=Flavors(frozenset(("m1",)))).assessment.notes
    assert note == (
        "filters of nova's scheduler (no nova.conf): no availability zone and no image properties are "
        "assumed; not applied: require_tenant_aggregate, map_az_to_placement_aggregate, "
        "require_image_type_support, isolate_aggregates, transform_image_metadata, routed_networks_filter, "
        "remote_managed_ports_filter"
    )
    comparison = Flavors(frozenset(("m1",)))
    (note,) = survey(Source([flavor()]), HOST, comparison=comparison, gap="x not read").assessment.notes
    assert note.startswith("filters of nova's scheduler (x not read): no availability zone")
    options = Options(limit_tenants_to_placement_aggregate=True)
    (note,) = survey(
        Source([flavor()]), HOST, options=options, comparison=Flavors(frozenset(("m1",)))
    ).assessment.notes
    assert note == (
        "filters of nova's scheduler: no availability zone and no image properties are assumed; not applied: "
        "require_tenant_aggregate, remote_managed_ports_filter"
    )


def test_filter_without_readable_aggregates_is_unknown_and_others_are_applied():
    """One enabled filter needs them; for one flavor they are not read otherwise."""
    broken = Unreadable("nova's API database", "there is no table aggregates")
    disabled = node("h1", traits=[DISABLED_TRAIT], VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    comparison = Flavors(frozenset(("m1",)))
    result = survey(Source([flavor()], broken), disabled, options=ISOLATING, comparison=comparison)
    assert [reason for reason, *_ in found_in(result)] == [Reason.UNKNOWN, Reason.FULL, Reason.WASTE]
    assert "not applied: isolate_aggregates, " in result.assessment.notes[0]
    result = survey(Source([flavor()], broken), disabled, options=Options(), comparison=comparison)
    assert [reason for reason, *_ in found_in(result)] == [Reason.FULL, Reason.WASTE]


def test_disabled_hosts_count_without_filters():
    """Nova never chooses them."""
    disabled = node("h1", traits=[DISABLED_TRAIT], VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    result = survey(Source([flavor()]), disabled)
    assert found_in(result)[0][2] == "fits on no host now: all hosts that suit it are disabled"
    comparison = Flavors(most_unused=100, applies_filters=False)
    assert found_in(survey(Source([flavor()]), disabled, comparison=comparison)) == []


def test_flavor_that_a_filter_refuses_cannot_boot():
    """The filter says why."""
    specs = {"hw:tpm_version": "2.0", "hw:tpm_secret_security": "odd"}
    result = survey(Source([flavor(**specs)]), HOST, traits=("COMPUTE_SECURITY_TPM_2_0",))
    ((reason, _, text),) = found_in(result)
    assert reason is Reason.REFUSED
    assert text.startswith("no boot can succeed: nova's tpm_secret_security_filter refuses the request: ")


@pytest.mark.parametrize(
    ("name", "trait", "known"),
    [
        ("compute_status_filter", DISABLED_TRAIT, "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"),
        ("tpm_secret_security_filter", "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER", DISABLED_TRAIT),
    ],
)
def test_filter_whose_trait_placement_does_not_know_is_named_and_not_applied(monkeypatch, name, trait, known):
    """An older nova does not have it, so flavors are judged without it."""
    traits = [*TPM, known]
    monkeypatch.setattr(Client, "list_traits", lambda _: traits)
    reported = [each for each in traits if each != DISABLED_TRAIT]
    host = node("h1", traits=reported, VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    flavors = [flavor("small", **{"hw:tpm_version": "2.0"}), flavor("big", vcpus=99)]
    result = survey(Source(flavors), host)
    assert [each.state for each in result.flavors] == ["fits", Reason.NO_HOST]
    assert result.assessment.notes[-1].endswith(f", {name} (placement has no trait {trait})")


def test_filter_that_no_host_has_the_trait_of_may_be_missing_in_an_older_nova():
    """Placement is upgraded first. If a host reports the trait, the filter is there."""
    trait = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
    traits = (*TPM, trait)
    source = Source([flavor(**{"hw:tpm_version": "2.0"})])
    host = node("h1", traits=TPM, VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    ((reason, _, text),) = found_in(survey(source, host, traits=traits))
    assert reason is Reason.NO_HOST
    doubt = "; no host reports it, and a nova that is older than this filter does not ask for it"
    assert text == (
        "fits on no empty host that nova's filters leave; tpm_secret_security_filter removes the last: "
        f"root has {trait} (TPM secret security user){doubt}"
    )
    small = node("h2", traits=[trait], VCPU=1, MEMORY_MB=65536, DISK_GB=1000)
    ((_, _, other),) = found_in(survey(source, host, small, traits=traits))
    assert other == text.removesuffix(doubt)


def test_finding_names_what_its_own_flavor_asks_a_filter_for():
    """Flavors that differ in nothing else."""
    flavors = [flavor(name, **{"accel:device_profile": name}) for name in ("fpga", "gpu")]
    result = survey(Source(flavors), HOST, traits=("COMPUTE_ACCELERATORS",))
    assert [
        (subject, f"(device profile {subject.split()[1]})" in text) for _, subject, text in found_in(result)
    ] == [("flavor fpga", True), ("flavor gpu", True)]


def test_trait_of_a_forced_filter_that_placement_does_not_know_is_named_with_it():
    """Placement refuses the request of a nova that has the filter."""
    forced = Flavors(forced_filters=frozenset(("accelerators_filter",)))
    source = Source([flavor(**{"accel:device_profile": "fpga"})])
    ((reason, _, text),) = found_in(survey(source, HOST, comparison=forced))
    assert reason is Reason.UNKNOWN_NAME
    assert text.startswith("placement does not know trait COMPUTE_ACCELERATORS")
    assert text.endswith("; nova's accelerators_filter asks for it")


def test_owner_is_required_if_all_compute_nodes_report_it():
    """A host that is not of nova has no place then; with an older compute node it has."""
    known = ("COMPUTE_NODE", "OWNER_NOVA")
    small = node("h1", traits=known, VCPU=1, MEMORY_MB=1, DISK_GB=1)
    old = node("h2", traits=["COMPUTE_NODE"], VCPU=1, MEMORY_MB=1, DISK_GB=1)
    foreign = node("x", VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
    ((reason, _, text),) = found_in(survey(Source([flavor()]), small, foreign, traits=known))
    assert (reason, "owner_nova_filter removes the last" in text) == (Reason.NO_HOST, True)
    assert found_in(survey(Source([flavor()]), small, old, foreign, traits=known)) == []


def test_flavor_with_numbered_groups_is_judged_by_what_it_leaves_unused():
    """One vGPU for each instance, and a small part of the memory."""
    specs = {"resources1:VGPU": "1", "resources2:VGPU": "2", "group_policy": "isolate"}
    gpus = [node("gpu0", "h1", VGPU=2), node("gpu1", "h1", VGPU=4)]
    result = survey(Source([flavor(**specs)]), HOST, *gpus, comparison=Flavors())
    ((reason, _, text),) = found_in(result)
    assert reason is Reason.WASTE
    assert text.startswith("leaves 98% of DISK_GB and 97% of MEMORY_MB and 88% of VCPU unused where ")
    assert text.endswith(" where resources1 and resources2 run out: at least 1 fits on h1, its best host")


def test_request_that_fits_is_not_tried_without_each_of_the_filters(monkeypatch):
    """Which filter removes the last host is asked only if there is none left."""
    tried = []
    fits_empty = FlavorFit.fits_empty

    def record(self, request):
        tried.append(request.root.names)
        return fits_empty(self, request)

    monkeypatch.setattr(FlavorFit, "fits_empty", record)
    trait = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER"
    traits = (*TPM, trait)
    source = Source([flavor(**{"hw:tpm_version": "2.0"})])
    for reported, states, tries in ((traits, ["fits"], 1), (TPM, [Reason.NO_HOST], 3)):
        tried.clear()
        host = node("h1", traits=reported, VCPU=16, MEMORY_MB=65536, DISK_GB=1000)
        assert [each.state for each in survey(source, host, traits=traits).flavors] == states
        assert len(tried) == tries
        assert trait in tried[0]


def test_search_that_is_too_long_on_the_hosts_as_they_are_is_unknown(monkeypatch):
    """It is not known whether a host takes the flavor."""
    monkeypatch.setattr(FlavorFit, "fits_now", lambda *_: None)
    result = survey(Source([flavor()]), HOST)
    text = "its groups have too many combinations to tell whether it fits on a host now"
    assert found_in(result) == [(Reason.UNKNOWN, "flavor m1", text)]
    assert [each.state for each in result.flavors] == [Reason.UNKNOWN]


def test_flavor_of_a_nova_without_flavors_is_an_error():
    """All flavors could be read, so it is not there."""
    with pytest.raises(UsageError, match="Nova has no flavor nope"):
        survey(Source(), HOST, comparison=Flavors(flavors=frozenset(("nope",))))


def test_images_that_a_user_of_glance_does_not_see_are_unknown():
    """To an administrator, an image of an instance that is not there is deleted."""
    nova = Source(used=["1", "2", "3"])
    result = survey(nova, HOST, glance=Source(images=[Image("1")], sees_all=False))
    ((reason, subject, text),) = found_in(result)
    assert (reason, subject, "does not see 2 images of instances" in text) == (
        Reason.UNKNOWN,
        "glance",
        True,
    )
    assert result.assessment.notes[0] == "images: read from glance, as this user sees them"
    result = survey(nova, HOST, glance=Source(images=[Image("1")]))
    assert (found_in(result), result.assessment.notes[0]) == ([], "images: read from glance")
