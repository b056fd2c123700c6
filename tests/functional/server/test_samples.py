# SPDX-License-Identifier: Apache-2.0
"""`placement-server config sample` and `policy sample`, and oslo's own generators on our entry points."""

import pathlib
import re
import subprocess
import sys

import yaml

from osc_placement.server import conf as configuration
from osc_placement.server.policy import list_rules
from tests.functional import forking

BIN = pathlib.Path(sys.executable).parent
NAMESPACE = "osc_placement.server"


def run(program, *arguments):
    """Run a program that has to end well and say nothing on stderr; its standard output."""
    if program == "placement-server":
        done = forking.run(program, *arguments)
    else:
        done = subprocess.run([BIN / program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def list_options():
    """Our options, as a sample file has them: by group and name."""
    for group, options in configuration.list_opts():
        yield from ((getattr(group, "name", group), option.name) for option in options)


def read_options(text):
    """The options that a sample file has, all of them commented out."""
    sections = re.split(r"^\[(\w+)\]$", text, flags=re.MULTILINE)[1:]
    for group, section in zip(sections[::2], sections[1::2], strict=True):
        yield from ((group, name) for name in re.findall(r"^#(\w+) =", section, re.MULTILINE))


def test_config_sample_has_every_option(tmp_path):
    """Every option is there, of keystone, logging, CORS, proxies and policy too; the file can be read."""
    text = run("placement-server", "config", "sample")
    found = set(read_options(text))
    assert set(list_options()) - found == set()
    assert {
        ("keystone_authtoken", "www_authenticate_uri"),
        ("DEFAULT", "log_file"),
        ("cors", "allowed_origin"),
        ("oslo_middleware", "enable_proxy_headers_parsing"),
        ("oslo_policy", "policy_file"),
    } <= found
    assert "#allow_headers = X-Auth-Token,X-Openstack-Request-Id," in text
    path = tmp_path / "placement.conf"
    path.write_text(text.replace("#connection = <None>", "connection = sqlite://", 1))
    assert (
        configuration.load(config_files=[str(path)], config_dirs=[]).placement_database.connection
        == "sqlite://"
    )


def test_config_generator_knows_our_namespace():
    """oslo-config-generator prints our options for our namespace."""
    text = run("oslo-config-generator", "--namespace", NAMESPACE)
    assert set(read_options(text)) == set(list_options())


def test_policy_sample_has_every_rule():
    """Every rule is there, commented out; with the comments taken away, it is a policy file."""
    text = run("placement-server", "policy", "sample")
    rules = yaml.safe_load("\n".join(re.findall(r'^#(".*)$', text, re.MULTILINE)))
    assert set(rules) == {rule.name for rule in list_rules()}


def test_policy_generator_knows_our_namespace():
    """oslopolicy-sample-generator prints our rules for our namespace."""
    assert run("oslopolicy-sample-generator", "--namespace", NAMESPACE) == run(
        "placement-server", "policy", "sample"
    )


def test_policy_tools_find_our_rules_by_their_entry_point(tmp_path):
    """oslopolicy's tools judge an operator's overrides by our defaults."""
    (tmp_path / "policy.yaml").write_text(
        '"placement:traits:list": "role:reader"\n"placement:traits:show": "rule:admin_or_service_api"\n'
    )
    conf = tmp_path / "placement.conf"
    conf.write_text(f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
    arguments = ("--namespace", NAMESPACE, "--config-file", conf)
    done = subprocess.run(
        [BIN / "oslopolicy-list-redundant", *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, '"placement:traits:show": "rule:admin_or_service_api"\n')
    done = subprocess.run(
        [BIN / "oslopolicy-policy-generator", *arguments], capture_output=True, text=True, check=False
    )
    merged = yaml.safe_load(done.stdout)
    assert merged["placement:traits:list"] == "role:reader"
    assert set(merged) == {rule.name for rule in list_rules()}
