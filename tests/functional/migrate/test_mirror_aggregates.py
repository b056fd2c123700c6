# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate mirror-aggregates`, beside the real `nova-manage placement sync_aggregates`."""

import contextlib
import io
import json
import shlex
import subprocess
import sys

import pytest
import yaml

from osc_placement.migrate.main import main
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import IRONIC
from tests.functional.migrate.conftest import kept_signals
from tests.functional.servers import make_environment
from tests.waiting import wait_until

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

FOREIGN = "f0000000-0000-0000-0000-00000000000f"


def make_providers(client, *nodes):
    """A provider for each node, of its UUID and name."""
    for uuids in nodes:
        for name, uuid in uuids.items():
            client.create_provider(name, uuid=uuid)


def aggregates_of(client):
    """The aggregates of each provider, by its name."""
    return {
        record.provider.name: set(record.aggregates) for record in client.read_providers(want=("aggregates",))
    }


@pytest.fixture
def racks(cloud, client):
    """Two racks with three hosts in two cells, of which one host is in both."""
    nodes = [cloud.add_host("h1"), cloud.add_host("h2", "cell2"), cloud.add_host("h3")]
    make_providers(client, *nodes)
    cloud.add_aggregate("rack1", ["h1", "h2"])
    cloud.add_aggregate("rack2", ["h2"])
    return cloud


def test_mirror_equals_nova_manage(racks, client, migrate, nova_conf):
    """Where `nova-manage` knows the way, the result is the same, and theirs finds nothing left to do."""
    done = migrate("mirror-aggregates")
    assert done.returncode == 0, done.stdout
    ours = aggregates_of(client)
    rack1, rack2 = racks.aggregates["rack1"], racks.aggregates["rack2"]
    assert ours == {"h1": {rack1}, "h2": {rack1, rack2}, "h3": set()}
    for record in list(client.read_providers(want=("aggregates",))):
        client.set_provider_aggregates(record.provider.uuid, [], record.provider.generation)
    theirs = nova.manage(nova_conf, "placement", "sync_aggregates")
    assert theirs.returncode == 0, theirs.stdout
    assert aggregates_of(client) == ours
    document, status = migrate("mirror-aggregates", "-f", "json"), 0
    assert (document.returncode, '"rows": []' in document.stdout) == (status, True)


def test_second_run_has_nothing_to_do(racks, migrate, migrate_json):
    """A mirror that is true is left as it is, and no run is kept."""
    assert migrate("mirror-aggregates").returncode == 0
    document, status = migrate_json("mirror-aggregates")
    assert (document["rows"], document["run"], status) == ([], None, 0)


def test_dry_run_shows_and_writes_nothing(racks, client, migrate_json):
    """The plan has what would be added to whom."""
    document, status = migrate_json("mirror-aggregates", "--dry-run")
    assert {row["name"]: row["after"] for row in document["rows"]} == {
        "h1": [racks.aggregates["rack1"]],
        "h2": sorted(racks.aggregates.values()),
    }
    assert status == 0
    assert set(map(len, aggregates_of(client).values())) == {0}


def test_undo_restores_the_aggregates(racks, client, migrate, migrate_json):
    """A run of a migration is undone as any other."""
    document, _ = migrate_json("mirror-aggregates")
    assert migrate("run", "show", document["run"]).returncode == 0
    assert migrate("run", "undo", "--yes", document["run"]).returncode == 0
    assert set(map(len, aggregates_of(client).values())) == {0}
    listed, _ = migrate_json("run", "list")
    assert [(run["state"], run["applied"]) for run in listed] == [("undone", 2), ("done", 2)]


def test_result_has_the_formats_of_openstack(racks, migrate):
    """A script needs no JSON for one field; for an unknown one, a line names those that are there."""
    run = migrate("mirror-aggregates", "-f", "value", "-c", "run").stdout.strip()
    assert [row["uuid"] for row in yaml.safe_load(migrate("run", "show", run, "-f", "yaml").stdout)]
    assert yaml.safe_load(migrate("mirror-aggregates", "-f", "yaml").stdout)["rows"] == []
    assert migrate("run", "undo", "--yes", run).returncode == 0
    done = migrate("mirror-aggregates", "--dry-run", "-c", "nothing")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "Recognized columns are ('rows', 'findings', " in done.stderr
    # what was written is told whatever was asked for
    done = migrate("mirror-aggregates", "-f", "json", "-c", "nothing")
    assert (done.returncode, done.stderr, len(json.loads(done.stdout)["rows"])) == (0, "", 2)


