# SPDX-License-Identifier: Apache-2.0
"""Our plugin beside the reference plugin: the same command lines, from the same state, byte for byte.

The lines are in parity.yaml, the differences that are meant in parity_differences.yaml, each with its reason.
The reference plugin lives in a virtual environment of its own, which is made from PyPI once.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
from importlib.metadata import version

import pytest
import yaml
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from benchmarks import environments
from osc_placement import errors, microversion
from osc_placement.api.client import PlacementClient
from tests.functional import servers

REFERENCE = "osc-placement==4.9.1"
#: output depends on these as much as on the plugin, so both are run by the same versions of them
SHARED = (
    "cliff",
    "keystoneauth1",
    "openstacksdk",
    "osc-lib",
    "prettytable",
    "python-openstackclient",
    "requests",
)

HERE = pathlib.Path(__file__).parent
SCENARIOS = yaml.safe_load((HERE / "parity.yaml").read_text())["scenarios"]
DIFFERENCES = yaml.safe_load((HERE / "parity_differences.yaml").read_text())["differences"]

#: by command, the options that only ours has
OPTIONS = yaml.safe_load((HERE / "parity_differences.yaml").read_text())["options"]

COMMANDS = yaml.safe_load((HERE / "parity.yaml").read_text())["commands"]

#: a line of each command that prints rows or an object
OUTPUTS = yaml.safe_load((HERE / "parity.yaml").read_text())["outputs"]

NAMES = {
    name: f"c0ffee00-0000-4000-8000-{number:012x}"
    for number, name in enumerate(("P1", "P2", "P3", "P4", "P5", "AGG1", "AGG2", "C1", "C2", "C3", "NONE"), 1)
}
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
ENVIRONMENT = {"PATH": os.defpath, "LANG": "C.UTF-8", "COLUMNS": "80"}


class Plugin:
    """One of the two plugins: an interpreter in whose environment it is installed, kept running."""

    def __init__(self, python, endpoint, home):
        self.options = ["--os-auth-type", "admin_token", "--os-token", "admin", "--os-endpoint", endpoint]
        self.python = python
        self.home = home
        self.environment = {**ENVIRONMENT, "HOME": str(home)}
        self.process = subprocess.Popen(
            [python, HERE / "parity_driver.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env=self.environment,
        )

    def run(self, lines, api_version="1"):
        """Run command lines; a list of {stdout, stderr, status}."""
        options = [*self.options, "--os-placement-api-version", api_version]
        return self.run_bare([options + shlex.split(line.format_map(NAMES)) for line in lines])

    def run_bare(self, argument_lists):
        """Run lists of arguments, with no cloud configured but by them."""
        self.process.stdin.write(json.dumps(argument_lists) + "\n")
        self.process.stdin.flush()
        return [mask_made_uuids(result) for result in json.loads(self.process.stdout.readline())]

    def run_process(self, line):
        """Run one command line as people do."""
        program = pathlib.Path(self.python).with_name("openstack")
        done = subprocess.run(
            [program, *self.options, *shlex.split(line.format_map(NAMES))],
            capture_output=True,
            text=True,
            cwd=self.home,
            env=self.environment,
            check=False,
        )
        return {"stdout": done.stdout, "stderr": done.stderr, "status": done.returncode}

    def close(self):
        """End the process."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def mask_made_uuids(result):
    """Replace the UUIDs that a server made up: they are never the same twice."""

    def mask(match):
        return match[0] if match[0] in NAMES.values() else "01234567-made-by-the-server-01234567"

    return {key: UUID.sub(mask, value) if isinstance(value, str) else value for key, value in result.items()}


def make_reference_environment():
    """Make the virtual environment of the reference plugin unless it is there; its interpreter."""
    pins = [REFERENCE, *(f"{name}=={version(name)}" for name in SHARED)]
    return environments.make("osc-placement-reference", pins) / "python"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    """A placement service: any that PLACEMENT_TEST_ENDPOINT names, or a server of ours."""
    if url := os.environ.get("PLACEMENT_TEST_ENDPOINT"):
        yield url
        return
    with servers.running(tmp_path_factory.mktemp("server")) as server:
        yield server.url


@pytest.fixture(scope="module")
def reference(endpoint, tmp_path_factory):
    """The reference plugin."""
    plugin = Plugin(make_reference_environment(), endpoint, tmp_path_factory.mktemp("reference"))
    yield plugin
    plugin.close()


@pytest.fixture(scope="module")
def ours(endpoint, tmp_path_factory):
    """Our plugin."""
    plugin = Plugin(sys.executable, endpoint, tmp_path_factory.mktemp("ours"))
    yield plugin
    plugin.close()


@pytest.fixture(scope="module")
def client(endpoint):
    """What makes the state."""
    return PlacementClient(Session(auth=Token(endpoint, "admin")))


