# SPDX-License-Identifier: Apache-2.0
"""``placement-manage db sync|version|stamp|online_data_migrations``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from osc_placement.server import data_migrations
from osc_placement.server.db import upgrade
from osc_placement_compat import command

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts


def main() -> int:
    """Run ``placement-manage`` and return its exit status."""
    return command.run(cfg.SubCommandOpt("db", dest="command", title="Command", handler=_add_commands))


def _add_commands(subparsers: Any) -> None:
    # without a command the help of the program or of the group is printed, instead of an error
    subparsers.required = False
    parser = subparsers.add_parser("db")

    def print_help(conf: ConfigOpts) -> int:
        parser.print_help()
        return 0

    parser.set_defaults(call=print_help)
    commands = parser.add_subparsers(description="database commands")
    for name, call, text in (
        ("sync", _sync, "Create the tables, or upgrade them to the newest version."),
        ("version", _print_version, "Print the version of the schema."),
        ("stamp", _stamp, "Record a version of the schema without changing the tables."),
        ("online_data_migrations", _migrate_data, "Repair rows that old releases wrote."),
    ):
        commands.add_parser(name, help=text, description=text).set_defaults(call=call)
    commands.choices["stamp"].add_argument("version", help="the version to record, or 'head' for the newest")
    commands.choices["online_data_migrations"].add_argument(
        "--max-count", metavar="<number>", help="repair at most so many rows, then stop"
    )


def _sync(conf: ConfigOpts) -> int:
    command.with_database(conf, upgrade.upgrade, create=True)
    return 0


def _print_version(conf: ConfigOpts) -> int:
    # openstack-placement creates the file of a SQLite database here, and prints None
    print(command.with_database(conf, upgrade.version, create=True))
    return 0


def _stamp(conf: ConfigOpts) -> int:
    command.with_database(conf, lambda database: upgrade.stamp(database, conf.command.version), create=True)
    return 0


def _migrate_data(conf: ConfigOpts) -> int:
    status: int = command.with_database(
        conf, lambda database: data_migrations.run(conf, database, max_count=conf.command.max_count)
    )
    return status
