# SPDX-License-Identifier: Apache-2.0
"""Consumers that belong to another project or user than their instance.

A server with the bulk read returns all owners at once. Other servers return an owner with each consumer,
which takes a request for each, and the total usage of an owner. If that is the sum of what its instances
hold, all of them have the right owner, and none of them is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from osc_placement import microversion
from osc_placement.api.concurrency import map_in_order
from osc_placement.api.consumer import Consumer
from osc_placement.batch.plan import Change, describe_owner
from osc_placement.batch.select import read_states
from osc_placement.migrate.migrations.base import Context
from osc_placement.migrate.migrations.cloud import CloudView, Holdings, Owner, iterate_amounts
from osc_placement.migrate.problem import Problem, Reason


def find_wrong_owners(
    context: Context, owners: Mapping[str, Owner], busy: Mapping[str, str], cloud: CloudView
) -> tuple[list[Change], list[Problem]]:
    """Return changes that correct owners of consumers, and a problem for each left unchanged.

    Left unchanged are consumers that cannot be read, and the ``busy``, by task: a move or rebuild of an
    instance writes its allocations, and the owner with them.
    """
    if cloud.owners:
        suspects = [uuid for uuid, owner in owners.items() if cloud.owners.get(uuid) != owner]
    else:
        suspects = [uuid for uuids in _find_suspects(context, owners, cloud.held) for uuid in uuids]
    consumers = [Consumer(uuid) for uuid in suspects]
    readings = read_states(
        context.client, consumers, ("allocations", "owner"), concurrency=context.concurrency
    )
    changes, problems = [], []
    for reading in readings:
        uuid = reading.subject.uuid
        if reading.state is None:
            problems.append(Problem(Reason.UNKNOWN, f"instance {uuid}", str(reading.error)))
            continue
        owner = describe_owner(*owners[uuid])
        if reading.state.owner in (None, owner):
            continue
        if uuid in busy:
            text = f"it is {busy[uuid]}, and what it holds is of another project or user"
            problems.append(Problem(Reason.BUSY, f"instance {uuid}", text))
        else:
            changes.append(Change(reading.subject, reading.state, replace(reading.state, owner=owner)))
    return changes, problems


def _find_suspects(context: Context, owners: Mapping[str, Owner], held: Holdings) -> Iterator[Sequence[str]]:
    """Yield the instances of each owner whose usage is not the sum of their allocations."""
    of_owner: dict[Owner, list[str]] = defaultdict(list)
    for uuid, owner in owners.items():
        of_owner[owner].append(uuid)

    def check(item: tuple[Owner, list[str]]) -> Sequence[str]:
        (project, user), uuids = item
        usages = context.client.total_usages(project, user_id=user, version=microversion.TOTAL_USAGES)
        return (
            () if _add(uuids, held) == {name: amount for name, amount in usages.items() if amount} else uuids
        )

    return iter(map_in_order(check, list(of_owner.items()), threads=context.concurrency))


def _add(uuids: Sequence[str], held: Holdings) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for uuid in uuids:
        for _provider, resource, amount in iterate_amounts(held[uuid]):
            total[resource] += amount
    return dict(total)
