# SPDX-License-Identifier: Apache-2.0
"""osc_placement.plugin: what OpenStackClient sees of us before any command."""

import argparse
import subprocess
import sys
from types import SimpleNamespace

import pytest
from osc_lib import exceptions

from osc_placement import microversion, plugin


def manager(version="1", endpoint=None):
    """As much of OpenStackClient's client manager as the plugin asks for."""
    return SimpleNamespace(
        _api_version={"placement": version},
        _cli_options=SimpleNamespace(config={}, get_endpoint=lambda service: endpoint),
        session=object(),
        region_name="R",
        interface="internal",
    )


@pytest.mark.parametrize("version", ["1", *map(str, microversion.ALL)])
def test_every_version_makes_a_client_of_that_version(version):
    """No request is made for it: the session is no session at all."""
    assert version in plugin.API_VERSIONS
    client = plugin.make_client(manager(version))
    assert client.negotiates is (version == "1")
    if not client.negotiates:
        assert client.api_version == version


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "inf", "nan"])
def test_a_timeout_is_a_number_of_seconds(capsys, text):
    """Anything else is refused before a command is looked for."""
    parser = plugin.build_option_parser(argparse.ArgumentParser())
    assert parser.parse_args(["--os-placement-timeout", "2.5"]).os_placement_timeout == 2.5
    with pytest.raises(SystemExit):
        parser.parse_args([f"--os-placement-timeout={text}"])
    assert f"must be a number of seconds greater than 0, not {text!r}" in capsys.readouterr().err


def test_an_endpoint_of_the_cloud_configuration_is_used():
    """`placement_endpoint_override` of clouds.yaml, as other clients honour it."""
    assert plugin.make_client(manager(endpoint="http://here/")).endpoint == "http://here"


@pytest.mark.parametrize("version", ["1.40", "2", "latest", ""])
def test_an_unknown_version_is_an_error_that_lists_the_known(version):
    """The text is the one that scripts know from osc_lib."""
    with pytest.raises(exceptions.UnsupportedVersion) as caught:
        plugin.make_client(manager(version))
    assert str(caught.value).startswith(
        f"Invalid placement client version '{version}'. must be one of: 1, 1.0, 1.1, 1.2, "
    )
    assert str(caught.value).endswith(", 1.38, 1.39")


@pytest.mark.parametrize(
    ("environment", "version"), [({}, "1"), ({"OS_PLACEMENT_API_VERSION": "1.5"}, "1.5")]
)
def test_the_version_comes_from_the_environment_too(monkeypatch, environment, version):
    """The option wins, then OS_PLACEMENT_API_VERSION, then negotiation."""
    monkeypatch.delenv("OS_PLACEMENT_API_VERSION", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    parser = plugin.build_option_parser(argparse.ArgumentParser())
    assert parser.parse_args([]).os_placement_api_version == version
    assert parser.parse_args(["--os-placement-api-version", "1.9"]).os_placement_api_version == "1.9"


def test_loading_the_plugin_loads_next_to_nothing():
    """It is loaded at every start of `openstack`, also for commands of other services."""
    code = (
        "import argparse, os, re, typing, sys; before = set(sys.modules); import osc_placement.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {"osc_placement", "osc_placement.microversion", "osc_placement.plugin"}
    # what a class with annotations loads since Python 3.14
    assert set(done.stdout.split()) <= own | {"annotationlib", "ast", "_ast"}
