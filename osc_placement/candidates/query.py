# SPDX-License-Identifier: Apache-2.0
"""Query string parameters that choose providers, as values. Pure: text in, frozen values or `BadQuery` out.

The messages of `BadQuery` are those of openstack-placement, because clients show them to their users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from osc_placement import codes, microversion
from osc_placement.microversion import Version
from osc_placement.model import is_uuid


class BadQuery(ValueError):
    """A parameter is malformed or not supported at this microversion; ``code`` is the API's error code."""

    def __init__(self, message: str, code: str = codes.UNDEFINED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Membership:
    """Aggregates a provider has to be in and must not be in.

    :ivar required: of each set, at least one aggregate
    :ivar forbidden: of each set, no aggregate
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: tuple[frozenset[str], ...] = ()

    @property
    def unwanted(self) -> frozenset[str]:
        """Return every aggregate that is forbidden."""
        return frozenset[str]().union(*self.forbidden)

    @property
    def names(self) -> frozenset[str]:
        """Return every aggregate named."""
        return self.unwanted.union(*self.required)


@dataclass(frozen=True, slots=True)
class Traits:
    """Traits a provider has to have and must not have.

    :ivar required: of each set, at least one trait
    :ivar forbidden: of each set, no trait
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: tuple[frozenset[str], ...] = ()

    @property
    def unwanted(self) -> frozenset[str]:
        """Return every trait that is forbidden."""
        return frozenset[str]().union(*self.forbidden)

    @property
    def names(self) -> frozenset[str]:
        """Return every trait named."""
        return self.unwanted.union(*self.required)


def parse_resources(text: str) -> dict[str, int]:
    """Read ``VCPU:2,MEMORY_MB:1024`` into amounts by resource class; of a repeated class the last counts."""
    form = (
        "Badly formed resources parameter. Expected resources query string parameter in form: "
        "?resources=VCPU:2,MEMORY_MB:1024. Got: "
    )
    if not text.strip():
        raise BadQuery(f"{form}empty string.")
    resources = {}
    for item in text.split(","):
        name, colon, amount = item.partition(":")
        if not colon or ":" in amount:
            raise BadQuery(f"{form}{item}.")
        try:
            resources[name] = int(amount)
        except ValueError:
            raise BadQuery(
                f"Requested resource {name} expected positive integer amount. Got: {amount}."
            ) from None
        if resources[name] < 1:
            raise BadQuery(f"Requested resource {name} requires amount >= 1. Got: {resources[name]}.")
    return resources


def parse_membership(values: Sequence[str], version: Version, *, suffix: str = "") -> Membership:
    """Read every value of ``member_of``; each must hold.

    :param suffix: that of the request group, for messages
    """
    if len(values) > 1 and version < microversion.REPEATED_MEMBER_OF:
        raise BadQuery(f"Multiple member_of{suffix} parameters are not supported")
    required: list[frozenset[str]] = []
    forbidden: list[frozenset[str]] = []
    for value in values:
        uuids, negated = _parse_member_of(value)
        if not negated:
            required.append(uuids)
        elif version < microversion.FORBIDDEN_AGGREGATES:
            raise BadQuery(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            forbidden.append(uuids)
    return Membership(tuple(required), tuple(forbidden))


def _parse_member_of(value: str) -> tuple[frozenset[str], bool]:
    """Read ``UUID`` or ``in:UUID,UUID``, and whether a ``!`` stands before it."""
    negated = value.startswith("!")
    body = value[1:] if negated else value
    several = body.startswith("in:")
    if "," in value and not several:
        raise BadQuery(
            "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the "
            f"valid microversion. Got: {value}"
        )
    uuids = frozenset(body[3:].split(",")) if several else frozenset((body,))
    for item in uuids:
        if not is_uuid(item):
            raise BadQuery(
                "Invalid query string parameters: Expected 'member_of' parameter to contain valid UUID(s). "
                f"Got: {item}"
            )
    return uuids, negated


def parse_traits(values: Sequence[str], version: Version) -> Traits:
    """Read every value of ``required``; each must hold. Before 1.39 only the last value is used."""
    if version < microversion.ANY_TRAITS:
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: list[frozenset[str]] = []
    for value in values:
        if value.startswith("in:"):
            required.append(_parse_any_traits(value, version))
        else:
            wanted, unwanted = _parse_all_traits(value, version)
            required.extend(frozenset((name,)) for name in wanted)
            forbidden.extend(frozenset((name,)) for name in unwanted)
    return Traits(tuple(required), tuple(forbidden))


_BAD = "Invalid query string parameters: "


def _parse_any_traits(value: str, version: Version) -> frozenset[str]:
    form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
    if version < microversion.ANY_TRAITS:
        raise BadQuery(f"{_BAD}The format '{form}' only supported since microversion 1.39. Got: {value}")
    names = frozenset(name.strip() for name in value[3:].split(","))
    if not all(names):
        raise BadQuery(
            f"{_BAD}Expected 'required' parameter value of the form: {form}. Got an empty trait in: {value}"
        )
    if any(name.startswith("!") for name in names):
        raise BadQuery(f"{_BAD}The format '{form}' does not support forbidden traits. Got: {value}")
    return names


def _parse_all_traits(value: str, version: Version) -> tuple[list[str], list[str]]:
    allow_forbidden = version >= microversion.FORBIDDEN_TRAITS
    names = [name.strip() for name in value.split(",")]
    forbidden = [name.lstrip("!") for name in names if name.startswith("!")]
    form = "HW_CPU_X86_VMX,!CUSTOM_MAGIC" if allow_forbidden else "HW_CPU_X86_VMX,CUSTOM_MAGIC"
    expected = f"{_BAD}Expected 'required' parameter value of the form: {form}. Got"
    if not all(names) or not all(forbidden):
        raise BadQuery(f"{expected} an empty trait in: {value}")
    if forbidden and not allow_forbidden:
        raise BadQuery(f"{expected}: {value}")
    return [name for name in names if not name.startswith("!")], forbidden
