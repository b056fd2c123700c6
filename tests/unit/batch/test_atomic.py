# SPDX-License-Identifier: Apache-2.0
"""How a run that is all or nothing tells of its end, where it is given up."""

from dataclasses import replace

import pytest

from osc_placement.batch.execute import check_atomic, execute_atomically
from osc_placement.batch.facets import ProviderState
from osc_placement.batch.inventory import RatioEdit
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Consumer, Plan, Result, make_plan
from osc_placement.batch.selection import Selection
from osc_placement.batch.writers.bulk import write_atomically
from osc_placement.batch.writers.reshape import write_inventories
from osc_placement.errors import OverLimit, PlacementError, UsageError, from_answer
from tests.unit.batch.cloud import processors
from tests.unit.batch.journals import Cloud, read_with

GOLD = frozenset({"CUSTOM_GOLD"})
REFUSAL = '{"errors": [{"status": 403, "title": "Forbidden", "detail": "not yours"}]}'


def make_cloud(*names):
    return Cloud(*names, inventories=processors(1.0))


def plan_for(cloud, selection=None):
    edit = RatioEdit({"VCPU": 4.0})
    return make_plan(edit, read_with(cloud)(cloud.providers, edit.facets), selection)


@pytest.mark.parametrize(
    ("status", "body", "is_certain"),
    [
        (403, "<html>Forbidden</html>", False),
        (401, "<html>Unauthorized</html>", False),
        (502, "<html>Bad Gateway</html>", False),
        (200, "<html>Welcome</html>", False),
        (403, REFUSAL, True),
    ],
)
def test_nothing_was_changed_is_reported_only_where_certain(status, body, is_certain):
    """What was not done when it was read back may be done later, where the answer was lost."""
    cloud = make_cloud("a", "b")
    plan = plan_for(cloud)

    def fail(_uuid):
        raise from_answer("POST", "/reshaper", status, "", body)

    cloud.before_write = fail
    report = execute_atomically(cloud, plan)
    assert report.halted.startswith("nothing was changed: ") is is_certain
    assert report.halted.endswith("so look before you try it again") is not is_certain
    assert {outcome.untouched for outcome in report.outcomes} == {is_certain}


@pytest.mark.parametrize("left", ["a", "b", "c", "d"])
@pytest.mark.parametrize("body", [REFUSAL, "<html>Forbidden</html>"])
def test_providers_that_left_the_selection_are_reported_so_after_a_rollback(body, left):
    """Nothing of it was written, be it in a part that was done or in the one that failed."""
    cloud = make_cloud("a", "b", "c", "d")
    before = cloud.contents
    plan = plan_for(cloud, Selection(name="?"))
    cloud.names[left] = "other"
    reshape = cloud.reshape
    is_done = []

    def reshape_two(payload, version=None):
        if len(payload["inventories"]) > 2:
            raise OverLimit(413, "too large", method="POST")
        if len(is_done) == 1:
            is_done.append(False)
            raise from_answer("POST", "/reshaper", 403, "", body)
        reshape(payload, version)
        is_done.append(True)

    cloud.reshape = reshape_two
    report = execute_atomically(cloud, plan)
    assert cloud.contents == before
    assert is_done == [True, False, True]
    by_uuid = {outcome.change.uuid: outcome for outcome in report.outcomes}
    ending = by_uuid.pop(left)
    assert (ending.result, ending.untouched, ending.error) == (Result.UNCHANGED, True, None)
    assert ending.note.startswith("is no longer ")
    assert {outcome.result for outcome in by_uuid.values()} == {Result.FAILED}


def test_providers_that_left_the_selection_are_not_reported_unknown():
    """The answer is lost and cannot be read back: only what was sent is in doubt."""
    cloud = make_cloud("a", "b", "c")
    plan = plan_for(cloud, Selection(name="?"))
    cloud.names["b"] = "other"

    def fail(_uuid):
        cloud.failing = dict.fromkeys("abc", from_answer("GET", "/inventories", 503, "", ""))
        raise from_answer("POST", "/reshaper", 502, "", "")

    cloud.before_write = fail
    report = execute_atomically(cloud, plan)
    assert report.halted.startswith("for 2 resource providers it is not known whether it was done")
    assert [outcome.result for outcome in report.outcomes] == [Result.FAILED, Result.UNCHANGED, Result.FAILED]


def test_providers_of_a_written_part_that_needed_nothing_are_not_reported_as_put_back():
    """Somebody else had made the change of one; the other is put back when the next part fails."""
    cloud = make_cloud("a", "b", "c", "d")
    before = cloud.contents
    plan = plan_for(cloud)
    reshape, number = cloud.reshape, iter(range(9))

    def reshape_two(payload, version=None):
        if len(payload["inventories"]) > 2:
            raise OverLimit(413, "too large", method="POST")
        match next(number):
            case 0:
                cloud.touch("a", inventories=processors(4.0))
            case 2:
                raise from_answer("POST", "/reshaper", 403, "", REFUSAL)
        reshape(payload, version)

    cloud.reshape = reshape_two
    report = execute_atomically(cloud, plan)
    first, second, *others = report.outcomes
    assert (first.result, first.error, first.note) == (Result.UNCHANGED, None, "")
    assert (second.result, second.note) == (Result.FAILED, "put back")
    assert [(outcome.result, outcome.note) for outcome in others] == [(Result.FAILED, "")] * 2
    assert cloud.facets["a"]["inventories"] == processors(4.0)
    assert {name: cloud.contents[0][name] for name in "bcd"} == {name: before[0][name] for name in "bcd"}


