# SPDX-License-Identifier: Apache-2.0
"""``application``, for WSGI containers: gunicorn, uWSGI, mod_wsgi.

The configuration is read when this module is imported, so that a container with a bad one does not start; it
is found as openstack-placement finds it (see `conf.parse`). So is the directory that processes count in. The
application itself is made by the first request of each process, because a container may import before it
forks, and connections must not be shared.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from oslo_log import log as oslo_log

from osc_placement.server import conf as configuration
from osc_placement.server import deploy
from osc_placement.server.process import metrics

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts


class Application:
    """The application for a configuration, made anew in each process that is asked for something."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        self._making = threading.Lock()
        self._made: tuple[int, WSGIApplication] | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        return self._get()(environ, start_response)

    def _get(self) -> WSGIApplication:
        made = self._made
        if made is None or made[0] != os.getpid():
            with self._making:
                made = self._made
                if made is None or made[0] != os.getpid():
                    made = self._made = (os.getpid(), deploy.loadapp(self._conf))
        return made[1]


def _configure() -> ConfigOpts:
    conf = configuration.load()
    # before the log is set up, which would take what this raises for itself
    metrics.find_directory()
    oslo_log.setup(conf, configuration.PROJECT)
    logging.captureWarnings(True)
    configuration.log_options(conf)
    return conf


application = Application(_configure())
