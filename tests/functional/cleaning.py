# SPDX-License-Identifier: Apache-2.0
"""Delete what tests made on a server that is there for them only."""


def clear(client):
    """Delete all consumers' allocations, all providers, and all custom traits and resource classes."""
    providers = client.list_providers()
    consumers = {
        consumer
        for provider in providers
        for consumer in client.list_provider_allocations(provider["uuid"])["allocations"]
    }
    for consumer in consumers:
        client.delete_allocations(consumer)
    parents = {provider["uuid"]: provider["parent_provider_uuid"] for provider in providers}
    for provider in sorted(parents, key=lambda provider: _depth_of(provider, parents), reverse=True):
        client.delete_provider(provider)
    for trait in client.list_traits(name="startswith:CUSTOM_"):
        client.delete_trait(trait)
    for resource_class in client.list_resource_classes():
        if resource_class["name"].startswith("CUSTOM_"):
            client.delete_resource_class(resource_class["name"])


def _depth_of(provider, parents):
    """Return how many providers are above this one."""
    parent = parents[provider]
    return 0 if parent is None else 1 + _depth_of(parent, parents)
