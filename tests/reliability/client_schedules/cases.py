# SPDX-License-Identifier: Apache-2.0
"""The runs that schedules are made of, the cloud that they begin with, and what other clients do meanwhile.

The cloud has three hosts with a child below the first, and three consumers. A case plans as a command does,
with real requests, and says in cells what it is to bring about.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

from osc_placement.api.concurrency import Reading as ReadingSettings
from osc_placement.api.consumer import Consumer
from osc_placement.batch import select, service
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.guards import guard
from osc_placement.batch.inventory import InventoryEdit, RatioEdit
from osc_placement.batch.membership import AggregateEdit, TraitEdit
from osc_placement.batch.plan import Change, Plan, Policy, make_plan
from osc_placement.batch.repeat import Recorded
from osc_placement.batch.reshape import Move, Moves
from osc_placement.batch.selection import Selection
from osc_placement.batch.service import Job
from osc_placement.model import Inventory
from osc_placement.state import read as state_read
from osc_placement.state.plan import plan_apply, plan_run
from osc_placement.state.text import parse_text
from tests.reliability.client_schedules.cloud import FIELDS

ID = "c11e0000-0000-4000-8000-0000000000{}"
A, B, C, CHILD, NEW, NEWER = (ID.format(f"0{letter}") for letter in "abcdef")
HOST_G, HOST_H = ID.format("07"), ID.format("08")
K1, K2, K3, K4, STRANGER = (ID.format(f"1{number}") for number in range(1, 6))
ROW, OTHER_ROW = ID.format("21"), ID.format("22")
OLD_TRAIT, NEW_TRAIT, OTHER_TRAIT = "HW_CPU_X86_MMX", "HW_CPU_X86_AVX", "HW_CPU_X86_SSE"
THIRD_TRAIT = "HW_CPU_X86_SSE2"
OWNER = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
HOSTS = (A, B, C)
STATE = f"""
resource_classes: [CUSTOM_NEW]
traits: [CUSTOM_NEW]
providers:
- {{name: host-b, uuid: {A}, traits: [{NEW_TRAIT}], aggregates: [{ROW}, {OTHER_ROW}],
    inventories: {{VCPU: {{total: 8, allocation_ratio: 4.0}}, CUSTOM_NEW: {{total: 5}}}}}}
- {{name: host-a, uuid: {B}, traits: [{OLD_TRAIT}, CUSTOM_NEW]}}
- {{name: host-e, uuid: {NEW}, inventories: {{VCPU: {{total: 4}}}}, traits: [{NEW_TRAIT}]}}
- {{name: host-f, uuid: {NEWER}, parent: host-e, inventories: {{CUSTOM_NEW: {{total: 3}}}}}}
allocations:
- {{consumer: {K1}, project: project, user: user, type: INSTANCE, resources: {{host-b: {{VCPU: 1}}}}}}
- {{consumer: {K2}, project: project, user: user, type: INSTANCE, resources: {{host-e: {{VCPU: 2}}}}}}
- {{consumer: {K4}, project: project, user: user, type: INSTANCE, resources: {{host-f: {{CUSTOM_NEW: 1}}}}}}
"""
#: two of them are created in one bulk request, and then what is below them in another
STATE_OF_NEW_HOSTS = f"""
providers:
- {{name: host-e, uuid: {NEW}, inventories: {{VCPU: {{total: 4}}}}, traits: [{NEW_TRAIT}]}}
- {{name: host-f, uuid: {NEWER}, parent: host-e, inventories: {{VGPU: {{total: 3}}}}}}
- {{name: host-g, uuid: {HOST_G}, aggregates: [{ROW}]}}
- {{name: host-h, uuid: {HOST_H}, parent: host-g, traits: [{NEW_TRAIT}]}}
"""
#: a host gets the name and the consumer of one that goes, which has less capacity than that consumer holds
STATE_OF_A_REPLACED_HOST = f"""
resource_classes: [CUSTOM_OLD]
traits: [CUSTOM_OLD]
providers:
- {{name: host-b, uuid: {A}}}
- {{name: host-c, uuid: {C}}}
- {{name: host-d, uuid: {CHILD}, parent: host-b}}
allocations:
- {{consumer: {K1}, project: project, user: user, type: INSTANCE,
    resources: {{host-b: {{VCPU: 2, VGPU: 3}}}}}}
