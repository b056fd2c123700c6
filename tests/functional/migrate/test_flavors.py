# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate flavors`: names placement does not know, flavors that fit nowhere, creation."""

import itertools
import os

import pytest
import requests

from osc_placement.batch import service
from osc_placement.errors import BadRequest, NotFound
from osc_placement.migrate.nova import glance as glance_source
from osc_placement.migrate.nova import rest
from osc_placement.model import Inventory
from tests.functional.migrate import nova_serving
from tests.functional.migrate.cloud import add_flavor
from tests.functional.migrate.glance import serving_glance, serving_real_glance
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.pages import shell_with, type_into, with_runs_of
from tests.functional.migrate.placement import CLAIM, SIZES, clear, give, hold
from tests.functional.test_readme import assert_matches
from tests.transcripts import ROOT, read_steps

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

TRAIT, CLASS = "CUSTOM_TEST_OF_FLAVORS", "CUSTOM_TEST_OF_CLASSES"


@pytest.fixture(autouse=True)
def no_custom_names(client):
    """Delete the names that a test creates, as the server is that of all tests."""
    yield
    clear(client)
    for name in client.list_traits(name="startswith:CUSTOM_TEST_"):
        client.delete_trait(name)
    for document in client.list_resource_classes():
        if document["name"].startswith("CUSTOM_TEST_"):
            client.delete_resource_class(document["name"])


@pytest.fixture
def flavors(migrate_json):
    """A function that compares flavors: the document, and the exit status."""
    return lambda *arguments: migrate_json("flavors", *arguments)


def list_names(client):
    """Return the traits that tests have created."""
    return sorted(client.list_traits(name="startswith:CUSTOM_TEST_"))


def findings_of(document):
    """Return kind and text of each finding by its subject."""
    return {each["subject"]: (each["reason"], each["text"]) for each in document["findings"]}


def test_flavor_that_fits_is_no_finding(cloud, add_host, flavors):
    """A cloud in which everything fits ends with 0."""
    add_host("h1")
    add_flavor(cloud, "m1")
    document, status = flavors()
    assert (status, document["findings"], document["rows"]) == (0, [], [])
    (found,) = document["flavors"]
    assert (found["state"], found["best_host"], found["fits_on_best_host"]) == ("fits", "h1", 32)


def test_unknown_custom_name_is_planned_and_others_are_reported(cloud, add_host, flavors):
    """Whoever asks for it is named, with similar names that there are."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required"})
    add_flavor(cloud, "b", **{f"trait_x:{TRAIT}": "forbidden", f"resources_x:{CLASS}": "1"})
    add_flavor(cloud, "c", **{"trait:HW_CPU_X86_AVX3": "required"})
    add_flavor(cloud, "d", **{"trait:hw_cpu_x86_avx2": "required"})
    document, status = flavors()
    assert status == 3
    assert {row["name"]: row["reason"] for row in document["rows"]} == {
        TRAIT: "trait asked for by flavor a, flavor b",
        CLASS: "resource class asked for by flavor b",
    }
    found = findings_of(document)
    assert {subject: kind for subject, (kind, _) in found.items()} == {
        "flavor c": "unknown name",
        "flavor d": "unknown name",
    }
    assert "HW_CPU_X86_AVX2" in found["flavor c"][1]
    assert "comes with os-traits" in found["flavor c"][1]
    assert "HW_CPU_X86_AVX2" in found["flavor d"][1]
    assert "no valid name" in found["flavor d"][1]


def test_unknown_trait_fails_every_boot_until_it_is_created(cloud, add_host, client, migrate, flavors):
    """Placement answers the scheduler's request with 400, and after --create with candidates or none."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "forbidden"})
    query = [("resources", "VCPU:2,MEMORY_MB:2048,DISK_GB:20"), ("required", f"!{TRAIT}")]
    with pytest.raises(BadRequest, match=TRAIT):
        client.allocation_candidates(query)
    assert migrate("flavors", "--create").returncode == 0
    assert len(client.allocation_candidates(query)["allocation_requests"]) == 1
    document, status = flavors()
    assert (status, [each["state"] for each in document["flavors"]]) == (0, ["fits"])


