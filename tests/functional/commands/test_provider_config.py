# SPDX-License-Identifier: Apache-2.0
"""Provider configuration files of nova: generate, lint, drift and prune."""

import uuid

import pytest
import yaml

from osc_placement.provider_config.files import list_problems, read_locations
from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal
from tests.functional.provider_config.test_nova_loader import ask_nova

PROVIDER = ("resource", "provider")
CONFIG = (*PROVIDER, "config")
GENERATE, LINT, DRIFT, PRUNE = ((*CONFIG, verb) for verb in ("generate", "lint", "drift", "prune"))
RUN = (*PROVIDER, "batch", "run")
NOVA = ("OWNER_NOVA", "COMPUTE_NODE", "HW_CPU_X86_AVX")
SIZES = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096}}
LICENSE = {"CUSTOM_LICENSE": {"total": 10, "reserved": 1, "max_unit": 5}}
TRAITS = ("CUSTOM_GOLD", "CUSTOM_OLD", "CUSTOM_SPEED", "CUSTOM_GPU", "CUSTOM_PHYSNET_A", "CUSTOM_RAID")
CLASSES = ("CUSTOM_LICENSE", "CUSTOM_PCI_10DE_20B5", "CUSTOM_NVIDIA_11", "CUSTOM_BAREMETAL_GOLD")


class Cloud:
    """Two compute nodes with a child each, and providers that others report.

    :ivar uuids: UUIDs by the name without the beginning that all have
    """

    def __init__(self, client):
        self.client = client
        self.prefix = f"c{uuid.uuid4().hex[:6]}"
        self.uuids = {}
        for name in TRAITS:
            client.create_trait(name)
        for name in CLASSES:
            client.ensure_resource_class(name)
        for number in (1, 2):
            host = f"compute-{number}"
            self.make(host, (*NOVA, "CUSTOM_GOLD", "CUSTOM_OLD"), {**SIZES, **LICENSE})
            self.make(f"{host}-nic", ("OWNER_NOVA", "CUSTOM_SPEED"), {}, host)
        self.make(
            "compute-1_0000:81:00.0",
            ("OWNER_NOVA", "COMPUTE_MANAGED_PCI_DEVICE", "CUSTOM_GPU"),
            {"CUSTOM_PCI_10DE_20B5": {"total": 1}},
            "compute-1",
        )
        self.make(
            "compute-1_pci_0000_84_00_0", ("OWNER_NOVA",), {"CUSTOM_NVIDIA_11": {"total": 4}}, "compute-1"
        )
        self.make("agent", ("CUSTOM_PHYSNET_A",), {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 9}}, "compute-2")
        self.node = str(uuid.uuid4())
        client.create_provider(self.node, uuid=self.node)
        self.set("node", self.node, ("OWNER_NOVA", "CUSTOM_RAID"), {"CUSTOM_BAREMETAL_GOLD": {"total": 1}})

    def make(self, name, traits, inventories, parent=None):
        above = self.uuids[parent] if parent else None
        made = self.client.create_provider(f"{self.prefix}-{name}", parent=above)["uuid"]
        self.set(name, made, traits, inventories)

    def set(self, name, made, traits, inventories):
        self.uuids[name] = made
        self.client.set_inventories(made, inventories, 0)
        self.client.set_provider_traits(made, sorted(traits), 1)

    def name(self, name):
        return f"{self.prefix}-{name}"

    def traits(self, name):
        return set(self.client.list_provider_traits(self.uuids[name])["traits"])

    def classes(self, name):
        return set(self.client.list_inventories(self.uuids[name])["inventories"])

    @property
    def select(self):
        return ("--name", f"{self.prefix}-*")

    def close(self):
        for made in reversed(self.uuids.values()):
            self.client.delete_provider(made)


@pytest.fixture
def cloud(client):
    made = Cloud(client)
    yield made
    made.close()


@pytest.fixture
def write(tmp_path):
    """Writes a file with these entries, of providers by name, and returns its path."""

    def make(entries, name="a.yaml"):
        providers = [
            {
                "identification": {"uuid": key} if key.startswith("$") else {"name": key},
                "traits": {"additional": list(traits)},
                "inventories": {"additional": [{each: fields} for each, fields in classes.items()]},
            }
            for key, (traits, classes) in entries.items()
        ]
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({"meta": {"schema_version": "1.0"}, "providers": providers}))
        return path

    return make


