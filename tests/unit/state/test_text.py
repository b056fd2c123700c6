# SPDX-License-Identifier: Apache-2.0
"""YAML to document and back, and the words and line of every mistake."""

import contextlib
import gc
import pathlib
import subprocess
import sys
import time

import pytest
import yaml
from hypothesis import given

from osc_placement.model import Inventory
from osc_placement.state.document import iterate_plain
from osc_placement.state.text import UnreadableText, format_document, parse_text
from tests.unit.state.documents import documents

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"

U1 = "cccccccc-0000-4000-8000-000000000001"
U2 = "cccccccc-0000-4000-8000-000000000002"

MISTAKES = yaml.safe_load(pathlib.Path(__file__).with_name("mistakes.yaml").read_text())


def list_plain(document):
    """What an export writes."""
    names, sections = iterate_plain(document)
    return names | {section: list(entries) for section, entries in sections.items()}


@given(documents())
def test_a_document_survives_being_written_and_read(document):
    """Every value comes back, whatever YAML could take it for."""
    read = parse_text("".join(format_document(document)), "file")
    assert list_plain(read) == list_plain(document)


@given(documents())
def test_equal_documents_give_equal_text(document):
    """Reading and writing again gives the same bytes, so files can be compared."""
    text = "".join(format_document(document))
    assert "".join(format_document(parse_text(text, "file"))) == text


@pytest.mark.parametrize("text", ["{}", "providers: }"])
def test_reading_leaves_the_collector_of_garbage_as_it_was(text):
    """It is off while a file is read, whatever comes of that."""
    with contextlib.suppress(UnreadableText):
        parse_text(text, "file")
    assert gc.isenabled()


@pytest.mark.parametrize("text", ["", "\n", "# a comment\n", "---\n"])
def test_a_file_without_a_document_is_an_error(text):
    """It is truncated or was never written; an empty state is written as {}."""
    with pytest.raises(UnreadableText, match="file: there is nothing in it"):
        parse_text(text, "file")
    assert list_plain(parse_text("{}", "file")) == list_plain(parse_text("version: 1\n", "file"))


@pytest.mark.parametrize(
    ("path", "told"), [((), "FILE"), (("of rack 3.plan",), "'of rack 3.plan'")], ids=["a pipe", "a file"]
)
def test_a_saved_plan_is_told_with_the_command_that_carries_it_out(path, told):
    """As the file of a plan that is a state is told with the command for states."""
    with pytest.raises(UnreadableText) as caught:
        parse_text('{"format": "osc-placement-plan", "version": 1, "steps": []}', "source", *path)
    assert str(caught.value) == (
        "source: it is a plan that --plan-out saved; to carry it out: "
        f"openstack resource provider batch apply {told}"
    )


def test_anchors_and_merges_are_plain_yaml():
    """A file written by hand may repeat itself by reference; keys that begin with x- hold the anchors."""
    document = parse_text(
        """
x-host: &host
  inventories: {VCPU: &cpu {total: 8}}
providers:
- {<<: *host, name: a}
- name: b
  inventories: {VCPU: {<<: *cpu, reserved: 1}}
""",
        "file",
    )
    assert document.providers[0].state.inventories == {"VCPU": Inventory(8)}
    assert document.providers[1].state.inventories == {"VCPU": Inventory(8, reserved=1)}


def test_omitted_keys_of_a_provider_are_none():
    """A provider with only traits has no other facets, which is different from empty ones."""
    (entry,) = parse_text("providers: [{name: a, traits: []}]", "file").providers
    assert entry.parent is ...
    assert entry.state.traits == frozenset()
    assert entry.state.inventories is None
    assert entry.state.aggregates is None


def test_providers_may_be_referred_to_by_uuid():
    """Parents and allocations know providers by both names; they come back by name."""
    document = parse_text(
        f"""
providers:
- {{name: a, uuid: {U1}, inventories: {{VCPU: {{total: 8}}}}}}
- {{name: b, parent: {U1}}}
allocations:
- {{consumer: {U2}, project: p, user: u, resources: {{{U1}: {{VCPU: 1}}}}}}
""",
        "file",
    )
    assert document.providers[1].parent == "a"
    assert document.consumers[0].resources == {"a": {"VCPU": 1}}