@pytest.mark.parametrize("command", ["mirror-aggregates", "online_data_migrations"])
@pytest.mark.parametrize("by", ["endpoint", "file"])
def test_printed_undo_command_works_as_printed(racks, client, migrate, nova_conf, server_url, command, by):
    """The line has the way to placement, wherever nova.conf is."""
    access = ["--placement-endpoint", server_url] if by == "endpoint" else []
    line = migrate(*access, command).stdout.splitlines()[-1]
    words = shlex.split(line.partition("to undo it: placement-migrate ")[2])
    expected = access or ["--config-file", str(nova_conf)]
    assert words[:-1] == [*expected, "run", "undo"]
    with contextlib.redirect_stdout(io.StringIO()), kept_signals():
        assert main([*words, "--yes"]) == 0
    assert set(map(len, aggregates_of(client).values())) == {0}


def test_runs_with_max_count_finish_together(racks, client, migrate_json):
    """Bounded runs get to the end together."""
    document, status = migrate_json("mirror-aggregates", "--max-count", "1")
    assert (len(document["rows"]), document["left"], status) == (1, 1, 0)
    document, _ = migrate_json("mirror-aggregates", "--max-count", "1")
    assert document["left"] == 0
    assert len(aggregates_of(client)["h2"]) == 2


def test_hosts_that_cannot_be_mirrored_do_not_stop_others(cloud, client, migrate, nova_conf):
    """Each host that cannot be mirrored has its line; the others are mirrored."""
    make_providers(client, cloud.add_host("good"), cloud.add_host("metal", nodes=["n1", "n2"]))
    cloud.add_host("unknown-to-placement")
    cloud.add_host("gone", deleted=7)
    cloud.add_host("young")
    cloud.update("cell1", "UPDATE compute_nodes SET uuid = NULL WHERE host = 'young'")
    hosts = ["good", "metal", "unknown-to-placement", "gone", "young", "unmapped"]
    rack = cloud.add_aggregate("rack", hosts)
    done = migrate("mirror-aggregates")
    assert done.returncode == 3
    left_alone = [line for line in done.stdout.splitlines() if line.startswith("Left alone: ")]
    assert [line.split(": ")[1] for line in left_alone] == [
        "host gone",
        "host unknown-to-placement",
        "host unmapped",
        "host young",
    ]
    assert aggregates_of(client) == {"good": {rack}, "n1": {rack}, "n2": {rack}}
    # bare metal ends the whole run of nova-manage
    assert nova.manage(nova_conf, "placement", "sync_aggregates").returncode == 1


@pytest.mark.parametrize(
    ("break_it", "status", "theirs"),
    [
        (lambda cloud: cloud.join("rack1", "nobody"), 4, 4),
        (lambda cloud: cloud.update("cell1", "UPDATE compute_nodes SET deleted = 5 WHERE host = 'h1'"), 5, 5),
        # it documents 6, and ends with 2
        (lambda cloud: cloud.join("rack1", cloud.add_host("h9") and "h9"), 6, 2),
    ],
)
def test_nova_exit_codes_equal_nova_manage(racks, migrate, nova_conf, break_it, status, theirs):
    """With --nova-exit-codes a script sees what nova-manage documents."""
    break_it(racks)
    assert migrate("mirror-aggregates", "--nova-exit-codes").returncode == status
    assert nova.manage(nova_conf, "placement", "sync_aggregates").returncode == theirs


def test_prune_removes_memberships_that_nova_lacks(racks, client, migrate):
    """Memberships in aggregates of nova go when nova lacks them; those in foreign ones need a word more."""
    rack1, rack2 = racks.aggregates["rack1"], racks.aggregates["rack2"]
    for record in list(client.read_providers(want=("aggregates",))):
        held = [rack2, FOREIGN]
        client.set_provider_aggregates(record.provider.uuid, held, record.provider.generation)
    client.create_provider("storage", uuid=FOREIGN)
    client.set_provider_aggregates(FOREIGN, [rack2, FOREIGN], 0)
    assert migrate("mirror-aggregates", "--prune").returncode == 0
    kept = {rack2, FOREIGN}
    assert aggregates_of(client) == {
        "h1": {rack1, FOREIGN},
        "h2": {rack1, rack2, FOREIGN},
        "h3": {FOREIGN},
        "storage": kept,
    }
    assert migrate("mirror-aggregates", "--prune-foreign").returncode == 0
    assert aggregates_of(client) == {"h1": {rack1}, "h2": {rack1, rack2}, "h3": set(), "storage": kept}


