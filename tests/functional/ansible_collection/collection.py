# SPDX-License-Identifier: Apache-2.0
"""The Ansible collection in contrib/ansible for tests: its modules called here, or by ansible-playbook."""

import contextlib
import importlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings
from unittest import mock

import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args

from tests.functional import servers

ROOT = pathlib.Path(__file__).parents[3]
COLLECTION = ROOT / "contrib" / "ansible"
NAME = "osc_placement.placement"
#: seconds after which a playbook is taken to hang
PATIENCE = 120


def install(directory):
    """Put a link to the collection where Ansible and Python find it in a directory; return the directory."""
    namespace = directory / "ansible_collections" / "osc_placement"
    namespace.mkdir(parents=True)
    (namespace / "placement").symlink_to(COLLECTION)
    return directory


def write_clouds(path, **clouds):
    """Write a clouds.yaml with clouds by name, of a token, a URL and further settings each."""
    entries = {
        name: {"auth_type": "admin_token", "auth": {"endpoint": url, "token": token}, **settings}
        for name, (token, url, settings) in clouds.items()
    }
    path.write_text(yaml.safe_dump({"clouds": entries}))
    return path


class Modules:
    """The modules of the collection, called in this process with a cloud that they use by default."""

    def __init__(self, cloud="admin"):
        self._cloud = cloud

    def call(self, name, /, *, check=False, diff=True, **parameters):
        """Run a module; return its results, with those of a failure too."""
        module = importlib.import_module(
            f"ansible_collections.osc_placement.placement.plugins.modules.{name}"
        )
        given = {"cloud": self._cloud, **parameters, "_ansible_check_mode": check, "_ansible_diff": diff}
        output = io.StringIO()
        with (
            patch_module_args(given),
            contextlib.redirect_stdout(output),
            warnings.catch_warnings(),
            contextlib.suppress(SystemExit),
            mock.patch.object(AnsibleModule, "warn") as warn,
        ):
            # openstacksdk's own, at every use of a cloud
            warnings.filterwarnings("ignore", "Support for InfluxDB")
            module.main()
        # Ansible tells each warning once in a process
        told = [call.args[0] for call in warn.call_args_list]
        return {**json.loads(output.getvalue()), "warnings": told}

    def succeed(self, name, /, **parameters):
        """Run a module that has to succeed; return its results."""
        results = self.call(name, **parameters)
        assert not results.get("failed"), results["msg"]
        return results

    def fail(self, name, /, **parameters):
        """Run a module that has to fail without a trace; return its results."""
        results = self.call(name, **parameters)
        assert results["failed"]
        # that is how a fault of the collection itself is told
        assert not re.match(r"\w+Error: |.*\n", results["msg"])
        return results


def write_playbook(directory, tasks):
    """Write a playbook with these tasks; return its path."""
    path = directory / "tasks.yaml"
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}
    path.write_text(yaml.safe_dump([play], sort_keys=False))
    return path


def run_playbooks(directory, collections, *arguments):
    """Run playbooks in a process of ansible-playbook; return the process and the results of the tasks."""
    recorded = directory / "results.jsonl"
    recorded.write_text("")
    environment = servers.make_environment(
        OS_CLIENT_CONFIG_FILE=os.environ["OS_CLIENT_CONFIG_FILE"],
        ANSIBLE_COLLECTIONS_PATH=str(collections),
        ANSIBLE_CALLBACK_PLUGINS=str(pathlib.Path(__file__).parent / "callback"),
        ANSIBLE_CALLBACKS_ENABLED="record_results",
        ANSIBLE_HOME=str(directory / "ansible"),
        ANSIBLE_LOCALHOST_WARNING="false",
        ANSIBLE_INVENTORY_UNPARSED_WARNING="false",
        ANSIBLE_NOCOLOR="1",
        ANSIBLE_PIPELINING="true",
        ANSIBLE_PYTHON_INTERPRETER=sys.executable,
        RECORDED_RESULTS=str(recorded),
    )
    process = subprocess.run(
        [pathlib.Path(sys.executable).with_name("ansible-playbook"), *arguments],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return process, [json.loads(line) for line in recorded.read_text().splitlines()]
