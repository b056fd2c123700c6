# SPDX-License-Identifier: Apache-2.0
"""The filters of nova's scheduler in capacity, explain and list: the real commands against a real server."""

import uuid
from contextlib import contextmanager

import pytest

from tests.functional.commands.other_services import serving
from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.commands.shell import OpenStack

CAPACITY = ("resource", "provider", "capacity")
EXPLAIN = ("allocation", "candidate", "explain")
LIST = ("allocation", "candidate", "list")
HEADROOM = ("resource", "provider", "headroom")
NODE = ("COMPUTE_NODE", "OWNER_NOVA")
PROJECT = "0123456789abcdef0123456789abcdef"
VERSION = ("--os-placement-api-version", "1.39")


@pytest.fixture(scope="module")
def endpoint(server_apart):
    """A server that has nothing but this cloud."""
    return server_apart.url


def make(client, name, parent=None, traits=NODE, aggregates=(), **stocks):
    made = client.create_provider(name, parent=parent)["uuid"]
    inventories = {key: {"total": total} for key, total in stocks.items()}
    generation = client.set_inventories(made, inventories, 0)["resource_provider_generation"]
    generation = client.set_provider_traits(made, traits, generation)["resource_provider_generation"]
    client.set_provider_aggregates(made, aggregates, generation)
    return made


AGGREGATES = {
    "rack1": {"availability_zone": "az1"},
    "rack2": {"availability_zone": "az2"},
    "golden": {"trait:CUSTOM_GOLD": "required"},
    "of-a-project": {"filter_tenant_id7": PROJECT},
}


@pytest.fixture(scope="module")
def aggregates(client):
    """The UUIDs of the host aggregates by name, whose hosts are named after what is special about them."""
    uuids = {name: str(uuid.uuid4()) for name in AGGREGATES}
    client.create_trait("CUSTOM_GOLD")
    sizes = {"VCPU": 4, "MEMORY_MB": 1000, "DISK_GB": 10}

    def host(name, *names, traits=NODE):
        make(client, name, traits=traits, aggregates=[uuids[each] for each in names], **sizes)

    host("plain", "rack1", traits=(*NODE, "COMPUTE_IMAGE_TYPE_QCOW2"))
    host("disabled", "rack1", traits=(*NODE, "COMPUTE_STATUS_DISABLED"))
    host("second-zone", "rack2")
    host("gold", "rack1", "golden", traits=(*NODE, "CUSTOM_GOLD"))
    host("project", "rack1", "of-a-project")
    host("foreign", traits=())
    return uuids


@pytest.fixture
def services(aggregates):
    """The other services of the cloud."""
    with serving() as services:
        services.add_flavor("m1")
        services.add_flavor("gold", trait__CUSTOM_GOLD="required")
        services.aggregates = [
            {"uuid": aggregates[name], "name": name, "metadata": metadata}
            for name, metadata in AGGREGATES.items()
        ]
        services.zones = ["az1", "az2", "nova"]
        services.images = [
            {"id": str(uuid.uuid4()), "name": "debian", "disk_format": "qcow2", "hw_disk_bus": "virtio"}
        ]
        services.projects = [{"id": PROJECT, "name": "science"}]
        yield services


class Cloud:
    """The `openstack` command in the cloud of these services."""

    def __init__(self, openstack, environment, directory):
        self.openstack, self.environment = openstack, environment
        self._directory = directory

    def run(self, *arguments):
        return self.openstack.run_in_cloud(*VERSION, *arguments, environment=self.environment)

    def json(self, *arguments):
        result = self.run(*arguments, "-f", "json")
        assert result.status == 0, result.err
        return result.json

    def conf(self, **options):
        """The option that names a nova.conf with these options of the scheduler."""
        path = self._directory / "nova.conf"
        lines = [f"{name} = {value}\n" for name, value in options.items()]
        path.write_text(f"[scheduler]\n{''.join(lines)}")
        return "--nova-conf", str(path)

    def fits(self, *arguments, flavor="m1"):
        """How many fit on each host, and why no more."""
        rows = self.json(*CAPACITY, "--flavor", flavor, *arguments)
        return {row["host"]: (row["fits"], row["limited_by"]) for row in rows}

    def hosts(self, *arguments, flavor="m1"):
        """The hosts on which the flavor fits."""
        fits = self.fits(*arguments, flavor=flavor)
        return {name for name, (number, _) in fits.items() if number and name != "(all)"}


