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
