# SPDX-License-Identifier: Apache-2.0
"""The resources that ports ask for, in both formats of neutron and from its QoS rules."""

import pytest

from osc_placement.migrate.nova.ports import (
    RequestGroup,
    Rule,
    describe_request,
    make_trait,
    read_port,
    sort_by_instance,
)

PORT = "7b95cff1-7662-4420-8c9d-53c3b78a81aa"
EGRESS, INGRESS = "NET_BW_EGR_KILOBIT_PER_SEC", "NET_BW_IGR_KILOBIT_PER_SEC"
RATE = "NET_PACKET_RATE_KILOPACKET_PER_SEC"
BANDWIDTH = {"id": "g1", "required": ["CUSTOM_A"], "resources": {EGRESS: 1000}}
PACKETS = {"id": "g2", "required": ["CUSTOM_B"], "resources": {RATE: 50}}
BOTH = {"request_groups": [BANDWIDTH, PACKETS], "same_subtree": ["g1", "g2"]}
ALONE = {"request_groups": [BANDWIDTH], "same_subtree": ["g1"]}


def document(request=None, **fields):
    """Return a port of neutron that is bound to the host h1."""
    return {
        "id": PORT,
        "device_id": "i1",
        "binding:host_id": "h1",
        "binding:vif_type": "ovs",
        "binding:profile": {},
        "resource_request": request,
        **fields,
    }


def test_request_with_one_group_has_the_id_of_the_port():
    """Before there were groups the request is the group."""
    port = read_port(document({"required": ["CUSTOM_A"], "resources": {EGRESS: 1000, INGRESS: 0}}))
    assert port.groups == (RequestGroup(PORT, {EGRESS: 1000}, frozenset(["CUSTOM_A"])),)
    assert (port.host, port.instance, port.is_grouped, port.error) == ("h1", "i1", False, "")


def test_request_with_several_groups():
    """Each group has its traits, and the groups share a subtree."""
    port = read_port(document(BOTH))
    assert [(group.id, dict(group.resources), group.required) for group in port.groups] == [
        ("g1", {EGRESS: 1000}, {"CUSTOM_A"}),
        ("g2", {RATE: 50}, {"CUSTOM_B"}),
    ]
    assert (port.same_subtree, port.is_grouped) == ({"g1", "g2"}, True)


@pytest.mark.parametrize("request_", [None, {}, {"request_groups": []}])
def test_port_without_request_is_left_out(request_):
    """Most ports are like that."""
    port = read_port(document(request_))
    assert (port.groups, port.error) == ((), "")
    assert not sort_by_instance([port])


@pytest.mark.parametrize(
    ("profile", "request_", "providers"),
    [
        ({"allocation": {"g1": "p1", "g2": "p2"}}, BOTH, ["p1", "p2"]),
        ({"allocation": {"g1": "p1"}}, BOTH, ["p1", None]),
        ({"allocation": "p1"}, BOTH, ["p1", None]),
        ({"allocation": "p1"}, {"resources": {EGRESS: 1}}, ["p1"]),
        # the rules were replaced since, so that the group has another id
        ({"allocation": {"g0": "p1"}}, ALONE, ["p1"]),
        ({"allocation": {"g0": "p1"}}, BOTH, [None, None]),
        ({"allocation": None}, BOTH, [None, None]),
        (None, BOTH, [None, None]),
    ],
)
def test_provider_of_a_group_is_read_from_the_binding_profile(profile, request_, providers):
    """In either format, and as far as the profile says."""
    port = read_port(document(request_, **{"binding:profile": profile}))
    assert [port.provider_of(group) for group in port.groups] == providers


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"resource_request": "x"}, "cannot be read"),
        ({"resource_request": {"request_groups": [{"id": "g"}]}}, "'resources'"),
        ({"resource_request": {"request_groups": [{"resources": {EGRESS: 1}}]}}, "'id'"),
        ({"resource_request": {"resources": {EGRESS: "many"}}}, "many"),
        ({"resource_request": {"resources": {EGRESS: -1}}}, "negative"),
        ({"binding:profile": "x"}, "attribute"),
    ],
)
def test_unreadable_request_is_an_error(fields, error):
    """An unknown request is not an absent one."""
    port = read_port(document(**fields))
    assert error in port.error
    assert port.is_relevant
    assert not port.groups


@pytest.mark.parametrize("kind", ["unbound", "binding_failed", None])
def test_port_without_binding_is_on_no_host(kind):
    """Neutron keeps the host that was asked for."""
    assert read_port(document(BOTH, **{"binding:vif_type": kind})).host == ""


RULES = [
    Rule("caa55429-e732-41fc-957c-d3663eb33a7a", "egress", 1000),
    Rule("46a60d1c-62de-4fb1-8906-576a7822bbae", "ingress", 2000),
]
PACKET_RULES = [Rule("99f72f7f-6458-4161-afda-d76da9ab9303", "any", 50)]


def test_request_of_rules_equals_that_of_neutron():
    """As neutron 29.0.0 showed a port with these rules, ids included."""
    assert describe_request(PORT, "normal", RULES, PACKET_RULES, ["physnet0"]) == {
        "request_groups": [
            {
                "id": "baf60647-dfa5-5334-9836-9e6f8e382b05",
                "required": ["CUSTOM_PHYSNET_PHYSNET0", "CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {EGRESS: 1000, INGRESS: 2000},
            },
            {
                "id": "347780aa-41f5-5189-a22c-9dbc8f59d803",
                "required": ["CUSTOM_VNIC_TYPE_NORMAL"],
                "resources": {RATE: 50},
            },
        ],
        "same_subtree": ["baf60647-dfa5-5334-9836-9e6f8e382b05", "347780aa-41f5-5189-a22c-9dbc8f59d803"],
    }


def test_order_of_rules_is_that_of_the_binding_profile():
    """Neutron names a group after its rules in the order of its database, which may change."""
    known = ["baf60647-dfa5-5334-9836-9e6f8e382b05"]
    backwards = RULES[::-1]
    assert describe_request(PORT, "normal", backwards, [], ["p"], known)["same_subtree"] == known
    assert describe_request(PORT, "normal", backwards, [], ["p"])["same_subtree"] != known


def test_tunnel_has_a_trait_of_its_own():
    """A network without a physical one is served by the provider of tunnels."""
    request = describe_request(PORT, "direct", RULES, [], [None, "physnet1"])
    (group,) = request["request_groups"]
    assert group["required"] == ["CUSTOM_NETWORK_TUNNEL_PROVIDER", "CUSTOM_VNIC_TYPE_DIRECT"]


def test_network_without_segments_asks_for_no_bandwidth():
    """Neutron asks for the packet rate alone."""
    assert describe_request(PORT, "normal", RULES, [], []) is None
    request = describe_request(PORT, "normal", RULES, PACKET_RULES, [])
    assert [dict(group["resources"]) for group in request["request_groups"]] == [{RATE: 50}]


def test_name_becomes_a_trait():
    """As os_traits does it."""
    assert make_trait("PHYSNET_dc__1.left") == "CUSTOM_PHYSNET_DC_1_LEFT"
