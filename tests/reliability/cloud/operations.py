# SPDX-License-Identifier: Apache-2.0
"""What users and administrators do: each operation of nova's API, begun and seen through."""

import contextlib
import subprocess
import time

from tests.reliability.cloud import books, plane

#: seconds that an operation waits for nova
PATIENCE = 60
MICROVERSION = "2.96"
#: instances that one request boots
BURST = 10


class Refused(Exception):
    """nova refused an operation, or ended it otherwise than asked."""


class Users:
    """Users of the control plane, who share its servers among themselves so that none is used by two."""

    def __init__(self, connection, random):
        self.connection = connection
        self.random = random
        self.image = connection.image.find_image("empty", ignore_missing=False).id
        self.flavors = {flavor.name: flavor.id for flavor in connection.compute.flavors()}
        self.project = connection.current_project_id
        self.number = 0

    def call(self, method, path, body=None):
        """A request to nova; what it answers.

        :raises Refused: it refuses
        """
        answer = self.connection.compute.request(
            path, method, json=body, microversion=MICROVERSION, raise_exc=False
        )
        if answer.status_code >= 400:
            raise Refused(f"{method} {path}: {answer.status_code} {answer.text[:160]}")
        return answer.json() if answer.content else {}

    def act(self, server, **action):
        """An action on a server."""
        self.call("POST", f"/servers/{server}/action", action)

    def list_servers(self, **filters):
        """All servers by id."""
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        path = f"/servers/detail?all_tenants=1&{query}"
        return {server["id"]: server for server in self.call("GET", path)["servers"]}

    def wait(self, server, *states):
        """Wait until a server has one of these states and no task.

        :raises Refused: it is in error, or nova takes too long
        """
        give_up = time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            found = self.call("GET", f"/servers/{server}")["server"]
            if not found["OS-EXT-STS:task_state"]:
                if found["status"] in states:
                    return
                if found["status"] == "ERROR":
                    break
            time.sleep(1)
        raise Refused(f"{server} is {found['status']} {found['OS-EXT-STS:task_state']}, not {states}")

    # -- operations on no server

    def boot(self, number=1):
        """Boot servers with one request."""
        self.number += 1
        body = {
            "name": f"storm-{self.number}",
            "flavorRef": self.flavors[self.random.choice(("tiny", "small"))],
            "imageRef": self.image,
            "networks": "none",
            "min_count": number,
            "max_count": number,
        }
        self.call("POST", "/servers", {"server": body})

    def boot_beyond_quota(self):
        """Boot servers at once, each of which the quota allows and not all of them."""
        used = self.call("GET", "/limits")["limits"]["absolute"]["totalInstancesUsed"]
        quotas = f"/os-quota-sets/{self.project}"
        self.call("PUT", quotas, {"quota_set": {"instances": used + BURST // 2, "force": True}})
        try:
            for _ in range(BURST):
                with contextlib.suppress(Refused):
                    self.boot()
        finally:
            self.call("PUT", quotas, {"quota_set": {"instances": 500, "force": True}})

    # -- operations on a server

    def delete(self, server):
        """Delete it."""
        self.call("DELETE", f"/servers/{server}")

    def resize(self, server, end="confirmResize"):
        """Resize it, and confirm or revert that."""
        now = self.call("GET", f"/servers/{server}")["server"]["flavor"]["original_name"]
        flavor = self.flavors["small" if now == "tiny" else "tiny"]
        self._move(server, end, resize={"flavorRef": flavor})

    def resize_and_revert(self, server):
        """Resize it, and revert that."""
        self.resize(server, "revertResize")

    def migrate(self, server):
        """Migrate it cold, and confirm that."""
        self._move(server, "confirmResize", migrate=None)

    def _move(self, server, end, **action):
        self.act(server, **action)
        self.wait(server, "VERIFY_RESIZE")
        self.act(server, **{end: None})
        self.wait(server, "ACTIVE", "SHUTOFF")

    def migrate_live(self, server):
        """Migrate it alive."""
        self.act(server, **{"os-migrateLive": {"host": None, "block_migration": "auto"}})
        self.wait(server, "ACTIVE")

    def shelve(self, server):
        """Shelve it, which offloads it."""
        self.act(server, shelve=None)
        self.wait(server, "SHELVED_OFFLOADED")

    def unshelve(self, server):
        """Unshelve it."""
        self.act(server, unshelve=None)
        self.wait(server, "ACTIVE")

    def rebuild(self, server):
        """Rebuild it with the same image."""
        self.act(server, rebuild={"imageRef": self.image})
        self.wait(server, "ACTIVE")

    def stop(self, server):
        """Stop it."""
        self.act(server, **{"os-stop": None})
        self.wait(server, "SHUTOFF")

    def start(self, server):
        """Start it."""
        self.act(server, **{"os-start": None})
        self.wait(server, "ACTIVE")

    # -- operations on a host

    def list_services(self, host):
        """The service of a host; none if it was deleted."""
        return self.call("GET", f"/os-services?binary=nova-compute&host={host}")["services"]

    def evacuate(self, host):
        """Have a host die, and evacuate its servers; it stays dead."""
        plane.stop(f"nova-{host}", sign=9)
        for service in self.list_services(host):
            self.call("PUT", f"/os-services/{service['id']}", {"forced_down": True})
        for server in self.list_servers(host=host):
            with contextlib.suppress(Refused):
                self.act(server, evacuate={})

    def restart(self, host):
        """Start a host that is dead, as a new one if nova has deleted it, and wait until nova has it."""
        name = f"nova-{host}"
        if not self.list_services(host):
            for file in ("guests.json", "compute_id"):
                (plane.PLACE / "nova" / host / file).unlink(missing_ok=True)
        process = [(name, plane.start(name))]

        def is_up():
            for service in self.list_services(host):
                with contextlib.suppress(Refused):
                    # that the host is up is refused while nova-compute has not ended the evacuations
                    if service["forced_down"]:
                        self.call("PUT", f"/os-services/{service['id']}", {"forced_down": False})
                    self.call("PUT", f"/os-services/{service['id']}", {"status": "enabled"})
            return [service["state"] for service in self.list_services(host)] == ["up"]

        plane.await_that(f"nova-compute of {host}", is_up, process)
        plane.discover()
        plane.await_that(f"provider of {host}", lambda: host in books.read_ratios(), process)

    def change_aggregate(self, aggregate, host):
        """Add a host to a host aggregate, or remove it if it is there."""
        path = f"/os-aggregates/{aggregate}"
        verb = "remove_host" if host in self.call("GET", path)["aggregate"]["hosts"] else "add_host"
        self.call("POST", f"{path}/action", {verb: {"host": host}})

    def set_ratios(self, aggregate, ratio):
        """Set the ratio of a host aggregate's providers with a batch, in the shell; what it prints."""
        return run_shell(
            f"openstack resource provider batch ratio set VCPU={ratio} --aggregate {aggregate} --yes -f json"
        )


def prepare_shell():
    """What gives a shell the `openrc`, and a HOME with the nova.conf of the control plane."""
    return f". {plane.PLACE}/openrc; export HOME={plane.PLACE}"


def run_shell(line):
    """A line in a shell that has the `openrc`; what it printed, with both streams.

    Who is asked says yes: python-openstackclient 10 asks before it sets the state of a server.
    """
    return subprocess.run(
        ["bash", "-c", f"{prepare_shell()}; {line}"],
        input="y\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
