# SPDX-License-Identifier: Apache-2.0
"""Any valid document, for Hypothesis; and the server that such a document describes."""

from hypothesis import strategies as st

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ProviderState
from osc_placement.model import MAX_AMOUNT, MAX_RATIO, Inventory, Provider
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import Current

CLASSES = ("CUSTOM_A", "CUSTOM_B", "DISK_GB", "MEMORY_MB", "VCPU")
TRAITS = ("COMPUTE_NODE", "CUSTOM_T", "CUSTOM_U", "HW_CPU_X86_AVX")

uuids = st.uuids().map(str)
# what YAML could take for something else than text is the interesting part
words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12) | (
    st.sampled_from(
        ["yes", "null", "~", "1e3", "0x1F", "2026-11-21", "- a", "a: b", "#", "'", '"', "<<", "=", "é"]
    )
)


@st.composite
def inventory(draw):
    total = draw(st.integers(1, MAX_AMOUNT))
    units = st.integers(1, MAX_AMOUNT)
    ratio = st.floats(min_value=1e-9, max_value=MAX_RATIO)
    reserved = draw(st.integers(0, total))
    return Inventory(total, reserved, draw(units), draw(units), draw(units), draw(ratio))


states = st.builds(
    ProviderState,
    inventories=st.dictionaries(st.sampled_from(CLASSES), inventory()),
    traits=st.frozensets(st.sampled_from(TRAITS)),
    aggregates=st.frozensets(uuids, max_size=3),
)


@st.composite
def documents(draw):
    """A document as an export makes one: everything is said of every provider."""
    names = draw(st.lists(words, unique=True, max_size=6))
    ids = draw(st.lists(uuids, unique=True, min_size=len(names), max_size=len(names)))
    providers = []
    for position, name in enumerate(names):
        parent = draw(st.none() | st.sampled_from(names[:position])) if position else None
        providers.append(ProviderEntry(name, ids[position], parent, draw(states)))
    return Document(
        resource_classes=("CUSTOM_A", "CUSTOM_B"),
        traits=("CUSTOM_T", "CUSTOM_U"),
        providers=tuple(draw(st.permutations(providers))),
        consumers=tuple(draw(consumers(providers))),
    )


@st.composite
def consumers(draw, providers):
    able = [entry for entry in providers if entry.state.inventories]
    if not able:
        return []
    made = []
    for uuid in draw(st.lists(uuids, unique=True, max_size=3)):
        chosen = draw(
            st.lists(st.sampled_from(able), unique_by=lambda entry: entry.name, min_size=1, max_size=2)
        )
        resources = {
            entry.name: draw(
                st.dictionaries(
                    st.sampled_from(sorted(entry.state.inventories)), st.integers(1, 99), min_size=1
                )
            )
            for entry in chosen
        }
        kind = draw(st.none() | st.just("INSTANCE"))
        made.append(ConsumerEntry(uuid, draw(words), draw(words), resources, kind))
    return made


def server_of(document):
    """What a server has on which this document was applied."""
    ids = {entry.name: entry.uuid for entry in document.providers}
    providers = {
        entry.uuid: Provider(entry.uuid, entry.name, 7, ids.get(entry.parent), None)
        for entry in document.providers
    }
    return Current(
        resource_classes=frozenset((*CLASSES, *document.resource_classes)),
        traits=frozenset((*TRAITS, *document.traits)),
        providers=tuple(providers.values()),
        states={entry.uuid: (providers[entry.uuid], entry.state) for entry in document.providers},
        consumers={
            entry.uuid: Consumer(
                entry.uuid,
                1,
                entry.project,
                entry.user,
                entry.type,
                {ids[name]: amounts for name, amounts in entry.resources.items()},
            )
            for entry in document.consumers
        },
    )
