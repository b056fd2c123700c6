# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies: small random clouds, and requests that have a chance of fitting them."""

from hypothesis import strategies as st

from osc_placement.candidates.node import Node, Stock
from osc_placement.candidates.query import Membership, Traits
from osc_placement.candidates.request import CandidateRequest, Group
from osc_placement.model import Inventory

CLASSES = ("VCPU", "MEMORY_MB", "VGPU")
TRAITS = ("HW_A", "HW_B", "MISC_SHARES_VIA_AGGREGATE")
AGGREGATES = ("a", "b")

inventories = st.builds(
    Inventory,
    total=st.sampled_from([1, 2, 4, 4, 8]),
    reserved=st.sampled_from([0, 0, 0, 1]),
    min_unit=st.sampled_from([1, 1, 1, 1, 2]),
    max_unit=st.sampled_from([1, 2, 8, 8]),
    step_size=st.sampled_from([1, 1, 1, 1, 2]),
    allocation_ratio=st.sampled_from([1.0, 1.0, 0.5, 2.0]),
)
stocks = st.dictionaries(
    st.sampled_from(CLASSES),
    st.builds(Stock, inventories, used=st.sampled_from([0, 0, 1, 2])),
    min_size=1,
    max_size=3,
)


@st.composite
def clouds(draw):
    """Up to seven providers in trees of any shape."""
    nodes = []
    for id_ in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from([None, None, *nodes])) if nodes else None
        nodes.append(
            Node(
                id=id_,
                uuid=f"00000000-0000-0000-0000-00000000000{id_}",
                parent_id=None if parent is None else parent.id,
                root_id=id_ if parent is None else parent.root_id,
                stocks=draw(stocks),
                traits=tuple(draw(st.sets(st.sampled_from(TRAITS), max_size=2))),
                aggregates=tuple(draw(st.sets(st.sampled_from(AGGREGATES)))),
            )
        )
    return nodes


any_of = st.frozensets(st.sampled_from(TRAITS[:2]), min_size=1)
traits = st.builds(
    Traits,
    required=st.lists(any_of, max_size=1).map(tuple),
    forbidden=st.lists(st.frozensets(st.sampled_from(TRAITS[:2]), max_size=1), max_size=1).map(tuple),
)


def mostly(plain, other):
    """One value most of the time: requests full of conditions fit no cloud and test little."""
    return st.integers(0, 4).flatmap(lambda number: other if number == 4 else st.just(plain))


rarely_traits = mostly(Traits(), traits)
memberships = mostly(
    Membership(),
    st.builds(
        Membership,
        required=st.lists(st.frozensets(st.sampled_from(AGGREGATES), min_size=1), max_size=2).map(tuple),
        forbidden=st.lists(st.frozensets(st.sampled_from(AGGREGATES)), max_size=1).map(tuple),
    ),
)
trees = mostly(None, st.integers(0, 8).map("00000000-0000-0000-0000-00000000000{}".format))


def amounts(minimum):
    return st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([1, 1, 2]), min_size=minimum, max_size=2)


@st.composite
def requests(draw):
    """Up to three groups, some of them tied, isolated, or without resources where that is allowed."""
    suffixes = draw(st.lists(st.sampled_from(["", "1", "_X", "_Y"]), min_size=1, max_size=3, unique=True))
    named = [suffix for suffix in suffixes if suffix]
    ties = draw(st.lists(st.frozensets(st.sampled_from(named), min_size=1), max_size=1)) if named else []
    tied = frozenset().union(*ties)
    groups = [
        Group(
            suffix,
            resources=draw(amounts(0 if suffix in tied else 1)),
            traits=draw(rarely_traits),
            membership=draw(memberships),
            in_tree=draw(trees),
        )
        for suffix in suffixes
    ]
    return CandidateRequest(
        groups,
        isolated=draw(st.booleans()),
        root=draw(rarely_traits),
        same_subtrees=ties,
        nested=draw(st.sampled_from([True, True, True, False])),
    )


def _id(number):
    return f"00000000-0000-0000-0000-0000000000{number:02}"


@st.composite
def crowded_clouds(draw):
    """One or two trees with up to five devices at the root or below a node, unlike each other, and pools.

    Devices have few units, so that a request for as many as there are fits or just does not.
    """
    nodes = []

    def add(parent, stocks, traits=(), aggregates=()):
        id_ = len(nodes)
        root = id_ if parent is None else parent.root_id
        above = None if parent is None else parent.id
        node = Node(id_, _id(id_), above, root, stocks, tuple(traits), tuple(aggregates))
        nodes.append(node)
        return node

    for _ in range(draw(st.integers(1, 2))):
        root = add(None, {"VCPU": Stock(Inventory(4))}, aggregates=draw(st.sampled_from([(), ("a",)])))
        parents = [root, add(root, {})] if draw(st.booleans()) else [root]
        for _ in range(draw(st.integers(1, 5))):
            units = draw(st.sampled_from([1, 1, 2, 3, 5]))
            traits = draw(st.sets(st.sampled_from([*TRAITS[:2], "CUSTOM_OTHER"]), max_size=2))
            others = draw(st.sampled_from([{}, {}, {"VCPU": Stock(Inventory(2))}]))
            add(draw(st.sampled_from(parents)), {"VGPU": Stock(Inventory(units)), **others}, traits)
    if draw(st.booleans()):
        classes = draw(st.sets(st.sampled_from(["VGPU", "MEMORY_MB"]), min_size=1))
        units = draw(st.integers(1, 3))
        add(None, {name: Stock(Inventory(units)) for name in classes}, TRAITS[2:], ("a",))
    return nodes


@st.composite
def crowded_requests(draw):
    """Up to five groups of devices, some with traits, some tied, and perhaps one without a suffix."""
    sizes = draw(st.sampled_from([[1], [2], [1, 2], [2, 3]]))
    suffixes = [f"_{number}" for number in range(draw(st.integers(2, 5)))]
    groups = [
        Group(
            suffix,
            {"VGPU": draw(st.sampled_from(sizes))},
            draw(st.sampled_from([Traits(), Traits(), *WANTED])),
        )
        for suffix in suffixes
    ]
    common = draw(st.sampled_from([None, {"VCPU": 1}, {"MEMORY_MB": 1, "VCPU": 1}, {"VGPU": 1, "VCPU": 2}]))
    if common is not None:
        unnamed = Group("", common, draw(st.sampled_from([Traits(), Traits(), *WANTED, BOTH])))
        groups.insert(draw(st.integers(0, len(groups))), unnamed)
    ties = draw(st.lists(st.frozensets(st.sampled_from(suffixes), min_size=2), max_size=2))
    return CandidateRequest(
        groups,
        isolated=draw(st.booleans()),
        same_subtrees=draw(st.sampled_from([[], [], ties])),
        nested=draw(st.sampled_from([True, True, True, False])),
    )


WANTED = [Traits(required=(frozenset({name}),)) for name in TRAITS[:2]]
BOTH = Traits(required=tuple(frozenset({name}) for name in TRAITS[:2]))
