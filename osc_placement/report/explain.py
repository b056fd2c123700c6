# SPDX-License-Identifier: Apache-2.0
"""The reason why a query for allocation candidates leaves few trees, or rules out a certain one. Pure.

For each group of the query and each tree, the explanation starts with a set of providers by resource class:
the providers of the tree and those that share with it. A group with a suffix has one set for all its classes,
because one provider must give everything. Each constraint removes providers from the sets, as the engine
(osc_placement/candidates/match.py) would; a tree fails at the constraint that empties a set.

The constraints are in the order of nova's scheduler, whose filters come before the amounts of a flavor:

1. where the request may go: the aggregates, such as those of a zone or a project, and the tree;
2. what has to be there: traits of the root, and resource classes and traits of the groups;
3. how much of it: the amounts of the groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from osc_placement.candidates.cloud import CloudView
from osc_placement.candidates.fit import HostFit
from osc_placement.candidates.match import Admitted, have_together, make_plan
from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.nova_filters import Labels, name_aggregates
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.terminal.escape import printable

#: providers by resource class; a group that one provider must satisfy alone has the single key ``ONE``
Sets = Mapping[str, Sequence[Node]]
ONE: Final = "*"
_NO_LABELS: Final = Labels()


@dataclass(frozen=True, slots=True)
class Scope:
    """The conditions of one group that apply so far.

    :ivar group: the conditions on providers, and the classes; no amounts
    :ivar tests: resource classes, each with a condition on the providers of it
    :ivar is_root: whether only the root of a tree is in question
    :ivar is_own: whether something has to come from the tree itself
    """

    group: Group
    classes: Sequence[str] = ()
    tests: Sequence[tuple[str, Callable[[Node], bool]]] = ()
    is_root: bool = False
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """One condition of a query.

    ``add`` adds it to those that apply. ``shortage`` describes, with what was in the sets that this empties,
    what is missing, and ``standing`` what there is if it empties none.
    """

    text: str
    add: Callable[[Scope], Scope]
    shortage: Callable[[Sets], str]
    standing: Callable[[Sets], str] = lambda _sets: ""


@dataclass(frozen=True, slots=True)
class Step:
    """The number of trees that a constraint removes and leaves."""

    group: str
    text: str
    removed: int
    left: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a tree against a constraint; ``detail`` says what it has or lacks."""

    group: str
    text: str
    met: bool
    detail: str


def explain_cloud(
    cloud: CloudView, request: CandidateRequest, labels: Labels = _NO_LABELS
) -> tuple[list[Step], frozenset[str]]:
    """Return how many trees each constraint leaves, in order, and the roots of those left in the end.

    A constraint names the filter of nova's scheduler that ``labels`` has for it.
    """
    left = [cloud.snapshot.slot_by_uuid[root.uuid] for root in cloud.roots]
    steps = [Step("", "all trees", 0, len(left))]
    scopes, constraints = _order_constraints(cloud, request, labels)
    for place, constraint in constraints:
        scope = scopes[place] = constraint.add(scopes[place])
        sets_at = _Sets(cloud, scope).at
        kept = [root for root in left if all(sets_at(root).values())]
        steps.append(Step(scope.group.suffix, constraint.text, len(left) - len(kept), len(kept)))
        left = kept
    return steps, frozenset(cloud.nodes[slot].uuid for slot in left)


def explain_tree(
    cloud: CloudView, request: CandidateRequest, root: Node, labels: Labels = _NO_LABELS
) -> list[Verdict]:
    """Judge one tree by each constraint; one that is not met does not narrow the sets for later ones."""
    slot = cloud.snapshot.slot_by_uuid[root.uuid]
    ordered = [*cloud.tree_of(root.uuid), *cloud.sharing_with(root.uuid)]

    def find_sets(scope: Scope) -> Sets:
        slots = _Sets(cloud, scope).at(slot)
        uuids = {key: {cloud.nodes[each].uuid for each in found} for key, found in slots.items()}
        return {key: [node for node in ordered if node.uuid in found] for key, found in uuids.items()}

    verdicts = []
    scopes, constraints = _order_constraints(cloud, request, labels)
    known = [find_sets(scope) for scope in scopes]
    for place, constraint in constraints:
        narrower = constraint.add(scopes[place])
        narrowed = find_sets(narrower)
        emptied = {key: nodes for key, nodes in known[place].items() if not narrowed[key]}
        met = not emptied
        detail = constraint.standing(narrowed) if met else constraint.shortage(emptied)
        verdicts.append(Verdict(narrower.group.suffix, constraint.text, met, detail))
        if met:
            scopes[place], known[place] = narrower, narrowed
    return verdicts


