# SPDX-License-Identifier: Apache-2.0
"""Changes to many resource providers at once: select, plan, execute, resume, undo.

This is also the interface for deployment tools, which need no shell for it; doc/source/user/batch.rst has an
example that a test runs. Its parts, all with types:

    selection, select     which providers, and what they hold: all reads
    inventory, membership what to change: ratios, inventories, traits, aggregates, each an Edit
    device                one-time-use devices: their release, and what must not release them
    plan, advice          the change of each provider, and warnings and refusals
    facets, merge         what a state consists of, and a change where others changed the same meanwhile
    execute               all writes, one by one or all or nothing; `on_outcome` is told as providers are done
    gate                  rate, pause, stop and number of failures; `on_event` is told what a control file did
    journal               runs on disk
    undo                  the plan that undoes a run
    service               creates, resumes and undoes runs
    journal.saved         plans in files, and what changed since

A change is about a provider or, with `plan.Consumer`, about the allocations of a consumer. What can go wrong
before the first write is raised as one of ``osc_placement.errors``; from then on every failure is the outcome
of one provider.
"""
