# SPDX-License-Identifier: Apache-2.0
"""`placement-nova-manage` of osc-placement-compat, beside the `nova-manage` whose commands it has."""

import importlib
import re
import sys

import pytest

from osc_placement.model import Inventory
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.conftest import Result, kept_signals
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, SIZES, held_by, hold
from tests.functional.servers import ROOT
from tests.unit.test_documentation import commands_in_messages, judge_options

pytestmark = pytest.mark.nova_on("sqlite")

UNKNOWN = "00000000-0000-4000-8000-000000000000"
SKIP = "--skip-port-allocations"


@pytest.fixture
def manage(nova_conf, client, tmp_path, monkeypatch, capsys):
    """Run one of the commands in this process, beside openstack-placement, which it would refuse."""
    monkeypatch.syspath_prepend(str(ROOT / "compat"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    # not an import: the distribution is not installed here
    nova_manage = importlib.import_module("osc_placement_compat.nova_manage")
    monkeypatch.setattr(nova_manage.reference, "refuse", lambda: None)

    def run(*arguments, access=("--config-file", str(nova_conf))):
        words = ["placement-nova-manage", *access, "placement", *arguments]
        monkeypatch.setattr(sys, "argv", words)
        with kept_signals():
            try:
                status = nova_manage.main()
            except SystemExit as ended:
                status = ended.code
        return Result(status, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("heal_allocations", "--dry-run", "--verbose", SKIP), 4),
        (("heal_allocations", "--max-count", "0"), 127),
        (("heal_allocations", "--max-count", "many"), 127),
        (("heal_allocations", "--instance", UNKNOWN, "--cell", UNKNOWN), 127),
        (("heal_allocations", "--instance", UNKNOWN, SKIP), 127),
        (("heal_allocations", "--cell", UNKNOWN, SKIP), 127),
        (("heal_allocations", "--force"), 127),
        (("heal_allocations", "--no-such-option"), 2),
        (("sync_aggregates", "--verbose"), 0),
        (("audit", "--verbose"), 3),
        (("audit", "--resource_provider", UNKNOWN), 127),
        (("audit", "--force"), 2),
        (("no_such_action",), 2),
        ((), 2),
    ],
)
def test_statuses_equal_those_of_nova_manage(cloud, client, add_host, manage, nova_conf, arguments, status):
    """For a cloud with an instance without allocations and an orphaned allocation."""
    h1 = add_host("h1")
    cloud.add_aggregate("rack", ["h1"])
    cloud.add_instance("h1")
    hold(client, new_uuid(), {h1: CLAIM})
    assert manage(*arguments).returncode == status
    assert nova.manage(nova_conf, "placement", *arguments).returncode == status


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (lambda cloud, client, h1: cloud.add_instance("gone"), 2),
        (lambda cloud, client, h1: client.set_inventories(h1, {}, client.show_provider(h1)["generation"]), 3),
        (
            lambda cloud, client, h1: cloud.add_instance(
                "h1", flavor={"extra_specs": {"accel:device_profile": "fpga"}}
            ),
            8,
        ),
    ],
)
def test_statuses_of_failed_healings_equal_those_of_nova_manage(
    cloud, client, add_host, manage, nova_conf, spoil, status
):
    """The instance has no compute node, or its host no inventory, or its claim is not known."""
    h1 = add_host("h1")
    if status != 3:
        hold(client, cloud.add_instance("h1"), {h1: CLAIM})
    else:
        cloud.add_instance("h1")
    spoil(cloud, client, h1)
    done = manage("heal_allocations", SKIP)
    assert (done.returncode, done.stdout != "") == (status, True)
    assert nova.manage(nova_conf, "placement", "heal_allocations", SKIP).returncode == status


