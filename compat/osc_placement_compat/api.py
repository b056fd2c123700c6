# SPDX-License-Identifier: Apache-2.0
"""``placement-api`` if it is called as a command: the server of ``placement-server serve``."""

from __future__ import annotations

import argparse
import sys

from oslo_config import cfg

from osc_placement.server import conf as configuration
from osc_placement.server import main as server
from osc_placement_compat import reference


def main() -> int:
    """Serve the configured placement service until told to stop, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="placement-api",
        description="Serve the placement API. placement.conf is searched in OS_PLACEMENT_CONFIG_DIR, or else "
        "where oslo.config looks, such as /etc/placement.",
    )
    parser.add_argument(
        "--port", "-p", type=int, default=8000, help="port to listen on (default: %(default)s)"
    )
    parser.add_argument("--host", "-b", default="0.0.0.0", help="address to listen on (default: %(default)s)")
    options = parser.parse_args()
    arguments = ["serve", "--host", options.host, "--port", str(options.port)]
    try:
        reference.refuse()
    except reference.InstalledToo as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    if not configuration.named_config_dir():
        # otherwise it would serve a database of its own, without authentication
        files = cfg.find_config_files(configuration.PROJECT, "placement-server")
        directories = cfg.find_config_dirs(configuration.PROJECT, "placement-server")
        if not files and not directories:
            print(f"{parser.prog}: There is no placement.conf, such as in /etc/placement", file=sys.stderr)
            return 1
        arguments += [f"--config-file={path}" for path in files]
        arguments += [f"--config-dir={path}" for path in directories]
    return server.main(arguments)
