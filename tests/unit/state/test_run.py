# SPDX-License-Identifier: Apache-2.0
"""Carrying out a plan: the requests, their order, and what a failure stops."""

import threading

import pytest

from osc_placement import codes
from osc_placement.api import retry
from osc_placement.api.consumer import Consumer
from osc_placement.batch.execute import execute_plan
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.journal.run import JournalError
from osc_placement.batch.recorder import NoRecorder
from osc_placement.errors import VersionTooLow
from osc_placement.model import Inventory, Provider
from osc_placement.state.document import ConsumerEntry, Document, ProviderEntry
from osc_placement.state.plan import Current, plan_apply, plan_run
from osc_placement.state.results import list_results
from tests.unit.fake_placement import FakePlacement, error

CLASSES = frozenset({"VCPU"})
CONFLICT = error(409, "generation conflict", code=codes.CONCURRENT_UPDATE)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """Do not wait between attempts."""
    monkeypatch.setattr(retry, "_FIRST_PAUSE", 0.0)


def tree():
    """A document with a parent and its child, which has processors, and a consumer of them."""
    return Document(
        traits=("CUSTOM_T",),
        providers=(
            ProviderEntry("child", "c", "parent", ProviderState({"VCPU": Inventory(8)})),
            ProviderEntry("parent", "p", None),
        ),
        consumers=(ConsumerEntry("k", "project", "user", {"child": {"VCPU": 1}}, "INSTANCE"),),
    )


def fake():
    """A server that accepts all of it."""
    return (
        FakePlacement()
        .on("PUT", "/traits/CUSTOM_T", (201, ""))
        .on(
            "POST",
            "/resource_providers",
            {"uuid": "p", "name": "parent", "generation": 0},
            {"uuid": "c", "name": "child", "generation": 0},
        )
        .on(
            "PUT", "/resource_providers/c/inventories", {"inventories": {}, "resource_provider_generation": 1}
        )
        .on("PUT", "/allocations/k", (204, ""))
    )


def apply(server, document, current=None, **options):
    plan = plan_run(plan_apply(document, current or Current(resource_classes=CLASSES)), "apply")
    return list_results(execute_plan(server.client(), plan, concurrency=1, **options))


def told(report):
    return [(result.kind, result.name, result.done) for result in report.results]


def test_dependencies_are_written_first():
    """Traits come before providers, parents before children, allocations last; nothing is read twice."""
    server = fake()
    report = apply(server, tree())
    assert server.lines[-5:] == [
        "PUT /traits/CUSTOM_T",
        "POST /resource_providers",
        "POST /resource_providers",
        "PUT /resource_providers/c/inventories",
        "PUT /allocations/k",
    ]
    assert [request.body.get("parent_provider_uuid") for request in server.asked[-4:-2]] == [None, "p"]
    assert told(report) == [
        ("trait", "CUSTOM_T", "created"),
        ("resource provider", "parent", "created"),
        ("resource provider", "child", "created"),
        ("consumer", "k", "created"),
    ]
    assert report.exit_status == 0


def test_no_stage_follows_one_that_failed():
    """Later stages are skipped, and the report has the error."""
    server = fake().on("POST", "/resource_providers", error(409, "no room"))
    report = apply(server, tree())
    assert told(report) == [
        ("trait", "CUSTOM_T", "created"),
        ("resource provider", "parent", "failed"),
        ("resource provider", "child", "skipped"),
        ("consumer", "k", "skipped"),
    ]
    assert [str(result.error) for result in report.failures] == ["no room (HTTP 409)"]
    assert report.exit_status == 3


def test_stop_skips_steps_that_have_not_started():
    """After the event is set no step is started."""
    stop = threading.Event()
    report = apply(fake(), tree(), stop=stop, on_outcome=lambda _outcome: stop.set())
    assert told(report)[0] == ("trait", "CUSTOM_T", "created")
    assert {done for _, _, done in told(report)[1:]} == {"skipped"}
    assert report.exit_status == 130


def test_a_run_whose_journal_cannot_be_written_fails_with_the_reason():
    """It stopped itself; nobody interrupted it."""

    class Full(NoRecorder):
        def end(self, _outcome):
            raise JournalError("no space left on device")

    report = apply(fake(), tree(), recorder=Full())
    assert {done for _, _, done in told(report)} == {"created", "skipped"}
    assert (report.exit_status, report.halted) == (3, "stopped: no space left on device")


