# SPDX-License-Identifier: Apache-2.0
"""``placement-nova-manage placement heal_allocations|sync_aggregates|audit``.

The commands on placement of nova-manage with its options and exit statuses, for jobs that call it; the work
is that of ``placement-migrate``. It does not have the name nova-manage, which has other commands as well.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from pathlib import Path
from typing import Any, Final

from oslo_config import cfg

from osc_placement.migrate import main as migrate
from osc_placement_compat import reference

_UNREADABLE: Final = 1
_INVALID: Final = 127
_FAILED: Final = 255
#: the statuses after which nothing is printed, as by nova-manage, without --verbose
_SILENT: Final = (0, 4)
#: the options that are not passed on
_OWN: Final = ("config_file", "config_dir", "debug", "verbose", "command")


def main() -> int:
    """Run one command and return its exit status."""
    parser = _make_parser()
    options = parser.parse_args()
    try:
        reference.refuse()
    except reference.InstalledToo as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return _FAILED
    if problem := _find_problem(options):
        print(problem)
        return _INVALID
    if missing := [name for name in options.config_dir if not Path(name).is_dir()]:
        print(f"{parser.prog}: there is no directory {', '.join(missing)}", file=sys.stderr)
        return _UNREADABLE
    words = [*_list_files(options), options.command, "--nova-exit-codes"]
    # all options have the names that placement-migrate gives them, but for the underscore of one
    given = {name.replace("_", "-"): value for name, value in vars(options).items() if name not in _OWN}
    words += [f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items() if value]
    printed = io.StringIO()
    with contextlib.nullcontext() if options.verbose else contextlib.redirect_stdout(printed):
        status = migrate.main(words)
    print("" if status in _SILENT else printed.getvalue(), end="")
    return status


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="placement-nova-manage",
        description="The placement commands of nova-manage, carried out by placement-migrate.",
    )
    parser.add_argument("--config-file", action="append", default=[], help="nova.conf; may be repeated")
    parser.add_argument(
        "--config-dir", action="append", default=[], help="directory of more *.conf files; may be repeated"
    )
    parser.add_argument("--debug", "-d", action="store_true", help="accepted and ignored")
    categories = parser.add_subparsers(metavar="CATEGORY", required=True)
    text = "commands on placement"
    category = categories.add_parser("placement", help=text, description=text)
    actions = category.add_subparsers(metavar="ACTION", required=True)
    heal = _add_action(
        actions, "heal_allocations", "heal-allocations", "Create the allocations that instances lack."
    )
    heal.add_argument("--max-count", help="heal at most so many instances")
    heal.add_argument("--dry-run", action="store_true", help="change nothing")
    heal.add_argument("--instance", help="UUID of the only instance to heal")
    heal.add_argument("--skip-port-allocations", action="store_true", help="leave what ports ask for alone")
    heal.add_argument("--cell", help="UUID of the only cell to heal")
    heal.add_argument("--force", action="store_true", help="correct wrong amounts of --instance, too")
    text = "Mirror host aggregates to aggregates of resource providers."
    _add_action(actions, "sync_aggregates", "mirror-aggregates", text)
    audit = _add_action(actions, "audit", "audit", "Find orphaned allocations.")
    audit.add_argument("--resource_provider", help="UUID of the only resource provider to audit")
    audit.add_argument("--delete", action="store_true", help="delete the orphaned allocations")
    return parser


def _add_action(actions: Any, name: str, command: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(command=command)
    parser.add_argument("--verbose", action="store_true", help="print what was done, too")
    return parser


def _find_problem(options: argparse.Namespace) -> str:
    """Return what nova-manage calls invalid input; empty if nothing is."""
    if options.command != "heal-allocations":
        return ""
    if options.instance:
        # which nova-manage ignores then
        options.max_count = None
        return "--cell cannot be used with --instance" if options.cell else ""
    if options.force:
        return "--force needs --instance"
    count = options.max_count
    if count is not None and not (count.isdecimal() and int(count)):
        return f"--max-count has to be a positive number, not {count!r}"
    return ""


def _list_files(options: argparse.Namespace) -> list[str]:
    """Return the options for the configuration; none where nova's usual files are read."""
    files = list(options.config_file)
    if options.config_dir:
        files = files or cfg.find_config_files("nova")
        files += [str(path) for name in options.config_dir for path in sorted(Path(name).glob("*.conf"))]
    return [f"--config-file={path}" for path in files]
