#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: resource_provider
short_description: Create, change or delete one resource provider of OpenStack Placement
version_added: 5.0.0
author: the authors of osc-placement (!UNKNOWN)
description:
  - Gives a resource provider a parent, inventories, traits and aggregates.
  - A parameter that is given describes the whole of that part; a parameter that is left out leaves its
    part as it is. To add something to many providers, or to take it away, use
    M(osc_placement.placement.resource_provider_batch).
  - A change is journalled as a run on the host where the module runs. C(openstack resource provider batch run
    undo ID) undoes it there, a deletion too.
  - nova-compute writes the inventories of its own resource providers, and those traits that it knows.
options:
  state:
    description: Whether the resource provider exists.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name or UUID of the resource provider; the name of one that is created.
      - With O(uuid), its name, which is changed if it is another.
    type: str
  uuid:
    description: UUID of the resource provider. Without it, the server chooses that of a new one.
    type: str
    aliases: [id]
  parent:
    description:
      - Name or UUID of the parent; an empty text makes it the root of a tree.
      - Another parent than it has needs 1.37 of the API.
    type: str
  inventories:
    description:
      - Inventories by resource class, with C(total), C(reserved), C(min_unit), C(max_unit), C(step_size) and
        C(allocation_ratio). Only C(total) is required; a number alone is the total.
      - Amounts of classes whose names end in C(_MB) or C(_GB) may have a unit, as C(16GB), and C(reserved)
        may be a share of the total, as C(10%), which is rounded up. 1 GB is 1024 MB.
      - Classes that are not given are removed.
    type: dict
  traits:
    description: All traits.
    type: list
    elements: str
  aggregates:
    description: All aggregates, by UUID or by the name of a host aggregate of the compute service.
    type: list
    elements: str
  create_missing:
    description: Whether to create custom traits and resource classes that the server does not know. Without
      it an unknown name is an error, as it may be mistyped.
    type: bool
    default: false
  allow_overcommitted:
    description: Whether inventories may become less than is allocated from them.
    type: bool
    default: false
extends_documentation_fragment:
  - osc_placement.placement.run
  - osc_placement.placement.cloud
"""

EXAMPLES = r"""
- name: A host with its inventories
  osc_placement.placement.resource_provider:
    cloud: prod
    name: compute-1
    inventories:
      VCPU: {total: 64, reserved: 2, allocation_ratio: 4.0}
      MEMORY_MB: {total: 256GB, reserved: 5%}
    traits: [COMPUTE_NODE, CUSTOM_GOLD]
    aggregates: [rack-1]
    create_missing: true

- name: A device below it
  osc_placement.placement.resource_provider:
    cloud: prod
    name: compute-1-nvme
    parent: compute-1
    inventories:
      CUSTOM_NVME_SLOT: 8

- name: No such device
  osc_placement.placement.resource_provider:
    cloud: prod
    name: compute-1-nvme
    state: absent
"""

RETURN = r"""
run_id:
  description: ID of the run, for C(openstack resource provider batch run show|undo|resume).
  returned: if something was written
  type: str
  sample: 20261122T101500-a1b2c3
resource_provider:
  description: The resource provider as it is after the task. In check mode, as it was before.
  returned: if it exists
  type: dict
  sample:
    uuid: 11111111-0000-4000-8000-000000000001
    name: compute-1
    generation: 3
    parent_provider_uuid: null
    root_provider_uuid: 11111111-0000-4000-8000-000000000001
    inventories:
      VCPU: {total: 64, reserved: 2, min_unit: 1, max_unit: 64, step_size: 1, allocation_ratio: 4.0}
    traits: [COMPUTE_NODE, CUSTOM_GOLD]
    aggregates: [aaaaaaaa-0000-4000-8000-000000000001]
    usages: {VCPU: 12}
changes:
  description: A line for each change, as C(openstack resource provider apply --dry-run) shows it.
  returned: success
  type: list
  elements: str
  sample: ["~ resource provider compute-1", "    + CUSTOM_GOLD"]
counts:
  description: Number of things by result, with created traits and resource classes among them.
  returned: if something was changed or failed
  type: dict
  sample: {updated: 1, unchanged: 1}