- {{consumer: {K2}, project: project, user: user, type: INSTANCE, resources: {{host-b: {{VCPU: 2}}}}}}
- {{consumer: {K3}, project: project, user: user, type: INSTANCE, resources: {{host-c: {{VCPU: 1}}}}}}
"""


def make_cloud(client):
    """Make the cloud that all cases begin with."""
    client.create_trait("CUSTOM_OLD")
    client.create_resource_class("CUSTOM_OLD")
    for letter, uuid in zip("abcd", (*HOSTS, CHILD), strict=True):
        client.create_provider(f"host-{letter}", uuid=uuid, parent=A if uuid == CHILD else None)
    for uuid in HOSTS:
        inventories = {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 4096, "reserved": 512}}
        if uuid == A:
            inventories["VGPU"] = {"total": 8}
        client.set_inventories(uuid, inventories, 0)
        client.set_provider_traits(uuid, [OLD_TRAIT], 1)
        client.set_provider_aggregates(uuid, [ROW], 2)
    for consumer, provider, amounts in (
        (K1, A, {"VCPU": 2, "VGPU": 3}),
        (K2, B, {"VCPU": 2, "MEMORY_MB": 512}),
        (K3, C, {"VCPU": 1}),
    ):
        claims = {"allocations": {provider: {"resources": amounts}}, "consumer_generation": None, **OWNER}
        client.set_allocations(consumer, claims)


# what other clients do


def _set_field(uuid, name, field, value):
    def deed(client):
        document = client.list_inventories(uuid)
        if name in document["inventories"]:
            inventory = document["inventories"][name] | {field: value}
            client.set_inventory(uuid, name, inventory, document["resource_provider_generation"])

    deed.__name__ = f"sets {name}:{field}={value} of {uuid[-2:]}"
    return deed


def _set_traits(uuid, change):
    def deed(client):
        document = client.list_provider_traits(uuid)
        wanted = sorted(change(set(document["traits"])))
        client.set_provider_traits(uuid, wanted, document["resource_provider_generation"])

    deed.__name__ = f"changes the traits of {uuid[-2:]}"
    return deed


def _set_aggregates(uuid, change):
    def deed(client):
        document = client.list_provider_aggregates(uuid)
        wanted = sorted(change(set(document["aggregates"])))
        client.set_provider_aggregates(uuid, wanted, document["resource_provider_generation"])

    deed.__name__ = f"changes the aggregates of {uuid[-2:]}"
    return deed


def _claim(consumer, amounts):
    def deed(client):
        found = client.list_allocations(consumer)
        generation = found.get("consumer_generation")
        claims = {uuid: {"resources": held} for uuid, held in amounts.items()}
        client.set_allocations(consumer, {"allocations": claims, "consumer_generation": generation, **OWNER})

    deed.__name__ = f"has {consumer[-2:]} hold { ({uuid[-2:]: held for uuid, held in amounts.items()}) }"
    return deed


def _beside(uuid):
    """Return what changes a provider, and nothing that a run sets."""
    return (
        _set_field(uuid, "MEMORY_MB", "reserved", 700),
        _set_traits(uuid, lambda traits: traits | {OTHER_TRAIT}),
        _set_aggregates(uuid, lambda found: found | {ID.format("23")}),
        _claim(STRANGER, {uuid: {"VCPU": 1}}),
    )


# cases


@dataclass(frozen=True)
class Case:
    """A run: how it is planned, and what it is to bring about.

    :ivar plan: makes the job with a client, whose requests may fail
    :ivar goal: by cell, the value that the run gives it, None for one that it removes, made of the cells that
        there would be without the run
    :ivar deeds: what other clients do; those of the same cells last
    :ivar is_closed: whether a cell that is not in the goal is to be removed
    :ivar may_fail: whether a change of a subject may fail in a resume that no fault reaches, for what others
        wrote: a function of the ledger and the id of the subject
    :ivar before: names the case that is run whole before, which this one undoes
    :ivar prepare: makes of the cloud that of the case, with a client
    """

    name: str
    plan: Callable
    goal: Callable
    deeds: tuple
    is_closed: Callable = lambda cell: False
    may_fail: Callable = lambda ledger, uuid: False
    has_bulk: bool = True
    before: str = ""
    prepare: Callable | None = None

    @property
    def is_full(self):
        """Return whether a run has twenty to sixty requests, where others have up to ten."""
        return "apply" in self.name or "replaced" in self.name


def read_with(client):
    """Return the reader that plans of resume and undo need, as commands have it."""
    return lambda subjects, facets: select.read_again(client, subjects, facets, concurrency=1)


def _plan_edit(client, _directory, *, edit, is_atomic=False):
    selection = Selection(providers=HOSTS)
    with_usages = "inventories" in edit.facets
    readings = select.read_selected(client, selection, edit.facets, with_usages=with_usages, concurrency=1)
    readings.sort(key=lambda reading: reading.subject.uuid)
    plan = guard(client, make_plan(edit, readings), Policy("keep"), readings, concurrency=1)
    return Job(plan, "the hosts", is_atomic=is_atomic)


def _edit_case(name, edit, goal, deeds, *, is_closed=lambda cell: False, **options):
    plan = functools.partial(_plan_edit, edit=edit, is_atomic=options.pop("is_atomic", False))
    beside = (*_beside(A), *_beside(B))
    return Case(name, plan, goal, (*beside, *deeds), is_closed, **options)


def _everywhere(*tails):
    """Return a goal: each host has these values."""
    return lambda cells: {("provider", uuid, *tail): value for uuid in HOSTS for *tail, value in tails}


_RATIO = RatioEdit({"VCPU": 4.0})
_RATIO_GOAL = _everywhere(("inventories", "VCPU", "allocation_ratio", 4.0))
_RATIO_DEEDS = (
    _set_field(A, "VCPU", "allocation_ratio", 7.5),
    _set_field(B, "VCPU", "allocation_ratio", 2.5),
    _set_field(B, "VCPU", "reserved", 1),
)
_TRAIT = TraitEdit("add", frozenset({NEW_TRAIT}))
_TRAIT_DEEDS = (
    _set_traits(A, lambda traits: traits - {NEW_TRAIT}),
    _set_traits(B, lambda traits: traits - {NEW_TRAIT}),
)
_NEW_CLASS = {"total": 50, "reserved": 5}
_CLASS_DEEDS = (_set_field(A, "DISK_GB", "total", 60), _set_field(B, "VCPU", "total", 16))


def _fields_of(name, given):
    values = Inventory.from_json(given).to_json()
    return [("inventories", name, field, values[field]) for field in FIELDS]


def _any_other(ledger, _uuid):
    """Whether anybody else wrote: a transaction, or a step that depends on others, may fail for it."""
    return not ledger.is_alone


def _plan_apply(client, _directory, *, text=STATE, prune=True):
    document = parse_text(text, "state.yaml")
    reading = ReadingSettings(concurrency=1)
    document, current = state_read.read_current(client, document, prune=prune, reading=reading)
    plan = plan_run(plan_apply(document, current), "apply state.yaml")
    return Job(guard(client, plan, Policy("keep"), current.readings, concurrency=1))


def _inventories(uuid, name, **given):
    return {("provider", uuid, *tail): value for *tail, value in _fields_of(name, given)}


def _provider(uuid, name, parent=None, traits=(), aggregates=()):
    goal = {("provider", uuid, "name"): name, ("provider", uuid, "parent"): parent}
    goal |= {("provider", uuid, "traits", each): True for each in traits}
    return goal | {("provider", uuid, "aggregates", each): True for each in aggregates}


def _apply_goal(cells):
    goal = {
        ("name", "trait CUSTOM_NEW", "exists"): True,
        ("name", "resource class CUSTOM_NEW", "exists"): True,
        **_provider(A, "host-b", None, [NEW_TRAIT], [ROW, OTHER_ROW]),
        **_provider(B, "host-a", None, [OLD_TRAIT, "CUSTOM_NEW"]),
        **_provider(NEW, "host-e", None, [NEW_TRAIT]),
        **_provider(NEWER, "host-f", NEW),
        **_inventories(A, "VCPU", total=8, allocation_ratio=4.0),
        **_inventories(A, "CUSTOM_NEW", total=5),
        **_inventories(NEW, "VCPU", total=4),
        **_inventories(NEWER, "CUSTOM_NEW", total=3),
    }
    owner = ("project", "user", "INSTANCE")
    held = ((K1, A, "VCPU", 1), (K2, NEW, "VCPU", 2), (K4, NEWER, "CUSTOM_NEW", 1))
    for consumer, uuid, name, amount in held:
        goal["consumer", consumer, "owner"] = owner
        goal["consumer", consumer, "allocations", uuid, name] = amount
    return goal


def _new_hosts_goal(_cells):
    return {
        **_provider(NEW, "host-e", None, [NEW_TRAIT]),
        **_provider(NEWER, "host-f", NEW),
        **_provider(HOST_G, "host-g", None, (), [ROW]),
        **_provider(HOST_H, "host-h", HOST_G, [NEW_TRAIT]),
        **_inventories(NEW, "VCPU", total=4),
        **_inventories(NEWER, "VGPU", total=3),
    }


def _fill_host(client):
    """Leave a host less capacity than its consumer holds."""
    generation = client.show_provider(B)["generation"]
    client.set_inventory(B, "MEMORY_MB", {"total": 4096, "reserved": 4000}, generation)


def _replaced_host_goal(_cells):
    owner = {("consumer", uuid, "owner"): ("project", "user", "INSTANCE") for uuid in (K1, K2, K3)}
    held = ((K1, A, "VCPU", 2), (K1, A, "VGPU", 3), (K2, A, "VCPU", 2), (K3, C, "VCPU", 1))
    allocations = {("consumer", uuid, "allocations", host, name): amount for uuid, host, name, amount in held}
    names = {("provider", A, "name"): "host-b", ("provider", C, "name"): "host-c"}
    return {**names, **owner, **allocations}


def _is_of_state(cell):
    """Whether the state file describes a cell, or the part that it would be in."""
    # of the second host it describes the traits only
    return cell[1] != B or cell[2] in ("name", "parent", "traits")


def _plan_reshape(client, _directory):
    job = Job.for_reshape(client, Moves([Move(A, CHILD, "VGPU", 6)]))
    return replace(job, selection="the first host")


def _reshape_goal(cells):
    goal = {("provider", CHILD, *tail): value for *tail, value in _fields_of("VGPU", {"total": 6})}
    for field, value in (("total", 2),):
        goal["provider", A, "inventories", "VGPU", field] = value
    goal["provider", A, "inventories", "VGPU", "max_unit"] = cells.get(
        ("provider", A, "inventories", "VGPU", "max_unit")
    )
    goal["provider", CHILD, "inventories", "VGPU", "max_unit"] = goal[
        "provider", A, "inventories", "VGPU", "max_unit"
    ]
    goal["consumer", K1, "allocations", A, "VGPU"] = None
    goal["consumer", K1, "allocations", CHILD, "VGPU"] = 3
    return goal


def _plan_migration(client, _directory):
    """Plan as migrations do that give consumers what they hold: one is new, two are moved."""
    wanted = {K1: {B: {"VCPU": 1}}, K3: {A: {"VCPU": 2, "MEMORY_MB": 64}}, K4: {C: {"VCPU": 1}}}
    consumers = [Consumer(uuid, None, "project", "user", "INSTANCE") for uuid in sorted(wanted)]
    changes = []
    for reading in select.read_states(client, consumers, ("allocations",), concurrency=1):
        if reading.error is not None:
            raise reading.error
        before = ProviderState(allocations=reading.state.allocations)
        after = ProviderState(allocations=wanted[reading.subject.uuid])
        changes.append(Change(reading.subject, before, after))
    edit = Recorded("heal allocations", ("allocations",))
    return Job(Plan(edit, tuple(changes)))


def _migration_goal(cells):
    goal = {cell: None for cell in cells if cell[1] in (K1, K3, K4) and cell[2] == "allocations"}
    goal["consumer", K1, "allocations", B, "VCPU"] = 1
    goal["consumer", K3, "allocations", A, "VCPU"] = 2
    goal["consumer", K3, "allocations", A, "MEMORY_MB"] = 64
    goal["consumer", K4, "allocations", C, "VCPU"] = 1
    goal["consumer", K4, "owner"] = ("project", "user", "INSTANCE")
    return goal


_CONSUMER_DEEDS = (
    _claim(STRANGER, {A: {"VCPU": 1}}),
    _set_traits(A, lambda traits: traits | {OTHER_TRAIT}),
    _claim(K1, {C: {"VCPU": 1}}),
    _claim(K3, {C: {"VCPU": 3}}),
    _claim(K4, {A: {"VCPU": 1}}),
)
_APPLY_DEEDS = (
    *_beside(A),
    *_beside(B),
    _set_field(A, "VCPU", "allocation_ratio", 7.5),
    _set_traits(B, lambda traits: traits - {OLD_TRAIT}),
    _claim(K1, {A: {"VCPU": 3}}),
    _claim(K4, {A: {"VCPU": 1}}),
)
_NEW_HOSTS_DEEDS = (
    *_beside(A),
    _claim(STRANGER, {NEW: {"VCPU": 1}}),
    _set_traits(HOST_G, lambda traits: traits | {OTHER_TRAIT}),
    _set_aggregates(NEWER, lambda found: found | {OTHER_ROW}),
)
_RESHAPE_DEEDS = (
    *_beside(A),
    _set_traits(CHILD, lambda traits: traits | {OTHER_TRAIT}),
    _claim(STRANGER, {A: {"VGPU": 1}}),
)


def _plan_undo(client, directory):
    """Plan the undo of the only run there is."""
    (path,) = directory.glob("*.jsonl")
    return service.Runs(directory).undo(client, path.stem, read_with(client))


def _undo_case(name, deeds, **options):
    return Case(f"undo-{name}", _plan_undo, lambda cells: {}, deeds, before=name, **options)


def _is_concerned(ledger, uuid):
    """Whether others changed the subject: what a consumer holds is one claim."""
    return ledger.has_other(uuid)


CASES = {
    case.name: case
    for case in (
        _edit_case("ratio", _RATIO, _RATIO_GOAL, _RATIO_DEEDS),
        _edit_case("ratio-single", _RATIO, _RATIO_GOAL, _RATIO_DEEDS, has_bulk=False),
        _edit_case("ratio-atomic", _RATIO, _RATIO_GOAL, _RATIO_DEEDS, is_atomic=True, may_fail=_any_other),
        _edit_case(
            "ratio-reshaper",
            _RATIO,
            _RATIO_GOAL,
            _RATIO_DEEDS,
            is_atomic=True,
            has_bulk=False,
            may_fail=_any_other,
        ),
        _edit_case("trait", _TRAIT, _everywhere(("traits", NEW_TRAIT, True)), _TRAIT_DEEDS),
        _edit_case(
            "trait-set",
            TraitEdit("set", frozenset({NEW_TRAIT})),
            _everywhere(("traits", NEW_TRAIT, True)),
            _TRAIT_DEEDS,
            is_closed=lambda cell: cell[2] == "traits",
            has_bulk=False,
        ),
        _edit_case(
            "aggregate",
            AggregateEdit("set", frozenset({OTHER_ROW})),
            _everywhere(("aggregates", OTHER_ROW, True)),
            (_set_aggregates(A, lambda found: found - {OTHER_ROW}),),
            is_closed=lambda cell: cell[2] == "aggregates",
        ),
        _edit_case(
            "class",
            InventoryEdit({"DISK_GB": _NEW_CLASS, "VCPU": {"total": 9}}),
            _everywhere(*_fields_of("DISK_GB", _NEW_CLASS), ("inventories", "VCPU", "total", 9)),
            _CLASS_DEEDS,
        ),
        _edit_case(
            "ratio-high",
            RatioEdit({"VCPU": 8.0}),
            _everywhere(("inventories", "VCPU", "allocation_ratio", 8.0)),
            _RATIO_DEEDS,
            has_bulk=False,
        ),
        _edit_case(
            "other-trait",
            TraitEdit("add", frozenset({THIRD_TRAIT})),
            _everywhere(("traits", THIRD_TRAIT, True)),
            _TRAIT_DEEDS,
            has_bulk=False,
        ),
        Case("apply", _plan_apply, _apply_goal, _APPLY_DEEDS, _is_of_state, _any_other),
        Case("apply-single", _plan_apply, _apply_goal, _APPLY_DEEDS, _is_of_state, _any_other, False),
        Case(
            "new-hosts",
            functools.partial(_plan_apply, text=STATE_OF_NEW_HOSTS, prune=False),
            _new_hosts_goal,
            _NEW_HOSTS_DEEDS,
            may_fail=_any_other,
        ),
        Case(
            "replaced-host",
            functools.partial(_plan_apply, text=STATE_OF_A_REPLACED_HOST),
            _replaced_host_goal,
            _beside(A),
            lambda cell: B in cell or cell[0] == "consumer",
            # the consumer does not come back to a host that did not go, and has no room for it
            lambda ledger, uuid: uuid == K2 or _any_other(ledger, uuid),
            prepare=_fill_host,
        ),
        Case("reshape", _plan_reshape, _reshape_goal, _RESHAPE_DEEDS, may_fail=_any_other),
        Case("migration", _plan_migration, _migration_goal, _CONSUMER_DEEDS, may_fail=_is_concerned),
        _undo_case("ratio", (*_beside(A), *_beside(B), *_RATIO_DEEDS)),
        _undo_case("trait-set", (*_beside(A), *_beside(B)), has_bulk=False),
        _undo_case("class", (*_beside(A), *_CLASS_DEEDS)),
        _undo_case("apply", _APPLY_DEEDS, may_fail=_any_other),
        _undo_case("replaced-host", _beside(A), may_fail=_any_other),
        _undo_case("reshape", _RESHAPE_DEEDS, may_fail=_any_other),
        _undo_case("migration", _CONSUMER_DEEDS, may_fail=_is_concerned),
    )
}
