# SPDX-License-Identifier: Apache-2.0
"""Input that nobody would send on purpose: requests, queries, arguments, files. No crash, no 500, no hang."""

import contextlib
import itertools
import json
import pathlib
import string
import tempfile
import urllib.parse

import hypothesis
import pytest
import webob
import yaml
from hypothesis import strategies as st

from osc_placement import microversion, syntax
from osc_placement.batch import journal
from osc_placement.candidates import query, request
from osc_placement.errors import PlacementError
from osc_placement.server.deploy import loadapp
from osc_placement.state import text as state_text
from tests.reliability import authorization, openapi
from tests.reliability.profile import PROFILE

ROOT = pathlib.Path(__file__).parents[2]
CLOUD = (ROOT / "examples" / "cloud.yaml").read_text()
#: an administrator that is a service, too
HEADERS = {"X-Auth-Token": "admin", "X-Roles": "admin,service"}


def test_openapi_json_is_up_to_date():
    """openapi.json is what the url table and the schemas make."""
    assert openapi.FILE.read_text() == openapi.to_text()


@pytest.fixture(scope="module")
def application(tmp_path_factory):
    """The application in this process."""
    database = tmp_path_factory.mktemp("fuzz") / "placement.db"
    return loadapp(authorization.make_configuration(new_defaults=True, connection=f"sqlite:///{database}"))


KEYS = ("resources", "required", "member_of", "in_tree", "root_required", "same_subtree", "limit")
KEYS += ("group_policy", "name", "uuid", "project_id", "associated")
PIECES = ("in:", "!", "!in:", ":", ",", "VCPU", "CUSTOM_X", "-1", "0", "1", "9" * 40, "HW_CPU_X86_AVX", "_A")
PIECES += ("7d2590ae-fb85-4080-9306-058b4c915e3f", "%", "&", "=", "\0", "\ud83d", "é", " ", "isolate", "none")
values = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=8).map("".join)
keys = st.tuples(st.sampled_from(KEYS), st.sampled_from(("", "1", "_A", "-", "x" * 65))).map("".join)
items = st.lists(st.tuples(keys | st.text(max_size=6), values), max_size=8)
versions = st.sampled_from(microversion.ALL)


@hypothesis.settings(PROFILE)
@hypothesis.given(items, versions)
def test_any_candidate_query_is_parsed_or_refused(pairs, version):
    """As groups of which one asks for resources, or as a `BadQuery`."""
    asked = None
    with contextlib.suppress(query.BadQuery):
        asked = request.parse(pairs, version)
    assert asked is None or any(group.resources for group in asked.groups)


@hypothesis.settings(PROFILE)
@hypothesis.given(
    st.sampled_from(("/allocation_candidates", "/resource_providers", "/usages", "/traits")),
    items | st.binary(max_size=60),
    versions,
)
def test_any_query_string_gets_an_answer_below_500(application, path, pairs, version):
    """Of characters, of bytes that are no text, and at every microversion."""
    if isinstance(pairs, bytes):
        text = pairs.decode("latin-1").replace("#", "").replace("?", "")
    else:
        text = "&".join(f"{quote(key)}={quote(value)}" for key, value in pairs)
    asked = webob.Request.blank(path, headers={**HEADERS, "OpenStack-API-Version": f"placement {version}"})
    asked.environ["QUERY_STRING"] = text
    assert asked.get_response(application).status_int < 500


def quote(part):
    """Text as it stands in a query string, half characters included."""
    return urllib.parse.quote_from_bytes(part.encode("utf-8", "surrogatepass"))


WORDS = ("VCPU", "rp", "=", ":", ",", "total", "allocation_ratio", "1", "-1", "1e400", "nan", "9" * 5000, "²")
arguments = st.lists(
    st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=8).map("".join), max_size=4
)


def find_refusal(read, *arguments):
    """What a reader says of what it cannot read; None if it can."""
    try:
        read(*arguments)
    except PlacementError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "parse",
    [
        syntax.parse_inventories,
        syntax.parse_ratios,
        syntax.parse_traits,
        syntax.parse_amounts,
        syntax.parse_allocations,
    ],
)
@hypothesis.settings(PROFILE)
@hypothesis.given(arguments)
def test_any_argument_is_parsed_or_refused_in_one_line(parse, texts):
    """As values, or as an error that the command shows as it is."""
    refusal = find_refusal(parse, texts)
    assert refusal is None or len(refusal.splitlines()) == 1


@st.composite
def damaged(draw, content):
    """A text from which pieces were cut, and into which others were put."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 40)))
        put = draw(
            st.sampled_from(("", "\n", ": ", "- ", "  ", "&a ", "*a", "<<: ", "!!", "{", "[", '"', "\t"))
        )
        content = content[:start] + put + draw(st.text(max_size=3)) + content[end:]
    return content


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(("version", "providers", "allocations", "traits", "name", "uuid", "inventories"))
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@hypothesis.settings(PROFILE)
@hypothesis.given(
    st.text(max_size=200)
    | damaged(CLOUD)
    | plain.map(lambda value: yaml.safe_dump(value, allow_unicode=True))
    | plain.map(lambda value: yaml.safe_dump({"version": 1, "providers": [value]}))
)
def test_any_state_file_is_parsed_or_refused(content):
    """As a document, or as an error that names the file."""
    refusal = find_refusal(state_text.parse_text, content, "cloud.yaml")
    assert refusal is None or "cloud.yaml" in refusal


RUN = "20260101T000000Z-abcdef"
LINES = (
    {"record": "run", "version": 1, "run": RUN, "edit": {}},
    {"record": "intent", "provider": {"uuid": "u", "name": "n"}, "before": {}, "after": {}},
    {"record": "planned", "changes": 1},
    {"record": "outcome", "uuid": "u", "result": "applied", "generation": 5},
    {"record": "end", "status": 0},
)
lines = st.lists(st.sampled_from(LINES) | st.dictionaries(st.text(max_size=4), plain, max_size=3), max_size=6)


def to_lines(records):
    """A journal of these records."""
    return "".join(json.dumps(record, default=str) + "\n" for record in records)


@hypothesis.settings(PROFILE)
@hypothesis.example(b'{"record": ' + b"[" * 200_000 + b"\n")
@hypothesis.given(
    st.binary(max_size=200)
    | lines.map(lambda records: to_lines(records).encode())
    | damaged(to_lines(LINES)).map(lambda text: text.encode("utf-8", "replace"))
)
def test_any_journal_is_parsed_or_refused(content):
    """As a run, or as a `JournalError`; one that is bad does not hide the others."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / f"{RUN}.jsonl"
        path.write_bytes(content)
        with contextlib.suppress(journal.JournalError):
            journal.Journals(pathlib.Path(directory)).read(RUN)
        assert len(list(journal.Journals(pathlib.Path(directory)).read_all())) == 1


def test_trait_names_accept_the_characters_of_the_api():
    """Each printable character by itself, as a trait."""
    for character, position in itertools.product(string.printable, ("{}", "A{}", "{}A")):
        name = position.format(character)
        allowed = character in string.ascii_uppercase + string.digits + "_"
        with contextlib.nullcontext() if allowed else pytest.raises(PlacementError):
            syntax.parse_traits([name])