@pytest.fixture
def cloud(endpoint, tmp_path, services, fork_server):
    openstack = OpenStack(endpoint, tmp_path, fork_server)
    return Cloud(openstack, services.clouds(tmp_path, endpoint), tmp_path)


ENABLED = {"plain", "second-zone", "gold", "project"}


def test_disabled_and_foreign_hosts_are_removed_by_default(cloud):
    """Each names the filter that removed it, and the last row counts the hosts of each filter."""
    fits = cloud.fits()
    assert fits["plain"] == (4, "VCPU")
    assert fits["disabled"] == (0, "compute_status_filter: has COMPUTE_STATUS_DISABLED")
    assert fits["foreign"] == (0, "owner_nova_filter: lacks OWNER_NOVA")
    assert fits["(all)"] == (16, "hosts removed: compute_status_filter 1, owner_nova_filter 1")


def test_no_nova_filters_counts_every_host(cloud):
    """As the capacity of amounts does."""
    assert cloud.fits("--no-nova-filters")["(all)"] == (24, "")


def test_a_zone_leaves_the_hosts_of_its_aggregates(cloud):
    """By the metadata of host aggregates; the removed ones say which aggregate they are not in."""
    assert cloud.hosts("--availability-zone", "az2") == {"second-zone"}
    fits = cloud.fits("--availability-zone", "az1")
    assert fits["second-zone"] == (0, "map_az_to_placement_aggregate: not in aggregate rack1")
    assert fits["(all)"][1] == ("hosts removed: map_az_to_placement_aggregate 2, compute_status_filter 1")
    # the zone of hosts that are in no other one, for which nova asks nothing
    assert cloud.hosts("--availability-zone", "nova") == ENABLED


def test_isolated_aggregates_are_for_flavors_with_their_trait(cloud):
    """As nova.conf says, or the option; the flavor with the trait is not kept out."""
    conf = cloud.conf(enable_isolated_aggregate_filtering="true")
    assert cloud.hosts(*conf) == ENABLED - {"gold"}
    assert cloud.hosts("--nova-filter", "isolate_aggregates") == ENABLED - {"gold"}
    assert cloud.hosts(*conf, flavor="gold") == {"gold"}
    assert cloud.hosts(*cloud.conf(enable_isolated_aggregate_filtering="false")) == ENABLED


def test_traits_of_image_and_options_admit_to_isolated_aggregates(cloud, services):
    """Of a request without a flavor too, which asks placement for them."""
    services.images.append({"id": str(uuid.uuid4()), "name": "golden", "trait:CUSTOM_GOLD": "required"})
    line = ("--nova-filter", "isolate_aggregates")
    rows = cloud.json(*CAPACITY, "--fit", "VCPU=1", "--image", "golden", *line)
    assert {row["host"] for row in rows if row["fits"]} == {"gold", "(all)"}
    for options in (("--image", "golden"), ("--required", "CUSTOM_GOLD")):
        assert len(cloud.json(*LIST, "--resource", "VCPU=1", *options, *line)) == 1
    assert len(cloud.json(*LIST, "--flavor", "m1", "--required", "CUSTOM_GOLD", *line)) == 1
    rows = cloud.json(*EXPLAIN, "--resource", "VCPU=1", "--image", "golden", *line)
    assert rows[-1]["left"] == 1
    result = cloud.run(*LIST, "--group", "1", "--resource", "VCPU=1", "--image", "golden")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "--image requires traits of the request without --group" in result.err