def entries_of(path):
    """The keys, traits and classes of a file or directory."""
    return {
        entry.key: (set(entry.traits), set(entry.inventories))
        for location in read_locations([str(path)], str)
        for entry in location.entries
    }


# generate


def expected(cloud, number):
    """What a file says of a host."""
    return {
        cloud.name(f"compute-{number}"): ({"CUSTOM_GOLD", "CUSTOM_OLD"}, {"CUSTOM_LICENSE"}),
        cloud.name(f"compute-{number}-nic"): ({"CUSTOM_SPEED"}, set()),
    }


def test_generated_file_has_what_nobody_else_reports(openstack, cloud, tmp_path):
    """Of both hosts and their children; what is left out is counted."""
    path = tmp_path / "all.yaml"
    result = openstack.run(*GENERATE, "-o", path, *cloud.select)
    assert (result.status, result.out) == (0, "")
    assert entries_of(path) == {**expected(cloud, 1), **expected(cloud, 2)}
    assert result.err.splitlines() == [
        "Left out, as others report them: 2 of PCI in placement, 1 of neutron, 1 of vGPU",
        f"Wrote 4 resource providers to {path}",
    ]
    assert list_problems(read_locations([str(path)], str)) == []
    shown = openstack.run(*GENERATE, *cloud.select)
    assert shown.out == path.read_text()
    fields = yaml.safe_load(shown.out)["providers"][0]["inventories"]["additional"]
    assert fields == [{"CUSTOM_LICENSE": {"total": 10, "reserved": 1, "max_unit": 5}}]


def test_bare_metal_nodes_are_left_out(openstack, cloud):
    """Ironic's driver replaces their inventories and traits."""
    result = openstack.run(*GENERATE, "--name", cloud.node)
    assert (result.status, result.out) == (0, "")
    assert result.err.splitlines() == [
        "Left out, as others report them: 2 of bare metal",
        "No custom trait or inventory is left for a file; nothing was written",
    ]


def test_file_for_each_host(openstack, cloud, tmp_path):
    """A child that is selected stands for its whole tree."""
    directory = tmp_path / "new" / "configs"
    result = openstack.run(*GENERATE, "--directory", directory, "--name", cloud.name("compute-?-nic"))
    assert result.status == 0
    assert sorted(path.name for path in directory.iterdir()) == [
        f"{cloud.name(f'compute-{number}')}.yaml" for number in (1, 2)
    ]
    for number in (1, 2):
        assert entries_of(directory / f"{cloud.name(f'compute-{number}')}.yaml") == expected(cloud, number)


def test_identification_by_uuid_and_compute_node(openstack, cloud, tmp_path):
    """$COMPUTE_NODE stands in a file once, so that each host has a directory of its own."""
    directory = tmp_path / "configs"
    options = ("--identify", "uuid", "--compute-node", *cloud.select)
    refused = openstack.run(*GENERATE, *options)
    assert (refused.status, refused.out) == (2, "")
    assert "give --directory" in refused.err
    assert openstack.run(*GENERATE, *options, "--directory", directory).status == 0
    for number in (1, 2):
        host = cloud.name(f"compute-{number}")
        found = entries_of(directory / host / f"{host}.yaml")
        assert list(found) == ["$COMPUTE_NODE", cloud.uuids[f"compute-{number}-nic"]]
    assert openstack.run(*LINT, directory).status == 0
    assert openstack.run(*DRIFT, directory, "-f", "json").json == []


def test_state_file_gives_the_same_without_a_cloud(openstack, cloud, tmp_path):
    """No request is sent: the endpoint does not exist."""
    state = tmp_path / "state.yaml"
    pattern = cloud.name("compute-1")
    assert openstack.run(*PROVIDER, "export", "-o", state, "--name", f"{cloud.prefix}-*").status == 0
    there = openstack.run(*GENERATE, "--name", pattern)
    nowhere = openstack.run(*GENERATE, "--state", state, "--name", pattern, endpoint="http://127.0.0.1:1")
    assert (nowhere.status, nowhere.out) == (0, there.out)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is nothing in it"),
        ("providers: [{name: a, parent: null}]", "does not have the traits of a"),
        ("providers: [{name: a, traits: [], inventories: {}}]", "does not have the parent of a"),
        ("providers: 1", "must be a list"),
    ],
)
def test_state_file_that_does_not_say_it_is_refused(openstack, text, told):
    """What is not in the file is unknown, and not absent."""
    result = openstack.run(*GENERATE, "--state", "-", text=text, endpoint="http://127.0.0.1:1")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert told in result.err


