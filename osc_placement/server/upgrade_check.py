# SPDX-License-Identifier: Apache-2.0
"""``placement-server status upgrade check``: finds problems that prevent an upgrade.

The output and the exit statuses are those of ``placement-status``, because deployment tools read them.
"""

from __future__ import annotations

import contextlib
import enum
import json
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import prettytable

from osc_placement.server.db import repair
from osc_placement.server.db.upgrade import REPAIR_FIRST

if TYPE_CHECKING:
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
    """The result of a check: its name, its outcome, and advice unless it is a success."""

    check: str
    code: Code
    details: str | None


def run(conf: ConfigOpts, database: Database, *, as_json: bool = False) -> int:
    """Run the checks, print the results, and return the worst outcome."""
    is_root_missing = database.read(repair.is_root_missing)
    count = database.read(repair.count_missing_consumers)
    policy = conf.find_file(conf.oslo_policy.policy_file)
    is_policy_json = False
    if policy is not None:
        with open(policy, encoding="utf-8") as file, contextlib.suppress(ValueError):
            # an empty object is YAML as well, and has nothing to convert
            is_policy_json = json.load(file) != {}
    results = [
        _make_result(
            "Missing Root Provider IDs",
            is_root_missing,
            Code.FAILURE,
            "There is at least one resource provider table record which misses its root provider id. "
            f"{REPAIR_FIRST}",
        ),
        _make_result(
            "Incomplete Consumers",
            count,
            Code.WARNING,
            f"There are {count} incomplete consumers table records for existing allocations. {REPAIR_FIRST}",
        ),
        _make_result("Policy File JSON to YAML Migration", is_policy_json, Code.FAILURE, _CONVERT),
    ]
    if as_json:
        checks = [{"check": item.check, "result": item.code, "details": item.details} for item in results]
        print(json.dumps({"name": TITLE, "checks": checks}))
    else:
        table = prettytable.PrettyTable([TITLE], align="l")
        for item in results:
            details = "\n".join(textwrap.wrap(item.details or "None", 60, subsequent_indent="  "))
            cell = f"Check: {item.check}\nResult: {item.code.name.capitalize()}\nDetails: {details}"
            table.add_row([cell], divider=True)
        print(table.get_string())
    return max(result.code for result in results)


def _make_result(check: str, problem: object, code: Code, advice: str) -> Result:
    """Return the result of a check, a success if there is no problem."""
    return Result(check, code, advice) if problem else Result(check, Code.SUCCESS, None)


_CONVERT = (
    "Your policy file is JSON-formatted which is deprecated. You need to switch to YAML-formatted file. Use "
    "the ``oslopolicy-convert-json-to-yaml`` tool to convert the existing JSON-formatted files to YAML in a "
    "backwards-compatible manner: "
    "https://docs.openstack.org/oslo.policy/latest/cli/oslopolicy-convert-json-to-yaml.html."
)
