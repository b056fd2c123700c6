# SPDX-License-Identifier: Apache-2.0
"""The runs that replace a provider by that of its machine's compute node.

They are three, each with a journal, so that each can be resumed and undone: the last one first. What is
allocated moves in one of them, by one request, ``POST /reshaper``. One provider is replaced after the other,
so that a command that dies leaves one machine at most between two runs; the next comparison finds which.
Between the first run and the second, the right provider has nothing allocated and may get inventories from
nova-compute at any moment, so that the scheduler would take the host for an empty one. A host is therefore
repaired only while its nova-compute service is disabled, which nova is asked again before each repair.

What fails for one host does not keep the others from being repaired. What would fail for all, such as a
server that does not answer, ends the command.

The server compares the generations of both providers and of every consumer that moves with those that the
reshape was planned on. If an instance was built, moved or deleted meanwhile, it writes nothing, and the whole
is read and planned again.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from osc_placement.batch import (
    FACETS,
    Job,
    JournalError,
    Replacement,
    Result,
    plan_staged,
    read_state,
    require_right,
)
from osc_placement.errors import (
    ANSWER_LOST,
    BadRequest,
    Conflict,
    EndpointMissing,
    HttpError,
    NotFound,
    OutcomeUnknown,
    PlacementError,
    VersionTooLow,
)
from osc_placement.migrate.migrations.providers import Repair, replaced_name
from osc_placement.migrate.nova.hosts import read_hosts
from osc_placement.migrate.nova.source import ClosableSource, Source, Unreadable

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.migrate.runner import Run

#: errors that the next host would meet as well
_OF_ALL: Final = (
    *ANSWER_LOST,
    EndpointMissing,
    JournalError,
    OutcomeUnknown,
    Unreadable,
    VersionTooLow,
)


class HostRefused(PlacementError):
    """The host of a provider is not in a state in which the provider may be replaced."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended a repair, and the state in which it was left; empty if nothing was written."""

    error: Exception
    state: str


@dataclass
class Repaired:
    """The result of the repairs of several providers.

    :ivar runs: the runs of all repairs, in their order
    :ivar failures: by name of an old provider, why it was not replaced
    :ivar not_tried: number of repairs that were not begun
    :ivar halted: the error that ended the command; None if it came to the last repair or was interrupted
    """

    runs: list[Run] = field(default_factory=list)
    failures: dict[str, Failure] = field(default_factory=dict)
    not_tried: int = 0
    halted: Exception | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """The services that repairs read and write.

    :ivar open_source: opens nova's databases, which are read again before each repair
    :ivar run: records and carries out a job
    :ivar pause: waits between two runs, as the rate of writes demands
    :ivar stop: set when no further run may start
    :ivar expected: errors that are reported; any other is raised
    """

    client: PlacementClient
    open_source: Callable[[], ClosableSource]
    run: Callable[[Job], Run]
    pause: Callable[[], None]
    stop: threading.Event
    expected: tuple[type[Exception], ...]


def carry_out(access: Access, repairs: Sequence[Repair], max_failures: int | None = None) -> Repaired:
    """Replace providers, one after the other; stop after more than ``max_failures`` that were not."""
    done = Repaired(not_tried=len(repairs))
    for each in repairs:
        if done.runs:
            access.pause()
        if access.stop.is_set():
            return done
        if max_failures is not None and len(done.failures) > max_failures:
            done.halted = HostRefused(f"more than {max_failures} failures")
            return done
        done.not_tried -= 1
        runs, error = _replace(access, each)
        done.runs += runs
        if error is None:
            continue
        if not is_of_one(error):
            done.halted = error
        if runs or not done.halted:
            done.failures[each.old.name] = Failure(error, _describe_state(each, runs))
        else:
            done.not_tried += 1
        if done.halted:
            return done
    return done


def _replace(access: Access, repair: Repair) -> tuple[list[Run], Exception | None]:
    """Replace a provider; return its runs, and the error that ended them, if one did."""
    runs: list[Run] = []
    try:
        with contextlib.closing(access.open_source()) as source:
            check_host(source, repair)
        for job in iterate_jobs(access.client, repair, access.pause):
            if access.stop.is_set():
                return runs, HostRefused("it was stopped")
            runs.append(access.run(job))
            report = runs[-1].report
            if report.exit_status and report.interrupted:
                return runs, HostRefused("it was stopped")
            if report.exit_status:
                errors = [outcome.error for outcome in report.outcomes if outcome.error]
                # one that concerns other hosts as well comes first
                errors.sort(key=is_of_one)
                return runs, errors[0] if errors else JournalError(report.halted)
    except access.expected as error:
        return runs, error
    return runs, None


