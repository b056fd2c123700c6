# SPDX-License-Identifier: Apache-2.0
"""The reason why a query for allocation candidates leaves few trees, or rules out a certain one. Pure.

For each group of the query and each tree, the search starts with a set of providers by resource class: the
providers of the tree and those that share with it. A group with a suffix has one set for all its classes,
because one provider must give everything. Each constraint removes providers from the sets; a tree fails at
the constraint that empties a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from osc_placement.report.cloud import Cloud, Node
from osc_placement.report.query import Condition, Group, Query
from osc_placement.report.shortage import describe_shortage
from osc_placement.terminal.escape import printable

#: by resource class; a group that one provider must satisfy alone has the single key ``ONE``
Sets = Mapping[str, Sequence[Node]]
ONE: Final = "*"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One condition of a query.

    ``narrow`` removes the providers that do not meet it from the sets. ``shortage`` describes what is missing
    when that empties a set, ``standing`` what there is when it does not.
    """

    group: str
    text: str
    narrow: Callable[[Sets, Node], Sets]
    shortage: Callable[[Sets, Node], str]
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
    """Whether one tree meets a constraint; ``detail`` says what it has or lacks."""

    group: str
    text: str
    met: bool
    detail: str


def explain_cloud(cloud: Cloud, query: Query) -> tuple[list[Step], frozenset[str]]:
    """Return how many trees each constraint leaves, in order, and the roots of those that are left in the
    end.
    """
    left = {root.uuid: root for root in cloud.roots}
    steps = [Step("", "all trees", 0, len(left))]
    for group in (None, *query.groups):
        sets = {uuid: start_sets(cloud, root, group) for uuid, root in left.items()}
        for constraint in constraints_of(cloud, query, group):
            before = len(left)
            sets = {uuid: constraint.narrow(sets[uuid], root) for uuid, root in left.items()}
            left = {uuid: root for uuid, root in left.items() if all(sets[uuid].values())}
            steps.append(Step(constraint.group, constraint.text, before - len(left), len(left)))
    return steps, frozenset(left)


def explain_tree(cloud: Cloud, query: Query, root: Node) -> list[Verdict]:
    """Judge one tree by each constraint; a constraint that is not met does not narrow the sets for later
    ones.
    """
    verdicts = []
    for group in (None, *query.groups):
        sets = start_sets(cloud, root, group)
        for constraint in constraints_of(cloud, query, group):
            narrowed = constraint.narrow(sets, root)
            met = all(narrowed.values())
            detail = constraint.standing(narrowed) if met else constraint.shortage(sets, root)
            verdicts.append(Verdict(constraint.group, constraint.text, met, detail))
            sets = narrowed if met else sets
    return verdicts


def start_sets(cloud: Cloud, root: Node, group: Group | None) -> Sets:
    """Return the providers that a group could use at a tree without constraints; the root without a group."""
    if group is None:
        return {ONE: [root]}
    tree = cloud.trees[root.uuid]
    sharing = [node for node in cloud.sharing[root.uuid] if cloud.root_of[node.uuid] is not root]
    providers = [*tree, *sharing]
    return dict.fromkeys([ONE] if group.suffix else group.amounts, providers)


def constraints_of(cloud: Cloud, query: Query, group: Group | None) -> Iterator[Constraint]:
    """Yield the constraints of a group, in order; without a group, those on the root."""
    if group is None:
        for condition in query.root:
            yield _trait_constraint("root", condition, alone=True)
        return
    if group.in_tree is not None:
        yield _in_tree(cloud, group.suffix, group.in_tree)
    for name, amount in group.amounts.items():
        yield from _resource_constraints(group, name, amount)
    for condition in group.traits:
        yield _trait_constraint(group.suffix, condition, alone=bool(group.suffix))
    for condition in group.aggregates:
        yield _aggregate_constraint(cloud, group.suffix, condition)
    if len(query.groups) == 1 and any(node.shares for node in cloud.nodes):
        yield _own_constraint(cloud, group.suffix)


def _keep(sets: Sets, test: Callable[[Node], bool]) -> Sets:
    return {key: [node for node in nodes if test(node)] for key, nodes in sets.items()}


def _in_tree(cloud: Cloud, suffix: str, uuid: str) -> Constraint:
    wanted = cloud.root_of.get(uuid)
    name = printable(wanted.name) if wanted else uuid

    def narrow(sets: Sets, _root: Node) -> Sets:
        # a provider outside the tree that shares with it is not in the tree
        return _keep(sets, lambda node: wanted is not None and cloud.root_of[node.uuid] is wanted)

    return Constraint(suffix, f"in the tree of {name}", narrow, lambda _sets, _root: "another tree")


