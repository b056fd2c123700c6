# SPDX-License-Identifier: Apache-2.0
"""A document against what a server has."""

import dataclasses
import time

import pytest
from hypothesis import given

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.model import Inventory, Provider
from osc_placement.state.description import describe_plan
from osc_placement.state.document import (
    ConsumerEntry,
    Document,
    ProviderEntry,
    iterate_plain,
    parse_document,
)
from osc_placement.state.node import InvalidDocument
from osc_placement.state.plan import Current, DocumentMismatch, Leftover, plan_apply
from osc_placement.state.selection import Selection, select_document
from tests.unit.state.documents import CLASSES, TRAITS, documents, server_of

EMPTY = Current(resource_classes=frozenset(CLASSES), traits=frozenset(TRAITS))


def server(*providers, consumers=None, **states):
    """A server with these providers, which hold nothing unless their state is given by name."""
    nothing = ProviderState({}, frozenset(), frozenset())
    return Current(
        resource_classes=frozenset(CLASSES),
        traits=frozenset(TRAITS),
        providers=providers,
        states={provider.uuid: (provider, states.get(provider.name, nothing)) for provider in providers},
        consumers=consumers or {},
    )


def describe(document, current):
    return list(describe_plan(plan_apply(document, current)))


@given(documents())
def test_a_document_that_matches_the_server_needs_no_change(document):
    """Applying twice changes nothing: everything is counted as unchanged."""
    plan = plan_apply(document, server_of(document))
    assert plan.size == 0
    assert plan.unchanged["resource provider"] == len(document.providers)
    assert plan.unchanged["consumer"] == len(document.consumers)


@given(documents())
def test_on_an_empty_server_parents_come_before_children(document):
    """Every provider is in one level, and its parent is in an earlier one."""
    levels = plan_apply(document, EMPTY).levels
    depth = {step.entry.name: number for number, level in enumerate(levels) for step in level}
    assert len(depth) == len(document.providers)
    for entry in document.providers:
        assert entry.parent is None or depth[entry.parent] < depth[entry.name]


@given(documents())
def test_nothing_is_written_of_a_new_provider_that_it_does_not_have(document):
    """An empty facet of a provider that is to be created costs no request."""
    for level in plan_apply(document, EMPTY).levels:
        for step in level:
            assert set(step.change.facets) == {
                facet for facet in ("inventories", "traits", "aggregates") if getattr(step.entry.state, facet)
            }


def test_parts_that_a_document_omits_are_not_changed():
    """An entry with traits only changes traits only."""
    entry = ProviderEntry("a", state=ProviderState(traits=frozenset({"HW_CPU_X86_AVX"})))
    current = server(Provider("u", "a", 1, "p"), a=ProviderState(traits=frozenset({"COMPUTE_NODE"})))
    assert describe(Document(providers=(entry,)), current) == [
        "~ resource provider a (u)",
        "    - COMPUTE_NODE",
        "    + HW_CPU_X86_AVX",
    ]


def test_a_provider_with_a_uuid_is_found_by_it_and_renamed():
    """The UUID says which provider is meant, the name how it shall be called."""
    document = Document(providers=(ProviderEntry("new", "u"),))
    assert describe(document, server(Provider("u", "old", 1))) == [
        "~ resource provider new (u)",
        "    - name old",
        "    + name new",
    ]


def test_a_provider_is_moved_below_another():
    """A parent that differs is a change, and so is none where there was one."""
    current = server(Provider("u", "a", 1, None), Provider("v", "b", 1, "u"))
    moved = Document(providers=(ProviderEntry("a", parent="b"), ProviderEntry("b", parent=None)))
    assert describe(moved, current) == [
        "~ resource provider b (v)",
        "    - parent",
        "~ resource provider a (u)",
        "    + parent b",
    ]
    same = Document(providers=(ProviderEntry("a", parent=None), ProviderEntry("b", parent="a")))
    assert describe(same, current) == []


def test_many_providers_with_the_same_change_are_described_once():
    """The most frequent change comes first; few lines are shown as they are."""
    names = [f"host{number}" for number in range(5)]
    traits = {name: ProviderState(traits=frozenset({"COMPUTE_NODE"})) for name in names}
    traits["host0"] = ProviderState(traits=frozenset({"HW_CPU_X86_AVX"}))
    document = Document(providers=tuple(ProviderEntry(name, state=state) for name, state in traits.items()))
    plan = plan_apply(document, server(*(Provider(f"u{name}", name, 1) for name in names)))
    whole = list(describe_plan(plan, 10))
    assert whole == list(describe_plan(plan))
    assert len(whole) == 10
    assert list(describe_plan(plan, 9)) == [
        "~ 4 resource providers, such as host1",
        "    + COMPUTE_NODE",
        "~ resource provider host0 (uhost0)",
        "    + HW_CPU_X86_AVX",
    ]


