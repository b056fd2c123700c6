# SPDX-License-Identifier: Apache-2.0
"""Neutron's own API application under gunicorn. Run by neutron's Python, not by that of the benchmarks.

The arguments are those of neutron's programs; BENCH_BIND and BENCH_WORKERS say where it listens, and with
how many processes. The configuration leaves keystonemiddleware out, and the headers that it would set are set
here: everybody is an administrator, and a service, which may write binding profiles.
"""

import os

from gunicorn.app.base import BaseApplication

IDENTITY = {"HTTP_X_USER_ID": "admin", "HTTP_X_PROJECT_ID": "admin", "HTTP_X_ROLES": "admin,service"}


class Container(BaseApplication):
    """Gunicorn with neutron in each of its processes."""

    def load_config(self):
        """Take the settings from the environment, and no arguments, which are neutron's."""
        self.cfg.set("bind", os.environ["BENCH_BIND"])
        self.cfg.set("workers", os.environ["BENCH_WORKERS"])
        self.cfg.set("timeout", 600)
        self.cfg.set("loglevel", "warning")

    def load(self):
        """Load neutron, in each process."""
        from neutron.wsgi.api import application

        return lambda environment, start: application({**environment, **IDENTITY}, start)


Container().run()
