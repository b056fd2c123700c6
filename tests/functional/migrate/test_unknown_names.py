# SPDX-License-Identifier: Apache-2.0
"""Names on the command line of `placement-migrate` that nova does not have: nobody takes them for done."""

import pytest

from tests.functional.migrate.cloud import IRONIC
from tests.functional.migrate.nova_databases import new_uuid

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)

UNKNOWN = "0b5e0d2c-6a11-4f0e-9d53-7a1c4be0f8d2"
COMMANDS = [
    ("mirror-aggregates", "--host", "h9", "host h9"),
    ("mirror-aggregates", "--aggregate", "rack9", "host aggregate rack9"),
    ("carry-ratios", "--host", "h9", "host h9"),
    ("move-baremetal", "--host", "h9", "host h9"),
    ("move-baremetal", "--node", UNKNOWN, f"bare metal node {UNKNOWN}"),
    ("heal-allocations", "--host", "h9", "host h9"),
    ("heal-allocations", "--instance", UNKNOWN, f"instance {UNKNOWN}"),
]
#: without those who ask the API database, which knows all there is
OF_CELLS = [each for each in COMMANDS if each[1] != "--aggregate"]


@pytest.fixture
def asked(cloud, add_host):
    """A cloud in which the other names on the command line are known."""
    add_host("h1")
    add_host("metal", "cell2", nodes=[new_uuid()], hypervisor_type=IRONIC)
    cloud.add_aggregate("rack", ["h1"])
    return cloud


@pytest.mark.parametrize(("command", "option", "name", "text"), COMMANDS)
def test_unknown_name_is_a_one_line_error(asked, migrate, command, option, name, text):
    """Nothing is done, not even for a name that is known; the status says so, and the line who it is."""
    known = ["--host", "h1"] if option == "--host" else []
    done = migrate(command, *known, option, name)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"placement-migrate: Nova has no {text}\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [("mirror-aggregates", 255), ("heal-allocations", 127)],
)
def test_unknown_name_has_the_nova_exit_code(asked, migrate, command, status):
    """With --nova-exit-codes it is that of invalid input, where nova-manage has one."""
    assert migrate(command, "--host", "h9", "--nova-exit-codes").returncode == status


@pytest.mark.parametrize(("command", "option", "name", "text"), OF_CELLS)
def test_unknown_name_with_an_unreadable_cell_is_reported_as_unknown(
    asked, migrate, command, option, name, text
):
    """While a cell cannot be read nobody knows what is in it."""
    asked.update(
        "api", "UPDATE cell_mappings SET database_connection = 'sqlite:////no/x' WHERE name = 'cell1'"
    )
    done = migrate(command, option, name)
    assert done.returncode == 4
    assert f"{text}: it is unknown whether nova has it" in done.stdout


def test_host_named_by_an_aggregate_only_is_known(asked, migrate):
    """It is there for nova, and what is wrong with it is said."""
    asked.add_aggregate("old", ["gone"])
    done = migrate("mirror-aggregates", "--host", "gone")
    assert (done.returncode, "host gone: it is mapped to no cell" in done.stdout) == (3, True)
