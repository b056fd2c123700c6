# SPDX-License-Identifier: Apache-2.0
"""A Galera cluster of three nodes of MariaDB on this machine, each in a network namespace of its own.

The nodes speak to each other over a bridge in one more namespace, so that cutting one off is taking down its
link, and nothing of the machine's own network is touched. Clients use the nodes' sockets in the file system,
which know no namespaces.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import uuid

import sqlalchemy as sa

from benchmarks.database_servers import MariaDB, find_galera_library, make_galera_options
from tests import databases

#: the name of a cluster where a program lets choose the database
BACKEND = "galera"
NODES = 3
#: seconds until a node that says nothing is thought dead are few here, so that tests are short
OPTIONS = (
    "gcache.size=32M;evs.keepalive_period=PT0.3S;evs.inactive_check_period=PT0.3S;"
    "evs.suspect_timeout=PT2S;evs.inactive_timeout=PT4S;evs.install_timeout=PT4S"
)
#: seconds a node may take to be a member again; it may have to be copied as a whole
PATIENCE = 120


def ip(*arguments):
    """Run ``ip``."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def find_obstacle():
    """Why there can be no cluster here, in words; None if there can."""
    if find_galera_library() is None:
        return "there is no libgalera_smm.so (on Debian: install galera-4)"
    for program in ("mariadb-install-db", "rsync", "ip", "setpriv"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    if os.getuid() != 0:
        return "network namespaces are for root"
    name = f"placement-{uuid.uuid4().hex[:6]}"
    try:
        ip("netns", "add", name)
    except OSError as error:
        return f"no network namespace can be made: {error}"
    ip("netns", "delete", name)
    return None


class Network:
    """Namespaces, one for each node and one for the bridge between them."""

    def __init__(self):
        self._prefix = f"pl{uuid.uuid4().hex[:6]}"
        self._hub = f"{self._prefix}-hub"
        self._made = []

    def make(self):
        """Make all of them, and connect them."""
        self._add(self._hub)
        ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self._hub, "link", "set", "bridge", "up")
        for number in range(NODES):
            space = self.space(number)
            self._add(space)
            link = f"node{number}"
            pair = ("link", "add", link, "type", "veth", "peer", "name", "eth", "netns", space)
            ip("-n", self._hub, *pair)
            ip("-n", self._hub, "link", "set", link, "master", "bridge", "up")
            ip("-n", space, "address", "add", f"{self.address(number)}/24", "dev", "eth")
            ip("-n", space, "link", "set", "eth", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _add(self, name):
        ip("netns", "add", name)
        self._made.append(name)

    def space(self, number):
        """The namespace of a node."""
        return f"{self._prefix}-{number}"

    def address(self, number):
        """The address of a node."""
        return f"10.0.0.{number + 1}"

    def cut(self, number):
        """Let nothing through to a node or from it."""
        ip("-n", self._hub, "link", "set", f"node{number}", "down")

    def mend(self, number):
        """Let everything through again."""
        ip("-n", self._hub, "link", "set", f"node{number}", "up")

    def remove(self):
        """Remove all that was made."""
        for name in self._made:
            with contextlib.suppress(OSError):
                ip("netns", "delete", name)


class Node(MariaDB):
    """One node of the cluster."""

    def __init__(self, directory, network, number):
        self.number = number
        self._network = network
        self._is_first = False
        super().__init__(directory)

    def run(self, *command, check=True):
        """Start a program in the namespace of the node."""
        enter = ("ip", "netns", "exec", self._network.space(self.number))
        # rsync's daemon gives up the rights of root, and could not write then
        become = ("setpriv", "--reuid=mysql", "--regid=mysql", "--clear-groups")
        return super().run(*enter, *become, *command, check=check)

    user = "mysql"

    @property
    def options(self):
        """What makes it a member."""
        members = ",".join(self._network.address(number) for number in range(NODES))
        cluster = make_galera_options(
            f"gcomm://{members}",
            node_address=self._network.address(self.number),
            provider_options=OPTIONS,
        )
        options = [
            *cluster,
            f"--wsrep-node-name=node{self.number}",
            "--wsrep-sst-method=rsync",
            "--wsrep-slave-threads=4",
            "--bind-address=0.0.0.0",
        ]
        return [*options, "--wsrep-new-cluster"] if self._is_first else options

    @property
    def administration(self):
        """Over the socket."""
        query = {"unix_socket": f"{self.directory}/socket"}
        return sa.make_url("mysql+pymysql://root@localhost/").update_query_dict(query)

    def found(self):
        """Start as the first node of a new cluster."""
        self._is_first = True
        self.join()
        self._is_first = False

    def join(self):
        """Start, and wait until it has all that the others have."""
        self._process = self.launch()
        self.await_sync()

    def stop(self):
        """End the node in good order."""
        self._process.terminate()
        self._process.wait(PATIENCE)
        self._process = None

    def await_sync(self):
        """Wait until the node is a full member."""
        end = time.monotonic() + PATIENCE
        while self._state() != "Synced":
            assert self._process.poll() is None, self.log.read_text()[-4000:]
            assert time.monotonic() < end, self.log.read_text()[-4000:]
            time.sleep(0.2)

    def _state(self):
        if not self._listens():
            return None
        engine = sa.create_engine(self.administration, poolclass=sa.pool.NullPool)
        with contextlib.suppress(sa.exc.OperationalError), engine.connect() as connection:
            query = "SHOW STATUS LIKE 'wsrep_local_state_comment'"
            return connection.execute(sa.text(query)).one()[1]
        return None

    def _listens(self):
        # the driver would leave its socket open where there is nobody
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.directory / "socket")) == 0


class Cluster:
    """The nodes, by number, and the network between them."""

    def __init__(self, directory):
        self.network = Network()
        self._directory = directory
        self.nodes = []

    def start(self):
        """Make the network, and the nodes one after the other."""
        self.network.make()
        for number in range(NODES):
            directory = self._directory / f"node{number}"
            directory.mkdir()
            shutil.chown(directory, Node.user, Node.user)
            node = Node(directory, self.network, number)
            self.nodes.append(node)
            if number == 0:
                node.found()
            else:
                node.join()
        databases.execute(self.nodes[0].administration, databases.CREATE["mariadb"].format(name="placement"))

    def url(self, number, *, is_causal=False):
        """The URL of the database on a node, whose reads may wait for what other nodes have committed."""
        url = self.nodes[number].administration.set(database="placement")
        if is_causal:
            url = url.update_query_dict({"init_command": "SET SESSION wsrep_sync_wait = 1"})
        return url.render_as_string(hide_password=False)

    def await_sync(self):
        """Wait until every node is a full member."""
        for node in self.nodes:
            node.await_sync()

    def remove(self):
        """Kill the nodes and remove the network."""
        for node in self.nodes:
            node.kill()
        self.network.remove()


@contextlib.contextmanager
def running():
    """A cluster; skips or fails the test where there can be none."""
    obstacle = find_obstacle()
    if obstacle is not None:
        databases.skip_or_fail(f"no Galera cluster: {obstacle}")
    with tempfile.TemporaryDirectory(prefix="placement-", ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)
        cluster = Cluster(pathlib.Path(directory))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.remove()


@contextlib.contextmanager
def make_databases(backend, directory):
    """An empty database, as the URLs of two servers: on two nodes of a cluster for `BACKEND`, else the same.

    A read on one node waits for what was committed on the other.
    """
    if backend == BACKEND:
        with running() as cluster:
            yield [cluster.url(number, is_causal=True) for number in range(2)]
    else:
        with databases.make_database(backend, directory) as url:
            yield [url, url]
