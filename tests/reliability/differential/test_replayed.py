# SPDX-License-Identifier: Apache-2.0
"""Conversations that are always the same, with both servers, on each kind of database."""

import json

import pytest

from osc_placement.server.shadow.exchange import Request
from tests import databases
from tests.reliability import scale
from tests.reliability.differential import vocabulary as words
from tests.reliability.differential.test_differential import run

ONE, TWO = words.PROVIDERS[:2]
DASHED = "abcdef01-0000-4000-8000-00000000000a"
HEX = DASHED.replace("-", "")


@pytest.fixture
def replay(backend, tmp_path):
    """A function that sends requests to both servers; what it prints of how they differ."""

    def replay_(requests):
        path = tmp_path / "requests"
        path.write_text("".join(f"{request.to_json()}\n" for request in requests))
        server = () if backend == "sqlite" else ("--database", _write_url(backend))
        done = run("--replay", path, *server)
        assert done.stderr == ""
        return done.stdout

    return replay_


def _write_url(backend):
    return databases.find_server(backend).render_as_string(hide_password=False)


def ask(method, path, body=None, *, minor=39, query="", **headers):
    """A request of somebody who may do everything."""
    standard = {
        "x-auth-token": "admin",
        "x-roles": "admin,service",
        "openstack-api-version": f"placement 1.{minor}",
    }
    if body is not None:
        standard["content-type"] = "application/json"
    text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    return Request(method, path, query, standard | headers, text)


def make_providers():
    """Two providers with eight VCPU, at generation 1."""
    for uuid in (ONE, TWO):
        yield ask("POST", "/resource_providers", {"uuid": uuid, "name": uuid})
        yield ask("POST", f"/resource_providers/{uuid}/inventories", {"resource_class": "VCPU", "total": 8})


def set_aggregates(uuid, aggregates, minor, generation):
    """The request, and what is then read of it."""
    path = f"/resource_providers/{uuid}/aggregates"
    guarded = {"aggregates": aggregates, "resource_provider_generation": generation}
    yield ask("PUT", path, guarded if minor >= 19 else aggregates, minor=minor)
    yield ask("GET", path, minor=minor)


def find_members(minor):
    """Every way of asking for the members of an aggregate, in several spellings of its UUID."""
    for text in (HEX, DASHED, HEX.upper(), DASHED.upper(), f"in:{HEX},{DASHED}", f"!{HEX}", f"!in:{DASHED}"):
        yield ask("GET", "/resource_providers", query=f"member_of={text}", minor=minor)
        for suffix in ("", "1"):
            query = f"resources{suffix}=VCPU:1&member_of{suffix}={text}"
            yield ask("GET", "/allocation_candidates", query=query, minor=minor)


def test_aggregate_uuids_are_read_as_written(replay):
    """Another spelling of a UUID is another aggregate, at every microversion and for every filter."""
    requests = [*make_providers()]
    generation = 1
    spellings = (([HEX], [DASHED]), ([HEX, DASHED], [HEX]), ([], []), ([], [HEX.upper()]), ([HEX], []))
    for minor in (1, 18, 19, 24, 32, 39) if scale.is_full() else (1, 18, 19, 39):
        for of_one, of_two in spellings:
            requests += set_aggregates(ONE, of_one, minor, generation)
            # not capitals after small letters, which MariaDB takes for the same (see differences.rst)
            requests += set_aggregates(TWO, of_two, minor, generation)
            generation += minor >= 19
            requests += find_members(minor)
    assert replay(requests) == "no difference\n"


def test_repeated_parameter_is_checked_each_time_and_the_last_is_used(replay):
    """Also where a bad one comes first, with and without a suffix, and at every microversion that differs."""
    values = {
        "resources": ("VCPU:1", "x"),
        "in_tree": (ONE, "x", ""),
        "required": ("COMPUTE_NODE", "!COMPUTE_NODE"),
        "member_of": (DASHED, "x"),
        "root_required": ("COMPUTE_NODE",),
        "limit": ("1", "2"),
    }
    requests = [*make_providers()]
    for minor in (10, 35):
        for key, several in values.items():
            for suffix in ("", "1"):
                for one, two in [(one, two) for one in several for two in several]:
                    query = f"{key}{suffix}={one}&{key}{suffix}={two}"
                    if key != "resources":
                        query = f"resources{suffix}=VCPU:1&{query}"
                    requests.append(ask("GET", "/allocation_candidates", query=query, minor=minor))
                    if not suffix:
                        requests.append(ask("GET", "/resource_providers", query=query, minor=minor))
    assert replay(requests) == "no difference\n"


