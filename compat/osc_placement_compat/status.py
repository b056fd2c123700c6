# SPDX-License-Identifier: Apache-2.0
"""``placement-status upgrade check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from osc_placement.server import upgrade_check
from osc_placement.server.main import CHECK_FAILED
from osc_placement_compat import command

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts


def main() -> int:
    """Run ``placement-status`` and return its exit status."""
    upgrade = cfg.SubCommandOpt("upgrade", dest="command", title="Command", handler=_add_commands)
    return command.run(upgrade, failure=CHECK_FAILED)


def _add_commands(subparsers: Any) -> None:
    text = "Check what stands in the way of an upgrade."
    parser = subparsers.add_parser("upgrade", help=text, description=text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("check", choices=["check"], help=text)
    parser.set_defaults(call=_check)


def _check(conf: ConfigOpts) -> int:
    status: int = command.with_database(
        conf, lambda database: upgrade_check.run(conf, database, as_json=conf.command.json)
    )
    return status
