# SPDX-License-Identifier: Apache-2.0
"""The cases of the benchmarks, and the clouds they are measured on, as data."""

import pytest

from benchmarks import cases, clouds
from benchmarks.case import Scale
from benchmarks.cases.plugin_start import parse_import_times

FULL = cases.make_all(Scale())


def test_cases_have_names_of_their_own():
    """A name on the command line means one case, and the same one at every scale."""
    names = [case.name for case in FULL]
    assert len(set(names)) == len(names)
    assert names == [case.name for case in cases.make_all(Scale(50))]


@pytest.mark.parametrize("case", FULL, ids=lambda case: case.name)
def test_targets_are_of_figures(case):
    """A target that no figure has would never be judged; sides are told apart by their names."""
    figures = {figure.name for figure in case.figures}
    assert all(side.targets.keys() <= figures for side in case.ours)
    assert len({side.name for side in case.sides}) == len(case.sides)


def test_providers_come_after_their_parents_by_consecutive_ids():
    """The rows can be inserted in this order, with the ids that refer to each other."""
    cloud = clouds.NESTED.with_trees(3)
    providers = list(clouds.providers(cloud))
    assert [provider.id for provider in providers] == list(range(1, 22))
    assert all(provider.parent_id is None or provider.parent_id < provider.id for provider in providers)
    assert [provider.root_id for provider in providers] == [1] * 7 + [8] * 7 + [15] * 7
    assert len({provider.uuid for provider in providers}) == 21


def test_zones_have_their_sharing_provider():
    """Each hundred hosts are in an aggregate with one pool, the last ones too."""
    providers = list(clouds.providers(clouds.SHARED.with_trees(150)))
    pools = [provider for provider in providers if clouds.SHARES in provider.node.traits]
    assert [pool.aggregates for pool in pools] == [(clouds.zone_uuid(0),), (clouds.zone_uuid(1),)]
    assert providers[149].aggregates == (clouds.EVERYWHERE, clouds.zone_uuid(1))


def test_root_uuid_names_a_host_by_its_number():
    """A case can speak of any host without asking the server."""
    roots = list(clouds.providers(clouds.FLAT.with_trees(5)))
    assert [root.uuid for root in roots] == [clouds.root_uuid(number) for number in range(5)]


def test_import_times_are_those_of_each_module_by_itself():
    """The header and other lines on stderr are not modules."""
    text = """\
import time: self [us] | cumulative | imported package
a warning
import time:      1500 |       2500 | osc_placement
import time:      1000 |       1000 |   osc_placement.plugin
"""
    assert parse_import_times(text) == {"osc_placement": 1.5, "osc_placement.plugin": 1.0}
