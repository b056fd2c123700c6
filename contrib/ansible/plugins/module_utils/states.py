# SPDX-License-Identifier: Apache-2.0
"""A state as parameters or a file give it: compare it with the server's, show the difference, apply it."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.osc_placement.placement.plugins.module_utils.selection import describe_state
from ansible_collections.osc_placement.placement.plugins.module_utils.session import (
    Cloud,
    Failed,
    explain,
    explain_unknown,
    importing,
    tell_failures,
)

with importing():
    import yaml

    from osc_placement import batch, microversion
    from osc_placement.batch import Plan, Policy, ProviderState, guard
    from osc_placement.state.description import describe_leftover, describe_plan
    from osc_placement.state.document import Document
    from osc_placement.state.plan import ApplyPlan, Leftover, explain_left_out, plan_apply, plan_run
    from osc_placement.state.read import read_current
    from osc_placement.state.results import list_refusals, list_results
    from osc_placement.state.selection import NoTreeSelected, Selection


def compare(
    cloud: Cloud,
    document: Document,
    *,
    title: str,
    prune: bool = False,
    selection: Selection | None = None,
    allow_overcommitted: bool = False,
) -> tuple[ApplyPlan, Plan]:
    """Return what has to be changed for the server to have the state of a document; write nothing.

    The second value is the plan of the run that changes it, which the journal calls ``title``. Raise Failed
    at what the server would refuse.
    """
    cloud.client.require(microversion.NESTED_PROVIDERS, "state")
    part, current = read_current(cloud.client, document, prune=prune, selection=selection)
    if selection and not (part.providers or current.leftover.providers):
        raise NoTreeSelected(selection, "of the state or the server" if prune else "of the state")
    told = []
    for kind, listed, known in (
        ("trait", part.traits, current.traits),
        ("resource class", part.resource_classes, current.resource_classes),
    ):
        facet = "traits" if kind == "trait" else "inventories"
        wanted = {name for entry in part.providers for name in getattr(entry.state, facet) or ()}
        unknown = wanted - known - set(listed)
        if unknown:
            told.append(explain_unknown(kind, unknown, known))
    if told:
        raise Failed(". ".join(told))
    plan = plan_apply(part, current)
    policy = Policy("exceed" if allow_overcommitted else "keep")
    run = explain_left_out(guard(cloud.client, plan_run(plan, title), policy, current.readings))
    refused = [
        {"kind": result.kind, "name": f"{result.kind} {result.name}", "error": explain(result.error)}
        for result in list_refusals(run)
        if result.error is not None
    ]
    if refused:
        raise Failed(f"Nothing was changed: {tell_failures(refused)}", failures=refused)
    return plan, run


def plan_deletion(record: Any, title: str) -> tuple[ApplyPlan, Plan]:
    """Return the plan that deletes a provider, with all that an undo needs to create it again."""
    provider = record.provider
    state = ProviderState(record.inventories, record.traits, record.aggregates)
    leftover = Leftover(providers=(provider,), states={provider.uuid: state})
    plan = ApplyPlan((), (), (), (), {}, {}, leftover=leftover)
    return plan, plan_run(plan, title)


def describe(plan: ApplyPlan) -> list[str]:
    """Return a line for each change, as ``openstack resource provider apply --dry-run`` shows it."""
    return list(describe_plan(plan))


def describe_deletions(plan: ApplyPlan) -> list[str]:
    """Return a line for each thing that is deleted because the document does not name it."""
    return [line.removeprefix("- ") for line in describe_leftover(plan.leftover)]


def make_diff(plan: ApplyPlan) -> dict[str, str]:
    """Return the difference as ``--diff`` shows it: YAML of what changes, before and after."""
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for section, names in (("resource_classes", plan.resource_classes), ("traits", plan.traits)):
        if names:
            before[section], after[section] = [], list(names)
    steps = [step for level in plan.levels for step in level]
    names_by_uuid = {uuid: name for name, uuid in plan.uuids.items()}
    if steps:
        before["providers"] = {
            step.entry.name: _describe_existing(step, names_by_uuid) for step in steps if step.existing
        }
        after["providers"] = {step.entry.name: _describe_wanted(step, names_by_uuid) for step in steps}
    if plan.consumers:
        before["allocations"] = {
            step.entry.uuid: _describe_consumer(
                step.existing.project_id,
                step.existing.user_id,
                {names_by_uuid.get(uuid, uuid): amounts for uuid, amounts in holdings.items()},
            )
            for step in plan.consumers
            if (holdings := step.existing.allocations)
        }
        after["allocations"] = {
            step.entry.uuid: _describe_consumer(step.entry.project, step.entry.user, step.entry.resources)
            for step in plan.consumers
        }
    deletions = describe_deletions(plan)
    if deletions:
        before["deleted"] = deletions
    return {"before": format_yaml(before), "after": format_yaml(after)}


def _describe_existing(step: Any, names: Mapping[str, str]) -> dict[str, Any]:
    existing = step.existing
    described = {"name": existing.name, "uuid": existing.uuid}
    if step.is_moved:
        described["parent"] = names.get(existing.parent_provider_uuid, existing.parent_provider_uuid)
    return {**described, **describe_state(step.change.before)}


def _describe_wanted(step: Any, names: Mapping[str, str]) -> dict[str, Any]:
    entry = step.entry
    described = {"name": entry.name}
    if step.existing or entry.uuid:
        described["uuid"] = step.existing.uuid if step.existing else entry.uuid
    if step.is_moved or (step.existing is None and isinstance(entry.parent, str)):
        described["parent"] = entry.parent
    return {**described, **describe_state(step.change.after)}


def _describe_consumer(project: Any, user: Any, resources: Mapping[str, Any]) -> dict[str, Any]:
    amounts = {name: dict(sorted(held.items())) for name, held in sorted(resources.items())}
    return {"project": project, "user": user, "resources": amounts}


def format_yaml(value: Mapping[str, Any]) -> str:
    """Return YAML in block style, so that a difference is line by line; nothing for nothing."""
    if not value:
        return ""
    text: str = yaml.safe_dump(dict(value), sort_keys=False, default_flow_style=False, allow_unicode=True)
    return text


def count_unchanged(plan: ApplyPlan) -> int:
    """Return how many things are as they are to be."""
    return sum(plan.unchanged.values())


def carry_out(
    cloud: Cloud,
    plan: ApplyPlan,
    run: Plan,
    *,
    selection: str = "",
    concurrency: int = 1,
    directory: str | None = None,
) -> dict[str, Any]:
    """Make all changes as a run; return the results of the module, raise Failed with them if some failed.

    ``selection`` is what the journal says of the selected trees; ``directory`` is where it is.
    """
    job, title = batch.Job(run, selection), run.edit.title
    pace = batch.Pace(concurrency)
    recorder = batch.Runs(pathlib.Path(directory) if directory else None).start(cloud.client, job, pace)
    report = list_results(batch.carry_out(cloud.client, job, recorder, pace))
    done: Counter[str] = Counter(result.done for result in report.results)
    failures = [
        {"kind": result.kind, "name": result.name, "error": explain(result.error)}
        for result in report.failures
        if result.error is not None
    ]
    results: dict[str, Any] = {
        "changed": any(result.done in ("created", "updated", "deleted") for result in report.results),
        "run_id": recorder.id,
        "counts": count_results(done, plan),
        "failures": failures,
    }
    if report.exit_status:
        if failures:
            skipped = f"; {done['skipped']} that depend on it were not tried" if done["skipped"] else ""
            told = f"{len(failures)} failed{skipped}: {tell_failures(failures)}"
        else:
            told = f"{report.halted or 'interrupted'}; {done['skipped']} were not tried"
        raise Failed(
            f"{title}: {told}. What was done stays; run the task again when the cause is mended, or undo it "
            f"with: openstack resource provider batch run undo {recorder.id}",
            **results,
        )
    return results


def count_results(done: Mapping[str, int], plan: ApplyPlan) -> dict[str, int]:
    """Return the number of things by result, unchanged ones included."""
    names: Iterable[str] = ("created", "updated", "deleted", "failed", "unknown", "skipped")
    unchanged = count_unchanged(plan) + done.get("unchanged", 0)
    return {**{name: done[name] for name in names if done.get(name)}, "unchanged": unchanged}