@pytest.mark.parametrize("value", ["required", "forbidden"])
def test_a_trait_that_placement_does_not_know_is_named(cloud, services, value):
    """Placement would refuse the request, so there is no number."""
    services.add_flavor("odd", trait__CUSTOM_UNKNOWN=value)
    for command in (CAPACITY, EXPLAIN, LIST):
        for filters in ((), ("--no-nova-filters",)):
            result = cloud.run(*command, "--flavor", "odd", *filters)
            assert (result.status, result.out, result.err.count("\n")) == (1, "", 1), result.err
            assert "The server does not know the trait CUSTOM_UNKNOWN" in result.err


def test_a_class_that_placement_does_not_know_is_named(cloud, services):
    """As for a trait."""
    services.add_flavor("odd-class", resources__CUSTOM_UNKNOWN="1")
    for command in (CAPACITY, EXPLAIN, LIST):
        result = cloud.run(*command, "--flavor", "odd-class")
        assert (result.status, result.out, result.err.count("\n")) == (1, "", 1), result.err
        assert "The server does not know the resource class CUSTOM_UNKNOWN" in result.err


def test_a_project_is_limited_to_its_aggregates(cloud):
    """Given by its ID or its name; another one is limited to none unless it needs one."""
    conf = cloud.conf(limit_tenants_to_placement_aggregate="true")
    for project in (PROJECT, "science"):
        assert cloud.hosts(*conf, "--for-project", project) == {"project"}
    assert cloud.hosts(*conf, "--for-project", "f" * 32) == ENABLED
    conf = cloud.conf(
        limit_tenants_to_placement_aggregate="true", placement_aggregate_required_for_tenants="true"
    )
    result = cloud.run(*CAPACITY, "--flavor", "m1", *conf, "--for-project", "f" * 32)
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "No host: nova's require_tenant_aggregate refuses the request" in result.err


def test_properties_of_an_image_are_required_as_traits(cloud, services):
    """Of an image by name and ID, and of properties on the command line."""
    conf = cloud.conf(query_placement_for_image_type_support="true", image_metadata_prefilter="true")
    image = ("--image", services.images[0]["id"])
    assert cloud.hosts(*conf, "--image-property", "disk_format=qcow2") == {"plain"}
    assert cloud.hosts(*conf, *image) == set()
    assert cloud.fits(*conf, *image)["plain"] == (
        0,
        "transform_image_metadata: lacks COMPUTE_STORAGE_BUS_VIRTIO",
    )
    assert cloud.hosts(*conf, "--image", "debian", "--boot-from-volume") == set()
    assert cloud.hosts(*conf, "--image-property", "disk_format=qcow2", "--boot-from-volume") == ENABLED


def test_remote_managed_port_needs_a_host_with_such_ports(cloud, client):
    """And --required has the same candidates, except that another provider of the tree may have the trait."""
    host = client.list_providers(name="project")[0]["uuid"]
    own = client.list_provider_traits(host)
    generation = own["resource_provider_generation"]
    client.set_provider_traits(host, [*own["traits"], "COMPUTE_REMOTE_MANAGED_PORTS"], generation)
    assert cloud.hosts("--remote-managed-port") == {"project"}
    number, reason = cloud.fits("--remote-managed-port")["plain"]
    assert (number, reason) == (0, "remote_managed_ports_filter: lacks COMPUTE_REMOTE_MANAGED_PORTS")
    rows = cloud.json(*LIST, "--flavor", "m1", "--remote-managed-port")
    assert rows == cloud.json(*LIST, "--flavor", "m1", "--required", "COMPUTE_REMOTE_MANAGED_PORTS")
    assert {row["resource provider"] for row in rows} == {host}


def test_hosts_of_a_routed_network_are_those_of_the_aggregates_of_its_segments(cloud, client, aggregates):
    """As the documentation tells to ask for them; the zone is another condition."""
    segment = make(client, "Neutron segment id 1", traits=(), aggregates=[aggregates["rack2"]])
    told = cloud.json("resource", "provider", "aggregate", "list", segment)
    assert [row["uuid"] for row in told] == [aggregates["rack2"]]
    member_of = ("--member-of", told[0]["uuid"])
    host = client.list_providers(name="second-zone")[0]["uuid"]
    rows = cloud.json(*LIST, "--flavor", "m1", *member_of)
    assert {row["resource provider"] for row in rows} == {host}
    assert cloud.hosts("--aggregate", told[0]["uuid"]) == {"second-zone"}
    assert (
        cloud.run(*LIST, "--flavor", "m1", *member_of, "--availability-zone", "az1", "-f", "json").json == []
    )
    client.delete_provider(segment)


