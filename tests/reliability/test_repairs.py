# SPDX-License-Identifier: Apache-2.0
"""A repair of providers loses no claim, whatever nova it looks at: random clouds, in all wrong ways."""

import contextlib
import io
import random

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.migrate.main import main
from tests.functional import servers
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.cloud import KVM, NODE, Cloud
from tests.functional.migrate.conftest import kept_signals
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import all_held, clear, provide
from tests.functional.migrate.random_clouds import LARGE, SPOILS, Look, RandomCloud, make_region
from tests.reliability import scale

CLOUDS = 2
#: the trait of a compute node, which is no proof that nova deleted it
TRAITS = ["COMPUTE_NODE"]


@pytest.fixture
def client(tmp_path):
    """A client of an empty placement that lets administrators reshape."""
    (tmp_path / "policy.yaml").write_text('"placement:reshaper:reshape": "rule:admin_or_service_api"\n')
    environment = servers.make_environment(OS_OSLO_POLICY__POLICY_FILE=str(tmp_path / "policy.yaml"))
    with servers.running(tmp_path, environment=environment) as server:
        yield PlacementClient(Session(auth=Token(server.url, "admin")))


@pytest.fixture
def repair(client, tmp_path, monkeypatch):
    """A function that repairs and deletes all that it may; its output."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(look):
        access = ["--nova-api-db", look.api_url, "--placement-endpoint", client.endpoint]
        command = ["providers", "--repair", "--delete", "--max-removals", "100000"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), kept_signals():
            main([*access, "--placement-token", "admin", *command])
        return out.getvalue()

    return run


def reinstall(cloud, host):
    """Give a host a compute node with another UUID in nova, and disable its service; that UUID."""
    new = new_uuid()
    cloud.update(host.cell, "UPDATE services SET disabled = 1 WHERE host = :host", host=host.name)
    cloud.update(host.cell, "UPDATE compute_nodes SET deleted = id WHERE uuid = :old", old=host.node)
    values = {**NODE, "hypervisor_type": KVM, "uuid": new}
    cloud.insert(host.cell, "compute_nodes", host=host.name, hypervisor_hostname=host.name, **values)
    return new


def remove(cloud, client, name, cell):
    """Make a host that nova has deleted, whose provider was left behind; its UUID."""
    (uuid,) = cloud.add_host(name, cell, mapped=False).values()
    cloud.update(cell, "UPDATE compute_nodes SET deleted = id WHERE uuid = :uuid", uuid=uuid)
    provide(client, [(name, uuid, LARGE, TRAITS, ())])
    return uuid


def test_repair_loses_no_claim(client, repair, tmp_path):
    """Every claim on a machine stays on it, to the unit; only providers that nova deleted may go."""
    looks = claims = replaced = 0
    for seed in scale.rounds(CLOUDS):
        clear(client)
        directory = tmp_path / str(seed)
        directory.mkdir()
        chance = random.Random(seed)
        with nova.copy_files(directory) as made:
            random_cloud = RandomCloud(Cloud(made.urls), client, chance)
            with random_cloud.cloud.together():
                random_cloud.fill()
            cloud = random_cloud.cloud
            empty = cloud.add_host("cell1-empty")["cell1-empty"]
            provide(client, [("cell1-empty", empty, LARGE, TRAITS, ())])
            again = {host.node: reinstall(cloud, host) for host in chance.sample(random_cloud.hosts, 2)}
            gone = {remove(cloud, client, f"{cell}-gone", cell) for cell in ("cell1", "cell2")}
            before = all_held(client)
            kept = {record.provider.uuid for record in client.read_providers(want=())} - gone - again.keys()
            with make_region(directory / "other", random_cloud) as other:
                # each cloud is looked at in every second way, so that two of them are in all
                for spoil in (*SPOILS[seed % 2 :: 2], "spoil_nothing"):
                    look = Look(made.urls, directory / spoil, other)
                    getattr(look, spoil)()
                    told = repair(look)
                    after = all_held(client)
                    where = {new: old for old, new in again.items()}
                    machines = {
                        consumer: {where.get(uuid, uuid): amounts for uuid, amounts in held.items()}
                        for consumer, held in after.items()
                    }
                    assert machines == before, f"seed {seed}, {spoil}:\n{told}"
                    present = {record.provider.uuid for record in client.read_providers(want=())}
                    assert kept <= present, f"seed {seed}, {spoil}:\n{told}"
                    looks += 1
        assert present == kept | set(again.values()), f"seed {seed}:\n{told}"
        claims += sum(map(len, before.values()))
        replaced += len(again)
    print(f"{looks} repairs, {claims} claims, none lost; {replaced} providers replaced")
