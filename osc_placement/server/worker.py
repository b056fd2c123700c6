# SPDX-License-Identifier: Apache-2.0
"""The worker class under the name that configurations of gunicorn give it (see etc/gunicorn.conf.py)."""

from osc_placement.server.process.worker import Worker

__all__ = ["Worker"]