failures:
  description: What failed and why, with C(kind), C(name) and C(error).
  returned: if something was changed or failed
  type: list
  elements: dict
  sample: []
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.osc_placement.placement.plugins.module_utils import states
from ansible_collections.osc_placement.placement.plugins.module_utils.selection import describe_provider
from ansible_collections.osc_placement.placement.plugins.module_utils.session import (
    Cloud,
    Failed,
    importing,
    run_module,
)

with importing():
    from osc_placement import syntax
    from osc_placement.model import CUSTOM_PREFIX, canonical_uuid, is_uuid, settle_shares
    from osc_placement.state.document import Document, parse_document
    from osc_placement.state.node import InvalidDocument

OPTIONS = {
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "name": {"type": "str"},
    "uuid": {"type": "str", "aliases": ["id"]},
    "parent": {"type": "str"},
    "inventories": {"type": "dict"},
    "traits": {"type": "list", "elements": "str"},
    "aggregates": {"type": "list", "elements": "str"},
    "create_missing": {"type": "bool", "default": False},
    "allow_overcommitted": {"type": "bool", "default": False},
    "journal_directory": {"type": "path"},
}


def act(module: AnsibleModule, cloud: Cloud) -> dict[str, Any]:
    """Create, change or delete the provider, and return the results."""
    params = module.params
    existing = find_existing(cloud, params)
    if params["state"] == "absent":
        return delete(module, cloud, existing)
    document = make_document(cloud, params, existing)
    plan, run = states.compare(
        cloud,
        document,
        title=f"resource provider {document.providers[-1].name}",
        allow_overcommitted=params["allow_overcommitted"],
    )
    for warning in run.warnings:
        module.warn(warning)
    results = {"changed": bool(plan.size), "changes": states.describe(plan), "diff": states.make_diff(plan)}
    if plan.size and not module.check_mode:
        results.update(states.carry_out(cloud, plan, run, directory=params["journal_directory"]))
    shown = existing["uuid"] if existing else params["uuid"] or params["name"]
    found = cloud.find_provider(shown)
    record = read_record(cloud, found["uuid"]) if found else None
    if record is not None:
        results["resource_provider"] = describe_provider(record)
    return results