def test_capacity_of_amounts_is_filtered_on_request_only(cloud):
    """--fit is not about instances, unless an option says so."""
    rows = cloud.json(*CAPACITY, "--fit", "VCPU=1")
    assert {row["host"]: row["fits"] for row in rows}["(all)"] == 24
    rows = cloud.json(*CAPACITY, "--fit", "VCPU=1", "--availability-zone", "az2")
    assert {row["host"]: row["fits"] for row in rows}["(all)"] == 4


def test_the_filters_are_shown_with_what_they_ask_for(cloud, aggregates):
    """All of nova 34, in its order, by every command."""
    conf = cloud.conf(enable_isolated_aggregate_filtering="true")
    line = ("--availability-zone", "az2", *conf, "--show-nova-filters")
    rows = cloud.json(*CAPACITY, "--flavor", "m1", *line)
    assert len(rows) == 14
    found = {row["filter"]: (row["state"], row["detail"]) for row in rows}
    assert found["map_az_to_placement_aggregate"] == ("applied", "in aggregate rack2 (availability zone az2)")
    assert found["isolate_aggregates"] == ("applied", "not in aggregate golden (isolated aggregates)")
    assert found["compute_status_filter"] == (
        "applied",
        "root has no COMPUTE_STATUS_DISABLED (disabled compute services)",
    )
    assert found["owner_nova_filter"] == ("applied", "root has OWNER_NOVA (providers of nova)")
    assert found["require_image_type_support"] == ("off", "not enabled in nova.conf")
    assert found["remote_managed_ports_filter"] == ("unknown", "it depends on the ports of the instance")
    for command in (EXPLAIN, LIST):
        assert cloud.json(*command, "--flavor", "m1", *line) == rows


def test_candidates_of_a_flavor_are_those_that_nova_would_get(cloud):
    """With the filters, and without them."""
    assert len(cloud.json(*LIST, "--flavor", "m1")) == 4
    assert len(cloud.json(*LIST, "--flavor", "m1", "--no-nova-filters")) == 6
    assert len(cloud.json(*LIST, "--resource", "VCPU=1")) == 6
    assert len(cloud.json(*LIST, "--resource", "VCPU=1", "--availability-zone", "az2")) == 1
    assert len(cloud.json(*LIST, "--flavor", "m1", "--required", "CUSTOM_GOLD")) == 1
    rows = cloud.json(*LIST, "--flavor", "m1", "--by-group", "--availability-zone", "az2")
    assert [row["resource provider"] for row in rows] == ["second-zone"]


def test_explain_shows_that_a_zone_is_full(cloud):
    """The zone has hosts, and it is the amount that leaves none of them."""
    rows = cloud.json(*EXPLAIN, "--resource", "VCPU=5", "--availability-zone", "az2")
    assert [(row["constraint"], row["removed"], row["left"]) for row in rows] == [
        ("all trees", 0, 6),
        ("in aggregate rack2 (map_az_to_placement_aggregate)", 5, 1),
        ("required OWNER_NOVA (owner_nova_filter)", 0, 1),
        ("not COMPUTE_STATUS_DISABLED (compute_status_filter)", 0, 1),
        ("has VCPU", 0, 1),
        ("VCPU=5: min_unit, max_unit, step_size", 0, 1),
        ("VCPU=5: free", 1, 0),
        ("whole request, answer of the server", 0, 0),
    ]


def test_explain_names_the_filter_of_a_constraint(cloud):
    """How many hosts it rules out, and for one host whether it does."""
    rows = cloud.json(*EXPLAIN, "--flavor", "m1", "--availability-zone", "az1")
    removed = {row["constraint"]: row["removed"] for row in rows}
    assert removed["not COMPUTE_STATUS_DISABLED (compute_status_filter)"] == 1
    assert removed["required OWNER_NOVA (owner_nova_filter)"] == 0
    assert removed["in aggregate rack1 (map_az_to_placement_aggregate)"] == 2
    assert rows[-1]["left"] == 3
    rows = cloud.json(*EXPLAIN, "--flavor", "m1", "--host", "disabled")
    verdicts = {row["constraint"]: (row["met"], row["detail"]) for row in rows}
    assert verdicts["not COMPUTE_STATUS_DISABLED (compute_status_filter)"] == ("no", "disabled has it")


