# SPDX-License-Identifier: Apache-2.0
"""What all commands of ``placement-migrate`` share: their names in help texts, and errors in one line."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Final

from keystoneauth1 import exceptions as keystone

from osc_placement.commands import base
from osc_placement.errors import (
    OutcomeUnknown,
    PlacementError,
    UsageError,
    is_outcome_unknown,
    network_reason,
)
from osc_placement.package import explain_setting
from osc_placement.terminal.escape import printable

if TYPE_CHECKING:
    from osc_placement.migrate.main import Application

PROGRAM: Final = "placement-migrate"
EXIT_NOTHING_DONE: Final = 1
#: errors that a command explains in one line; any other is a bug and ends with a traceback
FAILURES: Final = (PlacementError, keystone.ClientException, OSError)
ACCESS: Final = (
    "--config-file, --neutron-db and the other options that 'placement-migrate --help' explains can stand "
    "before or after the command."
)


class Tool(base.PlacementCommand):
    """Mixin of the commands of the program; it comes before the other bases."""

    app: Application  # type: ignore[assignment]
    program = PROGRAM

    def get_epilog(self) -> str:
        """Return the exit statuses, and where the options are that all commands have."""
        return f"{self.exit_statuses}\n\n{ACCESS}"

    @property
    def read_runs(self) -> str:
        """Return the words before the verb of a command on runs that reads a journal."""
        return f"{PROGRAM} run"

    @property
    def change_runs(self) -> str:
        """Return the words before the verb of a command on runs that writes, with the access to placement."""
        return shlex.join([PROGRAM, *self.app.settings.placement_options, "run"])


def failure_status(options: argparse.Namespace, error: Exception) -> int:
    """Return the status of a command that ended with an error before it changed anything."""
    if not getattr(options, "nova_exit_codes", False):
        return EXIT_NOTHING_DONE
    is_wrong_name = isinstance(error, UsageError)
    return int(options.nova_invalid if is_wrong_name and "nova_invalid" in options else options.nova_failure)


def explain(error: Exception) -> str:
    """Return an error in one line; for a lost connection, the address and the network's own reason."""
    text = printable(explain_setting(OutcomeUnknown(error) if is_outcome_unknown(error) else error))
    if isinstance(error, keystone.ConnectFailure):
        return f"{text.partition(': HTTP')[0]}: {network_reason(error)}"
    return text
