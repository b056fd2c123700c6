# SPDX-License-Identifier: Apache-2.0
"""The transcripts and the Python of doc/source/user: run one after another, they do what is written there."""

import re
import shutil
import textwrap

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.client import PlacementClient
from tests.functional.test_readme import ROOT, Shell, assert_matches, read_steps

BATCH = (ROOT / "doc/source/user/batch.rst").read_text()


@pytest.fixture
def shell(tmp_path):
    """A shell in a directory of its own, with the examples."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    shell = Shell(tmp_path)
    yield shell
    shell.stop()


def test_the_batch_page_does_what_is_written_there(shell):
    """From plan to undo, every command ends well and prints what is shown."""
    steps = read_steps(BATCH)
    assert len(steps) > 10
    for step in steps:
        assert_matches(step, shell.run(step.command))


def test_the_python_of_the_batch_page_runs(server_url, monkeypatch, tmp_path, capsys):
    """It changes what it says, tells of it, and leaves a journal."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Session(auth=Token(server_url, "admin"))
    client = PlacementClient(session)
    aggregate = "bbbbbbbb-0000-4000-8000-00000000d0c5"
    host = client.create_provider("compute-docs")["uuid"]
    try:
        client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
        client.set_provider_aggregates(host, [aggregate], 1)
        block = re.search(r"^\.\. code-block:: python\n\n((?:   .*\n|\n)+)", BATCH, re.MULTILINE)[1]
        exec(textwrap.dedent(block), {"session": session, "aggregate_uuid": aggregate})
        assert client.show_inventory(host, "VCPU")["allocation_ratio"] == 4.0
        assert capsys.readouterr().out.endswith("compute-docs applied\n")
        assert len([*tmp_path.glob("osc-placement/runs/*.jsonl")]) == 1
    finally:
        client.delete_provider(host)