def _resource_constraints(group: Group, name: str, amount: int) -> Iterator[Constraint]:
    key = ONE if group.suffix else name

    def keep(sets: Sets, test: Callable[[Node], bool]) -> Sets:
        return {**sets, key: [node for node in sets[key] if test(node)]}

    def shortage(sets: Sets, _root: Node) -> str:
        return describe_shortage(sets[key], name, amount)

    def free(sets: Sets) -> str:
        node = max(sets[key], key=lambda node: node.stocks[name].free)
        return f"{node.stocks[name].free} free on {printable(node.name)}"

    yield Constraint(
        group.suffix, f"has {name}", lambda sets, _: keep(sets, lambda node: name in node.stocks), shortage
    )
    yield Constraint(
        group.suffix,
        f"{name}={amount}: min_unit, max_unit, step_size",
        lambda sets, _: keep(
            sets, lambda node: name in node.stocks and node.stocks[name].inventory.fits_unit(amount)
        ),
        shortage,
    )
    yield Constraint(
        group.suffix,
        f"{name}={amount}: free",
        lambda sets, _: keep(
            sets,
            lambda node: (
                name in node.stocks and node.stocks[name].inventory.has_room(amount, node.stocks[name].used)
            ),
        ),
        shortage,
        free,
    )


def _trait_constraint(suffix: str, condition: Condition, *, alone: bool) -> Constraint:
    """Make the constraint of a trait: each provider (``alone``) or one of several must have it."""
    names = " or ".join(sorted(condition.names))
    if condition.forbidden:
        return Constraint(
            suffix,
            f"not {names}",
            lambda sets, _: _keep(sets, lambda node: not node.traits & condition.names),
            lambda sets, _: f"{_names(sets)} has it",
        )

    def narrow(sets: Sets, _root: Node) -> Sets:
        if alone:
            return _keep(sets, lambda node: bool(node.traits & condition.names))
        having = any(node.traits & condition.names for nodes in sets.values() for node in nodes)
        return sets if having else dict.fromkeys(sets, ())

    return Constraint(suffix, f"required {names}", narrow, lambda sets, _: f"{_names(sets)} lacks it")


def _aggregate_constraint(cloud: Cloud, suffix: str, condition: Condition) -> Constraint:
    """Make the constraint of an aggregate: the provider (with a suffix) or its root or itself is a member."""
    names = " or ".join(sorted(condition.names))

    def is_member(node: Node) -> bool:
        root = cloud.root_of[node.uuid]
        return bool((node.aggregates if suffix else node.aggregates | root.aggregates) & condition.names)

    if condition.forbidden:
        return Constraint(
            suffix,
            f"not in aggregate {names}",
            lambda sets, root: _keep(
                sets,
                lambda node: not is_member(node) and (bool(suffix) or not root.aggregates & condition.names),
            ),
            lambda sets, _: f"{_names(sets)} is in it",
        )
    return Constraint(
        suffix,
        f"in aggregate {names}",
        lambda sets, _: _keep(sets, is_member),
        lambda sets, _: f"{_names(sets)} is not in it",
    )


def _own_constraint(cloud: Cloud, suffix: str) -> Constraint:
    """Make the constraint that a candidate has something from the tree itself, not only what is shared."""

    def narrow(sets: Sets, root: Node) -> Sets:
        own = any(cloud.root_of[node.uuid] is root for nodes in sets.values() for node in nodes)
        return sets if own else dict.fromkeys(sets, ())

    return Constraint(
        suffix, "not all of it shared", narrow, lambda sets, _: f"everything is shared by {_names(sets)}"
    )


def _names(sets: Sets) -> str:
    """Return the names of the providers in question, or their number if there are many."""
    names = sorted({printable(node.name) for nodes in sets.values() for node in nodes})
    return ", ".join(names) if len(names) <= 2 else f"each of {len(names)} providers"


def roots_of_candidates(cloud: Cloud, requests: Iterable[Iterable[str]]) -> frozenset[str]:
    """Return the trees for which the server has candidates, given the providers of each candidate.

    A candidate belongs to the tree of its providers that do not share; if all of them share, to their own
    trees.
    """
    roots = set()
    for uuids in requests:
        nodes = [cloud.by_uuid[uuid] for uuid in uuids if uuid in cloud.by_uuid]
        own = [node for node in nodes if not node.shares] or nodes
        roots |= {cloud.root_of[node.uuid].uuid for node in own}
    return frozenset(roots)
