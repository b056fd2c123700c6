# SPDX-License-Identifier: Apache-2.0
"""The moves of a reshape, read from a command line or a file."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from osc_placement import syntax
from osc_placement.errors import UsageError
from osc_placement.model import canonical_uuid, is_uuid
from osc_placement.state.document import parse_amounts
from osc_placement.state.node import Node, read_field
from osc_placement.state.text import parse_yaml


@dataclass
class Instruction:
    """One move in the making: source, target and amounts, filled in as options are read."""

    source: str
    target: str | None = None
    resources: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NamedMove:
    """A move between providers, which are given by name or UUID."""

    source: str
    target: str
    resource_class: str
    amount: int


class MoveAction(argparse.Action):
    """The action of ``--from``, ``--to`` and ``--resource``, each of which belongs to the one before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        instructions: list[Instruction] = vars(namespace).setdefault("instructions", [])
        text = str(values)
        if self.dest == "source":
            instructions.append(Instruction(text))
        elif not instructions:
            parser.error(f"{option_string} must come after --from")
        elif self.dest == "resources":
            instructions[-1].resources.append(text)
        elif instructions[-1].target is None:
            instructions[-1].target = text
        else:
            instructions.append(Instruction(instructions[-1].source, text))


def read_instructions(instructions: Iterable[Instruction]) -> list[NamedMove]:
    """Return the moves of the options."""
    moves = []
    for instruction in instructions:
        if not instruction.target or not instruction.resources:
            missing = "--resource" if instruction.target else "--to"
            raise UsageError(f"--from {instruction.source} needs {missing}")
        for text in instruction.resources:
            name, separator, number = text.partition("=")
            if not (separator and syntax.NAME.fullmatch(name)):
                raise UsageError(f"--resource must be of the form VGPU=4, not {text!r}")
            amount = syntax.parse_amount(name, number)
            if amount < 1:
                raise UsageError(f"Amount of {name} must be at least 1, not {number}")
            moves.append(NamedMove(instruction.source, instruction.target, name, amount))
    return moves


def read_moves(text: str, source: str) -> list[NamedMove]:
    """Read the moves of a file, YAML or JSON; ``source`` names it in errors."""
    return parse_yaml(text, source, _parse_moves)


def _parse_moves(plain: Any) -> list[NamedMove]:
    root = Node(plain)
    if root.value == []:
        root.fail("there are no moves in it")
    moves = root.attempt(lambda node: node.each(_parse_move), [])
    root.finish()
    return list(itertools.chain.from_iterable(moves))


def _parse_move(item: Node) -> list[NamedMove]:
    keys = ("from_resource_provider", "to_resource_provider", "moved_resources")
    fields = item.fields(keys, required=keys)
    source, target = (read_field(fields, key, Node.text, "") for key in keys[:2])
    resources = read_field(fields, keys[2], lambda node: node.each(parse_amounts), [])
    return [
        NamedMove(source, target, name, amount) for amounts in resources for name, amount in amounts.items()
    ]


def read_pins(texts: Iterable[str]) -> dict[str, str]:
    """Read ``--consumer UUID=PROVIDER``; raise UsageError if a consumer is given twice."""
    pins: dict[str, str] = {}
    for text in texts:
        consumer, separator, provider = text.partition("=")
        if not (separator and provider and is_uuid(consumer)):
            raise UsageError(f"--consumer must be of the form UUID=PROVIDER, not {text!r}")
        if canonical_uuid(consumer) in pins:
            raise UsageError(f"Consumer {consumer} is given twice")
        pins[canonical_uuid(consumer)] = provider
    return pins
