# SPDX-License-Identifier: Apache-2.0
"""The collection as Ansible itself uses it: playbooks, documentation, and the archive that is installed."""

import importlib
import json
import pathlib
import subprocess
import sys
import tarfile

import pytest
import yaml

from osc_placement.batch import journal
from tests.functional.ansible_collection import collection
from tests.functional.test_user_docs import read_blocks

PLUGINS = "ansible_collections.osc_placement.placement.plugins"
BIN = pathlib.Path(sys.executable).parent
MODULES = ("resource_provider", "resource_provider_batch", "resource_provider_info", "state_file")


def test_the_playbook_of_the_guide_changes_nothing_the_second_time(
    tmp_path, collections, clouds, client, server_url
):
    """The first time it makes what it says, and a run that can be undone."""
    collection.write_clouds(clouds, placement=("admin", server_url, {}))
    playbook = read_blocks("user/ansible.rst", "yaml")[0]
    (tmp_path / "site.yaml").write_text(playbook)
    process, results = collection.run_playbooks(tmp_path, collections, "--diff", "site.yaml")
    assert process.returncode == 0, process.stdout + process.stderr
    assert [each["changed"] for each in results] == [True, True, True, False]
    assert "+      VCPU:\n+        total: 64\n" in process.stdout
    assert journal.Journals().read(results[2]["run_id"]).state == "done"
    (host,) = results[3]["resource_providers"]
    assert (host["name"], host["traits"]) == ("compute-1", ["CUSTOM_GOLD"])

    modules = collection.Modules("placement")
    for each in yaml.safe_load(playbook)[0]["tasks"]:
        (name,) = [key for key in each if key.startswith(collection.NAME)]
        assert not modules.succeed(name.rpartition(".")[2], **each[name])["changed"]


def test_a_playbook_shows_differences_and_failures(tmp_path, collections, clouds, client):
    """As text below the task, in check mode too; a failure is one message."""
    uuid = client.create_provider("compute-1")["uuid"]
    client.set_inventories(uuid, {"VCPU": {"total": 8}}, 0)
    batch = f"{collection.NAME}.resource_provider_batch"
    found = {"cloud": "admin", "select": {"name": "compute-*"}, "ratios": {"VCPU": "{{ 4 + 4 }}"}}
    missing = {**found, "select": {"name": "no-*"}}
    playbook = collection.write_playbook(tmp_path, [{batch: found}, {batch: missing, "ignore_errors": True}])
    process, (changed, failed) = collection.run_playbooks(
        tmp_path, collections, "--check", "--diff", playbook
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert changed["changed"]
    assert "-      allocation_ratio: 1.0\n+      allocation_ratio: 8.0\n" in process.stdout
    assert "cpu_allocation_ratio" in process.stderr
    assert failed["msg"].startswith("No resource provider is named like no-*; correct the selection")
    assert "Traceback" not in process.stdout + process.stderr
    assert client.show_inventory(uuid, "VCPU")["allocation_ratio"] == 1.0


def test_a_module_says_that_the_plugin_is_missing(collections):
    """Where there is no osc-placement, there is a message in place of a trace."""
    name = f"{PLUGINS}.modules.resource_provider_batch"
    run = f"runpy.run_module('{name}', None, '__main__')"
    without = f"import runpy, sys; sys.modules['osc_placement'] = None; {run}"
    parameters = {"select": {"all": True}, "ratios": {"VCPU": 4}}
    process = subprocess.run(
        [sys.executable, "-c", without],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": parameters}),
        env={"PYTHONPATH": str(collections), "PATH": str(BIN)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = json.loads(process.stdout)["msg"]
    assert "Failed to import the required Python library (osc-placement>=5)" in told
    assert "Traceback" not in process.stderr


@pytest.fixture(scope="module")
def documented(collections, tmp_path_factory):
    """What ansible-doc knows of each module."""
    command = [BIN / "ansible-doc", "--json", *(f"{collection.NAME}.{name}" for name in MODULES)]
    environment = {
        "ANSIBLE_COLLECTIONS_PATH": str(collections),
        "HOME": str(tmp_path_factory.mktemp("home")),
        "LC_ALL": "C.UTF-8",
        "PATH": str(BIN),
    }
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    return {name.rpartition(".")[2]: page for name, page in json.loads(shown).items()}


@pytest.mark.parametrize("name", MODULES)
def test_the_documentation_is_that_of_the_parameters(documented, name):
    """Names, types, defaults, choices and aliases are those that the module reads."""
    module = importlib.import_module(f"{PLUGINS}.modules.{name}")
    session = importlib.import_module(f"{PLUGINS}.module_utils.session")
    assert_same(documented[name]["doc"]["options"], {**session.CLOUD, **module.OPTIONS})
    assert documented[name]["return"]


def assert_same(options, specification):
    """Options as they are documented are those of a module."""
    assert options.keys() == specification.keys()
    for name, option in options.items():
        taken = specification[name]
        for key, default in (("type", "str"), ("default", None), ("aliases", []), ("required", False)):
            assert option.get(key, default) == taken.get(key, default), (name, key)
        assert option.get("choices") == taken.get("choices"), name
        assert option.get("elements") == taken.get("elements"), name
        if "suboptions" in option or "options" in taken:
            assert_same(option["suboptions"], taken["options"])


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_are_tasks_with_known_parameters(documented, name):
    """Each uses the module, but for those that show its results."""
    options = documented[name]["doc"]["options"]
    known = set(options).union(*(option.get("aliases", ()) for option in options.values()))
    for example in yaml.safe_load(documented[name]["examples"]):
        if "ansible.builtin.debug" not in example:
            assert set(example[f"{collection.NAME}.{name}"]) <= known


def test_the_archive_has_what_is_needed(tmp_path):
    """It is built from the directory, and has neither tests nor caches."""
    command = [
        BIN / "ansible-galaxy",
        "collection",
        "build",
        "--output-path",
        tmp_path,
        collection.COLLECTION,
    ]
    subprocess.run(command, capture_output=True, check=True, env={"HOME": str(tmp_path), "PATH": str(BIN)})
    (archive,) = tmp_path.glob("osc_placement-placement-*.tar.gz")
    with tarfile.open(archive) as file:
        names = set(file.getnames())
    assert {"README.md", "meta/runtime.yml", *(f"plugins/modules/{name}.py" for name in MODULES)} <= names
    assert not any("__pycache__" in name or "test" in name for name in names)
