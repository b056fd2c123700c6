# SPDX-License-Identifier: Apache-2.0
"""A creation that is refused, as the provider or one of the same name is there: made alone, and in bulk."""

from dataclasses import replace

import pytest

from osc_placement import codes
from osc_placement.batch.execute import execute_plan
from osc_placement.batch.facets import ABSENT, NO_GENERATION, ProviderState, describe_identity
from osc_placement.batch.plan import Change, Plan
from osc_placement.batch.repeat import Repeat, StateEdit
from osc_placement.model import Provider
from tests.unit.batch.test_execute import no_pauses, results
from tests.unit.batch.writers.test_consumers import Notes
from tests.unit.fake_placement import FakePlacement, error

__all__ = ["no_pauses"]

DUPLICATE = error(409, "Conflicting resource provider name: a already exists.", code=codes.DUPLICATE_NAME)
EDITS = {"apply": StateEdit("apply", ("identity", "traits")), "batch": None}
GONE = error(404, "no such provider")


def creation(uuid):
    """The creation of a provider with a parent and a trait."""
    nothing = ProviderState({}, frozenset(), frozenset(), identity=ABSENT)
    after = replace(nothing, traits=frozenset({"T"}), identity=describe_identity(uuid, "root"))
    return Change(Provider(uuid, uuid, NO_GENERATION, "root"), nothing, after)


def shown(uuid, **different):
    """What the server shows of the provider."""
    return {"uuid": uuid, "name": uuid, "generation": 1, "parent_provider_uuid": "root"} | different


def refusing(found, *, traits=("T",), is_bulk=True):
    """A server that refuses to create providers, and has them as ``found`` returns them."""
    placement = FakePlacement().on("POST", "/resource_providers", DUPLICATE)
    if is_bulk:
        placement.on("GET", "/-/providers", {"providers": []})
        refused = [{"uuid": uuid, **DUPLICATE[1]} for uuid in "ab"]
        placement.on("POST", "/-/providers", {"results": refused})
    for uuid in "ab":
        path = f"/resource_providers/{uuid}"
        facet = {"traits": list(traits), "resource_provider_generation": 1}
        placement.on("GET", path, found(uuid)).on("PUT", path, shown(uuid))
        placement.on("GET", f"{path}/traits", facet)
        placement.on("PUT", f"{path}/traits", {"traits": ["T"], "resource_provider_generation": 2})
    return placement


def create(placement, *, goes_on=True, edit=EDITS["apply"]):
    """Create two providers; return the report, and what was planned again."""
    steps, notes = tuple(map(creation, "ab")), Notes()
    edits = {} if edit else {step.uuid: Repeat("", step) for step in steps}
    plan = Plan(edit or EDITS["apply"], steps, edits=edits, goes_on=goes_on)
    return execute_plan(placement.client(), plan, recorder=notes, concurrency=1), notes.again


def written(placement):
    """The requests that write, but for the creations."""
    return [line for line in placement.lines if line.split()[0] not in ("GET", "POST")]


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
@pytest.mark.parametrize("is_bulk", [True, False], ids=("bulk", "alone"))
def test_resume_finds_what_the_killed_run_created_after_the_resume_had_read(is_bulk, edit):
    """Nothing is written, and the intents stay, as an undo needs them."""
    placement = refusing(shown, is_bulk=is_bulk)
    report, again = create(placement, edit=edit)
    assert results(report) == {"a": "unchanged", "b": "unchanged"}
    assert (written(placement), again) == ([], [])


@pytest.mark.parametrize("is_bulk", [True, False], ids=("bulk", "alone"))
def test_resume_writes_what_the_killed_run_had_not_written_after_the_creation(is_bulk):
    """The provider is still one that the run created: an undo deletes it."""
    placement = refusing(shown, traits=(), is_bulk=is_bulk)
    report, again = create(placement)
    assert results(report) == {"a": "applied", "b": "applied"}
    assert {f"PUT /resource_providers/{uuid}/traits" for uuid in "ab"} <= set(written(placement))
    assert [(change.before, change.after) for change in again] == [
        (step.before, step.after) for step in map(creation, "ab")
    ]


@pytest.mark.parametrize(("traits", "result"), [(("T",), "unchanged"), ((), "applied")])
def test_first_run_does_not_claim_a_provider_that_somebody_else_created_with_the_same_uuid(traits, result):
    """An undo takes back what the run added to it, and does not delete it."""
    placement = refusing(shown, traits=traits)
    report, again = create(placement, goes_on=False)
    assert results(report) == {"a": result, "b": result}
    assert [change.before.identity for change in again] == [creation(uuid).after.identity for uuid in "ab"]
    assert {change.facets for change in again} == {() if traits else ("traits",)}


@pytest.mark.parametrize("goes_on", [True, False], ids=("resume", "first run"))
@pytest.mark.parametrize("is_bulk", [True, False], ids=("bulk", "alone"))
@pytest.mark.parametrize(
    "found",
    [
        lambda _uuid: GONE,
        lambda uuid: shown(uuid, name="other"),
        lambda uuid: shown(uuid, parent_provider_uuid=None, root_provider_uuid=uuid),
    ],
    ids=("another UUID", "another name", "another parent"),
)
def test_provider_that_is_not_the_one_to_be_created_is_left_alone(found, is_bulk, goes_on):
    """The creation failed, as the server said, and is not sent again."""
    placement = refusing(found, is_bulk=is_bulk)
    report, again = create(placement, goes_on=goes_on)
    assert results(report) == {"a": "failed", "b": "failed"}
    assert {str(outcome.error) for outcome in report.outcomes} == {
        "Conflicting resource provider name: a already exists. (HTTP 409)"
    }
    assert all(outcome.untouched and outcome.rejected for outcome in report.outcomes)
    assert (written(placement), again) == ([], [])
    assert sum(line.startswith("POST") for line in placement.lines) == (1 if is_bulk else 2)


def test_creation_that_is_refused_fails_if_the_provider_cannot_be_read():
    """Nobody knows then whether it is there."""
    report, _ = create(refusing(lambda _uuid: error(503, "busy")))
    assert results(report) == {"a": "failed", "b": "failed"}
    assert all("failed: busy" in str(outcome.error) for outcome in report.outcomes)