def is_of_one(error: Exception) -> bool:
    """Return whether an error is about one provider or host, so that others can be repaired."""
    if isinstance(error, HttpError):
        return isinstance(error, (BadRequest, NotFound, Conflict))
    return isinstance(error, PlacementError) and not isinstance(error, _OF_ALL)


def _describe_state(repair: Repair, runs: Sequence[Run]) -> str:
    """Return the state in which a repair that was not finished is; empty if nothing was written.

    An earlier command may have begun it, which the name of the old provider tells.
    """
    old, new = repair.old.uuid, repair.right.uuid
    is_begun = repair.old.name == replaced_name(new)
    if not is_begun and all(run.report.is_untouched for run in runs):
        return ""
    moves = [
        outcome
        for run in runs
        for outcome in run.report.outcomes
        if outcome.change.uuid == old and "inventories" in outcome.change.facets
    ]
    if not repair.move or any(outcome.result is Result.APPLIED for outcome in moves):
        return (
            f"all allocations are moved to provider {new}, and {old} is to be deleted: give the command again"
        )
    where = f"the allocations are still of provider {old}"
    if any(isinstance(outcome.error, (OutcomeUnknown, *ANSWER_LOST)) for outcome in moves):
        where = f"the allocations are of provider {old} or of {new}, which is not known"
    return (
        f"the replacement is half done, and {where}: keep nova-compute of this host disabled, see "
        "placement-migrate run list for a run to resume, and give the command again"
    )


def check_host(source: Source, repair: Repair) -> None:
    """Raise HostRefused unless nova still has the right compute node, on a host that is disabled.

    Raise Unreadable if anything of nova cannot be read.
    """
    hosts = read_hosts(source)
    for error in hosts.unknown.values():
        raise error
    old, right = repair.old.uuid, repair.right.uuid
    if any(node.uuid == old for node in hosts.all_nodes()):
        raise HostRefused(f"nova has compute node {old} again; give the command again")
    nodes = [node for node in hosts.all_nodes() if node.uuid == right]
    if len(nodes) != 1:
        number = len(nodes) or "no"
        raise HostRefused(f"nova has {number} compute nodes {right} now; give the command again")
    host, (cell,) = nodes[0].host, [each for each in hosts.cells if each.uuid == nodes[0].cell]
    service = source.list_services(cell).get(host)
    if service is None:
        raise HostRefused(
            f"nova has no nova-compute service of host {host}, so it is unknown whether instances may be "
            "scheduled to it; start nova-compute there once, and disable its service"
        )
    if not service.is_disabled:
        command = f"openstack compute service set --disable {shlex.quote(host)} nova-compute"
        raise HostRefused(
            f"nova-compute of host {host} is enabled, and during the repair the scheduler would take it for "
            f"empty; disable it with {command}, give this command again, and enable it afterwards"
        )


def iterate_jobs(client: PlacementClient, repair: Repair, pause: Callable[[], None]) -> Iterator[Job]:
    """Yield the runs of a repair; each is planned when those before it are done, after a pause.

    Raise PlacementError if the caller may not reshape, before the first of them, or if what is there does not
    fit any more, before the one that is concerned.
    """
    require_right(client)
    if repair.preparation.changes:
        yield Job(repair.preparation)
        pause()
    move = Job.for_reshape(client, Replacement(repair.old.uuid, repair.right.uuid))
    if move.reshape is not None:
        yield move
        pause()
    provider, state = read_state(client, repair.old, ("identity", *FACETS))
    if not state.identity:
        raise HostRefused(f"Resource provider {provider.name} was deleted by somebody else meanwhile")
    if state.inventories:
        raise HostRefused(
            f"{provider.name} got inventories again, so it was not deleted; is its nova-compute running?"
        )
    title = f"provider {provider.name}: delete it, as {repair.right.uuid} is in its place"
    change = replace(repair.removal, subject=provider, before=state)
    yield Job(plan_staged(title, [change]))