def test_creation_is_a_run_with_undo(cloud, add_host, client, migrate, flavors):
    """Its journal says what was created, and the undo deletes that and nothing else."""
    add_host("h1")
    client.create_trait(kept := "CUSTOM_TEST_OF_OTHERS")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required", f"resources:{CLASS}": "1"})
    shown = migrate("flavors", "--create", "--dry-run")
    assert (shown.returncode, client.list_traits(name=f"in:{TRAIT}")) == (0, [])
    document, status = flavors("--create")
    assert (status, {row["name"]: row["result"] for row in document["rows"]}) == (
        0,
        {TRAIT: "applied", CLASS: "applied"},
    )
    client.show_trait(TRAIT)
    client.show_resource_class(CLASS)
    assert TRAIT in migrate("run", "show", "--last").stdout
    done = migrate("run", "undo", "--yes", "--last")
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(NotFound):
        client.show_trait(TRAIT)
    with pytest.raises(NotFound):
        client.show_resource_class(CLASS)
    client.show_trait(kept)


def test_undo_keeps_a_name_that_is_in_use(cloud, add_host, client, migrate):
    """Placement would refuse to delete it, so the undo refuses it."""
    node = add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required"})
    assert migrate("flavors", "--create").returncode == 0
    give(client, node, SIZES, [TRAIT])
    done = migrate("run", "undo", "--yes", "--last")
    assert (done.returncode, "resource providers have it" in done.stdout) == (3, True)
    client.show_trait(TRAIT)


