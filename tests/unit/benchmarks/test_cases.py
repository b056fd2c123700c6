# SPDX-License-Identifier: Apache-2.0
"""The cases of the benchmarks, and the clouds they are measured on, as data."""

import pytest

from benchmarks import cases, clouds
from benchmarks.case import Scale, Unavailable
from benchmarks.cases import production
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


def test_consumers_are_those_of_each_host_in_turn():
    """A laboratory has one on every other host, production ten on each, with UUIDs of their own."""
    flat = [len(provider.consumers) for provider in clouds.providers(clouds.FLAT.with_trees(4))]
    hosts = list(clouds.providers(clouds.PRODUCTION.with_trees(3)))
    assert flat == [0, 1, 0, 1]
    assert [len(host.consumers) for host in hosts] == [10, 10, 10]
    assert len({consumer for host in hosts for consumer in host.consumers}) == 30


@pytest.mark.parametrize(
    ("choice", "name", "sides"),
    [
        (production.Choice(), "production-1000", ["openstack-placement", "placement-server serve"]),
        (production.Choice(galera=True), "production-1000-galera", None),
        (production.Choice(hosts=(300,), side="ours"), "production-300", ["placement-server serve"]),
        (production.Choice(hosts=(300,), side="reference"), "production-300", ["openstack-placement"]),
    ],
)
def test_production_is_measured_in_the_form_that_was_chosen(choice, name, sides):
    """The name tells forms apart in a file of figures."""
    case = next(production.make_cases(Scale(), choice))
    assert case.name == name
    assert sides is None or [side.name for side in case.sides] == sides


def test_production_with_some_requests_has_their_figures_and_targets_only():
    """A target without its figure would never be judged."""
    choice = production.Choice(hosts=(10_000,), only=("traits", "memory"))
    (case,) = production.make_cases(Scale(), choice)
    names = {figure.name for figure in case.figures}
    assert len(names) == 3
    assert case.ours[0].targets.keys() == {"GET traits of a provider, processor time"}


def test_reference_is_left_out_of_a_cloud_that_is_too_large_for_it():
    """The table says why, and the side can be asked for by name."""
    (case,) = production.make_cases(Scale(), production.Choice(hosts=(50_000,)))
    with pytest.raises(Unavailable, match="--side reference measures it"):
        case.reference.prepare(None)


def test_computes_poll_as_often_as_nova_does():
    """10,000 of them make 467 requests a second, two a minute and four in five minutes each."""
    polled = production.make_poll(clouds.PRODUCTION, 7)
    requests = 10_000 * len(polled) / production.POLLING_SECONDS
    assert round(requests) == 467
    assert len({question.path for question in polled}) == 6


def test_import_times_are_those_of_each_module_by_itself():
    """The header and other lines on stderr are not modules."""
    text = """\
import time: self [us] | cumulative | imported package
a warning
import time:      1500 |       2500 | osc_placement
import time:      1000 |       1000 |   osc_placement.plugin
"""
    assert parse_import_times(text) == {"osc_placement": 1.5, "osc_placement.plugin": 1.0}
