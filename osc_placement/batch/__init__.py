# SPDX-License-Identifier: Apache-2.0
"""Changes to many resource providers at once: select, plan, look at the plan, execute.

This is also the interface for deployment tools, which need no shell for it::

    from osc_placement.batch import execute, inventory, plan, select
    from osc_placement.client import PlacementClient

    client = PlacementClient(session)  # a keystoneauth1 session
    edit = inventory.RatioEdit({"VCPU": 4.0})
    providers = select.select_providers(client, select.Selection(aggregates=(aggregate_uuid,)))
    readings = select.read_states(client, providers, edit.facets)
    planned = plan.make_plan(edit, readings)
    for change in planned.changes:
        print(change.provider.name, change.before, change.after)
    report = execute.execute_plan(client, planned, on_outcome=lambda outcome: print(outcome.result))
    assert report.exit_status == 0, report.summary

``select`` holds all reads, ``execute`` all writes; ``plan``, ``inventory`` and ``membership`` are pure. What
can go wrong before the first write is raised as one of ``osc_placement.errors``; from then on every failure
is the outcome of one provider.
"""
