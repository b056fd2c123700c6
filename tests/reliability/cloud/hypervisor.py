# SPDX-License-Identifier: Apache-2.0
"""nova's fake driver with guests and a node that outlast nova-compute, as those of a hypervisor do.

It is a program that runs nova-compute in the environment of nova. As nova loads drivers from its own package
only, this directory becomes a part of it.
"""

import json
import os
import pathlib

from nova import conf, virt
from nova.cmd import compute
from nova.compute import power_state
from nova.virt import fake


class _Guests(dict):
    """The guests by UUID, each time written to a file."""

    def __init__(self, path):
        super().__init__()
        self._path = path
        if path.exists():
            for uuid, name in json.loads(path.read_text()).items():
                super().__setitem__(uuid, fake.FakeInstance(name, power_state.RUNNING, uuid))

    def __setitem__(self, uuid, guest):
        super().__setitem__(uuid, guest)
        self._write()

    def __delitem__(self, uuid):
        super().__delitem__(uuid)
        self._write()

    def _write(self):
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({uuid: guest.name for uuid, guest in self.items()}))
        new.replace(self._path)


class Driver(fake.FakeDriverWithoutFakeNodes):
    """Guests that do nothing, on a host with so many processors."""

    vcpus = int(os.environ.get("CLOUD_VCPUS", "1000"))

    def init_host(self, host):
        """Find the guests that there are."""
        super().init_host(host)
        self.instances = _Guests(pathlib.Path(conf.CONF.state_path) / "guests.json")

    def post_live_migration_at_source(self, context, instance, network_info):
        """Forget a guest that is on another host now, which the fake driver keeps."""
        super().post_live_migration_at_source(context, instance, network_info)
        if instance.uuid in self.instances:
            del self.instances[instance.uuid]


if __name__ == "__main__":
    virt.__path__.append(str(pathlib.Path(__file__).parent))
    compute.main()
