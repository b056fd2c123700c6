# SPDX-License-Identifier: Apache-2.0
"""POST /-/providers: what POST and PUT about each provider would do and answer, in one request."""

import uuid

import pytest
import webob
import yaml
from oslo_config import cfg

from osc_placement.server import conf as server_conf
from osc_placement.server import deploy
from osc_placement.server.api.schemas import MOST_CHANGES
from tests import databases

BASE = "/resource_providers"
ROUTE = "/-/providers"
UNKNOWN = "7d2590ae-fb85-4080-9306-058b4c915e3f"
TRAIT = "HW_CPU_X86_AVX"


def make_sender(application):
    """A function that sends a request as an administrator, or somebody else."""

    def send(method, path, body=None, user="admin", version="1.39", roles=None):
        request = webob.Request.blank(path, method=method)
        request.headers["x-auth-token"] = user
        request.headers["openstack-api-version"] = f"placement {version}"
        if roles:
            request.headers["x-roles"] = roles
        if body is not None:
            request.json_body = body
            request.content_type = "application/json"
        return request.get_response(application)

    return send


@pytest.fixture
def send(application):
    return make_sender(application)


@pytest.fixture
def hosts(send):
    """Three providers at generation 1, each with processors."""
    made = sorted(str(uuid.uuid4()) for _ in range(3))
    for host in made:
        send("POST", BASE, {"uuid": host, "name": host})
        send("POST", f"{BASE}/{host}/inventories", {"resource_class": "VCPU", "total": 8})
    return made