@pytest.mark.parametrize("way", ["wrong host", "held twice", "moving", "in a task"])
def test_forced_healing_that_leaves_something_wrong_fails(cloud, client, add_host, manage, way):
    """It is printed, and the status is that of allocations that could not be made."""
    h1, h2 = add_host("h1"), add_host("h2")
    instance = cloud.add_instance("h1", task_state="rebooting" if way == "in a task" else None)
    claims = {"wrong host": {h2: CLAIM}, "held twice": {h1: CLAIM, h2: CLAIM}}
    hold(client, instance, claims.get(way, {h1: {**CLAIM, "VCPU": 1}}))
    if way == "moving":
        cloud.add_migration(instance, "h1", "h2", status="finished")
    assert manage("heal_allocations", "--instance", instance, SKIP).returncode == 4
    done = manage("heal_allocations", "--instance", instance, "--force", SKIP)
    assert (done.returncode, instance in done.stdout) == (3, True)


def test_forced_healing_of_an_accelerator_has_the_status_of_nova_manage(
    cloud, client, add_host, manage, nova_conf
):
    """What the instance lacks may be that of the device, which only Cyborg knows."""
    h1 = add_host("h1", inventories={**SIZES, "VGPU": Inventory(8)})
    specs = {"accel:device_profile": "fpga", "resources:VGPU": "1"}
    instance = cloud.add_instance("h1", flavor={"extra_specs": specs})
    hold(client, instance, {h1: CLAIM})
    arguments = ("heal_allocations", "--instance", instance, "--force", SKIP)
    done = manage(*arguments)
    assert (done.returncode, instance in done.stdout) == (8, True)
    assert nova.manage(nova_conf, "placement", *arguments).returncode == 8


def test_healing_and_audit_do_what_nova_manage_does(cloud, client, add_host, manage, nova_conf):
    """Cell by cell, one instance by force, and orphans of one provider; silent unless told to be verbose."""
    h1, h2 = add_host("h1"), add_host("h2", "cell2")
    first, second = cloud.add_instance("h1"), cloud.add_instance("h2", "cell2")
    done = manage("heal_allocations", "--cell", cloud.cells["cell2"])
    assert (done, held_by(client, first)) == (Result(0, "", ""), {})
    assert held_by(client, second) == {h2: CLAIM}
    done = manage("heal_allocations", "--verbose", "--max-count", "5")
    assert (done.returncode, "1 applied" in done.stdout) == (0, True)
    assert manage("heal_allocations").returncode == 4
    assert nova.manage(nova_conf, "placement", "heal_allocations", SKIP).returncode == 4
    hold(client, first, {h1: {**CLAIM, "VCPU": 9}}, client.list_allocations(first)["consumer_generation"])
    assert manage("heal_allocations", "--instance", first, "--force").returncode == 0
    assert held_by(client, first) == {h1: CLAIM}
    orphans = {h1: new_uuid(), h2: new_uuid()}
    for node, orphan in orphans.items():
        hold(client, orphan, {node: CLAIM})
    assert manage("audit", "--resource_provider", h1, "--delete") == Result(4, "", "")
    assert (held_by(client, orphans[h1]), held_by(client, orphans[h2])) == ({}, {h2: CLAIM})
    assert manage("audit").returncode == 3


def test_directory_of_files_that_is_not_there_is_refused(manage, nova_conf, tmp_path, monkeypatch):
    """Nova's usual files, which there are, are not read in its place."""
    monkeypatch.setattr("oslo_config.cfg.find_config_files", lambda *_names, **_options: [str(nova_conf)])
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    done = manage("audit", access=("--config-dir", str(empty), "--config-dir", str(missing)))
    assert done == Result(1, "", f"placement-nova-manage: there is no directory {missing}\n")
    assert manage("audit", access=("--config-dir", str(empty))).returncode == 0


def test_commands_of_nova_manage_in_messages_are_its_own(nova_conf):
    """Each exists, with the options that it is given."""
    modules = sorted((ROOT / "osc_placement").rglob("*.py"))
    found = [words for path in modules for words in commands_in_messages(path) if words[0] == "nova-manage"]
    assert found
    for _, group, name, *words in found:
        done = nova.manage(nova_conf, group, name, "--help")
        assert done.returncode == 0, done.stderr
        assert judge_options(words, set(re.findall(r"--[a-z_-]+", done.stdout))) is None
