# SPDX-License-Identifier: Apache-2.0
"""`status` and `heal-allocations` where allocations have no row in ``consumers``, as from before Rocky."""

import contextlib
from unittest import mock

import pytest
import sqlalchemy as sa

from osc_placement.api.client import PlacementClient
from tests.functional import forking, reference_server, servers
from tests.functional.migrate.cloud import PROJECT
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.placement import CLAIM, held_by, hold

pytestmark = pytest.mark.nova_on("sqlite")

FIRST = "placement-server db online_data_migrations"


@contextlib.contextmanager
def our_server(directory, database):
    """Our server on a database; its URL."""
    with servers.running(directory, "--database", database) as server:
        yield server.url


@contextlib.contextmanager
def their_server(directory, database):
    """openstack-placement on a database; its URL."""
    with reference_server.running(directory, database, sync=True) as url:
        yield url


@pytest.fixture(scope="module", params=[our_server, their_server])
def placement(request, tmp_path_factory):
    """A placement service; the URL of its API, and that of its database."""
    directory = tmp_path_factory.mktemp("placement")
    database = f"sqlite:///{directory}/placement.db"
    with request.param(directory, database) as url:
        yield url, database


@pytest.fixture(scope="module")
def server_url(placement):
    """The URL of the API."""
    return placement[0]


@pytest.fixture
def lose_records(placement):
    """A function that deletes the rows of consumers, and leaves their allocations."""
    engine = sa.create_engine(placement[1], poolclass=sa.pool.NullPool)

    def lose(*uuids):
        with engine.begin() as connection:
            for uuid in uuids:
                connection.execute(sa.text("DELETE FROM consumers WHERE uuid = :uuid"), {"uuid": uuid})

    yield lose
    # the API shows no such allocations, so what empties placement between tests cannot delete them
    with engine.begin() as connection:
        connection.execute(
            sa.text("DELETE FROM allocations WHERE consumer_id NOT IN (SELECT uuid FROM consumers)")
        )


def test_instances_without_a_consumer_record_are_not_healed_before_they_have_one(
    cloud, client, add_host, migrate_json, placement, lose_records
):
    """What they hold stays as it is until online_data_migrations; then they get their owner back."""
    h1, h2 = add_host("h1"), add_host("h2")
    lost = cloud.add_instance("h1")
    kept, missing = cloud.add_instance("h1"), cloud.add_instance("h2")
    for instance in (lost, kept):
        hold(client, instance, {h1: CLAIM})
    lose_records(lost)
    document, status = migrate_json("status")
    found = {row["subject"]: (row["reason"], row["text"]) for row in document["findings"]}
    assert found.keys() == {"provider h1", f"instance {lost}"}
    assert found["provider h1"][0] == "no consumer record"
    assert found[f"instance {lost}"][0] == "no allocations"
    assert all(FIRST in text for _, text in found.values())
    assert (document["missing"], status) == ([missing], 3)
    assert document["sentence"].endswith(f"Run {FIRST} first.")
    document, status = migrate_json("heal-allocations")
    assert ([row["uuid"] for row in document["rows"]], status) == ([missing], 3)
    assert held_by(client, missing) == {h2: CLAIM}
    assert client.provider_usages(h1) == {name: 2 * amount for name, amount in CLAIM.items()}
    done = forking.run("placement-server", "db", "online_data_migrations", "--database", placement[1])
    assert done.returncode == 0, done.stderr
    document, status = migrate_json("heal-allocations")
    assert ([row["uuid"] for row in document["rows"]], status) == ([lost], 0)
    assert (held_by(client, lost), client.list_allocations(lost)["project_id"]) == ({h1: CLAIM}, PROJECT)
    assert migrate_json("status")[0]["ready"]


def test_claim_that_is_released_meanwhile_is_no_missing_record(cloud, client, add_host, migrate_json):
    """Usage is read before allocations: what was released between the two is looked up once more."""
    h1 = add_host("h1")
    hold(client, cloud.add_instance("h1"), {h1: CLAIM})
    ended = new_uuid()
    hold(client, ended, {h1: CLAIM})
    read = PlacementClient.read_consumers

    def release_first(self, *arguments, **options):
        client.delete_allocations(ended)
        return read(self, *arguments, **options)

    with mock.patch.object(PlacementClient, "read_consumers", release_first):
        document, status = migrate_json("status")
    assert (document["findings"], document["ready"], status) == ([], True, 0)