def test_an_isolated_aggregate_without_hosts_is_no_reason_to_warn(cloud, services):
    """One in which nova would look for hosts is: its mirror in placement is missing."""
    line = (*EXPLAIN, "--flavor", "m1", "-f", "value")
    services.aggregates.append(
        {"uuid": str(uuid.uuid4()), "name": "later", "metadata": {"trait:HW_CPU_X86_AVX": "required"}}
    )
    assert cloud.run(*line, "--nova-filter", "isolate_aggregates").err == ""
    services.zones.append("az3")
    services.aggregates.append(
        {"uuid": str(uuid.uuid4()), "name": "new", "metadata": {"availability_zone": "az3"}}
    )
    assert "No resource provider is in aggregate" in cloud.run(*line, "--availability-zone", "az3").err


def test_compute_services_before_nova_34_need_not_be_owned(cloud, client):
    """As long as one of the compute nodes does not report the trait, nova does not ask for it."""
    made = make(client, "old", traits=("COMPUTE_NODE",), VCPU=1, MEMORY_MB=64, DISK_GB=1)
    try:
        assert cloud.hosts() == ENABLED | {"foreign", "old"}
        assert cloud.hosts("--nova-filter", "owner_nova_filter") == ENABLED
    finally:
        client.delete_provider(made)


def test_children_of_a_compute_node_need_not_be_owned(cloud, client):
    """A GPU without the trait is no compute service without it, at versions that take one condition too."""
    (host,) = [each["uuid"] for each in client.list_providers(name="plain")]
    made = make(client, "gpu", host, traits=(), VGPU=1)
    try:
        for version in ("1.29", "1.38", "1.39"):
            line = (*CAPACITY, "--flavor", "m1", "--show-nova-filters")
            rows = cloud.json("--os-placement-api-version", version, *line)
            assert rows[-1]["state"] == "applied", rows[-1]
    finally:
        client.delete_provider(made)


def test_several_vgpus_come_from_several_gpus(cloud, client, services):
    """Two isolated groups of one vGPU each, of a host with two GPUs that have four and three."""
    services.add_flavor("gpus", resources1__VGPU="1", resources2__VGPU="1", group_policy="isolate")
    host = make(client, "gpu-host", VCPU=9, MEMORY_MB=1000, DISK_GB=10)
    gpus = [make(client, f"gpu{number}", host, traits=("OWNER_NOVA",), VGPU=4 - number) for number in (0, 1)]
    try:
        fits = cloud.fits(flavor="gpus")
        assert fits["gpu-host"] == (3, "resources1, resources2")
        assert fits["plain"] == (0, "no free capacity for resources1, resources2")
        assert len(cloud.json(*LIST, "--flavor", "gpus")) == 6
    finally:
        for provider in (*gpus, host):
            client.delete_provider(provider)


