# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates the slow and plain way: try every choice of providers and keep what obeys the rules.

No index, no order of evaluation, nothing shared with the engine but the values it takes. Each rule is one
function that can be read beside the API's documentation.
"""

from itertools import product

SHARES = "MISC_SHARES_VIA_AGGREGATE"


def candidates(nodes, request):
    """Every candidate, as a set of (amounts by provider and class, providers by group)."""
    cloud = {node.id: node for node in nodes}
    found = set()
    for anchor in (node for node in nodes if node.parent_id is None):
        if not has_traits(anchor, request.root):
            continue
        choices = [list(group_choices(cloud, anchor, group)) for group in request.groups]
        for choice in product(*choices):
            if obeys(cloud, request, choice):
                found.add(describe(cloud, request, choice))
    return found


def summaries(nodes, request, found):
    """The UUIDs of the providers to summarise: those used, with all of their trees if the API knows trees."""
    used = {uuid for lines, _ in found for uuid, _, _ in lines}
    roots = {node.root_id for node in nodes if node.uuid in used}
    return {node.uuid for node in nodes if node.uuid in used or (request.nested and node.root_id in roots)}


def group_choices(cloud, anchor, group):
    """Every way to satisfy one group at an anchor: who provides each class, and all who do."""
    providers = [node for node in cloud.values() if node.root_id == anchor.id or lends(cloud, node, anchor)]
    if group.one_provider:
        for node in providers:
            if may_provide_all(cloud, node, group):
                yield dict.fromkeys(group.resources, node), {node.id}
        return
    options = [
        [node for node in providers if may_provide_some(cloud, node, anchor, group, name)]
        for name in group.resources
    ]
    for chosen in product(*options):
        having = {trait for node in chosen for trait in node.traits}
        if all(any_of & having for any_of in group.traits.required):
            yield dict(zip(group.resources, chosen, strict=True)), {node.id for node in chosen}


def lends(cloud, node, anchor):
    members = [other for other in cloud.values() if other.root_id == anchor.id]
    return SHARES in node.traits and any(set(node.aggregates) & set(other.aggregates) for other in members)


def may_provide_all(cloud, node, group):
    return (
        has_traits(node, group.traits)
        and all(any_of & set(node.aggregates) for any_of in group.membership.required)
        and not_in_aggregates(node, group)
        and in_tree(cloud, node, group)
        and all(has_room(node, name, amount) for name, amount in group.resources.items())
    )


def may_provide_some(cloud, node, anchor, group, name):
    shared = node.root_id != anchor.id
    if shared and (group.in_tree is not None or not in_aggregates(node, group)):
        return False
    return (
        has_room(node, name, group.resources[name])
        and not any(none_of & set(node.traits) for none_of in group.traits.forbidden)
        and (in_aggregates(node, group) or in_aggregates(anchor, group))
        and not_in_aggregates(node, group)
        and not_in_aggregates(anchor, group)
        and in_tree(cloud, node, group)
    )


def in_aggregates(node, group):
    return all(any_of & set(node.aggregates) for any_of in group.membership.required)


def not_in_aggregates(node, group):
    return not any(none_of & set(node.aggregates) for none_of in group.membership.forbidden)


def in_tree(cloud, node, group):
    return group.in_tree is None or group.in_tree in {
        other.uuid for other in cloud.values() if other.root_id == node.root_id
    }


def has_traits(node, traits):
    having = set(node.traits)
    return all(any_of & having for any_of in traits.required) and not any(
        none_of & having for none_of in traits.forbidden
    )


def has_room(node, name, amount):
    stock = node.stocks.get(name)
    if stock is None:
        return False
    inventory = stock.inventory
    return (
        stock.used + amount <= (inventory.total - inventory.reserved) * inventory.allocation_ratio
        and inventory.min_unit <= amount <= inventory.max_unit
        and amount % inventory.step_size == 0
    )


def obeys(cloud, request, choice):
    return (
        fits_together(cloud, request, choice)
        and is_isolated(request, choice)
        and all(is_one_subtree(cloud, request, choice, tie) for tie in request.same_subtrees)
        and (request.nested or takes_once_from_a_tree(cloud, choice))
    )


def amounts(request, choice):
    total = {}
    for group, (by_class, _) in zip(request.groups, choice, strict=True):
        for name, node in by_class.items():
            total[node.id, name] = total.get((node.id, name), 0) + group.resources[name]
    return total


def fits_together(cloud, request, choice):
    for (id_, name), amount in amounts(request, choice).items():
        stock = cloud[id_].stocks[name]
        if stock.used + amount > stock.inventory.capacity or amount > stock.inventory.max_unit:
            return False
    return True


def is_isolated(request, choice):
    named = [ids for group, (_, ids) in zip(request.groups, choice, strict=True) if group.one_provider]
    return not request.isolated or len(set().union(*named)) == len(named)


def is_one_subtree(cloud, request, choice, tie):
    ids = set()
    for group, (_, providers) in zip(request.groups, choice, strict=True):
        if group.suffix in tie:
            ids |= providers
    return any(all(top in ancestors(cloud, id_) for id_ in ids) for top in ids)


def ancestors(cloud, id_):
    line = []
    while id_ is not None:
        line.append(id_)
        id_ = cloud[id_].parent_id
    return line


def takes_once_from_a_tree(cloud, choice):
    ids = {node.id for by_class, _ in choice for node in by_class.values()}
    return len({cloud[id_].root_id for id_ in ids}) == len(ids)


def describe(cloud, request, choice):
    lines = frozenset(
        (cloud[id_].uuid, name, amount) for (id_, name), amount in amounts(request, choice).items()
    )
    mappings = frozenset(
        (group.suffix, frozenset(cloud[id_].uuid for id_ in ids))
        for group, (_, ids) in zip(request.groups, choice, strict=True)
    )
    return lines, mappings