def test_many_changes_that_differ_in_few_ways_are_counted():
    """As of nested providers, each of which has another parent."""
    host, node = {"COMPUTE_NODE"}, {"HW_CPU_X86_AVX"}
    entries = [
        entry
        for name in ("a", "b", "c", "d")
        for entry in (
            ProviderEntry(name, state=ProviderState(traits=frozenset(host))),
            ProviderEntry(f"{name}-numa", parent=name, state=ProviderState(traits=frozenset(node))),
        )
    ]
    plan = plan_apply(Document(providers=tuple(entries)), EMPTY)
    assert list(describe_plan(plan, 10)) == [
        "        8  resource providers created",
        "        4  +COMPUTE_NODE",
        "        4  +HW_CPU_X86_AVX",
    ]
    # groups that are few enough have names
    assert list(describe_plan(plan, 14))[:4] == [
        "+ 4 resource providers, such as a",
        "    + COMPUTE_NODE",
        "+ resource provider a-numa",
        "    + parent a",
    ]


def test_a_name_that_another_provider_has_is_refused():
    """Before the first write, with both UUIDs."""
    document = Document(providers=(ProviderEntry("a", "new-uuid"),))
    with pytest.raises(DocumentMismatch, match="'a' with the UUID u, not new-uuid"):
        plan_apply(document, server(Provider("u", "a", 1)))


def test_a_name_and_a_uuid_of_two_providers_are_refused():
    """With the name of the provider that the UUID belongs to."""
    document = Document(providers=(ProviderEntry("a", "v"),))
    with pytest.raises(DocumentMismatch, match=r"'a' with the UUID u, not v, which is that of 'b'$"):
        plan_apply(document, server(Provider("u", "a", 1), Provider("v", "b", 1)))


def test_two_entries_for_one_provider_are_refused():
    """One by its UUID, the other by its name; the provider is told as the server has it."""
    document = Document(providers=(ProviderEntry("new", "u"), ProviderEntry("old")))
    same = "the same resource provider on the server, 'old' with the UUID u$"
    with pytest.raises(DocumentMismatch, match=same):
        plan_apply(document, server(Provider("u", "old", 1)))


@pytest.mark.parametrize(
    ("state", "unknown"),
    [
        (ProviderState(traits=frozenset({"HW_NO"})), "the trait HW_NO"),
        (ProviderState(inventories={"NO_GB": Inventory(1)}), "the resource class NO_GB"),
    ],
)
def test_a_standard_name_that_the_server_lacks_is_refused(state, unknown):
    """A typo in a standard trait or class is found before the first write."""
    with pytest.raises(DocumentMismatch, match=f"'a' needs {unknown}, which this server does not know$"):
        plan_apply(Document(providers=(ProviderEntry("a", state=state),)), EMPTY)


def test_all_that_does_not_fit_the_server_is_told_at_once():
    """A name that many entries need is told once."""
    unknown = ProviderState({"NO_GB": Inventory(1)}, frozenset({"HW_NO"}))
    document = Document(
        providers=(
            ProviderEntry("a", "new-uuid", state=unknown),
            ProviderEntry("new", "v", state=ProviderState(traits=frozenset({"HW_NO"}))),
            ProviderEntry("old"),
        )
    )
    with pytest.raises(DocumentMismatch) as caught:
        plan_apply(document, server(Provider("u", "a", 1), Provider("v", "old", 1)))
    assert [line[:54] for line in str(caught.value).split("\n")] == [
        "Resource provider 'a' and 1 more need the trait HW_NO,",
        "Resource provider 'a' needs the resource class NO_GB, ",
        "'new' and 'old' are the same resource provider on the ",
        "The server has a resource provider 'a' with the UUID u",
    ]


def test_a_mistyped_standard_name_is_told_with_what_was_meant():
    """It is similar to one that the server knows."""
    document = Document(providers=(ProviderEntry("a", state=ProviderState(traits=frozenset({"HW_ROT"}))),))
    current = Current(traits=frozenset({"HW_ROOT"}))
    with pytest.raises(DocumentMismatch, match=r"not know \(is it HW_ROOT\?\)$"):
        plan_apply(document, current)


