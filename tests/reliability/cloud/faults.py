# SPDX-License-Identifier: Apache-2.0
"""What goes wrong meanwhile: each fault begins, lasts, and is over when its function returns."""

import contextlib
import os
import pathlib
import signal
import time

from tests.reliability.cloud import plane

#: seconds without a database, or without a placement service
LASTS = 10


def kill_worker(random):
    """Kill one process of placement that answers requests."""
    pids = plane.find_processes()["placement"]
    workers = [pid for pid in pids if _parent(pid) in pids] or pids
    with contextlib.suppress(ProcessLookupError):
        os.kill(random.choice(workers), signal.SIGKILL)
    time.sleep(1)


def _parent(pid):
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill_service(random):
    """Kill all of placement, and start it again."""
    plane.stop("placement", sign=signal.SIGKILL)
    time.sleep(random.random())
    plane.start("placement")
    plane.await_placement()


def restart_service(random):
    """Stop placement as a supervisor does, and start it again."""
    plane.stop("placement")
    plane.start("placement")
    plane.await_placement()


def lock_out(random):
    """Keep placement from its database for a while."""
    plane.lock_out(plane.ACCOUNTS[1:], LASTS)


def lock_out_all(random):
    """Keep nova and placement from their databases for a while."""
    plane.lock_out(plane.ACCOUNTS, LASTS)


def restart_messages(random):
    """Cut all connections to the virtual host of RabbitMQ, and restart its queues."""
    plane.run_rabbitmqctl("close_all_connections", "--vhost", plane.NAME, "restart")
    plane.run_rabbitmqctl("restart_vhost", "--vhost", plane.NAME)
    time.sleep(2)


def exchange(random):
    """Exchange the placement service for the other one, which serves for a while, and back."""
    before = plane.find_placement()
    for which in (plane.REFERENCE if before == plane.OURS else plane.OURS, before):
        plane.stop("placement")
        plane.choose_placement(which)
        plane.start("placement")
        plane.await_placement()
        time.sleep(LASTS / 2)


#: by name, with how often each comes
FAULTS = {
    "a worker of placement is killed": (kill_worker, 3),
    "placement is killed and started": (kill_service, 2),
    "placement is restarted": (restart_service, 2),
    "placement is without its database for ten seconds": (lock_out, 2),
    "placement and nova are without their databases for ten seconds": (lock_out_all, 2),
    "RabbitMQ is restarted": (restart_messages, 2),
    "placement is exchanged for the other service and back": (exchange, 2),
}
