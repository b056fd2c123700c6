#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider_batch
short_description: Change many resource providers of OpenStack Placement
version_added: 5.0.0
author: the authors of osc-placement (!UNKNOWN)
description:
  - Makes one change to all resource providers that are selected, as C(openstack resource provider batch)
    does. What is as it is to be is not written again.
  - A change is journalled as a run on the host where the module runs. C(openstack resource provider batch run
    undo ID) undoes it there, and C(resume ID) goes on with one that was interrupted.
  - If some resource providers fail, the others are changed all the same, and the task fails at the end.
options:
  state:
    description:
      - V(present) adds O(traits), adds to O(aggregates), and sets the fields of O(inventories) that are
        given.
      - V(absent) removes them. Of O(inventories) whole resource classes are removed.
      - V(exact) sets them in place of all that is there.
      - O(ratios) are always set.
    type: str
    choices: [present, absent, exact]
    default: present
  ratios:
    description: Allocation ratios by resource class. A resource provider without an inventory of a class is
      left as it is; that none of them has one is an error.
    type: dict
  inventories:
    description:
      - Fields of inventories by resource class, which are C(total), C(reserved), C(min_unit), C(max_unit),
        C(step_size) and C(allocation_ratio). A number alone is the total.
      - Amounts of classes whose names end in C(_MB) or C(_GB) may have a unit, as C(16GB), and C(reserved)
        may be a share of the total of each resource provider, as C(10%), which is rounded up. 1 GB is 1024
        MB.
      - A resource provider without an inventory of a class gets one if the total is given.
      - With O(state=absent) the fields are ignored and may be empty.
    type: dict
  traits:
    description: Traits to add, to remove or to have.
    type: list
    elements: str
  aggregates:
    description: Aggregates to join, to leave or to be in, by UUID or by the name of a host aggregate of the
      compute service.
    type: list
    elements: str
  select:
    required: true
  allow_empty:
    description: Whether it is all right if no resource provider is selected.
    type: bool
    default: false
  create_missing:
    description: Whether to create custom traits and resource classes that the server does not know. Without
      it an unknown name is an error, as it may be mistyped.
    type: bool
    default: false
  allow_overcommitted:
    description: Whether a resource provider may have less than is allocated from it. Without it, such
      resource providers are left as they are and the task fails.
    type: bool
    default: false
  concurrency:
    description: How many requests are under way at once.
    type: int
    default: 8
  canary:
    description: How many resource providers are changed first and read back. The others follow if these are
      as planned.
    type: int
    default: 0
  max_failures:
    description: Stop after more failures than this.
    type: int
  throttle:
    description: Change at most so many resource providers a second.
    type: float
extends_documentation_fragment:
  - osc_placement.placement.run
  - osc_placement.placement.selection
  - osc_placement.placement.cloud
"""

EXAMPLES = r"""
- name: Overcommit the CPUs of a rack, four hosts first
  osc_placement.placement.resource_provider_batch:
    cloud: prod
    select:
      aggregate: rack-1
    ratios:
      VCPU: 8.0
    canary: 4

- name: Reserve memory and processors on all hosts with this trait
  osc_placement.placement.resource_provider_batch:
    cloud: prod
    select:
      required: [CUSTOM_GOLD]
    inventories:
      MEMORY_MB: {reserved: 8GB}
      VCPU: {reserved: 10%}

- name: Take a trait from some hosts
  osc_placement.placement.resource_provider_batch:
    cloud: prod
    select:
      providers: [compute-1, compute-2]
    traits: [CUSTOM_MAINTENANCE]
    state: absent
"""

RETURN = r"""
run_id:
  description: ID of the run, for C(openstack resource provider batch run show|undo|resume).
  returned: if something was written
  type: str
  sample: 20261122T101500-a1b2c3
summary:
  description: What was done, or would be, in one line.
  returned: always
  type: str
  sample: "ratio set VCPU=8.0: 40 resource providers, 38 applied, 2 unchanged"
