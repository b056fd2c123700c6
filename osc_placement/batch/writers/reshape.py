# SPDX-License-Identifier: Apache-2.0
"""Inventories and the allocations from them in one transaction, ``POST /reshaper``.

In the state of a provider, ``allocations`` is what consumers hold of it: amounts by class, by the UUID of the
consumer. What they hold of other providers stays as it is, and so do project, user and type; for those who
held nothing anywhere, project and user are the ``owner`` of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from osc_placement import microversion
from osc_placement.api.consumer import Consumer, describe_consumers
from osc_placement.api.retry import send_new_consumers
from osc_placement.batch.holdings import make_room
from osc_placement.batch.plan import Change, set_owner
from osc_placement.errors import Conflict, Forbidden, PlacementError, Unconfirmed

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.model import Inventory

Document = dict[str, Any]


class Ownerless(PlacementError):
    """A consumer whose project and user are not known is to get an allocation."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        super().__init__(f"Consumer {consumer} holds nothing any more; look again at what it should hold")


class MayNotReshape(Forbidden):
    """Placement refused a reshape, which its default policy keeps from administrators."""

    def __init__(self, error: Forbidden) -> None:
        super().__init__(403, str(error), method=error.method, url=error.url)

    #: that of the answer, which is its cause
    error_code = PlacementError.error_code

    def __str__(self) -> str:
        return (
            f"{self.message}; by default only the role 'service' may reshape, and not 'admin': use the "
            "credentials of a service such as nova, or set placement:reshaper:reshape to "
            "rule:admin_or_service_api in placement's policy.yaml"
        )


def require_right(client: PlacementClient) -> None:
    """Raise MayNotReshape if the caller may not reshape; change nothing."""
    with naming_right():
        client.require_reshape()


@contextmanager
def naming_right() -> Iterator[None]:
    """Raise MayNotReshape where placement, and no proxy before it, forbids a reshape."""
    try:
        yield
    except Unconfirmed:
        raise
    except Forbidden as error:
        raise MayNotReshape(error) from error


def write_inventories(client: PlacementClient, changes: Sequence[Change]) -> None:
    """Give providers their inventories in one transaction, and change no allocation."""
    inventories = {
        change.uuid: _describe_inventories(change.after.inventories or {}, change.subject.generation)
        for change in changes
    }
    client.reshape({"inventories": inventories, "allocations": {}})


def write_holdings(client: PlacementClient, change: Change, generation: int) -> Iterator[int]:
    """Write inventories and allocations of a provider; yield its generation after each request.

    Raise Conflict if the provider or a consumer is no longer as it was when it was planned.
    """
    client.require(microversion.RESHAPER, "a change of inventories with what is held of them")
    inventories = make_room(change.after)
    consumers, version = describe_consumers(list(_read_changed(client, change)), client.version)
    payload = {
        "inventories": {change.uuid: _describe_inventories(inventories, generation)},
        "allocations": consumers,
    }
    with naming_right():
        send_new_consumers(lambda: client.reshape(payload, version), consumers.values())
    generation = client.show_provider(change.uuid)["generation"]
    yield generation
    wanted = change.after.inventories or {}
    for name in sorted(wanted):
        if wanted[name] != inventories[name]:
            document = client.set_inventory(change.uuid, name, wanted[name].to_json(), generation)
            generation = document["resource_provider_generation"]
            yield generation


def _describe_inventories(inventories: Mapping[str, Inventory], generation: int | None) -> Document:
    return {
        "inventories": {name: inventory.to_json() for name, inventory in inventories.items()},
        "resource_provider_generation": generation,
    }


def _read_changed(client: PlacementClient, change: Change) -> Iterator[Consumer]:
    """Yield each consumer of a change that is not written yet, as it will be.

    Raise Conflict if it does not hold what it held before the change.
    """
    before, after = change.before.allocations or {}, change.after.allocations or {}
    for uuid in sorted({*before, *after}):
        old, new = before.get(uuid, {}), after.get(uuid, {})
        if old == new:
            continue
        consumer = client.read_consumer(uuid)
        held = consumer.allocations.get(change.uuid, {})
        if held == new:  # a run that died had come so far
            continue
        # a deletion of allocations need not move the generation of the provider
        if held != old:
            text = f"what consumer {uuid} holds was changed meanwhile"
            raise Conflict.found_here(text)
        if consumer.project_id is None:
            if not change.after.owner:
                raise Ownerless(uuid)
            consumer = set_owner(consumer, change.after.owner)
        allocations = {**consumer.allocations, change.uuid: new}
        if not new:
            del allocations[change.uuid]
        yield replace(consumer, consumer_type=consumer.consumer_type or "INSTANCE", allocations=allocations)
