# SPDX-License-Identifier: Apache-2.0
"""``application``, for WSGI containers: gunicorn, uWSGI, mod_wsgi.

The configuration and the policy are read when this module is imported, so that a container with an invalid
one does not start; they are found as openstack-placement finds them (see `conf.parse`). The directory of
shared metrics is created then, unless the environment names one.
The first request of each process creates the application, because a container may import before it forks, and
connections must not be shared.
"""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING

from osc_placement.server import conf as configuration
from osc_placement.server import deploy
from osc_placement.server.process import metrics, metrics_directory, opening

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from oslo_config.cfg import ConfigOpts


class Application:
    """A WSGI application that creates the real one in each process, at the first request."""

    def __init__(self, conf: ConfigOpts) -> None:
        self._conf = conf
        self._making = threading.Lock()
        self._made: tuple[int, WSGIApplication] | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        made = self._made
        if made is None or made[0] != os.getpid():
            with self._making:
                made = self._made
                if made is None or made[0] != os.getpid():
                    # the container may have changed the user after the import
                    metrics_directory.join(metrics.DIRECTORY_VARIABLE)
                    made = self._made = (os.getpid(), deploy.loadapp(self._conf))
        return made[1](environ, start_response)


_conf = configuration.load()
# before logging is set up, which would log the exceptions in place of the container
metrics_directory.join(metrics.DIRECTORY_VARIABLE)
metrics.find_directory()
opening.check_policy(_conf)
configuration.set_up_logging(_conf)
logging.captureWarnings(True)
configuration.log_options(_conf)
application = Application(_conf)