def test_directory_that_cannot_be_written(openstack, cloud, tmp_path):
    """One line, and no file."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    result = openstack.run(*GENERATE, "--directory", blocked, *cloud.select)
    name = f"{cloud.name('compute-1')}.yaml"
    assert (result.status, result.err.splitlines()[-1]) == (
        1,
        f"{blocked / name} cannot be written: File exists; nothing was written",
    )
    assert blocked.read_text() == ""


def test_nova_loads_generated_files(openstack, cloud, tmp_path):
    """Each file and directory that the command writes, with what placement has."""
    one, files, hosts = (tmp_path / name for name in ("one", "files", "hosts"))
    one.mkdir()
    assert openstack.run(*GENERATE, "-o", one / "all.yaml", *cloud.select).status == 0
    assert openstack.run(*GENERATE, "--directory", files, "--identify", "uuid", *cloud.select).status == 0
    assert openstack.run(*GENERATE, "--directory", hosts, "--compute-node", *cloud.select).status == 0
    first, second = (cloud.name(f"compute-{number}") for number in (1, 2))
    loaded = [
        each["loaded"] for each in ask_nova([str(one), str(files), str(hosts / first), str(hosts / second)])
    ]
    assert list(loaded[0]) == [first, f"{first}-nic", second, f"{second}-nic"]
    names = ("compute-1", "compute-1-nic", "compute-2", "compute-2-nic")
    assert list(loaded[1]) == [cloud.uuids[name] for name in names]
    assert [list(each) for each in loaded[2:]] == [
        ["$COMPUTE_NODE", f"{host}-nic"] for host in (first, second)
    ]
    for each in (loaded[0][first], loaded[1][cloud.uuids["compute-1"]], loaded[2]["$COMPUTE_NODE"]):
        assert each["traits"]["additional"] == ["CUSTOM_GOLD", "CUSTOM_OLD"]
        assert each["inventories"]["additional"] == [LICENSE]


# lint


def test_lint_needs_no_cloud(openstack, write):
    """No option leads to one; the problems are lines with the place."""
    path = write({"a": (["CUSTOM_A", "HW_CPU_X86_AVX"], {"CUSTOM_B": {"total": 1, "reserved": 2}})})
    result = openstack.run_in_cloud(*LINT, path, environment={})
    assert (result.status, result.err) == (4, "")
    first, second, total = result.out.splitlines()
    assert first.startswith(f"{path}:9: warning: providers[0].inventories.additional[0].CUSTOM_B.reserved: ")
    assert second.startswith(
        f"{path}:14: error: providers[0].traits.additional[1]: HW_CPU_X86_AVX is no custom"
    )
    assert total == "1 file, 1 entry: 1 error, 1 warning"
    rows = openstack.run_in_cloud(*LINT, path, "-f", "json", environment={}).json
    assert [(row["file"], row["line"], row["level"]) for row in rows] == [
        (str(path), 9, "warning"),
        (str(path), 14, "error"),
    ]


def test_problem_is_one_line_on_a_terminal_too(openstack, write):
    """Editors read it from there; the terminal breaks it, and copies it as one."""
    path = write({"a": (["CUSTOM_A", "HW_CPU_X86_AVX"], {"CUSTOM_B": {"total": 1, "reserved": 2}})})
    shown, status = run_on_terminal(openstack, *LINT, path, columns=80)
    assert (status, shown.splitlines()) == (4, openstack.run(*LINT, path).out.splitlines())


def test_exit_statuses_of_lint(openstack, write, tmp_path):
    """For continuous integration: 0, 3 with warnings, 4 with errors."""
    good = write({"a": (["CUSTOM_A"], {})}, "one/good.yaml")
    odd = write({"b": ([], {})}, "one/odd.yaml")
    again = write({"a": (["CUSTOM_B"], {})}, "other/again.yaml")

    def status(*arguments):
        return openstack.run_in_cloud(*LINT, *arguments, environment={}).status

    assert status(good) == 0
    assert (status(good, odd), status(good, odd, "--errors-only")) == (3, 0)
    # single files count as those of one directory; directories are for hosts of their own
    assert status(good, again) == 4
    assert status(good.parent, again.parent) == 3
    assert status(tmp_path / "no-such-file.yaml") == 4


def test_lint_with_placement(openstack, cloud, write):
    """A provider that does not exist, one that is there twice, and names that placement does not know."""
    path = write(
        {
            cloud.name("compute-1"): (["CUSTOM_GOLD", "CUSTOM_NO_SUCH"], {"CUSTOM_NO_CLASS": {"total": 1}}),
            cloud.name("compute-1-nik"): (["CUSTOM_GOLD"], {}),
        }
    )
    entry = {"identification": {"uuid": cloud.uuids["compute-1"]}, "traits": {"additional": ["CUSTOM_GOLD"]}}
    path.write_text(path.read_text() + yaml.safe_dump([entry]))
    twice = (
        f"{cloud.uuids['compute-1']} is the resource provider that {path}:4 identifies as "
        f"{cloud.name('compute-1')}; nova-compute fails at each update"
    )
    result = openstack.run(*LINT, path, "--check-placement", "-f", "json")
    assert result.status == 4
    told = [(row["level"], row["problem"]) for row in result.json]
    assert told == [
        (
            "warning",
            "placement does not know the resource class CUSTOM_NO_CLASS; nova-compute will create it",
        ),
        ("warning", "placement does not know the trait CUSTOM_NO_SUCH; nova-compute will create it"),
        ("warning", told[2][1]),
        ("error", twice),
    ]
    assert told[2][1].startswith(f"no resource provider is {cloud.name('compute-1-nik')} (is it ")
    assert told[2][1].endswith("?); nova ignores the entry")


def test_inventories_that_fail_at_each_update_of_nova(openstack, cloud, write):
    """Lint warns of those of children and shared providers, and generate leaves them out."""
    cloud.client.set_inventories(
        cloud.uuids["compute-1-nic"],
        LICENSE,
        cloud.client.show_provider(cloud.uuids["compute-1-nic"])["generation"],
    )
    cloud.make("nfs", ("MISC_SHARES_VIA_AGGREGATE",), LICENSE)
    names = ("compute-1", "compute-1-nic", "nfs")
    path = write({cloud.name(name): (["CUSTOM_GOLD"], LICENSE) for name in names})
    result = openstack.run(*LINT, path, "--check-placement", "-f", "json")
    assert [(row["level"], row["problem"].split(" keep")[0]) for row in result.json] == [
        ("warning", "resource providers that are no roots"),
        ("warning", "resource providers with MISC_SHARES_VIA_AGGREGATE"),
    ]
    made = path.with_name("made.yaml")
    result = openstack.run(*GENERATE, "-o", made, *cloud.select)
    assert entries_of(made) == {**expected(cloud, 1), **expected(cloud, 2)}
    assert (
        "Left out, as nova's updates would fail: 1 inventory of resource providers that are no roots, "
        "1 inventory of resource providers with MISC_SHARES_VIA_AGGREGATE"
    ) in result.err.splitlines()


@pytest.mark.parametrize(
    ("command", "entries"),
    [
        (LINT, {"$COMPUTE_NODE": (["CUSTOM_GOLD"], {})}),
        (LINT, {"a": ([], LICENSE)}),
        (DRIFT, {"$COMPUTE_NODE": (["CUSTOM_GOLD"], {})}),
    ],
)
def test_traits_of_providers_need_1_18(openstack, cloud, write, command, entries):
    """As placement filters providers by traits since that version."""
    if "a" in entries:
        entries = {cloud.name("compute-1"): entries["a"]}
    more = ("--check-placement",) if command is LINT else ("--all",)
    result = openstack.run(*command, write(entries), *more, "--os-placement-api-version", "1.14")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert "1.18" in result.err


def test_lint_asks_placement_only_if_told(openstack, write):
    """With the option, a placement that does not answer is an error and not a good file."""
    path = write({"a": (["CUSTOM_A"], {})})
    assert openstack.run(*LINT, path, endpoint="http://127.0.0.1:1").status == 0
    result = openstack.run(*LINT, path, "--check-placement", endpoint="http://127.0.0.1:1")
    assert (result.status, result.out) == (1, "")


# drift


def test_drift_of_identified_providers(openstack, cloud, write):
    """What is missing, differs, and is named by no file; not what others report."""
    host = cloud.name("compute-1")
    path = write(
        {
            host: (["CUSTOM_GOLD", "CUSTOM_SPEED"], {"CUSTOM_LICENSE": {"total": 12, "reserved": 1}}),
            cloud.name("compute-1-nic"): (["CUSTOM_SPEED"], {"CUSTOM_PCI_10DE_20B5": {"total": 3}}),
            cloud.name("compute-1_0000:81:00.0"): (["CUSTOM_GPU"], {}),
        }
    )
    result = openstack.run(*DRIFT, path, "-f", "json")
    assert (result.status, result.err) == (3, "")
    fields = ("provider", "kind", "item", "state", "in_file", "in_placement")
    assert [tuple(row[field] for field in fields) for row in result.json] == [
        (host, "inventory", "CUSTOM_LICENSE:total", "differs", 12, 10),
        (host, "inventory", "CUSTOM_LICENSE:max_unit", "differs", 2147483647, 5),
        (host, "trait", "CUSTOM_SPEED", "missing", "present", "absent"),
        (host, "trait", "CUSTOM_OLD", "not in files", "absent", "present"),
        (f"{host}-nic", "inventory", "CUSTOM_PCI_10DE_20B5", "missing", 3, "absent"),
    ]
    row = openstack.run(*DRIFT, path, "--with-others", "-f", "json").json[-1]
    assert (row["item"], row["reported_by"]) == ("CUSTOM_PCI_10DE_20B5", "PCI in placement")


def test_drift_of_compute_node_and_conditions(openstack, cloud, write):
    """$COMPUTE_NODE stands for the roots that nothing else identifies, and conditions select of them."""
    path = write(
        {
            "$COMPUTE_NODE": (["CUSTOM_GOLD", "CUSTOM_OLD"], LICENSE),
            cloud.name("compute-2"): (["CUSTOM_GOLD"], LICENSE),
        }
    )
    result = openstack.run(*DRIFT, path, *cloud.select, "-f", "json")
    assert [(row["provider"], row["item"]) for row in result.json] == [
        (cloud.name("compute-2"), "CUSTOM_OLD")
    ]
    result = openstack.run(*DRIFT, path, "--name", cloud.name("compute-1"))
    assert (result.status, result.out) == (0, "Nothing differs: 1 resource provider\n")
    result = openstack.run(*DRIFT, path, "--name", cloud.name("*-nic"), "--unidentified", "-f", "json")
    assert [row["item"] for row in result.json] == ["CUSTOM_SPEED", "CUSTOM_SPEED"]


def test_drift_tells_a_provider_that_does_not_exist(openstack, cloud, write):
    """It is a row, as nova does nothing with the entry."""
    path = write({cloud.name("compute-9"): (["CUSTOM_GOLD"], {})})
    result = openstack.run(*DRIFT, path, "-f", "json")
    assert (result.status, result.json[0]["state"]) == (3, "no such provider")


@pytest.mark.parametrize("command", [DRIFT, (*PRUNE, "--trait", "CUSTOM_OLD", "--yes")])
def test_compute_node_of_an_unknown_host_needs_a_selection(openstack, cloud, write, command):
    """The file of one host says nothing of others."""
    path = write({"$COMPUTE_NODE": (["CUSTOM_GOLD"], LICENSE)})
    for given in (path, path.parent):
        result = openstack.run(*command, given)
        assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
        assert result.err.startswith(f"{path}:4: $COMPUTE_NODE ")
        assert "--name" in result.err
    assert "CUSTOM_OLD" in cloud.traits("compute-2")
    assert openstack.run(*command, path.parent, "--name", cloud.name("compute-1")).status in (0, 3)
    assert "CUSTOM_OLD" in cloud.traits("compute-2")


def test_earlier_compute_node_of_an_unknown_host_needs_a_selection(openstack, cloud, write):
    """Its traits were not those of all hosts."""
    earlier = write({"$COMPUTE_NODE": (["CUSTOM_OLD"], {})}, "was/a.yaml")
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], LICENSE)})
    result = prune(openstack, path, "--previous", earlier, "--yes")
    assert (result.status, result.out, result.err.count("\n")) == (2, "", 1)
    assert "CUSTOM_OLD" in cloud.traits("compute-2")
    assert prune(openstack, path, "--previous", earlier, "--all", "--dry-run").status == 0


# prune


def prune(openstack, path, *arguments):
    return openstack.run(*PRUNE, path, *arguments, "-f", "json")


def test_prune_leaves_alone_what_cannot_be_told(openstack, cloud, write):
    """An operator may have set the trait; the message names it and what removes it."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    before = cloud.traits("compute-1")
    result = prune(openstack, path, "--yes")
    assert (result.status, cloud.traits("compute-1")) == (0, before)
    assert "nothing tells" in result.err
    assert "CUSTOM_LICENSE (1), CUSTOM_OLD (1)" in result.err
    assert "--previous" in result.err


