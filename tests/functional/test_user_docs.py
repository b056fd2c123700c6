# SPDX-License-Identifier: Apache-2.0
"""The Python and the files of the manual: they do, and are, what is written there."""

import json
import re
import textwrap

from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from osc_placement.batch import journal
from osc_placement.commands.batch import AddTrait
from osc_placement.state.text import format_document, parse_text
from tests.transcripts import SOURCE
from tests.unit.commands.shell import run


def read_blocks(page, language):
    """The blocks of a page in a language."""
    pattern = rf"^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)"
    return [
        textwrap.dedent(block).rstrip("\n") + "\n"
        for block in re.findall(pattern, (SOURCE / page).read_text(), re.MULTILINE)
    ]


def test_python_of_the_batch_page_runs(server_url, monkeypatch, tmp_path, capsys):
    """It changes what it says, tells of it, and leaves a journal."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = Session(auth=Token(server_url, "admin"))
    client = PlacementClient(session)
    aggregate = "bbbbbbbb-0000-4000-8000-00000000d0c5"
    host = client.create_provider("compute-docs")["uuid"]
    try:
        client.set_inventories(host, {"VCPU": {"total": 8}}, 0)
        client.set_provider_aggregates(host, [aggregate], 1)
        (block,) = read_blocks("reference/batch.rst", "python")
        exec(block, {"session": session, "aggregate_uuid": aggregate})
        assert client.show_inventory(host, "VCPU")["allocation_ratio"] == 4.0
        assert capsys.readouterr().out.endswith("compute-docs applied\n")
        assert len([*tmp_path.glob("osc-placement/runs/*.jsonl")]) == 1
    finally:
        client.delete_provider(host)


def test_python_of_the_testing_page_runs(placement_server, capsys):
    """A test as it is shown passes, and what the others print is an empty placement."""
    test, plain, fixture = read_blocks("reference/testing.rst", "python")
    names = {}
    exec(test, names)
    names["test_a_host_is_found"](placement_server)
    exec(plain, {})
    exec(fixture, {})
    empty = "{'resource_providers': []}\n"
    assert re.fullmatch(rf"{re.escape(empty * 2)}http://127\.0\.0\.1:\d+ 200\n", capsys.readouterr().out)


def test_state_file_of_the_page_is_valid():
    """It can be read, has every key that is told of, and says again what it said."""
    (text,) = read_blocks("reference/state-files.rst", "yaml")
    document = parse_text(text, "the page")
    written = "".join(format_document(document))
    assert parse_text(written, "what was written") == document
    page = (SOURCE / "reference/state-files.rst").read_text()
    keys = set(re.findall(r"^ *(?:- )?([a-z_]+):", text, re.MULTILINE))
    assert {key for key in keys if f"``{key}``" not in page} == set()


def test_journal_of_the_page_is_valid(placement_server, tmp_path, monkeypatch):
    """The lines have the keys of those that a run of today writes, and can be read."""
    (text,) = read_blocks("reference/journals.rst", "json")
    shown = [json.loads(line) for line in text.splitlines()]
    (tmp_path / "shown.jsonl").write_text(text)
    assert journal.Journals(tmp_path).read("shown").state == "done"

    client = PlacementClient(placement_server.session)
    client.create_trait("CUSTOM_GOLD")
    client.create_provider("compute-1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run(AddTrait, client, "CUSTOM_GOLD --name compute-1 --yes")
    (path,) = (tmp_path / "osc-placement" / "runs").glob("*.jsonl")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [keys_of(record) for record in shown] == [keys_of(record) for record in written]
    assert shown[0]["edit"] == written[0]["edit"]


def test_page_documents_every_key_of_a_plan(placement_server, tmp_path):
    """Whoever writes a reader has all of them."""
    client = PlacementClient(placement_server.session)
    client.create_provider("compute-1")
    run(AddTrait, client, f"COMPUTE_NODE --all --plan-out {tmp_path / 'plan.json'}")
    page = (SOURCE / "reference/journals.rst").read_text()
    keys = json.loads((tmp_path / "plan.json").read_text()).keys()
    assert {key for key in keys if f"``{key}``" not in page} == set()


def keys_of(value):
    """The keys of a document and of those in it."""
    return {key: keys_of(inner) for key, inner in value.items()} if isinstance(value, dict) else None