class _Sets:
    """The providers by resource class that the conditions of a scope leave at an anchor.

    As long as no condition asks for a class, its set has the providers that have it; if there is none at the
    anchor, it has all of them.
    """

    def __init__(self, cloud: CloudView, scope: Scope) -> None:
        snapshot = cloud.snapshot
        self._snapshot = snapshot
        self._scope = scope
        self._admitted = Admitted(snapshot, make_plan(snapshot, scope.group))
        free = replace(scope.group, traits=Traits(), membership=Membership())
        self._reached = Admitted(snapshot, make_plan(snapshot, free))

    def at(self, root: int) -> Mapping[str, Sequence[int]]:
        """Return the slots of the sets; if one of several conditions is not met together, all are empty."""
        snapshot, scope = self._snapshot, self._scope
        slots = self._admitted.at(root)
        if scope.is_root:
            return {ONE: [slot for slot in slots if slot == root]}
        sets: dict[str, Sequence[int]] = {}
        for key in (ONE,) if scope.group.one_provider else scope.classes:
            tests = [test for name, test in scope.tests if key in (ONE, name)] or [self._has(key, root)]
            sets[key] = [slot for slot in slots if all(test(snapshot.nodes[slot]) for test in tests)]
        found = {slot for chosen in sets.values() for slot in chosen}
        is_met = have_together(snapshot, list(found), scope.group.traits)
        if scope.is_own and not any(snapshot.root_of[slot] == root for slot in found):
            is_met = False
        return sets if is_met else dict.fromkeys(sets, ())

    def _has(self, key: str, root: int) -> Callable[[Node], bool]:
        """Return a test for the classes of a set, which every provider passes if none at the anchor does."""
        names = self._scope.classes if key == ONE else (key,)

        def holds(node: Node) -> bool:
            return all(name in node.stocks for name in names)

        nodes = self._snapshot.nodes
        return holds if any(holds(nodes[slot]) for slot in self._reached.at(root)) else lambda _node: True


def _order_constraints(
    cloud: CloudView, request: CandidateRequest, labels: Labels
) -> tuple[list[Scope], list[tuple[int, Constraint]]]:
    """Return the scopes of the root and of each group, and the constraints, each with the place of its scope.

    The scopes are those before any constraint.
    """
    scopes = [Scope(Group("root"), is_root=True)]
    where: list[tuple[int, Constraint]] = []
    what = [(0, each) for each in _trait_constraints(request.root, labels.root)]
    amounts = []
    for place, group in enumerate(request.groups, start=1):
        scopes.append(Scope(Group(group.suffix), tuple(group.resources)))
        where += [(place, each) for each in _place_constraints(cloud, group, labels)]
        asked = [_resource_constraints(group, name, amount) for name, amount in group.resources.items()]
        what += [(place, has) for has, *_ in asked]
        what += [(place, each) for each in _trait_constraints(group.traits)]
        amounts += [(place, each) for _, *others in asked for each in others]
    if len(request.groups) == 1 and cloud.snapshot.sharing:
        # a candidate has something from the tree itself, not only what is shared
        own = Constraint(
            "not from sharing providers alone",
            lambda scope: replace(scope, is_own=True),
            lambda sets: f"everything is shared by {_names(sets)}",
        )
        amounts.append((1, own))
    return scopes, [*where, *what, *amounts]


def _place_constraints(cloud: CloudView, group: Group, labels: Labels) -> Iterator[Constraint]:
    yield from _aggregate_constraints(group.membership, _NO_LABELS if group.suffix else labels)
    if (uuid := group.in_tree) is not None:
        name = printable(cloud.root_of(uuid).name) if uuid in cloud.records else uuid
        yield Constraint(
            f"in the tree of {name}",
            lambda scope: replace(scope, group=replace(scope.group, in_tree=uuid)),
            lambda _sets: "another tree",
        )


def _resource_constraints(group: Group, name: str, amount: int) -> tuple[Constraint, Constraint, Constraint]:
    """Return the constraints that there is a class, that the amount is in its units, and that it is free."""
    key = ONE if group.one_provider else name

    def test(condition: Callable[[Stock], bool]) -> Callable[[Scope], Scope]:
        def holds(node: Node) -> bool:
            return name in node.stocks and condition(node.stocks[name])

        return lambda scope: replace(scope, tests=(*scope.tests, (name, holds)))

    def shortage(sets: Sets) -> str:
        if text := describe_shortage(sets[key], name, amount):
            return text
        # those that have a required trait have too little, and the others do not count without it
        fitting = [node for node in sets[key] if name in node.stocks and node.stocks[name].fits(amount)]
        return f"a required trait is missing from {_names({key: fitting})}"

    def free(sets: Sets) -> str:
        node = max(sets[key], key=lambda node: node.stocks[name].free)
        return f"{node.stocks[name].free} free on {printable(node.name)}"

    units = test(lambda stock: stock.inventory.fits_unit(amount))
    return (
        Constraint(f"has {name}", test(lambda _stock: True), shortage),
        Constraint(f"{name}={amount}: min_unit, max_unit, step_size", units, shortage),
        Constraint(f"{name}={amount}: free", test(lambda stock: amount <= stock.free), shortage, free),
    )


#: the filter that asks for a condition, by whether it requires or forbids, and the names in it
Filters = Mapping[tuple[bool, frozenset[str]], str]


