# SPDX-License-Identifier: Apache-2.0
"""`init_application`, for containers that call it: ``placement.wsgi:init_application()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


def init_application() -> WSGIApplication:
    """Return the application; the first call in a process reads the configuration.

    :raises cfg.Error: the configuration is invalid, or names no database
    """
    from osc_placement.server.wsgi import application

    return application