def find_existing(cloud: Cloud, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the document of the provider that the parameters name, or None."""
    uuid, name = params["uuid"], params["name"]
    if uuid is not None and not is_uuid(uuid):
        raise Failed(f"uuid: {uuid!r} is not a UUID; give it as 32 hexadecimal digits, or use name")
    if uuid is None and not name:
        raise Failed("name: it is empty; give the name or the UUID of a resource provider")
    existing: dict[str, Any] | None = cloud.find_provider(uuid if uuid is not None else name)
    return existing


def make_document(cloud: Cloud, params: dict[str, Any], existing: dict[str, Any] | None) -> Document:
    """Return the state that the parameters describe: the parent, if it is given, and then the provider."""
    entry: dict[str, Any] = {"name": params["name"]}
    if existing:
        entry["uuid"] = existing["uuid"]
        if params["uuid"] is None or params["name"] is None:
            entry["name"] = existing["name"]
    elif params["name"] is None:
        raise Failed(
            f"No resource provider has the UUID {params['uuid']}; nothing was changed. To create it, give "
            "its name"
        )
    elif params["uuid"]:
        entry["uuid"] = params["uuid"]
    providers = [entry]
    if params["parent"] is not None:
        entry["parent"] = None
    if params["parent"]:
        parent = cloud.require_provider(params["parent"], "parent")
        if parent["uuid"] == entry.get("uuid"):
            raise Failed("parent: it is the resource provider itself; nothing was changed")
        entry["parent"] = parent["uuid"]
        providers.insert(0, {"name": parent["name"], "uuid": parent["uuid"]})
    if params["inventories"] is not None:
        entry["inventories"] = read_inventories(params["inventories"])
    if params["traits"] is not None:
        entry["traits"] = params["traits"]
    if params["aggregates"] is not None:
        entry["aggregates"] = cloud.resolve_aggregates(params["aggregates"])
    used = {
        "traits": params["traits"] or (),
        "resource_classes": params["inventories"] or (),
    }
    custom = {
        section: sorted({name for name in names if name.startswith(CUSTOM_PREFIX)})
        for section, names in used.items()
    }
    document = {"providers": providers, **custom}
    if not params["create_missing"]:
        require_known(cloud, custom)
    try:
        return parse_document(document)
    except InvalidDocument as error:
        told = [
            f"{'.'.join(map(str, each.path[2:] or each.path[:1]))}: {each.problem}"
            for each in (error, *error.others)
        ]
        raise Failed(f"{'; '.join(told)}; nothing was changed") from error


def require_known(cloud: Cloud, custom: dict[str, list[str]]) -> None:
    """Raise Failed at a custom name that the server does not know."""
    for kind, names in (("trait", custom["traits"]), ("resource class", custom["resource_classes"])):
        if not names:
            continue
        known = (
            cloud.client.list_traits()
            if kind == "trait"
            else [found["name"] for found in cloud.client.list_resource_classes()]
        )
        unknown = set(names).difference(known)
        if unknown:
            raise Failed(states.explain_unknown(kind, unknown, known))


def read_inventories(given: dict[str, Any]) -> dict[str, Any]:
    """Return inventories with all amounts as numbers, and with the field of a total that is given alone.

    :raises UsageError: a text is no value of its field
    """
    read = {}
    for name, fields in given.items():
        values = {
            # an unknown field is refused with the document
            field: syntax.parse_inventory_value(name, field, value)
            if isinstance(value, str) and field in syntax.INVENTORY_FIELDS
            else value
            for field, value in (fields if isinstance(fields, dict) else {"total": fields}).items()
        }
        read[name] = settle_shares(values) if isinstance(values.get("total"), int) else values
    return read


def delete(module: AnsibleModule, cloud: Cloud, existing: dict[str, Any] | None) -> dict[str, Any]:
    """Delete the provider if it exists; raise Failed if it is in use or has children."""
    diff = {"before": "", "after": ""}
    if existing is None:
        return {"changed": False, "changes": [], "diff": diff}
    uuid, name = existing["uuid"], existing["name"]
    if module.params["uuid"] and module.params["name"] not in (None, name):
        raise Failed(
            f"The resource provider {uuid} is named {name!r}, not {module.params['name']!r}; nothing was "
            "deleted. Correct one of the two"
        )
    children = [
        found["name"]
        for found in cloud.client.list_providers(in_tree=uuid)
        if found["parent_provider_uuid"] == canonical_uuid(uuid)
    ]
    if children:
        told = ", ".join(sorted(children)[:5]) + (", ..." if len(children) > 5 else "")
        raise Failed(
            f"{name} has {len(children)} resource providers below it ({told}); nothing was deleted. "
            "Delete those first"
        )
    record = read_record(cloud, uuid)
    if record is None:  # somebody else has just deleted it
        return {"changed": False, "changes": [], "diff": diff}
    provider = describe_provider(record)
    used = [f"{amount} {kind}" for kind, amount in provider["usages"].items() if amount]
    if used:
        raise Failed(
            f"{name} is in use: {', '.join(used)} allocated; nothing was deleted. Move or delete the "
            "instances first"
        )
    diff["before"] = states.format_yaml(
        {key: value for key, value in provider.items() if key not in ("generation", "usages")}
    )
    plan, run = states.plan_deletion(record, f"delete resource provider {name}")
    results = {"changed": True, "changes": states.describe(plan), "diff": diff}
    if not module.check_mode:
        results.update(states.carry_out(cloud, plan, run, directory=module.params["journal_directory"]))
    return results


def read_record(cloud: Cloud, uuid: str) -> Any:
    """Read a provider with all it has; return None if it does not exist."""
    return next(iter(cloud.client.read_providers({"uuid": uuid})), None)


def main() -> None:
    """Run the module."""
    run_module(act, OPTIONS, required_one_of=[("name", "uuid")])


if __name__ == "__main__":
    main()