def test_host_aggregates_that_cannot_be_read_are_not_taken_for_none(cloud, services):
    """An option that needs them is an error; what nova.conf enables is left out with a warning."""
    services.failing["/compute/os-aggregates"] = 403
    result = cloud.run(*CAPACITY, "--flavor", "m1", "--availability-zone", "az1")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "--availability-zone needs the host aggregates, which cannot be read" in result.err
    conf = cloud.conf(enable_isolated_aggregate_filtering="true")
    result = cloud.run(*CAPACITY, "--flavor", "m1", *conf, "-f", "json")
    assert (result.status, result.err.count("\n")) == (0, 1)
    assert "so hosts that nova's isolate_aggregates would remove are not removed" in result.err
    assert cloud.run(*CAPACITY, "--flavor", "m1", "-f", "json").err == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--availability-zone", "az9"), "There is no availability zone 'az9'; there is az1, az2, nova"),
        (("--availability-zone", "novo"), "There is no availability zone 'novo' (is it nova?); there is az1"),
        (("--image", "none"), "Image 'none' cannot be read: there is none of that name or ID"),
        (("--image", str(uuid.UUID(int=1))), "cannot be read: there is none of that name or ID"),
        (("--for-project", "none"), "Project 'none' cannot be read: there is none of that name or ID"),
        (("--nova-conf", "/no/such/nova.conf"), "/no/such/nova.conf cannot be used: Failed to find"),
        (
            ("--image-property", "hw_disk_bus=odd"),
            "Nova would refuse the image: hw_disk_bus='odd'",
        ),
        (("--no-nova-filters", "--availability-zone", "az1"), "cannot be used with --availability-zone"),
        (("--no-nova-filters", "--show-nova-filters"), "cannot be used with --show-nova-filters"),
    ],
)
def test_bad_options_end_with_one_line(cloud, options, message):
    """By every command, and nothing is shown."""
    for command in (CAPACITY, EXPLAIN, LIST):
        result = cloud.run(*command, "--flavor", "m1", *options)
        # 2 is for errors of the command line, of commands that osc-placement 4 does not have
        status = 2 if options[0] == "--no-nova-filters" and command != LIST else 1
        assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result.err
        assert message in result.err


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("/image/v2/images", ("--image", "debian"), "the image API refused to answer (HTTP 500)"),
        ("/image", ("--image", "debian"), "the image API gave no answer"),
        ("/identity/v3/projects", ("--for-project", "x"), "the identity API refused to answer (HTTP 500)"),
        ("/compute/os-availability-zone", ("--availability-zone", "nova"), "'nova' cannot be looked up"),
    ],
)
def test_a_service_that_fails_is_named(cloud, services, path, options, message):
    """What it would have told is unknown, and nothing is shown."""
    services.failing[path] = 500
    result = cloud.run(*CAPACITY, "--flavor", "m1", *options)
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1), result.err
    assert message in result.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[scheduler]\nimage_metadata_prefilter = maybe\n", "Unexpected boolean value 'maybe'"),
        ("[scheduler\n", "Failed to parse"),
    ],
)
def test_a_wrong_nova_conf_ends_with_one_line(cloud, tmp_path, text, message):
    """With the value that is wrong."""
    path = tmp_path / "nova.conf"
    path.write_text(text)
    result = cloud.run(*CAPACITY, "--flavor", "m1", "--nova-conf", path)
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1), result.err
    assert message in result.err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ((*CAPACITY, "--availability-zone", "az1"), "need --flavor or --fit"),
        ((*CAPACITY, "--no-nova-filters"), "need --flavor or --fit"),
        ((*LIST, "--flavor", "m1", "--resource", "VCPU=1"), "cannot be used with --flavor"),
        (
            (*EXPLAIN, "--flavor", "m1", "--group", "1", "--resource", "VCPU=1"),
            "cannot be used with --flavor",
        ),
        (
            (*CAPACITY, "--fit", "VCPU=1", "--no-nova-filters", "--image", "none"),
            "--no-nova-filters with --image needs a flavor",
        ),
        (
            (*LIST, "--resource", "VCPU=1", "--no-nova-filters", "--boot-from-volume"),
            "--no-nova-filters with --boot-from-volume needs a flavor",
        ),
        ((*LIST, "--flavor", "m9"), "Flavor 'm9' cannot be read: there is none of that name or ID"),
        ((*EXPLAIN, "--availability-zone", "az1"), "At least one --resource must be specified"),
    ],
)
def test_options_that_contradict_each_other_are_refused(cloud, line, message):
    """One line, and nothing is shown."""
    result = cloud.run(*line)
    status = 1 if line[: len(LIST)] == LIST else 2
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1), result.err
    assert message in result.err


