# SPDX-License-Identifier: Apache-2.0
"""A shadow of openstack-placement under a random workload; ``tests.reliability.shadow`` has long ones."""

from tests import databases
from tests.reliability import shadow


def test_shadow_of_openstack_placement_finds_no_difference_and_fails_no_client(tmp_path):
    """Clients do not notice that our side is killed, and every difference has its reason."""
    databases.require_reference()
    seed, report, failures, killed = shadow.run(tmp_path, "mariadb", count=300, kills=2)
    assert (failures, killed) == ([], 2), f"seed {seed}"
    different = [one for one in report["differences"] if one["explained"] is None]
    assert different == [], f"seed {seed}"
    assert sum(row["compared"] for row in report["routes"]) > 30, f"seed {seed}"
    assert report["restarts"] >= 2