def test_prune_removes_what_earlier_files_named(openstack, cloud, write):
    """On the providers that they identified; other traits and providers stay, and an undo brings all back."""
    first, second = cloud.name("compute-1"), cloud.name("compute-2")
    earlier = write(
        {each: (["CUSTOM_GOLD", "CUSTOM_OLD"], LICENSE) for each in (first, second)}, "was/a.yaml"
    )
    path = write({first: (["CUSTOM_GOLD"], LICENSE)})
    nic, was = cloud.traits("compute-1-nic"), cloud.traits("compute-1")
    plan = prune(openstack, path, "--previous", earlier.parent, "--dry-run")
    assert (plan.status, cloud.traits("compute-1")) == (0, was)
    result = prune(openstack, path, "--previous", earlier.parent, "--yes")
    assert result.status == 0
    assert result.err.startswith(
        f"Warning: 1 resource provider, such as {second}, is identified by earlier files"
    )
    assert result.err.count("\n") == 1
    assert cloud.traits("compute-1") == {*NOVA, "CUSTOM_GOLD"}
    assert cloud.classes("compute-1") == {*SIZES, "CUSTOM_LICENSE"}
    # its entry is gone
    assert (cloud.traits("compute-2"), cloud.classes("compute-2")) == (set(NOVA), set(SIZES))
    assert cloud.traits("compute-1-nic") == nic
    assert openstack.run(*RUN, "undo", openstack.last_run()["id"], "--yes").status == 0
    assert cloud.traits("compute-1") == cloud.traits("compute-2") == was
    assert cloud.classes("compute-2") == {*SIZES, "CUSTOM_LICENSE"}