def test_a_terminal_says_which_filters_are_applied(cloud, endpoint):
    """And which are not known; every line fits."""
    cloud.openstack.options = lambda _endpoint: []
    shown, status = run_on_terminal(
        cloud.openstack, *VERSION, *CAPACITY, "--flavor", "m1", environment=cloud.environment
    )
    assert status == 0
    text = " ".join(shown.split())
    assert "Filters of nova's scheduler (no nova.conf): compute_status_filter, owner_nova_filter;" in text
    assert "7 not known, see --show-nova-filters" in text
    assert max(map(len, shown.splitlines())) <= 60


@contextmanager
def holding(client, name, project="p" * 32, kind="INSTANCE"):
    """Let a consumer hold something of a host."""
    consumer = str(uuid.uuid4())
    (host,) = [each["uuid"] for each in client.list_providers(name=name)]
    document = {"allocations": {host: {"resources": {"VCPU": 1}}}, "consumer_generation": None}
    owner = {"project_id": project, "user_id": "user", "consumer_type": kind}
    client.set_allocations(consumer, {**document, **owner})
    try:
        yield
    finally:
        client.delete_allocations(consumer)


@pytest.fixture
def placed(client, cloud):
    """The hosts to which a consumer may go, if the one that it is on fails."""

    def place(name, *options, **owner):
        found = set()
        others = (ENABLED | {"foreign"}) - {name}
        with holding(client, name, **owner):
            for other in others:
                lost = (name, *(others - {other}), "--together")
                rows = cloud.run(
                    *HEADROOM, *lost, "--traits", "any", *options, "--by", "placement", "-f", "json"
                )
                found |= {row["host"] for row in rows.json}
        return found

    return place


def test_headroom_applies_the_filters_that_nova_conf_enables(cloud, placed):
    """By the project of a consumer, and by what its host has; without the option none is applied."""
    assert placed("plain") == {"second-zone", "gold", "project", "foreign"}
    nova = {"second-zone", "gold", "project"}
    assert placed("plain", *cloud.conf()) == nova
    assert placed("plain", *cloud.conf(), kind="VOLUME") == {*nova, "foreign"}
    isolated = cloud.conf(enable_isolated_aggregate_filtering="true")
    assert placed("plain", *isolated) == nova - {"gold"}
    assert placed("gold", *isolated) == {"plain", "second-zone", "project"}
    conf = cloud.conf(limit_tenants_to_placement_aggregate="true")
    assert placed("plain", *conf) == nova
    assert placed("plain", *conf, project=PROJECT) == {"project"}
    conf = cloud.conf(
        limit_tenants_to_placement_aggregate="true", placement_aggregate_required_for_tenants="true"
    )
    assert placed("plain", *conf) == set()


def test_headroom_keeps_instances_in_their_zone_if_each_has_one(cloud, placed, tmp_path):
    """As each has where there is a default zone; without one, an instance may be bound to no zone."""
    path = tmp_path / "zones.conf"
    path.write_text("[DEFAULT]\ndefault_schedule_zone = az2\n")
    assert placed("plain", "--nova-conf", str(path)) == {"gold", "project"}
    assert placed("second-zone", "--nova-conf", str(path)) == set()


def test_headroom_without_host_aggregates_names_what_it_leaves_out(cloud, client, services):
    """One line, and the other filters are applied, which a terminal is told."""
    services.failing["/compute/os-aggregates"] = 403
    conf = cloud.conf(limit_tenants_to_placement_aggregate="true", enable_isolated_aggregate_filtering="true")
    with holding(client, "plain"):
        result = cloud.run(*HEADROOM, "plain", *conf, "-f", "json")
        cloud.openstack.options = lambda _endpoint: []
        line = (*VERSION, *HEADROOM, "plain", "--traits", "any", *conf)
        shown, status = run_on_terminal(cloud.openstack, *line, environment=cloud.environment)
    assert status == 0
    assert "compute_status_filter, owner_nova_filter" in " ".join(shown.split())
    assert (result.status, result.err.count("\n")) == (3, 1)
    assert "nova's require_tenant_aggregate and isolate_aggregates would remove are not removed" in result.err
    result = cloud.run(*HEADROOM, "plain", "--nova-conf", "/no/such/nova.conf")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "/no/such/nova.conf cannot be used: Failed to find" in result.err