def test_name_that_somebody_else_creates_meanwhile_is_not_undone(
    cloud, add_host, client, migrate, monkeypatch
):
    """It is found to be there, and the run has nothing to take back."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required"})
    start = service.Runs.start

    def create_first(*arguments):
        client.create_trait(TRAIT)
        return start(*arguments)

    monkeypatch.setattr(service.Runs, "start", create_first)
    done = migrate("flavors", "--create")
    assert (done.returncode, "1 unchanged" in done.stdout) == (0, True)
    monkeypatch.setattr(service.Runs, "start", start)
    migrate("run", "undo", "--yes", "--last")
    client.show_trait(TRAIT)


@pytest.mark.parametrize("is_trait", [True, False])
def test_name_that_somebody_else_creates_at_the_last_moment_is_not_undone(
    cloud, add_host, client, migrate, monkeypatch, is_trait
):
    """Of two who create a name at the same time, one is answered that it is there."""
    add_host("h1")
    add_flavor(cloud, "a", **({f"trait:{TRAIT}": "required"} if is_trait else {f"resources:{CLASS}": "1"}))
    send = type(client)._send

    def create_first(self, method, path, **options):
        if method == "PUT":
            send(self, method, path, **options)
        return send(self, method, path, **options)

    with monkeypatch.context() as others:
        others.setattr(type(client), "_send", create_first)
        done = migrate("flavors", "--create")
    assert "1 unchanged" in done.stdout
    migrate("run", "undo", "--yes", "--last")
    client.show_trait(TRAIT) if is_trait else client.show_resource_class(CLASS)


def test_creation_is_limited_by_number_and_name(cloud, add_host, client, migrate, flavors):
    """What is left is told, and ends with 3."""
    add_host("h1")
    names = [f"CUSTOM_TEST_OF_{letter}" for letter in "ABC"]
    for name in names:
        add_flavor(cloud, name, **{f"trait:{name}": "required"})
    document, status = flavors("--create", "--max-count", "1")
    assert (status, document["left"], list_names(client)) == (
        3,
        2,
        names[:1],
    )
    assert flavors("--create", "--name", names[2])[1] == 3
    assert list_names(client) == [names[0], names[2]]
    done = migrate("flavors", "--create", "--name", "CUSTOM_TEST_OF_X")
    assert (done.returncode, done.stdout) == (1, "")
    text = "No trait or resource class CUSTOM_TEST_OF_X is missing (is it CUSTOM_TEST_OF_B?)"
    assert done.stderr == f"placement-migrate: {text}\n"


@pytest.mark.parametrize("resumes", [True, False])
def test_killed_creation_is_finished(cloud, add_host, client, migrate, resumes):
    """After a kill at any write a resume, or the same command, creates the rest; an undo deletes it all."""
    add_host("h1")
    names = [f"CUSTOM_TEST_OF_{letter}" for letter in "ABC"]
    for name in names:
        add_flavor(cloud, name, **{f"trait:{name}": "forbidden"})
    killed = 0
    for is_sent, number in itertools.product((False, True), (1, 2, 3)):
        for name in list_names(client):
            client.delete_trait(name)
        killed += _die_at_write(client, migrate, number, is_sent)
        done = migrate("run", "resume", "--yes", "--last") if resumes else migrate("flavors", "--create")
        assert done.returncode == 0, done.stdout + done.stderr
        assert list_names(client) == names
        if resumes:
            assert migrate("run", "undo", "--yes", "--last").returncode == 0
            # what was sent and not recorded may be that of somebody else
            left = list_names(client)
            assert len(left) <= is_sent
    assert killed == 6


def _die_at_write(client, migrate, number, is_sent):
    """Run the creation in a process that dies at a write, sent or not; return whether it did."""
    child = os.fork()
    if child == 0:
        send, writes = type(client)._send, itertools.count(1)

        def die(self, method, path, **options):
            if method != "GET" and next(writes) == number:
                if is_sent:
                    send(self, method, path, **options)
                os._exit(9)
            return send(self, method, path, **options)

        try:
            type(client)._send = die
            os._exit(migrate("flavors", "--create", "--concurrency", "1").returncode)
        finally:
            os._exit(99)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


@pytest.mark.parametrize(
    ("specs", "kind", "text"),
    [
        (
            {"resources:VCPU": "abc"},
            "ignored extra spec",
            "nova ignores resources:VCPU=abc: it is no amount",
        ),
        ({"resources:vcpu": "1"}, "ignored extra spec", "vcpu is no resource class"),
        ({"trait:CUSTOM_X": "yes"}, "ignored extra spec", "it is neither required nor forbidden"),
        ({"hw:cpu_policy": "mixed"}, "refused request", "hw:cpu_policy=mixed needs hw:cpu_dedicated_mask"),
        ({"hw:cpu_policy": "odd"}, "refused request", "none of dedicated, mixed, shared"),
        ({"trait_x:HW_CPU_X86_AVX": "required"}, "refused request", "traits without resources"),
        ({"resources1:VGPU": "1", "resources2:VGPU": "1"}, "refused request", "no group_policy"),
        ({"resources:VGPU": "1"}, "fits on no host", "fits on no empty host: no VGPU"),
        ({"trait:HW_CPU_X86_AVX": "required"}, "fits on no host", "required HW_CPU_X86_AVX"),
        ({"resources:MEMORY_MB": "99999"}, "fits on no host", "99999 asked, 65536 free"),
        ({"resources:DISK_GB": "600"}, "unused rest of a host", "1 fits on h1"),
    ],
)
def test_broken_flavor_is_reported_with_the_reason(cloud, add_host, migrate, flavors, specs, kind, text):
    """Each in one line, and nothing is planned."""
    add_host("h1")
    add_flavor(cloud, "a", **specs)
    document, status = flavors()
    assert (status, document["rows"]) == (0 if kind == "unused rest of a host" else 3, [])
    ((found, told),) = findings_of(document).values()
    assert (found, text in told) == (kind, True), told
    (line,) = [line for line in migrate("flavors").stdout.splitlines() if line.startswith("flavor a: ")]
    assert text in line


def test_broken_flavor_is_refused_by_placement(cloud, add_host, client):
    """What is called refused is really answered with 400."""
    add_host("h1")
    for query in (
        [("resources", "VCPU:1"), ("required_x", "HW_CPU_X86_AVX"), ("resources_x", "")],
        [("resources1", "VGPU:1"), ("resources2", "VGPU:1")],
    ):
        with pytest.raises(BadRequest):
            client.allocation_candidates(query)


def test_full_hosts_are_told_from_unsuitable_ones(cloud, add_host, client, flavors):
    """A flavor that only an empty or disabled host could take fits at another time."""
    node = add_host("h1")
    add_flavor(cloud, "a")
    hold(client, new_uuid(), {node: {**CLAIM, "MEMORY_MB": 65000}})
    document, status = flavors()
    (told,) = findings_of(document).values()
    assert (status, told[0], "2048 asked, 536 free" in told[1]) == (3, "fits on no host now", True)
    other = add_host("h2")
    assert flavors()[1] == 0
    give(client, other, SIZES, ["COMPUTE_STATUS_DISABLED"])
    assert [each["state"] for each in flavors()[0]["flavors"]] == ["fits on no host now"]


@pytest.mark.parametrize("source", ["db", "api"])
def test_filters_that_nova_conf_enables_remove_hosts(
    cloud, add_host, client, migrate, nova_conf, nova_url, source
):
    """The hosts of an isolated aggregate, which the mirror put into placement; scheduler and flags agree."""
    add_host("h1")
    cloud.add_aggregate("gold", ["h1"], **{"trait:HW_CPU_X86_AVX": "required"})
    add_flavor(cloud, "a")
    assert migrate("mirror-aggregates").returncode == 0
    command = ("--source", source, "--nova-endpoint", nova_url, "flavors", "--flavor", "a")
    assert migrate(*command).returncode == 0
    with nova_conf.open("a") as conf:
        conf.write("[scheduler]\nenable_isolated_aggregate_filtering = true\n")
    done = migrate(*command)
    text = (
        "flavor a: fits on no empty host that nova's filters leave; isolate_aggregates removes the last: not "
        "in aggregate gold (isolated aggregates)\n"
    )
    assert (done.returncode, text in done.stdout) == (3, True)
    done = migrate(*command, "--no-nova-filters")
    assert (done.returncode, "filters" in done.stdout) == (0, False)
    with pytest.raises(SystemExit, match="2"):
        migrate(*command, "--no-nova-filters", "--nova-filter", "isolate_aggregates")


def test_wrong_option_of_the_scheduler_is_one_line(cloud, add_host, migrate, nova_conf):
    """With its name; without filters it is not read."""
    add_host("h1")
    add_flavor(cloud, "a")
    with nova_conf.open("a") as conf:
        conf.write("[scheduler]\nimage_metadata_prefilter = perhaps\n")
    done = migrate("flavors")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cannot be used" in done.stderr
    assert "image_metadata_prefilter" in done.stderr
    assert done.stderr.endswith("; correct it, or use --no-nova-filters\n")
    assert migrate("flavors", "--no-nova-filters").returncode == 0


def test_bare_metal_flavor_that_asks_for_sizes_comes_with_the_command(cloud, add_host, client, flavors):
    """The nodes have none, so it fits nowhere until it asks for none."""
    add_host("h1")
    client.create_resource_class(CLASS)
    client.create_provider("node1", uuid=(node := new_uuid()))
    give(client, node, {CLASS: Inventory(1, max_unit=1)})
    sizes = ("VCPU", "MEMORY_MB", "DISK_GB")
    add_flavor(cloud, "bad", **{f"resources:{CLASS}": "1", "resources:VCPU": "0"})
    add_flavor(cloud, "good", **{f"resources:{CLASS}": "1"}, **{f"resources:{name}": "0" for name in sizes})
    document, _ = flavors()
    assert [each["state"] for each in document["flavors"]] == ["fits on no host", "fits"]
    text = findings_of(document)["flavor bad"][1]
    assert "openstack flavor set --property resources:MEMORY_MB=0 --property resources:DISK_GB=0 bad" in text


def test_threshold_decides_what_is_reported_as_waste(cloud, add_host, flavors):
    """The usual flavor fills half of the CPUs that are there, and 64 % of the disk."""
    add_host("h1")
    add_flavor(cloud, "a")
    assert flavors("--max-unused", "36")[1] == 0
    document, status = flavors("--max-unused", "35")
    (told,) = findings_of(document).values()
    assert (status, told[0]) == (0, "unused rest of a host")
    assert "leaves 36% of DISK_GB unused where MEMORY_MB and VCPU run out: 32 fit on h1" in told[1]
    assert document["flavors"][0]["unused"] == {"VCPU": 0.0, "MEMORY_MB": 0.0, "DISK_GB": 0.36}


def test_unused_rest_is_a_hint_and_no_finding(cloud, add_host, migrate):
    """It is shown and counted by itself, and a cloud with nothing else is healthy."""
    add_host("h1")
    add_flavor(cloud, "a", **{"resources:DISK_GB": "600"})
    done = migrate("flavors")
    assert (done.returncode, "flavor a: leaves " in done.stdout) == (0, True)
    assert done.stdout.endswith(", 0 findings, 1 hint\n")
    add_flavor(cloud, "b", **{"resources:MEMORY_MB": "99999"})
    done = migrate("flavors")
    assert (done.returncode, done.stdout.endswith(", 1 finding, 1 hint\n")) == (3, True)


def test_shortage_counts_all_hosts_of_a_kind(cloud, add_host, migrate):
    """Equal hosts are compared once, and all of them are counted."""
    for number in range(8):
        sizes = {**SIZES, "MEMORY_MB": Inventory(60000 + number % 2)}
        add_host(f"h{number}", inventories=sizes)
    add_flavor(cloud, "a", **{"resources:MEMORY_MB": "99999"})
    assert "39998 short on h1, the closest of 8" in " ".join(migrate("flavors").stdout.split())


def test_one_flavor_is_compared_alone(cloud, add_host, migrate, flavors):
    """By its name or ID; one that nova does not have is an error."""
    add_host("h1")
    add_flavor(cloud, "a", **{"resources:VGPU": "1"})
    other = add_flavor(cloud, "other", **{"resources:VGPU": "1"})
    for name in ("other", other["flavorid"]):
        assert [each["name"] for each in flavors("--flavor", name)[0]["flavors"]] == ["other"]
    done = migrate("flavors", "--flavor", "othr")
    assert (done.returncode, done.stderr) == (
        1,
        "placement-migrate: Nova has no flavor othr (is it other?)\n",
    )


def test_aggregate_and_images_of_instances_are_compared(cloud, add_host, flavors):
    """Without glance, images are those of instances, and the output says so."""
    add_host("h1")
    cloud.add_aggregate("fast", ["h1"], **{f"trait:{TRAIT}": "required", "trait:CUSTOM_TEST_OF_B": "no"})
    cloud.add_aggregate("slow", ["h1"], **{"trait:HW_NO_SUCH": "required"})
    cloud.add_instance("h1", image={"trait:HW_NONE": "required"}, image_ref="f00")
    cloud.add_instance("h1", image={f"trait:{TRAIT}": "required", "hw_cpu_policy": "x"}, image_ref="f01")
    cloud.add_instance("h1", cell="cell2", image={f"trait:{TRAIT}": "required"}, volume=True)
    document, _ = flavors()
    note, _ = document["notes"]
    assert "read from the metadata of instances" in note
    assert {row["name"]: row["reason"] for row in document["rows"]} == {
        TRAIT: "trait asked for by host aggregate fast, image f01, image of a volume"
    }
    found = findings_of(document)
    assert found["image f00"][0] == "unknown name"
    assert found["host aggregate slow"][0] == "unknown name"
    assert found["host aggregate fast"][0] == "ignored extra spec"


@pytest.fixture
def glance():
    """The handler and the URL of a glance."""
    with serving_glance() as found:
        yield found


def test_images_are_read_from_glance(cloud, add_host, migrate_json, glance):
    """All pages of all kinds of images; what instances say of their images does not count then."""
    add_host("h1")
    cloud.add_instance("h1", image={"trait:HW_OLD": "required"}, image_ref="f00")
    handler, url = glance
    handler.images = [
        {"id": f"{number}", "kind": kind, "name": name, "min_ram": 0, f"trait:{trait}": "required"}
        for number, (kind, name, trait) in enumerate(
            [
                ("public", "a", "HW_NONE_A"),
                ("public", "b", "HW_NONE_B"),
                ("public", "", "HW_NONE_C"),
                ("community", "d", "HW_NONE_D"),
                ("hidden", "e", TRAIT),
            ]
        )
    ]
    document, status = migrate_json("--glance-endpoint", url, "flavors")
    assert status == 3
    assert document["notes"][0] == "images: read from glance"
    assert {row["name"]: row["reason"] for row in document["rows"]} == {TRAIT: "trait asked for by image e"}
    assert sorted(findings_of(document)) == ["image 2", "image a", "image b", "image d"]


def test_images_of_a_real_glance_are_read(cloud, add_host, migrate_json, tmp_path, monkeypatch):
    """Those of others, of communities and hidden ones too, in several pages."""
    add_host("h1")
    monkeypatch.setattr(rest, "PAGE", 2)
    images = {
        "mine": {},
        "theirs": {"visibility": "shared", "owner": "other"},
        "private": {"visibility": "private", "owner": "other"},
        "public": {"visibility": "public"},
        "community": {"visibility": "community", "owner": "other"},
        "hidden": {"os_hidden": True},
        "both": {"visibility": "community", "owner": "other", "os_hidden": True},
    }
    with serving_real_glance(tmp_path / "glance") as url:
        for name, fields in images.items():
            wanted = {"trait:HW_NO_SUCH": "required", "hw_disk_bus": "scsi"}
            done = requests.post(f"{url}/v2/images", json={"name": name, **fields, **wanted}, timeout=30)
            assert done.status_code == 201, done.text
        document, status = migrate_json("--glance-endpoint", url, "flavors")
    assert (status, document["notes"][0]) == (3, "images: read from glance")
    assert set(findings_of(document)) == {f"image {name}" for name in images}


@pytest.mark.parametrize("status", [403, 500])
def test_unreachable_glance_is_unknown_and_the_rest_is_compared(cloud, add_host, migrate, glance, status):
    """One line says so, the exit status is 4, and missing names are created nevertheless."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "forbidden"})
    handler, url = glance
    handler.status = status
    done = migrate("--glance-endpoint", url, "flavors", "--create")
    assert done.returncode == 4
    assert f"glance: {url}/v2/images answered with HTTP {status}\n" in done.stdout
    assert "1 applied" in done.stdout


