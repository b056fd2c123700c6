# SPDX-License-Identifier: Apache-2.0
"""``placement-server status upgrade check``: finds problems that prevent an upgrade.

The output and the exit statuses are those of ``placement-status``, because deployment tools read them.
"""

from __future__ import annotations

import enum
import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import prettytable

from osc_placement.server.db import repair
from osc_placement.server.db.upgrade import REPAIR_FIRST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from oslo_config.cfg import ConfigOpts

    from osc_placement.server.db.engine import Database

TITLE = "Upgrade Check Results"


class Code(enum.IntEnum):
    """The outcome of a check; the worst one is the exit status."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a check: its name, its outcome, and advice."""

    check: str
    code: Code
    details: str | None = None


def run(conf: ConfigOpts, database: Database, *, as_json: bool = False) -> int:
    """Run the checks, print the results, and return the worst outcome."""
    results = [_check_roots(database), _check_consumers(database), _check_policy_file(conf)]
    print(_format_json(results) if as_json else _format_table(results))
    return max(result.code for result in results)


def _check_roots(database: Database) -> Result:
    if not database.read(repair.is_root_missing):
        return Result("Missing Root Provider IDs", Code.SUCCESS)
    details = "There is at least one resource provider table record which misses its root provider id."
    return Result("Missing Root Provider IDs", Code.FAILURE, f"{details} {REPAIR_FIRST}")


def _check_consumers(database: Database) -> Result:
    count = database.read(repair.count_missing_consumers)
    if not count:
        return Result("Incomplete Consumers", Code.SUCCESS)
    details = f"There are {count} incomplete consumers table records for existing allocations."
    return Result("Incomplete Consumers", Code.WARNING, f"{details} {REPAIR_FIRST}")


def _check_policy_file(conf: ConfigOpts) -> Result:
    path = conf.find_file(conf.oslo_policy.policy_file)
    if path is None or not _is_json(path):
        return Result("Policy File JSON to YAML Migration", Code.SUCCESS)
    return Result("Policy File JSON to YAML Migration", Code.FAILURE, _CONVERT)


def _is_json(path: str) -> bool:
    with open(path, encoding="utf-8") as file:
        try:
            json.load(file)
        except ValueError:
            return False
    return True


_CONVERT = (
    "Your policy file is JSON-formatted which is deprecated. You need to switch to YAML-formatted file. Use "
    "the ``oslopolicy-convert-json-to-yaml`` tool to convert the existing JSON-formatted files to YAML in a "
    "backwards-compatible manner: "
    "https://docs.openstack.org/oslo.policy/latest/cli/oslopolicy-convert-json-to-yaml.html."
)


def _format_json(results: Sequence[Result]) -> str:
    checks = [{"check": item.check, "result": item.code, "details": item.details} for item in results]
    return json.dumps({"name": TITLE, "checks": checks})


def _format_table(results: Sequence[Result]) -> str:
    table = prettytable.PrettyTable([TITLE], align="l")
    for result in results:
        details = "\n".join(textwrap.wrap(result.details or "None", 60, subsequent_indent="  "))
        cell = f"Check: {result.check}\nResult: {result.code.name.capitalize()}\nDetails: {details}"
        table.add_row([cell], divider=True)
    return table.get_string()