def test_a_conflict_over_allocations_is_retried_with_the_current_generation():
    """A concurrent writer on the same provider or consumer is no failure."""
    server = fake().on("PUT", "/allocations/k", CONFLICT, CONFLICT, (204, ""))
    server.on(
        "GET",
        "/allocations/k",
        {
            "allocations": {"p": {"resources": {"VCPU": 1}}},
            "project_id": "x",
            "user_id": "x",
            "consumer_generation": 5,
        },
    )
    assert apply(server, tree()).exit_status == 0
    sent = [
        request.body
        for request in server.asked
        if (request.method, request.path) == ("PUT", "/allocations/k")
    ]
    assert [body["consumer_generation"] for body in sent] == [None, 0, 5]


def test_a_lack_of_capacity_is_not_retried():
    """The consumer fails with the server's error."""
    server = fake().on("PUT", "/allocations/k", error(409, "would exceed capacity", code=codes.UNDEFINED))
    report = apply(server, tree())
    assert told(report)[-1] == ("consumer", "k", "failed")
    assert server.lines.count("PUT /allocations/k") == 1


@pytest.mark.parametrize(
    ("kind", "version", "body"),
    [
        ("INSTANCE", "1.39", {"consumer_type": "INSTANCE"}),
        (None, "1.37", {}),
    ],
)
def test_a_consumer_without_type_is_written_in_a_version_without_types(kind, version, body):
    """From 1.38 on a type must be given, so a document without one speaks an older version."""
    server = fake()
    (consumer,) = tree().consumers
    entry = ConsumerEntry(consumer.uuid, "project", "user", consumer.resources, kind)
    apply(server, Document(providers=tree().providers, consumers=(entry,)))
    request = server.asked[-1]
    assert request.headers["OpenStack-API-Version"] == f"placement {version}"
    assert {key: value for key, value in request.body.items() if key == "consumer_type"} == body


def test_a_version_that_is_too_low_is_found_before_the_first_write():
    """A server without consumer types refuses the whole file, not its last part."""
    server = FakePlacement(max_version="1.30")
    with pytest.raises(VersionTooLow, match=r"version 1\.30, .*; requires at least version 1\.38"):
        apply(server, tree())
    assert server.lines == ["GET /"]


def test_moving_a_child_needs_version_1_37():
    """Before 1.37 the parent of a provider cannot be changed."""
    current = Current(
        providers=(Provider("p", "parent", 0), Provider("c", "child", 0, "p")),
        states={"c": (Provider("c", "child", 0, "p"), ProviderState())},
    )
    document = Document(providers=(ProviderEntry("child", "c", None),))
    with pytest.raises(VersionTooLow):
        apply(FakePlacement(max_version="1.36"), document, current)


def test_a_provider_is_renamed_and_moved_in_one_request():
    """The parent is given by the UUID that it has on the server."""
    parent, child = Provider("p", "parent", 0), Provider("c", "old", 0, None)
    current = Current(
        providers=(parent, child), states={"p": (parent, ProviderState()), "c": (child, ProviderState())}
    )
    server = FakePlacement().on("PUT", "/resource_providers/c", {"uuid": "c", "name": "new", "generation": 0})
    document = Document(providers=(ProviderEntry("new", "c", "parent"), ProviderEntry("parent", "p")))
    report = apply(server, document, current)
    assert server.asked[-1].body == {"name": "new", "parent_provider_uuid": "p"}
    assert told(report) == [("resource provider", "new", "updated")]


def test_allocations_that_are_there_are_updated():
    """A consumer with other amounts is written with the generation that was read."""
    provider = Provider("c", "child", 0)
    current = Current(
        resource_classes=CLASSES,
        providers=(provider,),
        states={"c": (provider, ProviderState())},
        consumers={"k": Consumer("k", 4, "project", "user", "INSTANCE", {"c": {"VCPU": 9}})},
    )
    document = Document(providers=(ProviderEntry("child", "c"),), consumers=tree().consumers)
    owner = {"project_id": "project", "user_id": "user", "consumer_type": "INSTANCE"}
    held = {"allocations": {"c": {"resources": {"VCPU": 9}}}, "consumer_generation": 4}
    server = fake().on("GET", "/allocations/k", held | owner)
    assert told(apply(server, document, current)) == [("consumer", "k", "updated")]
    assert server.asked[-1].body["consumer_generation"] == 4
