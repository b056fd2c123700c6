# SPDX-License-Identifier: Apache-2.0
"""What ``placement-manage`` and ``placement-status`` share: options, configuration, database, errors."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from osc_placement.server import conf as configuration
from osc_placement.server.process import opening
from osc_placement_compat import reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from osc_placement.server.db.engine import Database


def run(command: cfg.SubCommandOpt, *, failure: int = 1) -> int:
    """Run the command that the command line names, and return its exit status.

    The options are those of openstack-placement's commands: ``--config-file``, ``--config-dir`` and those of
    oslo.log, before the command. The configuration is searched where oslo.config looks, and
    ``OS_PLACEMENT_CONFIG_DIR`` is not read, as there.

    :param command: its parsers set ``call``, a function of the configuration that returns an exit status
    :param failure: the exit status if the command cannot run
    """
    conf = cfg.ConfigOpts()
    try:
        reference.refuse()
        _parse(conf, command)
        if conf.command.name is None:
            conf.print_help()
            return 1
        status: int = conf.command.call(conf)
        return status
    except (reference.InstalledToo, opening.CannotRun) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        return failure


def _parse(conf: cfg.ConfigOpts, command: cfg.SubCommandOpt) -> None:
    configuration.register_opts(conf)
    conf.register_cli_opt(command)
    try:
        conf(sys.argv[1:], project=configuration.PROJECT, version=metadata.version("osc-placement"))
    except cfg.RequiredOptError as error:
        files = ", ".join(conf.config_file) or "none"
        raise opening.CannotRun(
            "No database is named: placement.conf needs 'connection' in [placement_database]; "
            f"files read: {files}"
        ) from error
    except Exception as error:  # such as the error for a file that is not text
        raise opening.CannotRun(f"The configuration cannot be read: {opening.in_one_line(error)}") from error


def with_database(conf: cfg.ConfigOpts, call: Callable[[Database], Any], *, create: bool = False) -> Any:
    """Return the result of a function of the configured database.

    :param create: whether a missing SQLite file will be created
    :raises opening.CannotRun: the database cannot be used
    """
    database = opening.open_database(conf, create=create)
    with opening.muted(), opening.using(database):
        return call(database)