def test_a_ratio_as_mariadb_reads_it_back_is_no_change():
    """Single-precision columns give six digits, which must not look like a change for ever."""
    entry = ProviderEntry("a", state=ProviderState({"VCPU": Inventory(8, allocation_ratio=1.234567)}))
    current = server(Provider("u", "a", 1), a=ProviderState({"VCPU": Inventory(8, allocation_ratio=1.23457)}))
    assert describe(Document(providers=(entry,)), current) == []


@pytest.mark.parametrize(
    "difference",
    [
        {"project_id": "other"},
        {"user_id": "other"},
        {"consumer_type": "OTHER"},
        {"allocations": {"u": {"VCPU": 2}}},
    ],
)
def test_any_difference_of_a_consumer_is_a_change(difference):
    """Owner, type and amounts all count; what the document says is shown."""
    consumer = Consumer("c", 1, "project", "user", "INSTANCE", {"u": {"VCPU": 1}})
    entry = ConsumerEntry("c", "project", "user", {"a": {"VCPU": 1}}, "INSTANCE")
    document = Document(providers=(ProviderEntry("a"),), consumers=(entry,))
    provider = Provider("u", "a", 1)
    assert describe(document, server(provider, consumers={"c": consumer})) == []
    changed = dataclasses.replace(consumer, **difference)
    assert describe(document, server(provider, consumers={"c": changed})) == [
        "~ allocations of c (project project)",
        "    + a: VCPU=1",
    ]


def test_a_consumer_keeps_its_type_if_the_document_has_none():
    """Servers before 1.38 know no types, so a document may do without."""
    consumer = Consumer("c", 1, "project", "user", "INSTANCE", {"u": {"VCPU": 1}})
    entry = ConsumerEntry("c", "project", "user", {"a": {"VCPU": 1}})
    document = Document(providers=(ProviderEntry("a"),), consumers=(entry,))
    assert describe(document, server(Provider("u", "a", 1), consumers={"c": consumer})) == []


def _chain(number):
    return [{"name": f"p{place}", "parent": f"p{place - 1}" if place else None} for place in range(number)]


def _wide(number):
    return [{"name": "p0"}, *({"name": f"p{place}", "parent": "p0"} for place in range(1, number))]


def _classes(number):
    return [{"name": "p", "inventories": {f"CUSTOM_C{place}": {"total": 1} for place in range(number)}}]


@pytest.mark.parametrize("make", [_chain, _wide, _classes])
def test_large_documents_take_linear_time(make):
    """A plan for ten thousand things of a kind takes seconds; with quadratic time it would take minutes."""
    number = 10_000
    begun = time.process_time()
    names = [f"CUSTOM_C{place}" for place in range(number)] if make is _classes else []
    document = parse_document({"providers": make(number), "resource_classes": names})
    plan = plan_apply(document, Current(resource_classes=frozenset(names)))
    assert sum(map(len, plan.levels)) == len(document.providers)
    assert [entry.name for entry in select_document(Selection(("p0",)), document).providers] == [
        entry.name for entry in document.providers if make is not _classes
    ]
    parents = {entry.name: entry.parent for entry in document.providers}
    gone = [
        Provider(name, name, 0, parent if isinstance(parent, str) else None)
        for name, parent in parents.items()
    ]
    assert len(Leftover(providers=tuple(gone)).levels) == len(plan.levels)
    assert len(list(iterate_plain(document)[1]["providers"])) == len(document.providers)
    assert time.process_time() - begun < 30


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"], ids=("NUL", "half a character"))
@pytest.mark.parametrize(
    "place", [lambda text: {"providers": [{"name": text}]}, lambda text: {"allocations": [consumer(text)]}]
)
def test_text_that_cannot_be_stored_is_refused_with_its_place(place, text):
    """Before anything is written."""
    with pytest.raises(InvalidDocument, match=r"^(providers|allocations)\[0\]\..* cannot be stored: "):
        parse_document({"providers": [{"name": "p"}], **place(text)})


def consumer(project):
    """A consumer of a project."""
    uuid = "fa017000-0000-4000-8000-000000000001"
    return {"consumer": uuid, "project": project, "user": "u", "resources": {"p": {"VCPU": 1}}}