def test_earlier_entry_in_the_directory_of_another_host_is_no_evidence(openstack, cloud, write):
    """nova ignored it there."""
    first, second = cloud.name("compute-1"), cloud.name("compute-2")
    earlier = write({second: (["CUSTOM_OLD"], {})}, f"was/{first}/a.yaml")
    path = write({each: (["CUSTOM_GOLD"], LICENSE) for each in (first, second)})
    result = prune(openstack, path, "--previous", earlier.parent.parent, "--yes")
    assert (result.status, "CUSTOM_OLD" in cloud.traits("compute-2")) == (0, True)


@pytest.mark.parametrize("command", [DRIFT, (*PRUNE, "--dry-run")])
def test_warnings_of_files_are_told(openstack, cloud, write, command):
    """What nova ignores in a file may be why a name seems to be gone."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], LICENSE)}, "now/a.yaml")
    path.write_text(path.read_text().replace("traits:", "trait:"))
    path.with_name("b.yml").write_text("")
    err = openstack.run(*command, path.parent).err
    assert f"{path}:" in err
    assert "unknown key, which nova ignores" in err
    assert f"{path.with_name('b.yml')}: warning: nova reads no file" in err


def test_warnings_of_earlier_files_are_told(openstack, cloud, write):
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], LICENSE)}, "now/a.yaml")
    earlier = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], LICENSE)}, "was/b.yml")
    result = prune(openstack, path, "--previous", earlier.parent, "--dry-run")
    assert f"{earlier}: warning: nova reads no file" in result.err


def test_prune_removes_what_is_named_on_the_command_line(openstack, cloud, write):
    """On the identified providers only."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    other = cloud.traits("compute-2")
    assert prune(openstack, path, "--trait", "CUSTOM_OLD", "--yes").status == 0
    assert cloud.traits("compute-1") == {*NOVA, "CUSTOM_GOLD"}
    assert "CUSTOM_LICENSE" in cloud.classes("compute-1")
    assert prune(openstack, path, "--resource-class", "CUSTOM_LICENSE", "--yes").status == 0
    assert cloud.classes("compute-1") == set(SIZES)
    assert cloud.traits("compute-2") == other