def test_cells_and_tables_that_cannot_be_read_are_unknown(cloud, add_host, client, migrate):
    """Each in one line, with the exit status 4; what can be read is compared, and created if asked for."""
    add_host("h1")
    cloud.add_aggregate("fast", ["h1"], **{f"trait:{TRAIT}": "required"})
    cloud.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    cloud.update("api", "DROP TABLE flavor_extra_specs")
    done = migrate("flavors", "--create")
    assert done.returncode == 4
    lines = done.stdout.splitlines()
    assert "cell cell2: there is no file /no/x" in lines
    (line,) = [line for line in lines if line.startswith("nova's API database: ")]
    assert "there is no table flavor_extra_specs" in line
    assert list_names(client) == [TRAIT]
    done = migrate("flavors", "--create", "--name", "CUSTOM_TEST_OF_X")
    assert (done.returncode, "there is no table flavor_extra_specs" in done.stdout) == (4, True)


def test_empty_placement_is_one_finding(cloud, flavors):
    """Not one for each flavor."""
    for name in "ab":
        add_flavor(cloud, name)
    document, status = flavors()
    assert (status, list(findings_of(document))) == (3, ["placement"])


def test_unreachable_placement_and_nova_are_one_line(cloud, migrate, nova_conf):
    """Nothing is compared."""
    for options in (
        ("--placement-endpoint", "http://127.0.0.1:1"),
        ("--source", "api", "--nova-endpoint", "http://127.0.0.1:1"),
    ):
        done = migrate(*options, "flavors", "--create")
        assert (done.stderr + done.stdout).count("127.0.0.1:1") >= 1
        assert "Traceback" not in done.stderr
        assert done.returncode in (1, 4)