@pytest.mark.parametrize("others", [1, 30])
def test_every_facet_is_changed_atomically_and_planned_again_after_a_conflict(others):
    """What somebody else added meanwhile stays, however the providers are read again."""
    names = [f"host{number}" for number in range(others + 1)]
    cloud = Cloud(*names, inventories=processors(1.0), takes_atomic=True)
    edit = TraitEdit("add", GOLD)
    plan = make_plan(edit, read_with(cloud)(cloud.providers, edit.facets))
    strangers = iter([names[-1]])

    def interfere(_uuid):
        for name in strangers:
            cloud.touch(name, traits=["CUSTOM_THEIRS"])

    cloud.before_write = interfere
    report = execute_atomically(cloud, plan)
    assert {outcome.result for outcome in report.outcomes} == {Result.APPLIED}
    assert sorted(cloud.facets[names[-1]]["traits"]) == ["CUSTOM_GOLD", "CUSTOM_THEIRS"]
    assert [call for call, _ in cloud.calls if call.startswith("write")] == ["write atomically"] * 2


def test_refusal_of_the_plan_names_the_first_provider_and_counts_the_others():
    """It is one line, and no row is shown that would say which provider it is about."""
    cloud = make_cloud("a", "b", "c")
    plan = plan_for(cloud)
    refused = {step.uuid: PlacementError("in use: 4 VCPU allocated") for step in plan.steps[1:]}
    told = "as all or nothing was asked for: b: in use: 4 VCPU allocated"
    with pytest.raises(PlacementError, match=f"{told}; 1 more cannot be changed, --dry-run without --atomic"):
        check_atomic(replace(plan, refused=refused), cloud)
    with pytest.raises(PlacementError, match=f"{told}$"):
        check_atomic(replace(plan, refused=dict([*refused.items()][:1])), cloud)
    named = {plan.steps[1].uuid: PlacementError("b was changed since")}
    with pytest.raises(PlacementError, match=r"asked for: b was changed since$"):
        check_atomic(replace(plan, refused=named), cloud)


def test_allocations_cannot_be_changed_atomically():
    """Neither request has them for providers and consumers alike; nothing is asked."""
    before = ProviderState(allocations={})
    change = Change(Consumer("c"), before, ProviderState(allocations={"p": {"VCPU": 1}}))
    plan = Plan(RatioEdit({"VCPU": 4.0}), (change,))
    with pytest.raises(UsageError, match="Only inventories, traits and aggregates can be changed all or"):
        check_atomic(plan, make_cloud("a"))


@pytest.mark.parametrize("facet", ["traits", "inventories"])
def test_bulk_write_is_preferred_and_else_only_inventories_are_taken(facet):
    """Elsewhere the reshaper takes these, and nothing takes traits."""
    cloud = make_cloud("a")
    edit = RatioEdit({"VCPU": 4.0}) if facet == "inventories" else TraitEdit("add", GOLD)
    plan = make_plan(edit, read_with(cloud)(cloud.providers, edit.facets))
    if facet == "traits":
        with pytest.raises(PlacementError, match="cannot change traits of several resource providers in one"):
            check_atomic(plan, cloud)
    else:
        assert check_atomic(plan, cloud) is write_inventories
    cloud.takes_atomic = True
    assert check_atomic(plan, cloud) is write_atomically


@pytest.mark.parametrize("facet", ["inventories", "traits"])
@pytest.mark.parametrize("is_committed", [True, False])
def test_all_providers_tell_whether_a_transaction_was_done_whose_answer_was_lost(facet, is_committed):
    """Another run made the same change of the first one meanwhile, which tells nothing of the others."""
    cloud = Cloud("a", "b", "c", inventories=processors(1.0), takes_atomic=facet == "traits")
    edit = RatioEdit({"VCPU": 4.0}) if facet == "inventories" else TraitEdit("add", GOLD)
    plan = make_plan(edit, read_with(cloud)(cloud.providers, edit.facets))
    name = "reshape" if facet == "inventories" else "change_atomically"
    send = getattr(cloud, name)

    def lose(*arguments):
        if is_committed:
            send(*arguments)
        else:
            done = {"inventories": processors(4.0)} if facet == "inventories" else {"traits": sorted(GOLD)}
            cloud.touch("a", **done)
        raise from_answer("POST", "/", 502, "", "<html>Bad Gateway</html>")

    setattr(cloud, name, lose)
    report = execute_atomically(cloud, plan)
    results = {outcome.result for outcome in report.outcomes}
    assert results == {Result.APPLIED if is_committed else Result.FAILED}
    assert report.exit_status == (0 if is_committed else 3)
