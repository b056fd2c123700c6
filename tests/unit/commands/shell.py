# SPDX-License-Identifier: Apache-2.0
"""As much of OpenStackClient as a command needs to run in a test."""

import io
import shlex
from types import SimpleNamespace

from osc_placement.errors import UsageError


def refuse(text, **_settings):
    """What a shell logs of a command line that is refused is an error here."""
    raise UsageError(text)


def make(command, client=None):
    """A command in a shell whose cloud is `client`; without one there is no cloud, as in `openstack help`."""
    manager = SimpleNamespace(placement=client, session=object()) if client else SimpleNamespace()
    streams = {"stdin": io.StringIO(), "stdout": io.StringIO(), "stderr": io.StringIO()}
    app = SimpleNamespace(
        client_manager=manager,
        interactive_mode=False,
        LOG=SimpleNamespace(error=refuse),
        options=SimpleNamespace(debug=False),
        prepare_to_run_command=lambda _command: None,
        **streams,
    )
    return command(app, None)


def run(command, client, line=""):
    """Run a command line; its output and exit status."""
    instance = make(command, client)
    parsed_args = instance.get_parser("openstack test").parse_args(shlex.split(line))
    status = instance.run(parsed_args)
    return instance.app.stdout.getvalue(), status
