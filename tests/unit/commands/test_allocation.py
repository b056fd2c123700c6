# SPDX-License-Identifier: Apache-2.0
"""osc_placement.commands.allocation: partial removal, versions and names."""

import pytest

from osc_placement import errors
from osc_placement.commands import allocation
from tests.unit.commands.shell import run
from tests.unit.fake_placement import FakePlacement

HOST1, HOST2 = (f"c0ffee00-0000-4000-8000-{number:012}" for number in (1, 2))
CONSUMER = "c0ffee00-0000-4000-8000-0000000000c1"
PATH = f"/allocations/{CONSUMER}"


def held():
    """The allocations of a consumer that has two classes from two providers."""
    return {
        HOST1: {"resources": {"VCPU": 2, "MEMORY_MB": 64}, "generation": 5},
        HOST2: {"resources": {"VCPU": 1}, "generation": 6},
    }


def document(**facts):
    """What the server says of that consumer."""
    owner = {"project_id": "p", "user_id": "u", "consumer_generation": 4}
    return {"allocations": held(), **owner, **facts}


@pytest.mark.parametrize(
    ("providers", "classes", "remaining"),
    [
        ([], [], {}),
        ([HOST1], [], {HOST2: {"VCPU": 1}}),
        ([], ["VCPU"], {HOST1: {"MEMORY_MB": 64}}),
        ([HOST1], ["VCPU"], {HOST1: {"MEMORY_MB": 64}, HOST2: {"VCPU": 1}}),
        ([HOST2], ["VCPU"], {HOST1: {"VCPU": 2, "MEMORY_MB": 64}}),
        (["other"], ["VCPU"], {HOST1: {"VCPU": 2, "MEMORY_MB": 64}, HOST2: {"VCPU": 1}}),
        ([], ["DISK_GB"], {HOST1: {"VCPU": 2, "MEMORY_MB": 64}, HOST2: {"VCPU": 1}}),
    ],
)
def test_without_removes_classes_and_providers(providers, classes, remaining):
    """No provider remains without a class, and the argument is not changed."""
    before = {provider: item["resources"] for provider, item in held().items()}
    assert allocation.without(before, providers, classes) == remaining
    assert before == {provider: item["resources"] for provider, item in held().items()}


OWNER = "--project-id p --user-id u"


@pytest.mark.parametrize(
    ("api_version", "options", "sent_as", "fields"),
    [
        ("1.0", "", "1.0", set()),
        ("1.8", OWNER, "1.8", {"project_id", "user_id"}),
        ("1.27", OWNER, "1.27", {"project_id", "user_id"}),
        ("1.28", OWNER, "1.28", {"project_id", "user_id", "consumer_generation"}),
        (
            "1.38",
            f"{OWNER} --consumer-type A",
            "1.38",
            {"project_id", "user_id", "consumer_generation", "consumer_type"},
        ),
        ("1", OWNER, "1.37", {"project_id", "user_id", "consumer_generation"}),
        (
            "1",
            f"{OWNER} --consumer-type A",
            "1.39",
            {"project_id", "user_id", "consumer_generation", "consumer_type"},
        ),
    ],
)
def test_a_consumer_is_written_with_what_the_version_knows(api_version, options, sent_as, fields):
    """Without a type, a negotiated version steps back to one that leaves the type as it is."""
    fake = FakePlacement().on("GET", PATH, document()).on("PUT", PATH, (204,))
    line = f"{CONSUMER} --allocation rp={HOST1},VCPU=1 {options}"
    _, status = run(allocation.SetAllocation, fake.client(api_version=api_version), line)
    assert status == 0
    (written,) = (request for request in fake.asked if request.method == "PUT")
    assert written.body.keys() == {"allocations"} | fields
    assert written.headers["OpenStack-API-Version"] == f"placement {sent_as}"
    if "consumer_generation" in fields:
        assert written.body["consumer_generation"] == 4