def claim_two(send, host):
    """Claim two VCPUs of a host for a new consumer."""
    claim = {
        "allocations": {host: {"resources": {"VCPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    assert send("PUT", f"/allocations/{uuid.uuid4()}", claim).status_int == 204


def change(host, generation=1, **parts):
    """A change of one provider."""
    return {"uuid": host, "resource_provider_generation": generation, **parts}


def creation(host, name=None, **parts):
    """A change that creates a provider, which has its UUID as its name unless another one is given."""
    return change(host, None, name=name or host, **parts)


def write(send, *changes, **options):
    """Send changes; the result of each."""
    answer = send("POST", ROUTE, {"changes": list(changes)}, **options)
    assert answer.status_int == 200, answer.text
    return answer.json["results"]


def vcpu(total=8, **fields):
    """Inventories of processors alone."""
    return {"VCPU": {"total": total, **fields}}


def look(send, host, part):
    """What a provider has, and its generation."""
    shown = send("GET", f"{BASE}/{host}/{part}").json
    return shown[part], shown["resource_provider_generation"]


def test_bulk_write_changes_every_provider_and_returns_generations(send, hosts):
    """Inventories, traits and aggregates, each of another provider, answered in their order."""
    group = str(uuid.uuid4())
    results = write(
        send,
        change(
            hosts[2], inventories={"VCPU": {"total": 8, "allocation_ratio": 4.0}, "DISK_GB": {"total": 5}}
        ),
        change(hosts[0], traits=[TRAIT]),
        change(hosts[1], aggregates=[group]),
    )
    assert results == [
        {"uuid": host, "resource_provider_generation": 2} for host in (hosts[2], hosts[0], hosts[1])
    ]
    inventories, generation = look(send, hosts[2], "inventories")
    assert (generation, inventories["VCPU"]["allocation_ratio"], inventories["DISK_GB"]["total"]) == (2, 4, 5)
    assert look(send, hosts[0], "traits") == ([TRAIT], 2)
    assert look(send, hosts[1], "aggregates") == ([group], 2)
    # nothing else of them was touched
    assert look(send, hosts[0], "inventories")[0].keys() == {"VCPU"}


def test_three_parts_of_a_change_increment_the_generation_once(send, hosts):
    """Three replacements of one provider at once, seen by whoever reads it next."""
    group = str(uuid.uuid4())
    parts = {"inventories": vcpu(2), "traits": [TRAIT], "aggregates": [group]}
    assert write(send, change(hosts[0], **parts)) == [{"uuid": hosts[0], "resource_provider_generation": 2}]
    (record,) = send("GET", f"{ROUTE}?uuid={hosts[0]}").json["providers"]
    assert (record["generation"], record["traits"], record["aggregates"]) == (2, [TRAIT], [group])
    assert record["inventories"]["VCPU"]["total"] == 2


def test_setting_the_same_traits_keeps_the_generation(send, hosts):
    """As with PUT; inventories and aggregates move the generation whatever they are."""
    write(send, change(hosts[0], traits=[TRAIT]))
    same = change(hosts[0], 2, traits=[TRAIT])
    assert write(send, same) == [{"uuid": hosts[0], "resource_provider_generation": 2}]
    assert write(send, change(hosts[0], 2, inventories=vcpu()))[0]["resource_provider_generation"] == 3
    assert write(send, change(hosts[0], 3, aggregates=[]))[0]["resource_provider_generation"] == 4


@pytest.mark.parametrize(
    ("part", "value", "generation"),
    [
        ("inventories", {"VCPU": {"total": 0}}, 1),
        ("inventories", {"vcpu": 5}, 1),
        ("inventories", {"CUSTOM_NEVER_MADE": {"total": 5}}, 1),
        ("inventories", {"VCPU": {"total": 5, "reserved": 6}}, 1),
        ("inventories", vcpu(), 0),
        ("traits", ["CUSTOM_NEVER_MADE"], 1),
        ("traits", "HW_CPU_X86_AVX", 1),
        ("traits", [], 7),
        ("aggregates", ["no uuid"], 1),
        ("aggregates", [], 0),
    ],
    ids=str,
)
def test_refused_change_has_the_error_of_put_and_others_are_made(send, hosts, part, value, generation):
    """Status, code and detail are those of the PUT, and the neighbours are changed."""
    body = {part: value, "resource_provider_generation": generation}
    put = send("PUT", f"{BASE}/{hosts[1]}/{part}", body)
    assert put.status_int >= 400
    results = write(
        send,
        change(hosts[0], inventories=vcpu(3)),
        change(hosts[1], generation, **{part: value}),
        change(hosts[2], traits=[TRAIT]),
    )
    assert [result.get("resource_provider_generation") for result in results] == [2, None, 2]
    (told,), (expected,) = results[1]["errors"], put.json["errors"]
    told.pop("request_id"), expected.pop("request_id")
    assert told == expected
    assert look(send, hosts[1], "inventories")[1] == 1


# SQLite stores everything
@pytest.mark.parametrize("backend", ["mariadb", "postgresql"], indirect=True)
def test_change_that_cannot_be_stored_is_refused_by_itself(send, hosts):
    """With the provider below it; the others are made. If they are atomic, none is, and it is named."""
    long = [f"urn:uuid:{uuid.uuid4()}"]
    root, child, other = (str(uuid.uuid4()) for _ in range(3))
    changes = (
        creation(child, parent_provider_uuid=root),
        change(hosts[0], traits=[TRAIT], aggregates=long),
        creation(root, aggregates=long),
        change(hosts[1], inventories=vcpu(3)),
        creation(other, parent_provider_uuid=hosts[2]),
    )
    refused = send("POST", ROUTE, {"changes": changes, "atomic": True})
    assert (refused.status_int, refused.json["refused"]) == (409, 2)
    assert [(told["uuid"], told["status"]) for told in refused.json["errors"]] == [
        (hosts[0], 400),
        (root, 400),
    ]
    results = write(send, *changes, change(hosts[2], 7, aggregates=long))
    told = [each["errors"][0] if "errors" in each else {"status": 200} for each in results]
    assert [each["status"] for each in told] == [400, 400, 400, 200, 200, 409]
    assert "parent provider UUID does not exist" in told[0]["detail"]
    for each in told[1:3]:
        assert "The request contains a value that the database cannot store." in each["detail"]
    assert look(send, hosts[0], "traits") == ([], 1)
    assert send("GET", f"{BASE}/{root}").status_int == 404
    assert look(send, hosts[1], "inventories")[0]["VCPU"]["total"] == 3
    assert send("GET", f"{BASE}/{other}").json["parent_provider_uuid"] == hosts[2]


def test_change_refused_for_one_part_is_not_made_in_part(send, hosts):
    """New inventories with an unknown trait: neither."""
    (result,) = write(send, change(hosts[0], inventories=vcpu(3), traits=["CUSTOM_NEVER_MADE"]))
    assert result["errors"][0]["detail"].endswith("No such trait CUSTOM_NEVER_MADE  ")
    assert look(send, hosts[0], "inventories") == look(send, hosts[1], "inventories")


def test_inventory_in_use_and_unknown_provider_have_the_errors_of_put(send, hosts):
    """The same errors as from PUT, beside a change that is done."""
    claim_two(send, hosts[0])
    used, missing, done = write(
        send,
        change(hosts[0], 2, inventories={}),
        change(UNKNOWN, inventories={}),
        change(hosts[1], inventories={}),
    )
    assert (used["errors"][0]["status"], used["errors"][0]["code"]) == (409, "placement.inventory.inuse")
    assert missing["errors"][0]["status"] == 404
    assert UNKNOWN in missing["errors"][0]["detail"]
    assert done == {"uuid": hosts[1], "resource_provider_generation": 2}
    assert look(send, hosts[1], "inventories")[0] == {}


def test_bulk_write_follows_the_microversion_like_put(send, hosts):
    """Reserved as much as there is, from 1.26; not at all below 1.19, where aggregates had no generation."""
    full = change(hosts[0], inventories=vcpu(8, reserved=8))
    (refused,) = write(send, full, version="1.25")
    assert "reserved value is greater than or equal to total" in refused["errors"][0]["detail"]
    assert write(send, full, version="1.26")[0]["resource_provider_generation"] == 2
    assert send("POST", ROUTE, {"changes": [full]}, version="1.18").status_int == 404


@pytest.mark.parametrize(
    "changes",
    [
        [],
        [{"uuid": UNKNOWN, "resource_provider_generation": 1}],
        [{"uuid": UNKNOWN, "traits": []}],
        [{"uuid": "x", "resource_provider_generation": 1, "traits": []}],
        [change(UNKNOWN, traits=[], name="n")],
        [change(UNKNOWN, None, traits=[])],
        [change(UNKNOWN, traits=[], parent_provider_uuid=None)],
        [change(UNKNOWN, traits=[]), change(UNKNOWN.replace("-", "").upper(), aggregates=[])],
        [change(str(uuid.UUID(int=number)), traits=[]) for number in range(MOST_CHANGES + 1)],
        "changes",
    ],
    ids=(
        "none",
        "of nothing",
        "no generation",
        "no uuid",
        "name and generation",
        "neither",
        "parent",
        "twice",
        "too many",
        "text",
    ),
)
def test_invalid_request_is_refused_as_a_whole(send, changes):
    """400, before anything is judged."""
    assert send("POST", ROUTE, {"changes": changes}).status_int == 400


def test_uuid_may_be_written_in_capitals_or_without_dashes(send, hosts):
    """Without dashes, in capitals; it comes back as it was given."""
    spelled = hosts[0].replace("-", "").upper()
    assert write(send, change(spelled, traits=[])) == [{"uuid": spelled, "resource_provider_generation": 1}]


def test_aggregate_uuid_is_stored_as_written(send, hosts):
    """Another spelling is another aggregate, for writing, reading and asking, as with PUT."""
    dashed = str(uuid.uuid4())
    plain = dashed.replace("-", "")
    write(send, change(hosts[0], aggregates=[plain]), change(hosts[1], aggregates=[dashed, plain]))
    read = send("GET", f"/-/providers?want=aggregates&member_of={plain}").json["providers"]
    assert {item["uuid"]: set(item["aggregates"]) for item in read} == {
        hosts[0]: {plain},
        hosts[1]: {dashed, plain},
    }
    read = send("GET", f"/-/providers?want=aggregates&member_of={dashed}").json["providers"]
    assert [item["uuid"] for item in read] == [hosts[1]]
    assert look(send, hosts[0], "aggregates")[0] == [plain]


def test_bulk_write_needs_the_policy_rule_of_each_post_and_put(tmp_path):
    """Who may do one thing alone can do nothing with it; who may do nothing learns nothing."""
    rules = {
        "placement:resource_providers:create": "role:builder",
        "placement:resource_providers:traits:update": "role:labeller",
        "placement:resource_providers:list": "",
    }
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(rules))
    conf = cfg.ConfigOpts()
    server_conf.register_opts(conf)
    with databases.make_database("sqlite", tmp_path) as url:
        conf.set_default("connection", url, "placement_database")
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override("sync_on_startup", True, "placement_database")
        conf.set_override("auth_strategy", "noauth2", "api")
        conf.set_override("policy_file", str(tmp_path / "policy.yaml"), "oslo_policy")
        send = make_sender(deploy.loadapp(conf))
        host = str(uuid.uuid4())
        build = {"user": "somebody:p", "roles": "builder"}
        assert write(send, creation(host), **build) == [{"uuid": host, "resource_provider_generation": 0}]
        other = {"changes": [creation(str(uuid.uuid4()), traits=[])]}
        assert send("POST", ROUTE, other, **build).status_int == 403
        assert send("POST", ROUTE, other, user="somebody:p", roles="labeller").status_int == 403
        labels = change(host, 0, traits=[TRAIT])
        label = {"user": "somebody:p", "roles": "labeller"}
        assert write(send, labels, **label) == [{"uuid": host, "resource_provider_generation": 1}]
        more = {"changes": [change(host, 1, traits=[], aggregates=[])]}
        assert send("POST", ROUTE, more, **label).status_int == 403
        assert send("POST", ROUTE, {"atomic": True, **more}, **label).status_int == 403
        assert send("POST", ROUTE, {"not": "read"}, user="nobody:p", roles="reader").status_int == 403
        assert look(send, host, "traits") == ([TRAIT], 1)


def test_bulk_write_creates_providers_with_all_that_they_have(send, hosts):
    """A tree in any order, a child of a provider that exists, and a change of another one."""
    group = str(uuid.uuid4())
    root, child, nested, below = (str(uuid.uuid4()) for _ in range(4))
    parts = {"inventories": vcpu(3, allocation_ratio=2.0), "traits": [TRAIT], "aggregates": [group]}
    results = write(
        send,
        creation(nested, parent_provider_uuid=child, inventories={}),
        creation(child, parent_provider_uuid=root.replace("-", "").upper(), traits=[]),
        change(hosts[1], traits=[TRAIT]),
        creation(root, f"root of {root}", parent_provider_uuid=None, **parts),
        creation(below, parent_provider_uuid=hosts[0]),
    )
    assert results == [
        {"uuid": nested, "resource_provider_generation": 1},
        {"uuid": child, "resource_provider_generation": 0},
        {"uuid": hosts[1], "resource_provider_generation": 2},
        {"uuid": root, "resource_provider_generation": 1},
        {"uuid": below, "resource_provider_generation": 0},
    ]
    tree = send("GET", f"{ROUTE}?in_tree={nested}").json["providers"]
    places = {one["uuid"]: (one["parent_provider_uuid"], one["root_provider_uuid"]) for one in tree}
    assert places == {root: (None, root), child: (root, root), nested: (child, root)}
    shown = next(one for one in tree if one["uuid"] == root)
    assert (shown["name"], shown["generation"], shown["traits"]) == (f"root of {root}", 1, [TRAIT])
    assert (shown["inventories"]["VCPU"]["allocation_ratio"], shown["aggregates"]) == (2.0, [group])
    shown = send("GET", f"{BASE}/{below}").json
    assert (shown["parent_provider_uuid"], shown["root_provider_uuid"]) == (hosts[0], hosts[0])


@pytest.mark.parametrize(
    "refused",
    [
        {"name": "x" * 201},
        {"name": ""},
        {"name": 5},
        {"parent_provider_uuid": UNKNOWN},
        {"parent_provider_uuid": "no uuid"},
    ],
    ids=str,
)
def test_refused_creation_has_the_error_of_post_and_others_are_made(send, hosts, refused):
    """Status, code and detail are those of the POST; what would be below it is refused as well."""
    new, child, other = (str(uuid.uuid4()) for _ in range(3))
    post = send("POST", BASE, {"uuid": new, "name": new, **refused})
    assert post.status_int >= 400
    results = write(
        send,
        {**creation(new, inventories=vcpu()), **refused},
        creation(child, parent_provider_uuid=new),
        creation(other, inventories=vcpu()),
    )
    (told,), (expected,) = results[0]["errors"], post.json["errors"]
    told.pop("request_id"), expected.pop("request_id")
    assert told == expected
    assert "parent provider UUID does not exist" in results[1]["errors"][0]["detail"]
    assert results[2] == {"uuid": other, "resource_provider_generation": 1}
    assert [send("GET", f"{BASE}/{each}").status_int for each in (new, child, other)] == [404, 404, 200]


def test_taken_uuids_and_names_are_refused_like_by_post(send, hosts):
    """Also a name that an earlier change of the same request takes; the others are created."""
    one, two, three, name = (str(uuid.uuid4()) for _ in range(4))
    results = write(
        send,
        creation(hosts[0], name="new name of an old provider"),
        creation(one, hosts[1]),
        creation(two, name),
        creation(three, name),
    )
    taken = (f"uuid: {hosts[0]}", f"name: {hosts[1]}", None, f"name: {name}")
    assert results[2] == {"uuid": two, "resource_provider_generation": 0}
    for result, duplicate in zip(results, taken, strict=True):
        if duplicate:
            (error,) = result["errors"]
            assert (error["status"], error["code"]) == (409, "placement.duplicate_name")
            assert f"Conflicting resource provider {duplicate} already exists." in error["detail"]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("inventories", {"VCPU": {"total": 0}}),
        ("inventories", {"CUSTOM_NEVER_MADE": {"total": 5}}),
        ("inventories", {"VCPU": {"total": 5, "reserved": 6}}),
        ("traits", ["CUSTOM_NEVER_MADE"]),
        ("aggregates", ["no uuid"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("atomic", [False, True])
def test_provider_is_not_created_if_a_part_of_it_is_refused(send, hosts, part, value, atomic):
    """The error is that of the PUT. Atomic changes leave none of the others either."""
    new, other = str(uuid.uuid4()), str(uuid.uuid4())
    body = {part: value, "resource_provider_generation": 1}
    expected = send("PUT", f"{BASE}/{hosts[0]}/{part}", body).json["errors"][0]["detail"]
    changes = [creation(new, traits=[], **{part: value}) if part != "traits" else creation(new, traits=value)]
    changes += [creation(other), change(hosts[2], traits=[TRAIT])]
    if atomic:
        answer = write_atomically(send, *changes)
        (error,) = answer.json["errors"]
        assert (answer.status_int, error.pop("uuid")) == (409, new)
    else:
        (error,) = write(send, *changes)[0]["errors"]
    assert error["detail"] == expected.replace(hosts[0], new)
    assert send("GET", f"{BASE}/{new}").status_int == 404
    assert send("GET", f"{BASE}/{other}").status_int == (404 if atomic else 200)
    assert look(send, hosts[2], "traits") == (([], 1) if atomic else ([TRAIT], 2))


def test_atomic_bulk_write_leaves_no_provider_if_another_change_is_refused(send, hosts):
    """A change of an inventory in use is refused when providers are created already."""
    claim_two(send, hosts[0])
    new = str(uuid.uuid4())
    answer = write_atomically(send, creation(new, inventories=vcpu()), change(hosts[0], 2, inventories={}))
    assert (answer.status_int, [error["uuid"] for error in answer.json["errors"]]) == (409, [hosts[0]])
    assert send("GET", f"{BASE}/{new}").status_int == 404
    assert write_atomically(send, creation(new, inventories=vcpu())).status_int == 200


def test_names_that_the_database_takes_for_equal_are_refused(send, backend):
    """MariaDB takes two cases of one name for equal, and other databases do not."""
    one, two, three = (str(uuid.uuid4()) for _ in range(3))
    results = write(send, creation(one, f"a{three}"), creation(two, f"A{three}"), creation(three))
    assert ["errors" in result for result in results] == [False, backend == "mariadb", False]
    (again,) = write(send, creation(str(uuid.uuid4()), f"A{three}"))
    assert again["errors"][0]["code"] == "placement.duplicate_name"


def write_atomically(send, *changes, **options):
    """Send changes of which all are made or none."""
    return send("POST", ROUTE, {"atomic": True, "changes": list(changes)}, **options)


def test_atomic_bulk_write_changes_every_provider_and_returns_generations(send, hosts):
    """The answer is that of a bulk write that is not atomic."""
    group = str(uuid.uuid4())
    answer = write_atomically(
        send,
        change(hosts[2], inventories=vcpu(8, allocation_ratio=4.0)),
        change(hosts[0], traits=[TRAIT]),
        change(hosts[1], aggregates=[group]),
    )
    order = (hosts[2], hosts[0], hosts[1])
    expected = [{"uuid": host, "resource_provider_generation": 2} for host in order]
    assert (answer.status_int, answer.json["results"]) == (200, expected)
    assert look(send, hosts[2], "inventories")[0]["VCPU"]["allocation_ratio"] == 4
    assert look(send, hosts[0], "traits") == ([TRAIT], 2)
    assert look(send, hosts[1], "aggregates") == ([group], 2)


@pytest.mark.parametrize(
    ("part", "value", "generation"),
    [
        ("inventories", {"CUSTOM_NEVER_MADE": {"total": 5}}, 1),
        ("inventories", {"VCPU": {"total": 0}}, 1),
        ("inventories", {"VCPU": {"total": 5, "reserved": 6}}, 1),
        ("inventories", vcpu(), 0),
        ("traits", ["CUSTOM_NEVER_MADE"], 1),
        ("traits", [], 7),
        ("aggregates", ["no uuid"], 1),
        ("aggregates", [], 0),
    ],
    ids=str,
)
def test_atomic_bulk_write_with_a_refused_change_in_the_middle_changes_nothing(
    send, hosts, part, value, generation
):
    """The error is that of the PUT, with the UUID; the neighbours, and new aggregates, are not written."""
    put = send("PUT", f"{BASE}/{hosts[1]}/{part}", {part: value, "resource_provider_generation": generation})
    before = send("GET", ROUTE).json
    group = str(uuid.uuid4())
    answer = write_atomically(
        send,
        change(hosts[0], inventories=vcpu(3), traits=[TRAIT]),
        change(hosts[1], generation, **{part: value}),
        change(hosts[2], aggregates=[group]),
    )
    (told,), (expected,) = answer.json["errors"], put.json["errors"]
    assert (answer.status_int, answer.json["refused"]) == (409, 1)
    assert told.pop("uuid") == hosts[1]
    told.pop("request_id"), expected.pop("request_id")
    assert told == expected
    assert send("GET", ROUTE).json == before
    assert send("GET", f"{ROUTE}?member_of={group}").json["providers"] == []


def test_atomic_bulk_write_names_refused_providers_with_generation_conflicts_last(send, hosts):
    """What reading again does not mend comes first; ten are named, and the number of all is told."""
    gone = [str(uuid.uuid4()) for _ in range(12)]
    answer = write_atomically(
        send, change(hosts[0], 7, traits=[]), *(change(host, traits=[]) for host in gone)
    )
    assert (answer.status_int, answer.json["refused"]) == (409, 13)
    assert [error["uuid"] for error in answer.json["errors"]] == gone[:10]
    answer = write_atomically(send, change(hosts[0], 7, traits=[]), change(gone[0], traits=[]))
    assert [error["uuid"] for error in answer.json["errors"]] == [gone[0], hosts[0]]
    assert answer.json["errors"][1]["code"] == "placement.concurrent_update"


def test_atomic_bulk_write_refuses_to_remove_an_inventory_in_use(send, hosts):
    """Nothing of any provider is removed."""
    claim = {
        "allocations": {hosts[1]: {"resources": {"VCPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    assert send("PUT", f"/allocations/{uuid.uuid4()}", claim).status_int == 204
    answer = write_atomically(
        send,
        change(hosts[0], inventories={}),
        change(hosts[1], 2, inventories={}),
        change(hosts[2], traits=[]),
    )
    (error,) = answer.json["errors"]
    assert (error["uuid"], error["code"]) == (hosts[1], "placement.inventory.inuse")
    assert look(send, hosts[0], "inventories")[0].keys() == {"VCPU"}


def test_atomic_bulk_write_takes_more_providers_than_another(send, hosts):
    """The limit on the number is for changes that are made independently."""
    many = [change(str(uuid.UUID(int=number)), traits=[]) for number in range(MOST_CHANGES + 1)]
    answer = write_atomically(send, *many)
    assert (answer.status_int, answer.json["refused"]) == (409, MOST_CHANGES + 1)


@pytest.mark.parametrize("atomic", [None, "yes", 1])
def test_atomic_has_to_be_a_boolean(send, hosts, atomic):
    """A body that may mean one or the other is refused."""
    body = {"atomic": atomic, "changes": [change(hosts[0], traits=[TRAIT])]}
    assert send("POST", ROUTE, body).status_int == 400
    assert look(send, hosts[0], "traits") == ([], 1)


def test_atomic_bulk_write_changes_a_thousand_providers_or_none(send):
    """Everything of each in one request; the last is refused at first, and nothing is left of the others."""
    made = [str(uuid.uuid4()) for _ in range(1000)]
    for host in made:
        send("POST", BASE, {"uuid": host, "name": host})
    group = str(uuid.uuid4())
    parts = {"inventories": vcpu(8, allocation_ratio=4.0), "traits": [TRAIT], "aggregates": [group]}
    changes = [change(host, 0, **parts) for host in made]
    before = send("GET", ROUTE).json
    refused = write_atomically(send, *changes[:-1], {**changes[-1], "resource_provider_generation": 1})
    assert (refused.status_int, [error["uuid"] for error in refused.json["errors"]]) == (409, made[-1:])
    assert send("GET", ROUTE).json == before
    done = write_atomically(send, *changes)
    expected = [{"uuid": host, "resource_provider_generation": 1} for host in made]
    assert (done.status_int, done.json["results"]) == (200, expected)
    records = send("GET", f"{ROUTE}?member_of={group}").json["providers"]
    assert {record["uuid"] for record in records} == set(made)
    assert {tuple(record["traits"]) for record in records} == {(TRAIT,)}
    assert {record["inventories"]["VCPU"]["allocation_ratio"] for record in records} == {4.0}