@pytest.fixture
def nova_url(nova_conf):
    """The URL of nova's API on the databases of the test."""
    with nova_serving.serving(nova_conf.parent) as url:
        yield url


def test_both_sources_find_the_same(cloud, add_host, migrate_json, nova_url, glance):
    """With the images of glance; without it, nova's API shows no images, which is unknown."""
    add_host("h1")
    add_flavor(cloud, "a", **{f"trait:{TRAIT}": "required"})
    add_flavor(cloud, "b", **{"resources:VGPU": "1"})
    add_flavor(cloud, "c", **{"resources:VCPU": "abc"})
    cloud.add_aggregate("slow", ["h1"], **{"trait:HW_NO_SUCH": "required"})
    handler, url = glance
    handler.images = [{"id": "1", "kind": "public", "name": "a", f"trait:{TRAIT}": "required"}]
    access = ("--source", "api", "--nova-endpoint", nova_url)
    assert migrate_json(*access, "--glance-endpoint", url, "flavors") == migrate_json(
        "--glance-endpoint", url, "flavors"
    )
    document, status = migrate_json(*access, "flavors")
    assert (status, findings_of(document)["images"][0], len(document["notes"])) == (4, "unknown", 1)


@pytest.mark.parametrize("source", ["db", "api"])
def test_images_of_instances_that_a_user_of_glance_does_not_see_are_counted(
    cloud, add_host, migrate_json, nova_url, glance, monkeypatch, source
):
    """Each once, whatever the number of its instances, and none for those made from volumes."""
    add_host("h1")
    seen, hidden = new_uuid(), new_uuid()
    for uuid in (seen, hidden, hidden):
        cloud.add_instance("h1", image_ref=uuid)
    cloud.add_instance("h1", volume=True)
    handler, url = glance
    handler.images = [{"id": seen, "kind": "public", "name": "a"}]
    monkeypatch.setattr(glance_source.GlanceSource, "sees_all", lambda _: False)
    access = ("--source", source, "--nova-endpoint", nova_url, "--glance-endpoint", url)
    document, status = migrate_json(*access, "flavors")
    assert (status, document["notes"][0]) == (4, "images: read from glance, as this user sees them")
    assert "does not see 1 image of instances" in findings_of(document)["glance"][1]