def test_named_trait_that_a_file_names_stays(openstack, cloud, write):
    """Nova would add it again."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    result = prune(openstack, path, "--trait", "CUSTOM_GOLD", "--yes")
    assert (result.status, [row["result"] for row in result.json]) == (0, ["unchanged"])
    assert "CUSTOM_GOLD" in cloud.traits("compute-1")


def test_prune_of_everything_custom_spares_what_others_report(openstack, cloud, write):
    """Managed traits, standard classes, and names of bare metal, PCI devices, vGPUs and neutron stay."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    others = ("compute-1_0000:81:00.0", "compute-1_pci_0000_84_00_0", "agent", "node")
    before = {name: (cloud.traits(name), cloud.classes(name)) for name in others}
    listed = "\n".join(cloud.uuids.values())
    result = openstack.run(
        *PRUNE, path, "--all-custom", "--unidentified", "--providers-file", "-", "--yes", text=listed
    )
    assert result.status == 0
    assert {name: (cloud.traits(name), cloud.classes(name)) for name in others} == before
    assert (cloud.traits("compute-1"), cloud.classes("compute-1")) == ({*NOVA, "CUSTOM_GOLD"}, set(SIZES))
    assert (cloud.traits("compute-2"), cloud.traits("compute-2-nic")) == (set(NOVA), {"OWNER_NOVA"})
    for text in ("CUSTOM_BAREMETAL_GOLD of bare metal", "CUSTOM_GPU of PCI in placement", "of neutron"):
        assert text in result.err