NUMBERS = ("1", "1.0", "1e0", "10e-1", "-0", "0.0", "1.5", "true", '"1"', "null", "2147483648.0")


@pytest.mark.parametrize("minor", [0, 39])
def test_integers_may_be_written_as_floats(replay, minor):
    """An amount, a field of an inventory or a generation of 1.0 is 1, in the answers too."""
    requests = [*make_providers()]
    path = f"/resource_providers/{ONE}/inventories"
    for field in ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio"):
        for number in NUMBERS:
            body = f'{{"resource_class": "DISK_GB", "total": 4, "{field}": {number}}}'
            requests.append(ask("POST", path, body.encode(), minor=minor))
            requests.append(ask("GET", f"{path}/DISK_GB", minor=minor))
            requests.append(ask("DELETE", f"{path}/DISK_GB", minor=minor))
    for number in NUMBERS:
        body = f'{{"total": 80, "resource_provider_generation": {number}}}'
        requests.append(ask("PUT", f"/resource_providers/{TWO}/inventories/VCPU", body.encode(), minor=minor))
    for consumer, number in enumerate(NUMBERS):
        amounts = f'{{"resources": {{"VCPU": {number}}}}}'
        claim = f'{{"allocations": {{"{ONE}": {amounts}}}'
        if minor < 12:
            claim = f'{{"allocations": [{{"resource_provider": {{"uuid": "{ONE}"}}, {amounts[1:]}]'
        if minor >= 8:
            claim += ', "project_id": "p", "user_id": "u"'
        if minor >= 28:
            claim += ', "consumer_generation": null, "consumer_type": "INSTANCE"'
        of = f"0000000c-0000-4000-8000-{consumer:012}"
        requests.append(ask("PUT", f"/allocations/{of}", f"{claim}}}".encode(), minor=minor))
        requests.append(ask("GET", f"/allocations/{of}", minor=minor))
        requests.append(ask("GET", f"/resource_providers/{ONE}/usages", minor=minor))
        # the reference cannot add an amount of 1.0 to what is used, on MySQL (see differences.rst)
        requests.append(ask("DELETE", f"/allocations/{of}", minor=minor))
    assert replay(requests) == "no difference\n"


def test_tree_that_the_reference_loses_beside_a_group_without_resources_has_its_reason(replay):
    """The hosts, which have no part of the resources, satisfy the other group (see differences.rst)."""
    pool, *hosts = words.PROVIDERS[:3]
    requests = []
    for uuid in (pool, *hosts):
        trait = words.SHARING if uuid == pool else "COMPUTE_NODE"
        requests += [
            ask("POST", "/resource_providers", {"uuid": uuid, "name": uuid}),
            ask(
                "PUT",
                f"/resource_providers/{uuid}/traits",
                {"traits": [trait], "resource_provider_generation": 0},
            ),
            *set_aggregates(uuid, [DASHED], 39, 1),
        ]
    inventory = {"resource_class": "DISK_GB", "total": 8}
    requests.append(ask("POST", f"/resource_providers/{pool}/inventories", inventory))
    # of three trees the reference keeps one, and which it is depends on the ids
    query = "resources=DISK_GB:1&required_N=COMPUTE_NODE&same_subtree=_N"
    requests.append(ask("GET", "/allocation_candidates", query=query))
    assert replay(requests) == "no difference\n"


def test_tree_that_the_reference_ignores_for_a_group_without_resources_has_its_reason(replay):
    """The provider with the trait is not in the tree that the group names (see differences.rst)."""
    body = {"traits": ["COMPUTE_NODE"], "resource_provider_generation": 1}
    query = f"resources=VCPU:1&required_N=COMPUTE_NODE&in_tree_N={TWO}&same_subtree=_N"
    requests = [
        *make_providers(),
        ask("PUT", f"/resource_providers/{ONE}/traits", body),
        ask("GET", "/allocation_candidates", query=query),
    ]
    assert replay(requests) == "no difference\n"