def test_amounts_of_a_provider_by_name_and_uuid_are_merged(caplog):
    """A contradiction between both is an error."""
    fake = FakePlacement().on(
        "GET",
        "/resource_providers",
        {"resource_providers": [{"uuid": HOST1, "name": "host1", "generation": 1}]},
    )
    fake.on("GET", PATH, document()).on("PUT", PATH, (204,))
    line = f"{CONSUMER} --allocation rp=host1,VCPU=1 --allocation rp={HOST1},DISK_GB=2 {OWNER}"
    run(allocation.SetAllocation, fake.client(), line)
    (written,) = (request for request in fake.asked if request.method == "PUT")
    assert written.body["allocations"] == {HOST1: {"resources": {"VCPU": 1, "DISK_GB": 2}}}
    with pytest.raises(errors.PlacementError, match="Conflict detected for resource provider"):
        run(allocation.SetAllocation, fake.client(), f"{line} --allocation rp={HOST1},VCPU=3")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("api_version", "options", "warning"),
    [
        ("1.7", OWNER, "--project-id and --user-id options do not affect"),
        ("1.37", f"{OWNER} --consumer-type A", "--consumer-type option does not affect"),
    ],
)
def test_an_option_without_effect_gives_a_warning(caplog, api_version, options, warning):
    """The allocation is written nevertheless."""
    fake = FakePlacement().on("GET", PATH, document()).on("PUT", PATH, (204,))
    line = f"{CONSUMER} --allocation rp={HOST1},VCPU=1 {options}"
    assert run(allocation.SetAllocation, fake.client(api_version=api_version), line)[1] == 0
    assert [message.startswith(warning) for message in caplog.messages] == [True]


@pytest.mark.parametrize("line", [OWNER, f"--allocation VCPU=1 {OWNER}", f"--allocation rp=a,VCPU=x {OWNER}"])
def test_an_invalid_argument_costs_no_request(line):
    """An invalid argument is found before the first request."""
    fake = FakePlacement()
    with pytest.raises(errors.PlacementError):
        run(allocation.SetAllocation, fake.client(), f"{CONSUMER} {line}")
    assert fake.asked == []


@pytest.mark.parametrize(
    ("api_version", "sent_as", "type_is_sent"),
    [("1", "1.37", False), ("1.38", "1.38", True), ("1.28", "1.28", False)],
)
def test_unset_keeps_the_type_of_the_consumer(api_version, sent_as, type_is_sent):
    """What was never typed can be changed where 1.39 was only negotiated: `unknown` is no type to write."""
    facts = {} if api_version == "1.28" else {"consumer_type": "unknown"}
    fake = FakePlacement().on("GET", PATH, document(**facts)).on("PUT", PATH, (204,))
    run(allocation.UnsetAllocation, fake.client(api_version=api_version), f"{CONSUMER} --provider {HOST2}")
    (written,) = (request for request in fake.asked if request.method == "PUT")
    assert written.headers["OpenStack-API-Version"] == f"placement {sent_as}"
    assert ("consumer_type" in written.body) is type_is_sent
    assert written.body["consumer_generation"] == 4
    assert written.body["allocations"] == {HOST1: {"resources": held()[HOST1]["resources"]}}


@pytest.mark.parametrize(("api_version", "method"), [("1.12", "DELETE"), ("1.27", "DELETE"), ("1.28", "PUT")])
def test_unset_of_everything(api_version, method):
    """Before 1.28 empty allocations cannot be written, so they are deleted."""
    fake = FakePlacement().on("GET", PATH, document(), {"allocations": {}})
    fake.on("PUT", PATH, (204,)).on("DELETE", PATH, (204,))
    run(allocation.UnsetAllocation, fake.client(api_version=api_version), CONSUMER)
    assert fake.lines == [f"GET {PATH}", f"{method} {PATH}", f"GET {PATH}"]


def test_unset_of_a_consumer_without_allocations_is_an_error():
    """The message is one line, not the server's error about a JSON document."""
    fake = FakePlacement().on("GET", PATH, {"allocations": {}})
    with pytest.raises(errors.PlacementError, match=f"^No allocations for consumer '{CONSUMER}'$"):
        run(allocation.UnsetAllocation, fake.client(), CONSUMER)
    assert fake.lines == ["GET /", f"GET {PATH}"]
