# SPDX-License-Identifier: Apache-2.0
"""``openstack resource provider allocation move|apply``: several consumers in one transaction."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from osc_placement import microversion, syntax
from osc_placement.api.client import Document, PlacementClient
from osc_placement.api.concurrency import map_in_order
from osc_placement.api.retry import retry
from osc_placement.commands import base
from osc_placement.commands.allocation import SHOW, without
from osc_placement.commands.progress import WriteWatch
from osc_placement.commands.state import STANDARD_STREAM, read_file
from osc_placement.errors import PlacementError, UsageError
from osc_placement.model import UNKNOWN_TYPE, canonical_uuid
from osc_placement.state.document import ConsumerEntry, parse_consumers
from osc_placement.state.text import parse_yaml

COLUMNS = ("consumer", "resource_provider", "resources", "project_id", "user_id", "consumer_type")


class MoveAllocation(base.Lister):
    """Move allocations from one consumer to another, in one transaction: nobody can take the room meanwhile.

    Without ``--provider`` and ``--resource-class`` all that the first consumer has. The second one keeps what
    it has; if it has nothing, it gets the project and user of the first. With ``--allocation`` the first
    consumer gets something else at the same time, as an instance that is migrated does: the migration takes
    over what it has on the source, and it is given room on the destination.

    For example: openstack resource provider allocation move <instance> <migration> --consumer-type MIGRATION
    --allocation rp=destination,VCPU=4,MEMORY_MB=2048
    """

    minimum = microversion.CONSUMER_GENERATIONS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("source", metavar="<consumer_uuid>", help="UUID of the consumer that has it")
        parser.add_argument("target", metavar="<to_consumer_uuid>", help="UUID of the consumer that gets it")
        parser.add_argument(
            "--provider",
            metavar="<resource_provider>",
            action="append",
            default=[],
            help="Move what comes from this provider, given by name or UUID. May be repeated.",
        )
        parser.add_argument(
            "--resource-class",
            metavar="<resource_class>",
            action="append",
            default=[],
            help="Move amounts of this class. May be repeated.",
        )
        parser.add_argument(
            "--allocation",
            metavar="<rp=resource-provider,resource-class=amount>",
            action="append",
            default=[],
            help="What the first consumer gets at the same time. May be repeated.",
        )
        self.add_option(
            parser,
            "--consumer-type",
            metavar="<type>",
            since=microversion.CONSUMER_TYPES,
            help="Type that the second consumer shall have; it keeps its own, or gets that of the first.",
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        parsed_args.allocation = syntax.parse_allocations(parsed_args.allocation)
        if canonical_uuid(parsed_args.source) == canonical_uuid(parsed_args.target):
            raise UsageError("The two consumers are the same")

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        resolve = partial(base.resolve_provider, self.client)
        parsed_args.provider = [resolve(provider) for provider in parsed_args.provider]
        given = syntax.merge_allocations(
            (resolve(provider), amounts) for provider, amounts in parsed_args.allocation
        )
        with WriteWatch(self.app.stderr, f"{SHOW} {parsed_args.target}") as watch:
            payloads = retry(lambda _attempt: self._move(parsed_args, given, watch))
        return COLUMNS, rows_of(payloads)

    def _move(
        self, parsed_args: argparse.Namespace, given: syntax.Allocations, watch: WriteWatch
    ) -> dict[str, Document]:
        source, target = (
            {"consumer_generation": None, **self.client.list_allocations(consumer)}
            for consumer in (parsed_args.source, parsed_args.target)
        )
        had = amounts_of(source)
        kept = amounts_of(
            {"allocations": without(source["allocations"], parsed_args.provider, parsed_args.resource_class)}
        )
        moved = subtract(had, kept)
        if not moved:
            raise PlacementError(f"Consumer {parsed_args.source} has nothing of what is to be moved")
        owner: Document = {
            key: source[key] for key in ("project_id", "user_id", "consumer_type") if key in source
        }
        target = {**owner, **target}
        if parsed_args.consumer_type:
            target["consumer_type"] = parsed_args.consumer_type
        payloads = {
            parsed_args.source: {**source, "allocations": to_body(add(kept, given))},
            parsed_args.target: {**target, "allocations": to_body(add(amounts_of(target), moved))},
        }
        watch.begin()
        write_consumers(self.client, payloads, types_matter=bool(parsed_args.consumer_type))
        return payloads


class ApplyAllocations(base.Lister):
    """Make the allocations of several consumers what a file says, all in one transaction or none.

    The file is YAML or JSON, its ``allocations`` as ``resource provider export`` writes them: a list of
    ``consumer``, ``project``, ``user``, ``type`` (from {CONSUMER_TYPES}, may be left out) and ``resources``,
    which are amounts by class, by name or UUID of a provider; ``{}`` takes all from the consumer. What a
    consumer has and the file does not say is taken away; other consumers are left alone.
    """

    minimum = microversion.CONSUMER_GENERATIONS

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--file", metavar="<file>", required=True, help="File to read; - for standard input"
        )
        return parser

    def read_arguments(self, parsed_args: argparse.Namespace) -> None:
        source = "standard input" if parsed_args.file == STANDARD_STREAM else parsed_args.file
        parsed_args.consumers = parse_yaml(read_file(parsed_args.file, source), source, parse_consumers)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Any, Any]:
        entries: Sequence[ConsumerEntry] = parsed_args.consumers
        if any(entry.type for entry in entries):
            self.client.require(microversion.CONSUMER_TYPES, "type")
        names = sorted({provider for entry in entries for provider in entry.resources})
        found = map_in_order(partial(base.resolve_provider, self.client), names)
        uuids = dict(zip(names, found, strict=True))
        for entry in entries:
            check_providers_once(entry, uuids)
        shown = entries[0].uuid if entries else "CONSUMER"
        with WriteWatch(self.app.stderr, f"{SHOW} {shown}") as watch:
            payloads = retry(lambda _attempt: self._apply(entries, uuids, watch))
        return COLUMNS, rows_of(payloads)

    def _apply(
        self, entries: Sequence[ConsumerEntry], uuids: Mapping[str, str], watch: WriteWatch
    ) -> dict[str, Document]:
        current = map_in_order(lambda entry: self.client.list_allocations(entry.uuid), entries)
        payloads = {
            entry.uuid: {
                "allocations": {
                    uuids[provider]: {"resources": dict(amounts)}
                    for provider, amounts in entry.resources.items()
                },
                "project_id": entry.project,
                "user_id": entry.user,
                "consumer_generation": document.get("consumer_generation"),
                "consumer_type": entry.type or document.get("consumer_type", UNKNOWN_TYPE),
            }
            for entry, document in zip(entries, current, strict=True)
        }
        watch.begin()
        write_consumers(self.client, payloads, types_matter=any(entry.type for entry in entries))
        return payloads


def check_providers_once(entry: ConsumerEntry, uuids: Mapping[str, str]) -> None:
    """Raise UsageError at a provider that a consumer has by its name and by its UUID, or two spellings."""
    names: dict[str, str] = {}
    for name in entry.resources:
        if other := names.get(uuids[name]):
            raise UsageError(
                f"Consumer {entry.uuid} has resources of {other!r} and of {name!r}, "
                "which are the same resource provider"
            )
        names[uuids[name]] = name


# amounts by class, by UUID of a provider


def amounts_of(document: Document) -> dict[str, Counter[str]]:
    """What a document of allocations says."""
    return {provider: Counter(item["resources"]) for provider, item in document["allocations"].items()}


def add(
    first: Mapping[str, Counter[str]], second: Mapping[str, Mapping[str, int]]
) -> dict[str, Counter[str]]:
    """Both together."""
    return {
        provider: first.get(provider, Counter()) + Counter(second.get(provider, {}))
        for provider in dict.fromkeys([*first, *second])
    }


def subtract(
    first: Mapping[str, Counter[str]], second: Mapping[str, Counter[str]]
) -> dict[str, Counter[str]]:
    """What the first has and the second has not."""
    left = {provider: amounts - second.get(provider, Counter()) for provider, amounts in first.items()}
    return {provider: amounts for provider, amounts in left.items() if amounts}


def to_body(amounts: Mapping[str, Counter[str]]) -> Document:
    """The allocations as the API takes them."""
    return {provider: {"resources": dict(of_classes)} for provider, of_classes in amounts.items()}


def write_consumers(client: PlacementClient, payloads: Mapping[str, Document], *, types_matter: bool) -> None:
    """Write several consumers in one transaction; in an older version if one of them has no type.

    From 1.38 on each must have one. Before, those that have one keep it, and none can be given one: if
    somebody asked for that, it is an error.
    """
    untyped_consumers = [
        consumer
        for consumer, payload in payloads.items()
        if payload.get("consumer_type", UNKNOWN_TYPE) == UNKNOWN_TYPE
    ]
    if untyped_consumers and types_matter:
        raise PlacementError(
            f"Consumer {untyped_consumers[0]} has no type, and one request cannot write it together with "
            "consumers that are given one; give it a type too (openstack resource provider allocation set "
            "--amend --consumer-type), or none to the others"
        )
    if not untyped_consumers and client.version >= microversion.CONSUMER_TYPES:
        client.set_many_allocations(payloads)
        return
    untyped = {
        consumer: {key: value for key, value in payload.items() if key != "consumer_type"}
        for consumer, payload in payloads.items()
    }
    client.set_many_allocations(untyped, min(client.version, microversion.REPARENTING))


def rows_of(payloads: Mapping[str, Document]) -> list[tuple[Any, ...]]:
    """A row for each provider of each consumer that has something."""
    return [
        (
            consumer,
            provider,
            item["resources"],
            payload["project_id"],
            payload["user_id"],
            payload.get("consumer_type", UNKNOWN_TYPE),
        )
        for consumer, payload in payloads.items()
        for provider, item in payload["allocations"].items()
    ]
