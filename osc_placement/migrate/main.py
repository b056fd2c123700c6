# SPDX-License-Identifier: Apache-2.0
"""The console script ``placement-migrate``: calls a command with its options, and explains its errors."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

from keystoneauth1 import exceptions as keystone

from osc_placement.api.concurrency import CONCURRENCY
from osc_placement.batch.plan import EXIT_INTERRUPTED
from osc_placement.errors import PlacementError
from osc_placement.migrate.command import Command
from osc_placement.migrate.exit_statuses import failure_status
from osc_placement.migrate.nova.settings import Settings
from osc_placement.migrate.options import parse
from osc_placement.migrate.output import explain
from osc_placement.migrate.runner import Execution
from osc_placement.terminal.escape import printable

#: the status of a program that SIGPIPE ended
EXIT_CLOSED_PIPE: Final = 128 + signal.SIGPIPE


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = parse(arguments)
    # its warnings repeat the error that follows
    logging.getLogger("keystoneauth").setLevel(logging.ERROR)
    execution = _execution(options)
    try:
        status: int = options.run(Command(_settings(options), execution, options))
        print(end="", flush=True)
    except (PlacementError, keystone.ClientException) as error:
        print(f"placement-migrate: {explain(error)}", file=sys.stderr)
        return failure_status(options, error)
    except BrokenPipeError:
        _forget_output()
        return EXIT_CLOSED_PIPE
    except OSError as error:
        _forget_output()
        hint = "; see placement-migrate runs list for what was done" if execution.begun.is_set() else ""
        print(f"placement-migrate: {printable(str(error))}{hint}", file=sys.stderr)
        return failure_status(options, error)
    except KeyboardInterrupt:
        print("placement-migrate: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return status


def _forget_output() -> None:
    """Discard what is left in the buffer, or Python would report the closed pipe at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        tuple(options.config_file),
        options.nova_api_db,
        options.os_cloud,
        options.placement_endpoint,
        options.placement_token,
        options.ironic_endpoint,
        options.source,
        options.nova_endpoint,
        options.nova_token,
        options.timeout,
    )


def _execution(options: argparse.Namespace) -> Execution:
    execution = Execution(
        concurrency=getattr(options, "concurrency", CONCURRENCY),
        rate=getattr(options, "throttle", 0.0),
        max_count=getattr(options, "max_count", None),
        max_failures=getattr(options, "max_failures", None),
    )
    _stop_on_signals(execution)
    return execution


def _stop_on_signals(execution: Execution) -> None:
    """Let SIGINT and SIGTERM end a command: at once, but writes that are under way are finished first.

    The second of either does not wait for them.
    """

    def ask(_number: int, _frame: object) -> None:
        is_first = not execution.stop.is_set()
        execution.stop.set()
        if not (is_first and execution.writing.is_set()):
            raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
