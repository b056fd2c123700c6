# SPDX-License-Identifier: Apache-2.0
"""The application in gunicorn: gunicorn --config /etc/placement/gunicorn.conf.py"""

wsgi_app = "osc_placement.server.wsgi:application"
raw_env = ["OS_PLACEMENT_CONFIG_DIR=/etc/placement"]
bind = "127.0.0.1:8778"
workers = 4
# slow clients hold no thread, and health is answered while the database hangs
worker_class = "osc_placement.server.worker.Worker"
threads = 8
# connections of each process
worker_connections = 1000
# longer than clients take between two requests
keepalive = 65
graceful_timeout = 30
# lists of aggregates make long requests; the worker takes 64 KiB, more than could be said here
limit_request_line = 0
# otherwise a client on this machine says with a header SCRIPT_NAME where the service is mounted
forwarder_headers = ""
# a heartbeat that waits for a slow disk is taken for a worker that hangs
worker_tmp_dir = "/dev/shm"


def post_fork(server, worker):
    """Bound the connections of one client address; proxies on this machine are not counted."""
    worker.connections_per_address = 256
    # and no others: worker.proxies |= {"192.0.2.10"}