def _trait_constraints(traits: Traits, filters: Filters | None = None) -> Iterator[Constraint]:
    for names in traits.required:
        yield Constraint(
            _label(f"required {' or '.join(sorted(names))}", (True, names), filters),
            partial(_require, Traits((names,))),
            lambda sets: f"missing from {_names(sets)}",
        )
    for names in traits.forbidden:
        text = _label(f"not {' or '.join(sorted(names))}", (False, names), filters)
        add = partial(_require, Traits((), (names,)))
        yield Constraint(text, add, lambda sets: f"{_names(sets)} has it")


def _aggregate_constraints(membership: Membership, labels: Labels) -> Iterator[Constraint]:
    def describe(names: frozenset[str], *, is_required: bool) -> str:
        text = f"aggregate {' or '.join(sorted(names))}"
        if (is_required, names) in labels.membership:
            text = name_aggregates(names, labels.names)
        text = f"in {text}" if is_required else f"not in {text}"
        return _label(text, (is_required, names), labels.membership)

    for names in membership.required:
        text = describe(names, is_required=True)
        add = partial(_require, Membership((names,)))
        yield Constraint(text, add, lambda sets: f"{_names(sets)} is not in it")
    for names in membership.forbidden:
        text = describe(names, is_required=False)
        add = partial(_require, Membership((), (names,)))
        yield Constraint(text, add, lambda sets: f"{_names(sets)} is in it")


def _label(text: str, condition: tuple[bool, frozenset[str]], filters: Filters | None) -> str:
    """Return the text of a condition, with the filter of nova's scheduler that asks for it."""
    name = (filters or {}).get(condition)
    return f"{text} ({name})" if name else text


def _require(more: Traits | Membership, scope: Scope) -> Scope:
    """Return a scope with further conditions on traits or aggregates."""
    group = scope.group
    if isinstance(more, Traits):
        return replace(scope, group=replace(group, traits=group.traits.plus(more)))
    return replace(scope, group=replace(group, membership=group.membership.plus(more)))


def _names(sets: Sets) -> str:
    """Return the names of the providers in question, or their number if there are many."""
    names = sorted({printable(node.name) for nodes in sets.values() for node in nodes})
    return ", ".join(names) if len(names) <= 2 else f"each of {len(names)} providers"


def describe_shortage(
    nodes: Iterable[Node], resource_class: str, amount: int, alike: Mapping[str, int] | None = None
) -> str:
    """Describe what the closest of the providers lacks; empty if one of them can give the amount.

    :param alike: by UUID, the number of providers for which one of them stands; None means one each
    """
    offers = [(node, node.stocks[resource_class]) for node in nodes if resource_class in node.stocks]
    if any(stock.fits(amount) for _, stock in offers):
        return ""
    if not offers:
        return f"no {resource_class}"
    in_units = [(node, stock) for node, stock in offers if stock.inventory.fits_unit(amount)]
    if in_units:
        node, stock = max(in_units, key=lambda offer: offer[1].free)
        problem = f"{stock.free} free, {amount - (stock.capacity - stock.used)} short"
    else:
        node, stock = max(offers, key=lambda offer: offer[1].inventory.max_unit)
        limits = stock.inventory
        if amount < limits.min_unit:
            problem = f"min_unit {limits.min_unit}"
        elif amount > limits.max_unit:
            problem = f"max_unit {limits.max_unit}, {amount - limits.max_unit} too much"
        else:
            problem = f"step_size {limits.step_size}"
        problem += f", {stock.free} free"
    others = sum((alike or {}).get(node.uuid, 1) for node, _ in in_units or offers)
    where = f" on {printable(node.name)}, the closest of {others}" if others > 1 else ""
    return f"{resource_class}: {amount} asked, {problem}{where}"


def describe_limits(fit: HostFit, request: Group) -> str:
    """Describe what limits the number of times that a request fits on a host, or why it does not fit."""
    if fit.count:
        return ", ".join(fit.limits)
    amounts = request.resources
    groups = [name for name in fit.limits if name.startswith("resources")]
    if groups:
        return f"no free capacity for {', '.join(groups)}"
    shortages = [
        describe_shortage(fit.providers, name, amounts[name])
        if name in amounts
        else f"no free capacity with trait {name}"
        for name in fit.limits
    ]
    return "; ".join(shortages) or "nothing of its own"


def roots_of_candidates(cloud: CloudView, requests: Iterable[Iterable[str]]) -> frozenset[str]:
    """Return the trees for which the server has candidates, given the providers of each candidate.

    A candidate belongs to the tree of its providers that do not share; if all of them share, to their own
    trees.
    """
    roots = set()
    for uuids in requests:
        nodes = [cloud.node(uuid) for uuid in uuids if uuid in cloud.records]
        own = [node for node in nodes if not node.shares] or nodes
        roots |= {cloud.root_of(node.uuid).uuid for node in own}
    return frozenset(roots)
