# SPDX-License-Identifier: Apache-2.0
"""The application in gunicorn: gunicorn --config /etc/placement/gunicorn.conf.py"""

wsgi_app = "osc_placement.server.wsgi:application"
raw_env = [
    "OS_PLACEMENT_CONFIG_DIR=/etc/placement",
    # the processes count together; a directory that is emptied when the service starts
    "PROMETHEUS_MULTIPROC_DIR=/run/placement/metrics",
]
bind = "127.0.0.1:8778"
workers = 4
worker_class = "gthread"
threads = 8
# longer than clients take between two requests
keepalive = 65
graceful_timeout = 30
# lists of aggregates make long requests
limit_request_line = 8190
# a heartbeat that waits for a slow disk is taken for a worker that hangs
worker_tmp_dir = "/dev/shm"