@pytest.mark.parametrize("case", MISTAKES, ids=[case["mistake"] for case in MISTAKES])
def test_an_error_names_the_line_and_place(case):
    """One line: the file, the line in it, the place in the document, what is wrong."""
    with pytest.raises(UnreadableText) as caught:
        parse_text(case["text"], "cloud.yaml")
    message = str(caught.value)
    assert message.startswith(f"cloud.yaml, line {case['line']}: ")
    assert case["error"] in message
    assert "\n" not in message


MANY = """\
traits: [CUSTOM_GPU, gpu]
providers:
- name: compute-1
  trait: []
  uuid: none
  traits: [HW_A, hw_b, CUSTOM_GUP]
  inventories:
    VCPU: {total: 0, reserved: x}
    MEMORY_MB: {reserved: 4}
    disk: {total: 1}
- {name: numa0, parent: compute-1}
- {name: numa0, parent: compte-1}
- {name: loop, parent: loop}
- only text
allocations:
- {consumer: x, project: p, resources: {compute-1: {VCPU: 0, PCPU: 1}, nowhere: {VCPU: 1}, only text: {A: 1}}}
"""


def test_all_mistakes_of_a_file_are_told_at_once_and_once_each():
    """What refers to an entry with a mistake is not taken for another one; a line each, in their order."""
    with pytest.raises(UnreadableText) as caught:
        parse_text(MANY, "cloud.yaml")
    lines = str(caught.value).split("\n")
    assert [line.removeprefix("cloud.yaml, line ")[:88] for line in lines] == [
        "1: traits[1]: must have only upper-case letters, digits and underscores, unlike 'gpu'",
        "4: providers[0].trait: unknown key; the keys here are name, uuid, parent, aggregates, tr",
        "5: providers[0].uuid: must be a UUID, not 'none'",
        "6: providers[0].traits[1]: must have only upper-case letters, digits and underscores, un",
        "6: providers[0].traits: CUSTOM_GUP is not listed under traits at the top level (is it CU",
        "8: providers[0].inventories.VCPU.total: must be from 1 to 2147483647, not 0",
        "8: providers[0].inventories.VCPU.reserved: must be a whole number, not 'x'",
        "9: providers[0].inventories.MEMORY_MB: the key 'total' is missing",
        "10: providers[0].inventories.disk: must have only upper-case letters, digits and undersc",
        "12: providers[2].name: 'numa0' is already that of providers[1]",
        "12: providers[2].parent: no provider in this file has the name or UUID 'compte-1' (is it",
        "13: providers[3].parent: the tree goes in a circle: 'loop' in 'loop'",
        "14: providers[4]: must be a mapping (key: value), not 'only text'",
        "16: allocations[0]: the key 'user' is missing",
        "16: allocations[0].resources.compute-1.VCPU: must be from 1 to 2147483647, not 0",
        "16: allocations[0].resources.nowhere: no provider in this file has the name or UUID 'now",
        "16: allocations[0].consumer: must be a UUID, not 'x'",
        "16: allocations[0].resources.compute-1: the provider has no inventory of PCPU in this fi",
    ]


@pytest.mark.parametrize(
    "entry", ["{name: h%d, parent: p%d}", "{name: h%d, traits: [CUSTOM_%d]}"], ids=["parents", "traits"]
)
def test_many_mistakes_take_linear_time(entry):
    """To find what was meant by each of ten thousand would take minutes; those that are told have it."""
    begun = time.process_time()
    names = f"traits: [{', '.join(f'CUSTOM_A{number}' for number in range(10_000))}]\n"
    hosts = "".join(f"- {entry % (number, number)}\n" for number in range(10_000))
    with pytest.raises(UnreadableText) as caught:
        parse_text(f"{names}providers:\n{hosts}", "file")
    assert str(caught.value).endswith("\nand 9,980 more mistakes")
    assert time.process_time() - begun < 30


def test_a_mistake_that_is_repeated_is_told_once_and_many_mistakes_are_cut():
    """Each host of a cloud may have it, or an alias of it, and a file may be of another kind altogether."""
    text = "providers:\n" + "- {name: a%d, traits: [CUSTOM_X]}\n" * 3 % (1, 2, 3)
    with pytest.raises(UnreadableText, match=r"^file, line 2: [^\n]*CUSTOM_X is not listed[^\n]*$"):
        parse_text(text, "file")
    text = "x-host: &host\n  traits: [hw]\nproviders:\n" + "- {<<: *host, name: a%d}\n" * 3 % (1, 2, 3)
    with pytest.raises(UnreadableText, match=r"^file, line 2: providers\[0\]\.traits\[0\]: [^\n]*$"):
        parse_text(text, "file")
    with pytest.raises(UnreadableText) as caught:
        parse_text("providers:\n" + "- {}\n" * 1500, "file")
    lines = str(caught.value).split("\n")
    assert (len(lines), lines[-1]) == (21, "and 1,480 more mistakes")