def test_prune_does_not_touch_providers_without_owner_nova(openstack, cloud, write):
    """Nova gives the trait to each provider that it applied a file to; another provider has no remainder."""
    cloud.make("shelf", ("CUSTOM_OLD",), {}, "compute-1")
    path = write({cloud.name("shelf"): (["CUSTOM_GOLD"], {})})
    result = prune(openstack, path, "--all-custom", "--yes")
    assert (result.status, cloud.traits("shelf")) == (0, {"CUSTOM_OLD"})
    assert "without OWNER_NOVA" in result.err


def test_inventory_in_use_is_refused(openstack, cloud, write):
    """The provider stays as it is, and the row says why."""
    path = write(
        {cloud.name("compute-1"): (["CUSTOM_GOLD"], {}), cloud.name("compute-2"): (["CUSTOM_GOLD"], {})}
    )
    held = {cloud.uuids["compute-1"]: {"resources": {"CUSTOM_LICENSE": 2}}}
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"}
    consumer = str(uuid.uuid4())
    cloud.client.set_allocations(consumer, {"allocations": held, **owner})
    try:
        result = prune(openstack, path, "--all-custom", "--yes")
        assert result.status == 3
        errors = {row["name"]: row["error"] for row in result.json}
        assert "CUSTOM_LICENSE" in errors[cloud.name("compute-1")]
        assert errors[cloud.name("compute-2")] == ""
        assert cloud.classes("compute-1") == {*SIZES, "CUSTOM_LICENSE"}
        assert cloud.classes("compute-2") == set(SIZES)
    finally:
        cloud.client.delete_allocations(consumer)


