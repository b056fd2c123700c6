# SPDX-License-Identifier: Apache-2.0
"""Changes to many resource providers at once: select, plan, execute, resume, undo.

This is the door of the engine: all that others use of it is a name of this module, and nobody else imports
what is behind it. It is also the interface for deployment tools, which need no shell for it;
doc/source/reference/batch.rst has an example that a test runs. What is behind it:

    selection, select     which providers, and what they hold: all reads
    inventory, membership what to change: ratios, inventories, traits, aggregates, each an Edit
    device                one-time-use devices, and their release
    plan, guards          the change of each provider, with warnings, and refusals by a Policy
    facets, merge         what a state consists of, and a change where others changed the same meanwhile
    stages                the writes of a plan whose steps depend on each other
    execute               all writes, one by one or all or nothing; `on_outcome` is told as providers are done
    gate                  rate, pause, stop and number of failures; `on_event` is told what a control file did
    journal               runs on disk
    undo                  the plan that undoes a run
    service               Runs: starts, resumes and undoes runs
    journal.saved         plans in files, and what changed since

A change is about a provider or, with `plan.Consumer`, about the allocations of a consumer. What can go wrong
before the first write is raised as one of ``osc_placement.errors``; from then on every failure is the outcome
of one provider.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from osc_placement.batch.device import DeviceRelease, DeviceState
    from osc_placement.batch.difference import describe_difference, list_differences
    from osc_placement.batch.facets import ALL_FACETS, FACETS, Facet, ProviderState
    from osc_placement.batch.gate import Gate
    from osc_placement.batch.guards import guard
    from osc_placement.batch.guards.capacity import InUse, Overcommitted, find_excesses
    from osc_placement.batch.guards.managed import DropsManaged, find_managed, list_counts
    from osc_placement.batch.inventory import InventoryDeletion, InventoryEdit, RatioEdit
    from osc_placement.batch.journal.file import Journals, identify_server
    from osc_placement.batch.journal.run import (
        PARTLY_DONE,
        Header,
        JournalError,
        Run,
        Summary,
        Undone,
        UnknownRun,
        find_undone,
    )
    from osc_placement.batch.journal.saved import Moved, find_saved, load_plan, save_plan
    from osc_placement.batch.membership import AggregateEdit, TraitEdit, Verb
    from osc_placement.batch.plan import (
        EXIT_DONE,
        EXIT_INTERRUPTED,
        EXIT_PARTIAL,
        IN_PART,
        NEW_STAYS,
        REFUSED,
        SAVED,
        Change,
        CustomName,
        Decision,
        Edit,
        Gone,
        Kind,
        Outcome,
        Plan,
        Policy,
        Reading,
        Report,
        Result,
        Subject,
        UncheckedEdit,
        for_changes,
        make_plan,
        plan_change,
        temporary_name,
    )
    from osc_placement.batch.repeat import Recorded, plan_staged
    from osc_placement.batch.reshape import Move, Moves, Replacement, ReshapeRefused, World
    from osc_placement.batch.select import (
        read_again,
        read_selected,
        read_state,
        read_states,
        read_usages,
        require_resource_classes,
        select_providers,
    )
    from osc_placement.batch.selection import NothingSelected, Selection
    from osc_placement.batch.service import Job, Pace, Runs, carry_out, require_transaction
    from osc_placement.batch.undo import RUN, ChangedSince, ReadStates, UndoEdit, advise_to_undo
    from osc_placement.batch.writers.reshape import require_right

#: by the module that has them, the names that are imported when they are first used: completions and most
#: commands need few of them
_NAMES: Final = {
    "device": "DeviceRelease DeviceState",
    "difference": "describe_difference list_differences",
    "facets": "ALL_FACETS FACETS Facet ProviderState",
    "gate": "Gate",
    "guards": "guard",
    "guards.capacity": "InUse Overcommitted find_excesses",
    "guards.managed": "DropsManaged find_managed list_counts",
    "inventory": "InventoryDeletion InventoryEdit RatioEdit",
    "journal.file": "Journals identify_server",
    "journal.run": "Header JournalError PARTLY_DONE Run Summary Undone UnknownRun find_undone",
    "journal.saved": "Moved find_saved load_plan save_plan",
    "membership": "AggregateEdit TraitEdit Verb",
    "plan": (
        "Change CustomName Decision EXIT_DONE EXIT_INTERRUPTED EXIT_PARTIAL Edit Gone IN_PART Kind "
        "NEW_STAYS Outcome Plan Policy REFUSED Reading Report Result SAVED Subject UncheckedEdit "
        "for_changes make_plan plan_change temporary_name"
    ),
    "repeat": "Recorded plan_staged",
    "reshape": "Move Moves Replacement ReshapeRefused World",
    "select": (
        "read_again read_selected read_state read_states read_usages require_resource_classes "
        "select_providers"
    ),
    "selection": "NothingSelected Selection",
    "service": "Job Pace Runs carry_out require_transaction",
    "undo": "ChangedSince RUN ReadStates UndoEdit advise_to_undo",
    "writers.reshape": "require_right",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_MODULES)


if not TYPE_CHECKING:  # or mypy would believe that there is any name

    def __getattr__(name: str) -> Any:
        """Import a name of the door."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
