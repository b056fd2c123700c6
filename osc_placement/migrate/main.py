# SPDX-License-Identifier: Apache-2.0
"""The console script ``placement-migrate``: options to calls, nothing else."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Final

from keystoneauth1 import exceptions as keystone

from osc_placement.batch.workers import CONCURRENCY
from osc_placement.errors import PlacementError
from osc_placement.migrate import commands
from osc_placement.migrate.command import Command
from osc_placement.migrate.options import make_parser
from osc_placement.migrate.runner import Execution
from osc_placement.migrate.settings import Settings

_INTERRUPTED: Final = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        status: int = options.run(Command(_settings(options), _execution(options), options))
    except (PlacementError, keystone.ClientException) as error:
        print(f"placement-migrate: {' '.join(str(error).split())}", file=sys.stderr)
        return commands.failure_status(options)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return status


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
    return Execution(
        concurrency=getattr(options, "concurrency", CONCURRENCY),
        rate=getattr(options, "throttle", 0.0),
        max_count=getattr(options, "max_count", None),
        max_failures=getattr(options, "max_failures", None),
        stop=_stop_on_signals(),
    )


def _stop_on_signals() -> threading.Event:
    """An event that the first SIGINT or SIGTERM sets; what is under way is finished, the second ends all."""
    stop = threading.Event()

    def ask(number: int, _frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)
    return stop