def test_every_key_that_is_there_twice_is_told():
    """Which of both values is meant decides what else is wrong."""
    with pytest.raises(UnreadableText) as caught:
        parse_text("version: 1\nversion: 2\nproviders:\n- name: a\n  name: 1\n", "file")
    assert str(caught.value) == (
        "file, line 2: the key 'version' is there twice\nfile, line 5: the key 'name' is there twice"
    )


@pytest.mark.parametrize(
    "number", [f"0x{'f' * 6000}", "9" * 6000, "9" * 20, f"-0{'7' * 6000}", "0b" + "1" * 65]
)
@pytest.mark.parametrize(
    "text",
    [
        "version: {}",
        "providers:\n- {{name: {}}}",
        "providers:\n- {{name: a, traits: [{}]}}",
        "providers:\n- {{name: a, inventories: {{VCPU: {{total: {}}}}}}}",
    ],
)
def test_a_number_that_is_too_large_is_an_error_with_file_and_line(text, number):
    """Python refuses to write such numbers into messages."""
    line = 1 + text.count("\n")
    with pytest.raises(UnreadableText, match=f"^cloud.yaml, line {line}: .*more than 64 bits") as caught:
        parse_text(text.format(number), "cloud.yaml")
    assert len(str(caught.value)) < 150


def test_a_duplicate_key_is_told_before_a_bad_value():
    """Which of both values is meant decides whether it is bad."""
    for value in ("9" * 6000, "2026-99-99"):
        with pytest.raises(UnreadableText, match=r"^file, line 2: the key 'version' is there twice$"):
            parse_text(f"version: 1\nversion: {value}\n", "file")


def test_a_key_that_is_merged_and_given_again_is_no_duplicate():
    """The given one counts, as YAML says."""
    text = (
        "x-a: &a {total: 1, max_unit: 1}\nresource_classes: [CUSTOM_X]\n"
        "providers:\n- name: a\n  inventories: {CUSTOM_X: {<<: *a, total: 9}}\n"
    )
    (provider,) = parse_text(text, "file").providers
    assert provider.state.inventories["CUSTOM_X"] == Inventory(9, max_unit=1)


@pytest.mark.parametrize("value", ["!!bool abc", "!!timestamp abc", "!!int ''"])
def test_a_tag_that_does_not_fit_its_value_is_an_error_with_the_file(value):
    with pytest.raises(UnreadableText, match=r"^file: not YAML: a value is not of its type"):
        parse_text(f"x-a: {value}\n", "file")


def test_an_error_in_a_merged_mapping_names_the_line_of_the_anchor():
    """The line is where the mistake has to be corrected."""
    text = "x-host: &host\n  traits: [hw]\nproviders:\n- <<: *host\n  name: a\n"
    with pytest.raises(UnreadableText, match=r"^file, line 2: providers\[0\]\.traits\[0\]: "):
        parse_text(text, "file")


def test_a_document_that_contains_itself_is_an_error():
    """An alias within its own anchor does not end in a traceback."""
    with pytest.raises(UnreadableText, match="must be"):
        parse_text("providers: &a [*a]\n", "file")


def test_the_example_is_what_its_script_writes():
    """examples/cloud.yaml is changed by changing make_cloud.py."""
    script = [sys.executable, EXAMPLES / "make_cloud.py"]
    written = subprocess.run(script, check=True, capture_output=True, text=True).stdout
    assert (EXAMPLES / "cloud.yaml").read_text() == written


def test_the_example_has_the_documented_size():
    """200 hosts in 4 racks, a shared storage, NUMA nodes and GPUs below the hosts of one rack."""
    document = parse_text((EXAMPLES / "cloud.yaml").read_text(), "cloud.yaml")
    hosts = [entry for entry in document.providers if "COMPUTE_NODE" in entry.state.traits]
    racks = {next(iter(entry.state.aggregates)) for entry in hosts}
    assert (len(hosts), len(racks)) == (200, 4)
    assert sum("MISC_SHARES_VIA_AGGREGATE" in entry.state.traits for entry in document.providers) == 1
    assert sum("HW_NUMA_ROOT" in entry.state.traits for entry in document.providers) == 100
    assert sum("PGPU" in entry.state.inventories for entry in document.providers) == 100
    assert len(document.consumers) == 32
