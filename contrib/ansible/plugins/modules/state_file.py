#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

DOCUMENTATION = r"""
module: state_file
short_description: Give OpenStack Placement the state of a file
version_added: 5.0.0
author: the authors of osc-placement (!UNKNOWN)
description:
  - Creates and changes what differs from a state file, parents before children.
  - The format is that of C(openstack resource provider export) and C(apply). A resource provider or consumer
    that the state does not name is not changed, and neither are the parts of one that it leaves out. A part
    that it gives is replaced as a whole; a warning counts what is removed by that.
  - The whole state is checked before anything is written. If the server would refuse a part of it, such as
    the deletion of what is in use, nothing is changed.
  - A change is journalled as a run on the host where the module runs. C(openstack resource provider batch run
    undo ID) undoes it there, with what was created and deleted.
options:
  src:
    description: Path of a state file on the host where the module runs.
    type: path
    aliases: [file]
  document:
    description: The state itself, with the keys of a state file.
    type: dict
  prune:
    description:
      - Whether to delete what the state does not name, for each section that it has. These are resource
        providers, allocations of consumers and, without O(names) and O(aggregates), custom resource classes
        and traits.
      - Needs O(max_deletions).
    type: bool
    default: false
  max_deletions:
    description:
      - How many things O(prune) may delete. If there are more, nothing at all is changed, as the state
        may be an incomplete or a wrong one.
      - In check mode they are shown, with a warning.
    type: int
  names:
    description: Patterns, one at least. Only trees whose root has a name that matches one of them are
      changed.
    type: list
    elements: str
  aggregates:
    description: UUIDs, or names of host aggregates of the compute service, one at least. Only trees with a
      provider in one of them are changed.
    type: list
    elements: str
  allow_overcommitted:
    description: Whether inventories may become less than is allocated from them when the state is made, with
      the allocations that it has itself.
    type: bool
    default: false
  concurrency:
    description: How many requests are under way at once.
    type: int
    default: 8
extends_documentation_fragment:
  - osc_placement.placement.run
  - osc_placement.placement.cloud
"""

EXAMPLES = r"""
- name: Everything as it was exported
  osc_placement.placement.state_file:
    cloud: prod
    src: /srv/placement/prod.yaml

- name: One rack, without what was added by hand
  osc_placement.placement.state_file:
    cloud: prod
    src: /srv/placement/prod.yaml
    names: [rack1-*]
    prune: true
    max_deletions: 5

- name: A state in the playbook
  osc_placement.placement.state_file:
    cloud: prod
    document:
      traits: [CUSTOM_GOLD]
      providers:
        - name: compute-1
          traits: [CUSTOM_GOLD]
          inventories:
            VCPU: {total: 64, allocation_ratio: 4.0}
"""

RETURN = r"""
run_id:
  description: ID of the run, for C(openstack resource provider batch run show|undo|resume).
  returned: if something was written
  type: str
  sample: 20261122T101500-a1b2c3
changes:
  description: A line for each change, as C(openstack resource provider apply --dry-run) shows it.
  returned: success
  type: list
  elements: str
  sample: ["+ trait CUSTOM_GOLD", "~ resource provider compute-1", "    + CUSTOM_GOLD"]
counts:
  description: Number of things by result.
  returned: success
  type: dict
  sample: {created: 1, updated: 1, unchanged: 12}
failures:
  description: What failed and why, with C(kind), C(name) and C(error).
  returned: if something was changed or failed
  type: list
  elements: dict
  sample: []
"""

import pathlib
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.osc_placement.placement.plugins.module_utils import states
from ansible_collections.osc_placement.placement.plugins.module_utils.selection import refuse_empty
from ansible_collections.osc_placement.placement.plugins.module_utils.session import (
    Cloud,
    Failed,
    importing,
    run_module,
)

with importing():
    from osc_placement.report.summary import count_removed
    from osc_placement.state.document import Document, parse_document
    from osc_placement.state.selection import Selection
    from osc_placement.state.text import parse_text

OPTIONS = {
    "src": {"type": "path", "aliases": ["file"]},
    "document": {"type": "dict"},
    "prune": {"type": "bool", "default": False},
    "max_deletions": {"type": "int"},
    "names": {"type": "list", "elements": "str"},
    "aggregates": {"type": "list", "elements": "str"},
    "allow_overcommitted": {"type": "bool", "default": False},
    "concurrency": {"type": "int", "default": 8},
    "journal_directory": {"type": "path"},
}
#: how many deletions a message names
TOLD = 10


def act(module: AnsibleModule, cloud: Cloud) -> dict[str, Any]:
    """Apply the state, and return the results."""
    params = module.params
    if params["concurrency"] < 1:
        raise Failed(f"concurrency: must be 1 or more, not {params['concurrency']}")
    refuse_empty({name: params[name] for name in ("names", "aggregates")})
    document = read_document(params)
    aggregates = cloud.resolve_aggregates(params["aggregates"] or [])
    selection = Selection(tuple(params["names"] or ()), frozenset(aggregates))
    plan, run = states.compare(
        cloud,
        document,
        title=f"state of {params['src']}" if params["src"] else "state",
        prune=params["prune"],
        selection=selection,
        allow_overcommitted=params["allow_overcommitted"],
    )
    for warning in run.warnings:
        module.warn(warning)
    if removed := count_removed(run.changes):
        module.warn(f"The state is without {removed} of what it names, which removes them")
    guard_deletions(module, plan)
    results = {
        "changed": bool(plan.size),
        "changes": states.describe(plan),
        "counts": states.count_results({}, plan),
        "diff": states.make_diff(plan),
    }
    if plan.size and not module.check_mode:
        done = states.carry_out(
            cloud,
            plan,
            run,
            selection=" ".join([*(params["names"] or ()), *(params["aggregates"] or ())]),
            concurrency=params["concurrency"],
            directory=params["journal_directory"],
        )
        results.update(done)
    return results


def read_document(params: dict[str, Any]) -> Document:
    """Return the state that is given; raise Failed if its file cannot be read."""
    if params["document"] is not None:
        return parse_document(params["document"])
    path = pathlib.Path(params["src"])
    try:
        return parse_text(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise Failed(
            f"{path} cannot be read on the host where the module runs: {error.strerror}; nothing was changed"
        ) from error
    except UnicodeDecodeError as error:
        raise Failed(f"{path} cannot be read: byte {error.start} is not UTF-8 text") from error


def guard_deletions(module: AnsibleModule, plan: Any) -> None:
    """Raise Failed if more would be deleted than is allowed; in check mode, warn of it."""
    deletions = states.describe_deletions(plan)
    allowed = module.params["max_deletions"] or 0
    if len(deletions) <= allowed:
        return
    told = ", ".join(deletions[:TOLD]) + (", ..." if len(deletions) > TOLD else "")
    message = (
        f"prune deletes {len(deletions)}, and max_deletions is {allowed}: {told}. Check that the state is "
        f"whole and for this cloud; max_deletions: {len(deletions)} allows it"
    )
    if not module.check_mode:
        raise Failed(f"Nothing was changed: {message}")
    module.warn(f"This would be refused: {message}")


def main() -> None:
    """Run the module."""
    run_module(
        act,
        OPTIONS,
        required_one_of=[("src", "document")],
        mutually_exclusive=[("src", "document")],
        required_if=[("prune", True, ("max_deletions",))],
    )


if __name__ == "__main__":
    main()