PAGE = (ROOT / "doc/source/admin/flavors.rst").read_text()


def test_documentation_page_shows_real_output(cloud, add_host, nova_conf, tmp_path):
    """Every command of the page prints what is shown; run ids differ."""
    for number in range(1, 4):
        add_host(f"compute{number}")
    cloud.add_aggregate("ssd", ["compute1"], **{"trait:CUSTOM_TEST_SSD": "required"})
    add_flavor(cloud, "m1.small")
    add_flavor(cloud, "m1.avx", **{"trait:HW_CPU_X86_AVX3": "required"})
    add_flavor(cloud, "m1.disk", {"root_gb": 600})
    add_flavor(cloud, "m1.fast", **{"trait:CUSTOM_TEST_SSD": "required"})
    add_flavor(cloud, "m1.gpu", **{"resources:VGPU": "1"})
    add_flavor(cloud, "m1.many", **{"resources:VCPU": "many"})
    add_flavor(cloud, "m1.mixed", **{"hw:cpu_policy": "mixed"})
    add_flavor(cloud, "m1.sound", **{"hw:sound_model": "virtio"})
    shown, create, undo = read_steps(PAGE)
    with shell_with(nova_conf, tmp_path) as shell:
        assert_matches(shown, type_into(shell, shown.command))
        created = type_into(shell, create.command)
        assert_matches(create, with_runs_of(created, create.output))
        undone = type_into(shell, undo.command)
        assert_matches(undo, with_runs_of(undone, undo.output))
