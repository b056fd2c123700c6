# SPDX-License-Identifier: Apache-2.0
"""The parameter that selects resource providers, and a provider as a result of a module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ansible_collections.osc_placement.placement.plugins.module_utils.session import Cloud, Failed, importing

with importing():
    from osc_placement import syntax
    from osc_placement.batch import Selection

SELECT: Final[Mapping[str, Any]] = {
    "type": "dict",
    "options": {
        "all": {"type": "bool", "default": False},
        "providers": {"type": "list", "elements": "str"},
        "name": {"type": "str"},
        "aggregates": {"type": "list", "elements": "str", "aliases": ["aggregate", "member_of"]},
        "in_tree": {"type": "str"},
        "required": {"type": "list", "elements": "str"},
        "forbidden": {"type": "list", "elements": "str"},
        "resources": {"type": "dict"},
    },
}


def make_selection(cloud: Cloud, given: Mapping[str, Any]) -> Selection:
    """Return the selection of the parameter ``select``; raise a PlacementError or Failed if it is none."""
    refuse_empty({f"select.{name}": value for name, value in given.items() if name != "providers"})
    if not any(value is not None and value is not False for value in given.values()):
        raise Failed("select: it has no condition; nothing was changed. all: true selects all there are")
    in_tree = given["in_tree"]
    providers = given["providers"]
    return Selection(
        aggregates=tuple(cloud.resolve_aggregates(given["aggregates"] or [])),
        in_tree=None if in_tree is None else cloud.require_provider(in_tree, "in_tree")["uuid"],
        required=tuple(given["required"] or ()),
        forbidden=tuple(given["forbidden"] or ()),
        resources=syntax.parse_amounts(join_pairs(given["resources"] or {})) or None,
        name=given["name"],
        providers=None if providers is None else tuple(providers),
        everything=given["all"],
    )


def refuse_empty(conditions: Mapping[str, Any]) -> None:
    """Raise Failed if a condition is given and empty, as it would select more than somebody meant."""
    for name, value in conditions.items():
        if value in ("", [], {}):
            raise Failed(f"{name}: it is empty; nothing was changed. Give a value, or leave it out with omit")


def join_pairs(values: Mapping[str, Any]) -> list[str]:
    """Return values by name in the syntax of the command line, whose reader checks them."""
    return [f"{name}={value}" for name, value in values.items()]


def describe_provider(record: Any) -> dict[str, Any]:
    """Return a provider with all it has, as results of modules show it."""
    provider = record.provider
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "generation": provider.generation,
        "parent_provider_uuid": provider.parent_provider_uuid,
        "root_provider_uuid": provider.root_provider_uuid,
        **describe_state(record),
        "usages": dict(record.usages or {}),
    }


def describe_state(state: Any) -> dict[str, Any]:
    """Return those of inventories, traits and aggregates that a state or record has."""
    described: dict[str, Any] = {}
    if state.inventories is not None:
        described["inventories"] = {
            name: inventory.to_json() for name, inventory in sorted(state.inventories.items())
        }
    for part in ("traits", "aggregates"):
        names = getattr(state, part)
        if names is not None:
            described[part] = sorted(names)
    return described
