# SPDX-License-Identifier: Apache-2.0
"""The pages on leaving the caching scheduler, in their order: their commands print what they show."""

from tests.functional.migrate.pages import shell_with, type_into, with_runs_of
from tests.functional.migrate.placement import CLAIM, hold
from tests.functional.migrate.test_constraints import request
from tests.functional.test_readme import assert_matches
from tests.transcripts import SOURCE, read_steps

PAGES = ("mirroring-aggregates.rst", "leaving-caching-scheduler.rst", "audit.rst")
SMALL = "c17bfb86-e74e-44b3-8ab9-de9be5752b69"
LARGE = "6bfafbd4-3659-4c4a-97e2-e2558a4c5478"
MOVING = "f106a24d-e2d7-4dc3-99e7-2752edfc2cb3"
ORPHAN = "dead0000-0000-4000-8000-00000000dead"
NODE = "dcf9a9c5-45dc-4a4b-b367-c6e56b1a2da5"


def test_pages_show_real_output(cloud, client, add_host, nova_conf, tmp_path):
    """An instance fits only when the ratios are copied, another is in a task; a host has no provider."""
    nodes = {name: add_host(name) for name in ("compute1", "compute2", "compute3")}
    cloud.add_host("compute4")
    cloud.update("cell1", "UPDATE compute_nodes SET uuid = :node WHERE host = 'compute4'", node=NODE)
    cloud.add_aggregate("rack1", ["compute1", "compute2"], cpu_allocation_ratio="8.0")
    cloud.add_aggregate("rack2", ["compute3", "compute4"])
    cloud.add_instance("compute1", uuid=SMALL)
    cloud.add_instance("compute1", uuid=LARGE, flavor={"vcpus": 80})
    cloud.add_instance("compute3", uuid=MOVING, task_state="migrating")
    for instance in (SMALL, LARGE, MOVING):
        request(cloud, instance)
    hold(client, ORPHAN, {nodes["compute2"]: CLAIM})
    with shell_with(nova_conf, tmp_path) as shell:
        for page in PAGES:
            for step in read_steps((SOURCE / "admin" / page).read_text()):
                shown = type_into(shell, step.command)
                assert_matches(step, with_runs_of(shown, step.output))