counts:
  description: Number of resource providers by result. In check mode C(applied) are those that would be
    changed.
  returned: always
  type: dict
  sample: {applied: 38, unchanged: 2, failed: 0, skipped: 0}
providers:
  description: The resource providers that changed, failed or were skipped, with C(uuid), C(name), C(result),
    C(before) and C(after) of what differs, and C(error).
  returned: always
  type: list
  elements: dict
  sample:
    - uuid: 11111111-0000-4000-8000-000000000001
      name: compute-1
      result: applied
      before: ["VCPU:allocation_ratio=4.0"]
      after: ["VCPU:allocation_ratio=8.0"]
      error: null
failures:
  description: Those among C(providers) that failed, with C(uuid), C(name) and C(error).
  returned: always
  type: list
  elements: dict
  sample: []
"""

import math
import pathlib
from collections import Counter
from typing import Any, Literal

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.osc_placement.placement.plugins.module_utils import states
from ansible_collections.osc_placement.placement.plugins.module_utils.selection import (
    SELECT,
    describe_state,
    join_pairs,
    make_selection,
)
from ansible_collections.osc_placement.placement.plugins.module_utils.session import (
    Cloud,
    Failed,
    explain,
    importing,
    run_module,
    tell_failures,
)

with importing():
    from osc_placement import batch, syntax
    from osc_placement.batch import (
        AggregateEdit,
        Edit,
        InventoryDeletion,
        InventoryEdit,
        Outcome,
        Plan,
        Policy,
        RatioEdit,
        Reading,
        Report,
        Result,
        TraitEdit,
        describe_difference,
        guard,
        make_plan,
    )
    from osc_placement.model import CUSTOM_PREFIX
    from osc_placement.report.summary import sum_up

EDITS = ("ratios", "inventories", "traits", "aggregates")
VERBS: dict[str, Literal["add", "remove", "set"]] = {"present": "add", "absent": "remove", "exact": "set"}
OPTIONS = {
    "state": {"type": "str", "choices": ["present", "absent", "exact"], "default": "present"},
    "ratios": {"type": "dict"},
    "inventories": {"type": "dict"},
    "traits": {"type": "list", "elements": "str"},
    "aggregates": {"type": "list", "elements": "str"},
    "select": {**SELECT, "required": True},
    "allow_empty": {"type": "bool", "default": False},
    "create_missing": {"type": "bool", "default": False},
    "allow_overcommitted": {"type": "bool", "default": False},
    "concurrency": {"type": "int", "default": 8},
    "canary": {"type": "int", "default": 0},
    "max_failures": {"type": "int"},
    "throttle": {"type": "float"},
    "journal_directory": {"type": "path"},
}


def act(module: AnsibleModule, cloud: Cloud) -> dict[str, Any]:
    """Plan the change and, unless in check mode, carry it out; return the results."""
    check_numbers(module.params)
    edit = make_edit(module, cloud)
    plan = plan_edit(module, cloud, edit)
    for warning in plan.warnings:
        module.warn(warning)
    diff = make_diff(plan)
    if module.check_mode or not plan.changes:
        results = {**describe_plan(plan), "diff": diff}
        verb = "would be refused" if module.check_mode else "were not changed"
        end = f"{len(results['failures'])} {verb}"
    else:
        report, run_id = execute(module, cloud, plan)
        results = {**describe_report(report), "run_id": run_id, "diff": diff}
        runs = "openstack resource provider batch run"
        end = f"to go on: {runs} resume {run_id}; to undo what was done: {runs} undo {run_id}"
        if report.exit_status and not results["failures"]:
            raise Failed(f"{results['summary']}; {end}", **results)
    if results["failures"]:
        raise Failed(f"{results['summary']}: {tell_failures(results['failures'])}; {end}", **results)
    return results


def check_numbers(params: dict[str, Any]) -> None:
    """Raise Failed at a number that makes no sense."""
    for name, smallest in (("concurrency", 1), ("canary", 0), ("max_failures", 0)):
        if params[name] is not None and params[name] < smallest:
            raise Failed(f"{name}: must be {smallest} or more, not {params[name]}")
    throttle = params["throttle"]
    if throttle is not None and not (math.isfinite(throttle) and throttle > 0):
        raise Failed(f"throttle: must be greater than 0, not {throttle}")


def make_edit(module: AnsibleModule, cloud: Cloud) -> Edit:
    """Return the edit that the parameters describe; raise PlacementError if a value is wrong."""
    params = module.params
    verb = VERBS[params["state"]]
    name = next(name for name in EDITS if params[name] is not None)
    given = params[name]
    if not given and params["state"] != "exact":
        raise Failed(
            f"{name}: it is empty, so there is nothing to {verb}; name something, or leave the task out"
        )
    if name == "ratios":
        if params["state"] != "present":
            raise Failed(f"ratios: they can only be set; with state: {params['state']} use inventories")
        return RatioEdit(syntax.parse_ratios(join_pairs(given)))
    if name == "inventories" and verb == "remove":
        return InventoryDeletion(tuple(given))
    if name == "inventories":
        pairs = [
            f"{resource_class}:{field}={value}"
            for resource_class, fields in given.items()
            for field, value in (fields if isinstance(fields, dict) else {"total": fields}).items()
        ]
        return InventoryEdit(syntax.check_inventories(syntax.parse_inventories(pairs)), verb == "set")
    if name == "traits":
        return TraitEdit(verb, syntax.parse_traits(given))
    return AggregateEdit(verb, syntax.parse_aggregates(cloud.resolve_aggregates(given)))


def plan_edit(module: AnsibleModule, cloud: Cloud, edit: Edit) -> Plan:
    """Read the selected providers and plan the edit of each; create missing names if that is asked for."""
    params, client = module.params, cloud.client
    selection = make_selection(cloud, params["select"])
    if isinstance(edit, TraitEdit):
        require_traits(module, cloud, edit)
    holds_inventories = "inventories" in edit.facets
    with_aggregates = len(selection.aggregates) > 1 and holds_inventories
    readings = batch.read_selected(
        client,
        selection,
        (*edit.facets, "aggregates") if with_aggregates else edit.facets,
        with_usages=holds_inventories,
        allow_empty=params["allow_empty"],
        concurrency=params["concurrency"],
    )
    if isinstance(edit, InventoryEdit):
        require_classes(module, cloud, readings, list(edit.fields))
    elif isinstance(edit, InventoryDeletion):
        batch.require_resource_classes(client, readings, edit.classes)
    plan = make_plan(edit, readings, selection)
    policy = Policy("exceed" if params["allow_overcommitted"] else "keep")
    return guard(client, plan, policy, readings, concurrency=params["concurrency"])


def require_traits(module: AnsibleModule, cloud: Cloud, edit: TraitEdit) -> None:
    """Create the custom traits that are missing if that is asked for; raise Failed at others."""
    if not edit.names:
        return
    known = cloud.client.list_traits()
    unknown = edit.names.difference(known)
    creatable = {name for name in unknown if name.startswith(CUSTOM_PREFIX)} if is_creating(module) else set()
    if unknown - creatable:
        raise Failed(states.explain_unknown("trait", unknown - creatable, known))
    for name in sorted(creatable) if not module.check_mode else ():
        cloud.client.create_trait(name)


def require_classes(module: AnsibleModule, cloud: Cloud, readings: list[Reading], names: list[str]) -> None:
    """Create the custom resource classes that are missing if that is asked for; raise Failed at others."""
    used = {name for reading in readings if reading.state for name in reading.state.inventories or ()}
    if used.issuperset(names):
        return
    known = [found["name"] for found in cloud.client.list_resource_classes()]
    unknown = set(names).difference(known)
    creatable = {name for name in unknown if name.startswith(CUSTOM_PREFIX)} if is_creating(module) else set()
    if unknown - creatable:
        raise Failed(states.explain_unknown("resource class", unknown - creatable, known))
    for name in sorted(creatable) if not module.check_mode else ():
        cloud.client.ensure_resource_class(name)


def is_creating(module: AnsibleModule) -> bool:
    """Return whether names that the server does not know are created."""
    return bool(module.params["create_missing"]) and module.params["state"] != "absent"


def execute(module: AnsibleModule, cloud: Cloud, plan: Plan) -> tuple[Report, str]:
    """Carry the plan out as a run; return the report and the ID of the run."""
    params, client = module.params, cloud.client
    directory = params["journal_directory"]
    job = batch.Job(plan, str(plan.selection))
    pace = batch.Pace(
        concurrency=params["concurrency"],
        rate=params["throttle"] or 0.0,
        max_failures=params["max_failures"],
        canary=params["canary"],
    )
    recorder = batch.Runs(pathlib.Path(directory) if directory else None).start(client, job, pace)
    return batch.carry_out(client, job, recorder, pace), recorder.id


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return the results of a task that writes nothing."""
    errors = {**plan.unreadable, **plan.refused}
    rows = [describe_step(step, "applied", None) for step in plan.changes]
    failed = [describe_step(step, "failed", errors[step.uuid]) for step in plan.steps if step.uuid in errors]
    counts = {
        "applied": len(rows),
        "unchanged": len(plan.unchanged),
        "failed": len(failed),
        "skipped": 0,
    }
    return collect(bool(plan.changes), sum_up(plan).line, counts, [*rows, *failed])


