# SPDX-License-Identifier: Apache-2.0
"""The placement side of a test: what providers have, and what consumers hold."""

from osc_placement import microversion
from osc_placement.model import Inventory
from tests.functional.migrate.cloud import PROJECT, USER

SIZES = {
    "VCPU": Inventory(16, allocation_ratio=4.0),
    "MEMORY_MB": Inventory(65536),
    "DISK_GB": Inventory(1000),
}
#: what an instance of the usual flavor claims
CLAIM = {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 20}


def clear(client):
    """Delete all consumers, in one request, and all providers."""
    consumers = all_held(client)
    if consumers:
        nothing = {
            consumer: {"allocations": {}, "project_id": PROJECT, "user_id": USER} for consumer in consumers
        }
        # a version without consumer generations: requests of a killed command may still be carried out
        client.set_many_allocations(nothing, microversion.POST_ALLOCATIONS)
    records = list(client.read_providers(want=()))
    parents = {record.provider.uuid: record.provider.parent_provider_uuid for record in records}
    # a child is deleted before its parent
    for uuid in sorted(parents, key=lambda uuid: _count_ancestors(uuid, parents), reverse=True):
        client.delete_provider(uuid)


def _count_ancestors(uuid, parents):
    return 1 + _count_ancestors(parents[uuid], parents) if parents[uuid] else 0


def provide(client, providers):
    """Create root providers with what they have, each a tuple of name, UUID, inventories, traits, aggregates.

    Our server does that in one request.
    """
    changes = [
        {
            "name": name,
            "uuid": uuid,
            "resource_provider_generation": None,
            "inventories": {each: inventory.to_json() for each, inventory in inventories.items()},
            "traits": list(traits),
            "aggregates": list(aggregates),
        }
        for name, uuid, inventories, traits, aggregates in providers
    ]
    if client.can_change_many(changes[0]["uuid"]):
        assert all(isinstance(each, int) for each in client.change_many(changes))
        return
    for name, uuid, inventories, traits, aggregates in providers:
        client.create_provider(name, uuid=uuid)
        give(client, uuid, inventories, traits, aggregates)


def give(client, uuid, inventories, traits=(), aggregates=()):
    """Give a provider what it has; a new one, of generation 0, has nothing that would have to go."""
    generation = client.show_provider(uuid)["generation"]
    is_new = generation == 0
    documents = {name: inventory.to_json() for name, inventory in inventories.items()}
    if documents or not is_new:
        generation = client.set_inventories(uuid, documents, generation)["resource_provider_generation"]
    if traits or not is_new:
        generation = client.set_provider_traits(uuid, traits, generation)["resource_provider_generation"]
    if aggregates or not is_new:
        client.set_provider_aggregates(uuid, aggregates, generation)


def hold(client, consumer, claims, generation=None, consumer_type="INSTANCE"):
    """Let a consumer hold resources; one that is given no type is as one from before there were types."""
    payload = _make_payload(claims, generation)
    if consumer_type is None:
        client.set_allocations(consumer, payload, microversion.REPARENTING)
    else:
        client.set_allocations(consumer, payload | {"consumer_type": consumer_type})


def hold_all(client, claims, types):
    """Let many new consumers hold resources, in a request for those with a type and one for those without."""
    untyped = {uuid: _make_payload(claims[uuid]) for uuid in claims if types[uuid] is None}
    client.set_many_allocations(untyped, microversion.REPARENTING)
    typed = claims.keys() - untyped.keys()
    client.set_many_allocations(
        {uuid: _make_payload(claims[uuid]) | {"consumer_type": types[uuid]} for uuid in typed}
    )


def _make_payload(claims, generation=None):
    return {
        "allocations": {uuid: {"resources": amounts} for uuid, amounts in claims.items()},
        "project_id": PROJECT,
        "user_id": USER,
        "consumer_generation": generation,
    }


def held_by(client, consumer):
    """What a consumer holds: amounts by class, by provider."""
    allocations = client.list_allocations(consumer)["allocations"]
    return {uuid: entry["resources"] for uuid, entry in allocations.items()}


def all_held(client):
    """Return what every consumer holds, as `held_by` does of one; read in one request from our server."""
    documents = client.list_consumers()
    if documents is None:
        providers = [record.provider.uuid for record in client.read_providers(want=())]
        return {each.uuid: dict(each.allocations) for each in client.read_consumers(providers)}
    return {
        document["uuid"]: {uuid: entry["resources"] for uuid, entry in document["allocations"].items()}
        for document in documents
    }