def seed(client):
    """Make the state that parity.yaml describes, whatever was left of the last."""
    clear(client)
    client.create_trait("CUSTOM_PARITY")
    client.create_provider("host1", uuid=NAMES["P1"])
    client.create_provider("numa1", uuid=NAMES["P2"], parent=NAMES["P1"])
    client.create_provider("host2", uuid=NAMES["P3"])
    host1 = {"VCPU": {"total": 8, "allocation_ratio": 2.0}, "MEMORY_MB": {"total": 1024}}
    client.set_inventories(NAMES["P1"], host1, 0)
    client.set_inventories(NAMES["P2"], {"VCPU": {"total": 4}}, 0)
    client.set_inventories(NAMES["P3"], {"VCPU": {"total": 8}, "DISK_GB": {"total": 100}}, 0)
    client.set_provider_traits(NAMES["P1"], ["HW_CPU_X86_AVX", "CUSTOM_PARITY"], 1)
    client.set_provider_traits(NAMES["P2"], ["HW_CPU_X86_SSE"], 1)
    client.set_provider_aggregates(NAMES["P1"], [NAMES["AGG1"]], 2)
    client.set_provider_aggregates(NAMES["P3"], [NAMES["AGG1"], NAMES["AGG2"]], 1)
    owner = {"project_id": "parity", "user_id": "somebody", "consumer_generation": None}
    first = {NAMES["P1"]: {"resources": {"VCPU": 2, "MEMORY_MB": 256}}}
    client.set_allocations(NAMES["C1"], {"allocations": first, **owner, "consumer_type": "INSTANCE"})
    second = {NAMES["P3"]: {"resources": {"VCPU": 1}}}
    client.set_allocations(NAMES["C2"], {"allocations": second, **owner}, microversion.REPARENTING)


def clear(client):
    """Remove what the command lines of parity.yaml can make, and nothing else."""
    for consumer in ("C1", "C2", "C3"):
        with contextlib.suppress(errors.NotFound):
            client.delete_allocations(NAMES[consumer])
    made = [provider for provider in client.list_providers() if is_made_here(provider)]
    for provider in sorted(made, key=lambda provider: provider["parent_provider_uuid"] is None):
        client.delete_provider(provider["uuid"])
    for name in client.list_traits(name="startswith:CUSTOM_PARITY"):
        client.delete_trait(name)
    for resource_class in client.list_resource_classes():
        if resource_class["name"].startswith("CUSTOM_PARITY"):
            client.delete_resource_class(resource_class["name"])


def is_made_here(provider):
    """Whether a provider is one of ours, or has a name that a command line gives."""
    return provider["uuid"] in NAMES.values() or re.fullmatch(r"host[4-7]", provider["name"])


def find_difference(scenario, line, api_version):
    """The difference that is declared for a line at a version, or None."""
    for difference in DIFFERENCES:
        if line in difference["lines"] and api_version in difference.get("versions", scenario["versions"]):
            return difference
    return None


def is_same(line, theirs, ours):
    """Whether two results are equal; a usage text may tell of options that are declared to be ours alone."""
    if not ours["stderr"].startswith("usage:"):
        return ours == theirs
    command = next((command for command in OPTIONS if line.startswith(command)), "")
    expected = {**theirs, "stderr": without_our_options("", theirs["stderr"])}
    return {**ours, "stderr": without_our_options(command, ours["stderr"])} == expected


def without_our_options(command, usage):
    """A usage text on one line, without the options that the reference's command has not."""
    text = " ".join(usage.split())
    for option in OPTIONS.get(command, ()):
        text, found = re.subn(rf"(\| )?{option}( <\S*?>(,<\S*?>)*)?(?=[] ])", "", text)
        assert found == 1, f"{command} has no {option}"
    return " ".join(text.replace("[]", "").replace("[ ]", "").split())


def judge(scenario, line, api_version, theirs, ours):
    """Say what is wrong with our result, or None."""
    difference = find_difference(scenario, line, api_version)
    where = f"[{api_version}] openstack {line}"
    if difference is None:
        return None if is_same(line, theirs, ours) else f"{where}\n  reference: {theirs}\n  ours:      {ours}"
    if ours == theirs:
        return f"{where}\n  is declared to differ ({difference['why']}) but does not: {ours}"
    wanted = {"status": 0, "stdout": "", "stderr": "", **difference["ours"]}
    for stream in ("stdout", "stderr"):
        if not re.fullmatch(wanted[stream], ours[stream], re.DOTALL):
            return f"{where}\n  {stream} should match {wanted[stream]!r}: {ours}"
    return (
        None
        if ours["status"] == wanted["status"]
        else f"{where}\n  should end with {wanted['status']}: {ours}"
    )


