# SPDX-License-Identifier: Apache-2.0
"""``application``, for containers that import ``placement.wsgi.api`` or load this file."""

from placement.wsgi import init_application

application = init_application()
