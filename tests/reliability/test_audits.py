# SPDX-License-Identifier: Apache-2.0
"""An audit removes no living claim, whatever nova it looks at: random clouds, in all wrong ways."""

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
from tests.functional.migrate.cloud import Cloud
from tests.functional.migrate.conftest import kept_signals
from tests.functional.migrate.placement import clear
from tests.functional.migrate.random_clouds import SPOILS, Look, RandomCloud, make_region
from tests.reliability import scale

CLOUDS = 2


@pytest.fixture
def client(tmp_path):
    """A client of an empty placement."""
    with servers.running(tmp_path) as server:
        yield PlacementClient(Session(auth=Token(server.url, "admin")))


@pytest.fixture
def audit(client, tmp_path, monkeypatch):
    """A function that removes all that it may, as who was asked for the number and gave it; its output."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(look):
        access = ["--nova-api-db", look.api_url, "--placement-endpoint", client.endpoint]
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), kept_signals():
            main([*access, "--placement-token", "admin", "audit", "--delete", "--max-removals", "100000"])
        return out.getvalue()

    return run


def test_audit_removes_no_living_claim(client, audit, tmp_path):
    """Whatever is wrong, none is lost; where nothing is, all dead ones go and no other."""
    looks = claims = removed = 0
    for seed in scale.rounds(CLOUDS):
        clear(client)
        directory = tmp_path / str(seed)
        directory.mkdir()
        with nova.copy_files(directory) as made:
            random_cloud = RandomCloud(Cloud(made.urls), client, random.Random(seed))
            with random_cloud.cloud.together():
                random_cloud.fill()
            with make_region(directory / "other", random_cloud) as other:
                for spoil in (*SPOILS, "spoil_nothing"):
                    look = Look(made.urls, directory / spoil, other)
                    getattr(look, spoil)()
                    told = audit(look)
                    assert random_cloud.find_lost() == [], f"seed {seed}, {spoil}:\n{told}"
                    looks += 1
        assert random_cloud.find_left() == [], f"seed {seed}:\n{told}"
        claims += sum(map(len, random_cloud.living.values()))
        removed += sum(map(len, random_cloud.dead.values()))
    print(f"{looks} audits, {claims} living claims, none lost; {removed} dead ones, all removed")
