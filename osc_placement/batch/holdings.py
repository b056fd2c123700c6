# SPDX-License-Identifier: Apache-2.0
"""Change the inventories of a provider together with what consumers hold of it, in one transaction.

In the state of a provider, ``allocations`` is what consumers hold of it: amounts by class, by the UUID of the
consumer. What they hold of other providers stays as it is, and so do project, user and type; for those who
held nothing anywhere, project and user are the ``owner`` of the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from osc_placement import codes, microversion
from osc_placement.api.client import PlacementClient
from osc_placement.batch.plan import Change, ProviderState
from osc_placement.batch.room import make_room
from osc_placement.errors import Conflict, Forbidden, PlacementError, Unconfirmed
from osc_placement.microversion import Version
from osc_placement.model import UNKNOWN_TYPE, Inventory

Document = dict[str, Any]
_CONFLICT: Final = 409


class Ownerless(PlacementError):
    """A consumer is to hold something whose project and user nobody knows."""

    def __init__(self, consumer: str) -> None:
        self.consumer = consumer
        super().__init__(f"Consumer {consumer} holds nothing any more; look again at what it should hold")


class MayNotReshape(PlacementError):
    """Placement keeps this one route from administrators."""

    def __init__(self, error: Forbidden) -> None:
        self.error = error
        super().__init__(
            f"{error}; by default only the role 'service' may reshape, and not 'admin': use the credentials "
            "of a service such as nova, or set placement:reshaper:reshape to rule:admin_or_service_api in "
            "placement's policy.yaml"
        )


def read_holdings(client: PlacementClient, uuid: str) -> tuple[Document, Mapping[str, Mapping[str, int]]]:
    """What consumers hold of a provider, after the document that has the provider's generation."""
    document = client.list_provider_allocations(uuid)
    allocations = document["allocations"].items()
    return document, {consumer: dict(entry["resources"]) for consumer, entry in allocations}


def write_holdings(client: PlacementClient, change: Change, generation: int) -> Iterator[int]:
    """Write both; yield the provider's generation after each step.

    Conflict, if the provider or a consumer is not as planned any more.
    """
    client.require(microversion.RESHAPER, "a change of inventories with what is held of them")
    inventories = make_room(change.after)
    consumers, version = _leave_untyped(_describe_consumers(client, change))
    payload = {
        "inventories": {change.uuid: _describe_inventories(inventories, generation)},
        "allocations": consumers,
    }
    _reshape(client, payload, version)
    generation = client.show_provider(change.uuid)["generation"]
    yield generation
    wanted = change.after.inventories or {}
    for name in sorted(wanted):
        if wanted[name] != inventories[name]:
            document = client.set_inventory(change.uuid, name, wanted[name].to_json(), generation)
            generation = document["resource_provider_generation"]
            yield generation


def _leave_untyped(consumers: dict[str, Document]) -> tuple[dict[str, Document], Version | None]:
    """The consumers, and the version in which they can be written as they are; None for the newest.

    From 1.38 on each must be given a type, and nobody knows that of one without; before, all keep theirs.
    """
    if all(consumer.get("consumer_type") != UNKNOWN_TYPE for consumer in consumers.values()):
        return consumers, None
    for consumer in consumers.values():
        del consumer["consumer_type"]
    return consumers, microversion.REPARENTING


def _reshape(client: PlacementClient, payload: Document, version: Version | None) -> None:
    new = [each for each in payload["allocations"].values() if each["consumer_generation"] is None]
    try:
        client.reshape(payload, version)
    except Unconfirmed:
        raise
    except Forbidden as error:
        raise MayNotReshape(error) from error
    except Conflict as conflict:
        if not new or not conflict.concurrent_update:
            raise
        # the reference keeps a consumer that holds nothing after a refused write, and shows it to nobody
        for consumer in new:
            consumer["consumer_generation"] = 0
        client.reshape(payload, version)


def _describe_inventories(inventories: Mapping[str, Inventory], generation: int) -> Document:
    return {
        "inventories": {name: inventory.to_json() for name, inventory in inventories.items()},
        "resource_provider_generation": generation,
    }


def _describe_consumers(client: PlacementClient, change: Change) -> dict[str, Document]:
    before, after = change.before.allocations or {}, change.after.allocations or {}
    changed = sorted(uuid for uuid in {*before, *after} if before.get(uuid, {}) != after.get(uuid, {}))
    described = {}
    for uuid in changed:
        document = client.list_allocations(uuid)
        held = document["allocations"].get(change.uuid, {}).get("resources", {})
        if held == after.get(uuid, {}):  # a run that died had come so far
            continue
        # a deletion of allocations need not move the generation of the provider
        if held != before.get(uuid, {}):
            text = f"what consumer {uuid} holds was changed meanwhile"
            raise Conflict(_CONFLICT, text, document={"code": codes.CONCURRENT_UPDATE})
        described[uuid] = _describe_consumer(client, change, uuid, document)
    return described


def _describe_consumer(
    client: PlacementClient, change: Change, consumer: str, document: Document
) -> Document:
    held = {
        provider: {"resources": entry["resources"]}
        for provider, entry in document["allocations"].items()
        if provider != change.uuid
    }
    amounts = (change.after.allocations or {}).get(consumer, {})
    payload = {
        "allocations": held | ({change.uuid: {"resources": dict(amounts)}} if amounts else {}),
        "consumer_generation": document.get("consumer_generation"),
        **_describe_owner(document, change.after, consumer),
    }
    if client.version >= microversion.CONSUMER_TYPES:
        payload["consumer_type"] = document.get("consumer_type", "INSTANCE")
    return payload


def _describe_owner(document: Document, state: ProviderState, consumer: str) -> Document:
    if "project_id" in document:
        return {"project_id": document["project_id"], "user_id": document["user_id"]}
    if not state.owner:
        raise Ownerless(consumer)
    return dict(text.split("=", 1) for text in state.owner)