@pytest.mark.parametrize(
    ("scenario", "api_version"),
    [
        pytest.param(scenario, api_version, id=f"{scenario['name']}-{api_version}")
        for scenario in SCENARIOS
        for api_version in scenario["versions"]
    ],
)
def test_output_and_exit_status_equal_the_reference(client, reference, ours, scenario, api_version):
    """Every line of a scenario prints the same and ends the same through both plugins."""
    seed(client)
    theirs = scenario.get("negotiated_as", api_version) if api_version == "1" else api_version
    expected = reference.run(scenario["lines"], theirs)
    seed(client)
    actual = ours.run(scenario["lines"], api_version)
    triples = zip(scenario["lines"], expected, actual, strict=True)
    wrong = [judge(scenario, line, api_version, *pair) for line, *pair in triples]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.parametrize("api_version", ["1.0", "1.20", "1.39"])
@pytest.mark.parametrize("form", ["table", "json", "yaml", "value", "csv"])
def test_every_output_format_equals_the_reference(client, reference, ours, form, api_version):
    """Each command that has a formatter prints the same in each, at an old, a middle and a new version."""
    lines = [f"{line} -f {form}" for line in OUTPUTS]
    seed(client)
    expected = reference.run(lines, api_version)
    seed(client)
    actual = ours.run(lines, api_version)
    scenario = {"versions": [api_version]}
    triples = zip(lines, expected, actual, strict=True)
    wrong = [judge(scenario, line, api_version, *pair) for line, *pair in triples]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_every_command_with_a_formatter_is_compared_in_every_format(reference):
    """What the usage of a command says of formats decides."""
    shown = {command: reference.run_bare([["help", *command.split()]])[0]["stdout"] for command in COMMANDS}
    formatted = {command for command, usage in shown.items() if "{csv,json,table,value,yaml}" in usage}
    formatted |= {command for command, usage in shown.items() if "{json,shell,table,value,yaml}" in usage}
    assert formatted == {command for command in COMMANDS if any(line.startswith(command) for line in OUTPUTS)}


def test_openstack_prints_what_the_parity_driver_prints(client, reference, ours):
    """The driver's shortcut changes nothing: `openstack` itself prints the same, for both plugins."""
    seed(client)
    for line in ("resource provider list -f json", "resource provider show {NONE}", "resource class create"):
        expected = reference.run_process(line)
        assert ours.run_process(line) == expected
        assert ours.run([line]) == reference.run([line])
        assert ours.run([line])[0]["stdout"] == expected["stdout"]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_usage_equals_the_reference(reference, ours, command):
    """`openstack help` needs no cloud and shows the same options and arguments in the same order."""
    helped = [plugin.run_bare([["help", *command.split()]])[0] for plugin in (reference, ours)]
    assert [result["status"] for result in helped] == [0, 0], helped
    assert [result["stderr"] for result in helped] == ["", ""]
    expected, actual = (result["stdout"].split("\n\n")[0] for result in helped)
    assert without_our_options(command, actual) == without_our_options("", expected)


def test_completion_equals_the_reference(reference, ours):
    """`openstack complete` offers the same options for each command."""
    expected, actual = (
        word_lists(plugin.run_bare([["complete"]])[0]["stdout"]) for plugin in (reference, ours)
    )
    for command, options in OPTIONS.items():
        name = f"cmds_{command.replace(' ', '_')}"
        for option in options:
            actual[name] = actual[name].replace(f" {option}", "", 1)
    assert actual == expected


def word_lists(script):
    """The completions of each command of the table, out of a completion script."""
    names = {f"cmds_{command.replace(' ', '_')}" for command in COMMANDS}
    assignments = (line.strip().partition("=") for line in script.splitlines())
    found = {name: words for name, _, words in assignments if name in names}
    assert found.keys() == names
    return found


def test_every_version_is_accepted_without_a_warning(client, ours):
    """Any version from 1.0 to 1.39, and none, gives a list and nothing on stderr."""
    seed(client)
    for api_version in ("1", *map(str, microversion.ALL)):
        (result,) = ours.run(["resource provider list -f value -c name --name host1"], api_version)
        assert result == {"stdout": "host1\n", "stderr": "", "status": 0}, api_version


@pytest.mark.parametrize("api_version", ["1.40", "1.99"])
def test_unknown_version_is_refused_with_a_list_of_known_ones(ours, api_version):
    """A version that neither plugin knows is an error that lists those that are known."""
    (result,) = ours.run(["resource provider list"], api_version)
    assert result["status"] == 1
    assert result["stdout"] == ""
    refusal = f"Invalid placement client version '{api_version}'. must be one of: 1, 1.0, 1.1, "
    assert refusal in result["stderr"].splitlines()[-1]


def test_all_commands_of_the_reference_are_in_the_table(reference):
    """No command of the reference plugin is left out of parity.yaml."""
    lines = [line for scenario in SCENARIOS for line in scenario["lines"]]
    compared = {command for command in COMMANDS if any(line.startswith(command) for line in lines)}
    code = "from importlib.metadata import *; print(*entry_points(group='openstack.placement.v1').names)"
    done = subprocess.run([reference.python, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert compared == {name.replace("_", " ") for name in done.stdout.split()}
