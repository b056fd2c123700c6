# SPDX-License-Identifier: Apache-2.0
"""What arguments take: the tables that say so are those of the commands."""

import re
from importlib.metadata import distribution

from osc_placement.commands.base import PROVIDER_HELP
from osc_placement.commands.deferred import find
from osc_placement.completion import values
from osc_placement.completion.programs import _list_actions
from osc_placement.server.main import make_parser as make_server_parser
from tests.migrate_parsers import make_parsers
from tests.unit.commands.shell import make

POINTS = distribution("osc-placement").entry_points.select(group="openstack.placement.v1")
PARSERS = {
    point.name.replace("_", " "): make(find(*point.attr.split("."))).get_parser("openstack")
    for point in POINTS
}
PROGRAMS = {"placement-server": make_server_parser(), **make_parsers()}
ARGUMENTS = {
    (command, action.dest): action
    for command, parser in {**PARSERS, **PROGRAMS}.items()
    for action in _list_actions(parser)
}
#: metavars with the name of a thing that is no value of it
NO_NAMES = {"<resource_provider_generation>"}


def test_every_entry_of_the_tables_is_used():
    """An argument that was renamed takes its entry with it."""
    metavars = {str(action.metavar or action.dest) for action in ARGUMENTS.values()}
    assert values._BY_METAVAR.keys() - metavars == {"<cloud>"} - metavars
    assert values._BY_ARGUMENT.keys() - ARGUMENTS.keys() == set()
    assert PROVIDER_HELP == values._PROVIDER


def test_a_thing_has_one_metavar():
    """Those of release 4 of the plugin remain beside it."""
    metavars = {
        offer: {metavar for metavar, each in values._BY_METAVAR.items() if each is offer}
        for offer in (values._providers, values._aggregates)
    }
    former = {"<parent_provider>", "<in_tree>", "provider_uuid"}
    assert metavars[values._providers] == {"<provider>", *former}
    assert metavars[values._aggregates] == {"<aggregate>", "<aggregate_uuid>", "<member_of>"}


def test_every_name_of_the_cloud_is_completed():
    """An argument whose metavar says that it is a provider, trait, class, aggregate or run has its values."""
    named = re.compile("provider|trait|class|aggregate|<run>|<file>|FILE", re.IGNORECASE)
    missing = {
        (command, dest, action.metavar)
        for (command, dest), action in ARGUMENTS.items()
        if action.metavar and named.search(str(action.metavar)) and not action.choices
        if str(action.metavar) not in NO_NAMES and values.find_offer(command, action) is None
    }
    assert missing == set()