def describe_report(report: Report) -> dict[str, Any]:
    """Return the results of a run."""
    counts: Counter[Any] = report.counts
    rows = [
        describe_outcome(outcome) for outcome in report.outcomes if outcome.result is not Result.UNCHANGED
    ]
    numbers = {str(result): counts[result] for result in Result}
    return collect(not report.is_untouched, sum_up(report).line, numbers, rows)


def collect(
    changed: bool, summary: str, counts: dict[str, int], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the results that every task has."""
    return {
        "changed": changed,
        "summary": summary,
        "counts": counts,
        "providers": rows,
        "failures": [
            {"uuid": row["uuid"], "name": row["name"], "error": row["error"]}
            for row in rows
            if row["result"] == "failed"
        ],
    }


def describe_outcome(outcome: Outcome) -> dict[str, Any]:
    """Return how it ended for one provider."""
    row = describe_step(outcome.change, str(outcome.result), outcome.error)
    return {**row, "error": row["error"] or outcome.note or None}


def describe_step(step: Any, result: str, error: Exception | None) -> dict[str, Any]:
    """Return what one provider is and is to be."""
    gone, come = describe_difference(step.before, step.after)
    return {
        "uuid": step.uuid,
        "name": step.subject.name,
        "result": result,
        "before": gone,
        "after": come,
        "error": explain(error) if error else None,
    }


def make_diff(plan: Plan) -> dict[str, str]:
    """Return the difference as ``--diff`` shows it: YAML of what changes, by the name of the provider."""
    before, after = {}, {}
    for step in sorted(plan.changes, key=lambda step: step.subject.name):
        old, new = describe_state(step.before), describe_state(step.after)
        for facet in step.facets:
            if facet == "inventories":
                names = list({**old[facet], **new[facet]})
                same = [name for name in names if old[facet].get(name) == new[facet].get(name)]
                for name in same:
                    del old[facet][name], new[facet][name]
        before[step.subject.name] = {facet: old[facet] for facet in step.facets}
        after[step.subject.name] = {facet: new[facet] for facet in step.facets}
    return {"before": states.format_yaml(before), "after": states.format_yaml(after)}


def main() -> None:
    """Run the module."""
    run_module(act, OPTIONS, required_one_of=[EDITS], mutually_exclusive=[EDITS])


if __name__ == "__main__":
    main()