def test_mirror_can_be_narrowed(racks, client, migrate):
    """One host, or one aggregate by its name, is mirrored alone."""
    assert migrate("mirror-aggregates", "--host", "h1").returncode == 0
    assert {name for name, held in aggregates_of(client).items() if held} == {"h1"}
    assert migrate("mirror-aggregates", "--aggregate", "rack2").returncode == 0
    assert aggregates_of(client)["h2"] == {racks.aggregates["rack2"]}


def test_every_host_is_in_one_shard(cloud, client, migrate):
    """Every host is in exactly one shard."""
    hosts = [f"h{number}" for number in range(12)]
    make_providers(client, *(cloud.add_host(host) for host in hosts))
    cloud.add_aggregate("rack", hosts)
    mirrored = []
    for shard in ("1/2", "2/2"):
        assert migrate("mirror-aggregates", "--shard", shard).returncode == 0
        mirrored.append({name for name, held in aggregates_of(client).items() if held})
    assert set() < mirrored[0] < mirrored[1] == set(hosts)


def test_unreadable_cell_is_left_alone(racks, client, migrate):
    """The hosts of a cell that cannot be read are not touched, and the exit status says so."""
    racks.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell2'"
    )
    done = migrate("mirror-aggregates", "--prune")
    assert done.returncode == 4
    assert "Left alone: cell cell2: there is no file /no/x" in done.stdout
    assert aggregates_of(client) == {"h1": {racks.aggregates["rack1"]}, "h2": set(), "h3": set()}


def test_follow_mirrors_later_changes_until_a_signal(racks, client, nova_conf, tmp_path):
    """A mirror that follows adds what comes later, survives a time without database, and ends at a signal."""
    program = [sys.executable, "-c", "from osc_placement.migrate.main import main; raise SystemExit(main())"]
    arguments = [
        "--config-file",
        str(nova_conf),
        "mirror-aggregates",
        "--follow",
        "--interval",
        "0.2",
        "--prune",
    ]
    with subprocess.Popen(
        [*program, *arguments],
        env=make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            rack1, rack2 = racks.aggregates["rack1"], racks.aggregates["rack2"]
            wait_until(lambda: aggregates_of(client) == {"h1": {rack1}, "h2": {rack1, rack2}, "h3": set()})
            racks.join("rack2", "h3")
            wait_until(lambda: aggregates_of(client)["h3"] == {rack2})
            racks.update("api", "ALTER TABLE aggregate_hosts RENAME TO elsewhere")
            assert "table aggregate_hosts" in process.stderr.readline()
            racks.update("api", "ALTER TABLE elsewhere RENAME TO aggregate_hosts")
            racks.update("api", "DELETE FROM aggregate_hosts WHERE host = 'h1'")
            wait_until(lambda: aggregates_of(client)["h1"] == set())
            process.terminate()
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (0, "")
    assert out.count("to undo it: ") == 3


def test_bare_metal_host_has_its_nodes_mirrored(cloud, client, migrate):
    """Every node of an ironic host is in the aggregates of the host."""
    nodes = cloud.add_host("ironic1", nodes=["n1", "n2", "n3"], hypervisor_type=IRONIC)
    make_providers(client, nodes)
    metal = cloud.add_aggregate("metal", ["ironic1"])
    assert migrate("mirror-aggregates").returncode == 0
    assert aggregates_of(client) == {"n1": {metal}, "n2": {metal}, "n3": {metal}}


def test_provider_changed_since_planning_is_replanned(racks, client, migrate):
    """What others add meanwhile stays."""
    uuid = next(iter(client.read_providers({"name": "h1"}, want=()))).provider.uuid
    client.set_provider_aggregates(uuid, [FOREIGN], 0)
    assert migrate("mirror-aggregates").returncode == 0
    assert aggregates_of(client)["h1"] == {FOREIGN, racks.aggregates["rack1"]}