def test_trait_that_somebody_adds_meanwhile_stays(openstack, cloud, write, endpoint):
    """The change is planned again by what it removes."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], LICENSE)})
    uuid_ = cloud.uuids["compute-1"]
    done = []

    def interfere(method, path):
        if method in ("PUT", "POST") and not done:
            done.append(path)
            generation = cloud.client.show_provider(uuid_)["generation"]
            cloud.client.set_provider_traits(
                uuid_, sorted({*cloud.traits("compute-1"), "CUSTOM_RAID"}), generation
            )

    with proxy_to(endpoint, interfere) as url:
        result = openstack.run(*PRUNE, path, "--trait", "CUSTOM_OLD", "--yes", endpoint=url)
    assert (result.status, done != []) == (0, True)
    assert cloud.traits("compute-1") == {*NOVA, "CUSTOM_GOLD", "CUSTOM_RAID"}


def test_killed_prune_is_resumed(openstack, cloud, write, endpoint):
    """The journal says what is left, and the same traits go."""
    path = write({cloud.name(f"compute-{number}"): (["CUSTOM_GOLD"], LICENSE) for number in (1, 2)})
    processes = []

    def interfere(method, _path):
        if method == "PUT" or (method == "POST" and _path.endswith("/-/providers")):
            processes[0].kill()

    with proxy_to(endpoint, interfere) as url:
        with openstack.start(*PRUNE, path, "--trait", "CUSTOM_OLD", "--yes", endpoint=url) as process:
            processes.append(process)
            process.communicate(timeout=60)
        result = openstack.last_run()
        assert result["state"] == "unfinished"
        processes.clear()
        processes.append(type("Nobody", (), {"kill": lambda self: None})())
        assert openstack.run(*RUN, "resume", result["id"], "--yes", endpoint=url).status == 0
    for number in (1, 2):
        assert cloud.traits(f"compute-{number}") == {*NOVA, "CUSTOM_GOLD"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--trait", "HW_CPU_X86_AVX"), "--trait takes a name that starts with CUSTOM_"),
        (("--trait", "gold"), "--trait takes a name that starts with CUSTOM_"),
        (("--resource-class", "VCPU"), "--resource-class takes a name that starts with CUSTOM_"),
        (("--unidentified",), "--unidentified needs a condition"),
        (("--name", "no-such-*"), "no-such-*"),
    ],
)
def test_prune_refuses_bad_arguments(openstack, cloud, write, arguments, told):
    """One line, and nothing is written."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    result = openstack.run(*PRUNE, path, *arguments, "--yes")
    assert (result.status in (1, 2), result.out, result.err.count("\n")) == (True, "", 1)
    assert told in result.err


@pytest.mark.parametrize("command", [DRIFT, (*PRUNE, "--yes")], ids=["drift", "prune"])
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "there is nothing in it"),
        ("a: [\n", "not YAML"),
        ('{meta: {schema_version: "1.0"}, providers: [{identification: {host: a}}]}', "unknown key"),
    ],
)
def test_files_that_nova_refuses_are_refused(openstack, cloud, tmp_path, command, text, told):
    """What they say is not known, so nothing is compared with them."""
    path = tmp_path / "a.yaml"
    if text is not None:
        path.write_text(text)
    result = openstack.run(*command, path)
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)
    assert told in result.err


def test_earlier_files_are_checked_too(openstack, cloud, write, tmp_path):
    """A mistyped path is not an empty directory."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {})})
    result = openstack.run(*PRUNE, path, "--previous", tmp_path / "no-such", "--yes")
    assert (result.status, result.out, result.err.count("\n")) == (1, "", 1)


def test_output_fits_80_columns(openstack, cloud, write):
    """Also the question of a prune, and long paths."""
    path = write({cloud.name("compute-1"): (["CUSTOM_GOLD"], {"CUSTOM_LICENSE": {"total": 3}})})
    shown, status = run_on_terminal(openstack, *DRIFT, path, columns=80)
    assert status == 3
    assert "CUSTOM_OLD" in shown
    assert max(map(len, shown.splitlines())) <= 80
    shown, status = run_on_terminal(openstack, *PRUNE, path, "--all-custom", columns=80, answer="n\n")
    assert status == 1
    assert "Change 1 resource provider, removing 1 trait? [y/N]" in " ".join(shown.split())
    assert max(map(len, shown.replace("[y/N] ", "[y/N]\n").splitlines())) <= 80
