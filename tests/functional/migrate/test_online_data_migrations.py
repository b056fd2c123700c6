# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate online_data_migrations`: all migrations in order, with nova-manage's table and exits."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from osc_placement.api import transport
from osc_placement.migrate.nova import database
from tests.functional.migrate.placement import CLAIM, held_by
from tests.functional.servers import make_environment

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


#: of which many fit on a host
SMALL = {"vcpus": 1, "memory_mb": 64, "root_gb": 1}
#: how often to kill; more is asked for by name
KILLS = int(os.environ.get("OSC_PLACEMENT_TEST_KILLS", "6"))


@pytest.fixture
def unmigrated(cloud, add_host):
    """A cloud of which placement knows the hosts only; its instances, by UUID, on their nodes."""
    nodes = {f"h{number}": add_host(f"h{number}", f"cell{number % 2 + 1}") for number in range(4)}
    cloud.add_aggregate("dense", ["h0", "h1"], cpu_allocation_ratio="8.0")
    return {
        cloud.add_instance(f"h{number % 4}", f"cell{number % 2 + 1}"): nodes[f"h{number % 4}"]
        for number in range(20)
    }


def counts(document):
    """Of each migration, how many were needed and done."""
    return {row["Migration"]: (row["Total Needed"], row["Completed"]) for row in document["migrations"]}


def test_all_run_in_order_and_a_second_run_finds_nothing(unmigrated, client, migrate, migrate_json):
    """The table has a row for each; when all is done they say 0."""
    document, status = migrate_json("online_data_migrations")
    assert counts(document) == {
        "mirror-aggregates": (2, 2),
        "carry-ratios": (2, 2),
        "move-baremetal": (0, 0),
        "heal-allocations": (20, 20),
    }
    assert status == 0
    assert {uuid: held_by(client, uuid) for uuid in unmigrated} == {
        uuid: {node: CLAIM} for uuid, node in unmigrated.items()
    }
    again = migrate("online_data_migrations")
    assert again.returncode == 0
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in again.stdout.splitlines()]
    assert ["Migration", "Total Needed", "Completed"] in lines
    assert ["heal-allocations", "0", "0"] in lines


def test_runs_with_max_count_finish_together(unmigrated, migrate_json):
    """With --max-count the status is 1 until nothing is left, and then 0."""
    statuses = []
    for _ in range(5):
        document, status = migrate_json("online_data_migrations", "--max-count", "7")
        assert sum(done for _, done in counts(document).values()) <= 7
        statuses.append(status)
    assert statuses == [1, 1, 1, 0, 0]
    assert counts(document)["heal-allocations"] == (0, 0)


@pytest.fixture
def asked(monkeypatch):
    """What placement and nova's databases are asked: the methods of requests, and "SQL" for a question."""
    asked = []
    send, fetch = transport.Transport._send, database.NovaDatabase.fetch

    def note_and_send(self, method, path, **options):
        asked.append(method)
        return send(self, method, path, **options)

    def note_and_fetch(self, statement):
        asked.append("SQL")
        return fetch(self, statement)

    monkeypatch.setattr(transport.Transport, "_send", note_and_send)
    monkeypatch.setattr(database.NovaDatabase, "fetch", note_and_fetch)
    return asked


def test_repeated_run_writes_nothing_twice_and_reads_little(unmigrated, cloud, client, migrate, asked):
    """Without markers of how far it came: what is done costs no write, and no question for each instance."""
    assert migrate("online_data_migrations", "--max-count", "9").returncode == 1
    assert migrate("online_data_migrations").returncode == 0
    assert {client.list_allocations(uuid)["consumer_generation"] for uuid in unmigrated} == {1}
    costs = []
    for instances in (0, 40):
        for number in range(instances):
            cloud.add_instance(f"h{number % 2}", f"cell{number % 2 + 1}", flavor=SMALL)
        migrate("online_data_migrations")
        asked.clear()
        assert migrate("online_data_migrations").returncode == 0
        costs.append(Counter(asked))
    assert costs[0] == costs[1]
    assert set(costs[0]) == {"GET", "SQL"}
    assert costs[0]["GET"] < 10
    assert costs[0]["SQL"] < 40


def test_shards_together_migrate_every_host(unmigrated, client, migrate_json):
    """Every host is in one of the parts, for all migrations; a part that is done says 0."""
    done = []
    for number in (1, 2, 3):
        document, status = migrate_json("online_data_migrations", "--shard", f"{number}/3")
        assert status == 0
        assert all(needed == made for needed, made in counts(document).values())
        done.append({name: made for name, (_, made) in counts(document).items()})
    assert max(part["heal-allocations"] for part in done) < 20
    for name, total in (("mirror-aggregates", 2), ("carry-ratios", 2), ("heal-allocations", 20)):
        assert sum(part[name] for part in done) == total
    assert migrate_json("online_data_migrations")[0]["migrations"][-1]["Total Needed"] == 0


def test_incomplete_migration_exits_with_2(unmigrated, cloud, migrate_json):
    """What is left alone is needed and not completed, and everything else is done."""
    cloud.add_instance("h0", flavor="{")
    document, status = migrate_json("online_data_migrations")
    assert (counts(document)["heal-allocations"], status) == ((21, 20), 2)


def test_failure_before_any_change_exits_with_255(unmigrated, migrate):
    """As with nova-manage."""
    assert migrate("--nova-api-db", "sqlite:////no/api.db", "online_data_migrations").returncode == 255


def test_killed_runs_are_finished_by_the_next(unmigrated, cloud, client, nova_conf, tmp_path, migrate_json):
    """Killed at any moment and repeated, the end is exact, and nothing is done twice."""
    nodes = list(unmigrated.values())[:4]
    with cloud.together():
        for number in range(4 * KILLS):
            uuid = cloud.add_instance(f"h{number % 4}", f"cell{number % 2 + 1}", flavor=SMALL)
            unmigrated[uuid] = nodes[number % 4]
    program = [sys.executable, "-c", "from osc_placement.migrate.main import main; raise SystemExit(main())"]
    arguments = ["--config-file", str(nova_conf), "online_data_migrations", "--throttle", "10"]
    environment = make_environment(XDG_STATE_HOME=str(tmp_path / "state"))
    chance = random.Random(1)
    killed = 0
    assert len(set(nodes)) == len(nodes)
    for _ in range(KILLS):
        process = subprocess.Popen(
            [*program, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            process.communicate(timeout=chance.uniform(0.4, 2))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            killed += 1
    assert killed >= KILLS // 2
    time.sleep(0.2)  # a request that was under way may still be served
    _, status = migrate_json("online_data_migrations")
    assert status == 0
    for uuid, node in unmigrated.items():
        document = client.list_allocations(uuid)
        (claim,) = document["allocations"].values()
        assert set(document["allocations"]) == {node}
        assert claim["resources"] in (CLAIM, {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1})
        assert document["consumer_generation"] == 1
