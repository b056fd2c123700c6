# SPDX-License-Identifier: Apache-2.0
"""Query string parameters that choose providers, as values. Pure: text in, frozen values or `BadQuery` out.

The messages of `BadQuery` are those of openstack-placement, because clients show them to their users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from osc_placement import codes, microversion
from osc_placement.microversion import Version
from osc_placement.model import is_uuid

_BAD: Final = "Invalid query string parameters: "


class BadQuery(ValueError):
    """A parameter is malformed or not supported at this microversion; ``code`` is the API's error code."""

    def __init__(self, message: str, code: str = codes.UNDEFINED) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class _Condition:
    """Names of which a provider has to have some, and must not have others.

    :ivar required: of each set, at least one name
    :ivar forbidden: of each set, no name
    """

    required: tuple[frozenset[str], ...] = ()
    forbidden: tuple[frozenset[str], ...] = ()

    @property
    def unwanted(self) -> frozenset[str]:
        """Return every name that is forbidden."""
        return frozenset[str]().union(*self.forbidden)

    @property
    def names(self) -> frozenset[str]:
        """Return every name."""
        return self.unwanted.union(*self.required)

    def plus(self, other: Self) -> Self:
        """Return the condition that holds where both do."""
        return replace(
            self, required=self.required + other.required, forbidden=self.forbidden + other.forbidden
        )


class Membership(_Condition):
    """Aggregates a provider has to be in and must not be in."""

    __slots__ = ()


class Traits(_Condition):
    """Traits a provider has to have and must not have."""

    __slots__ = ()


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
        # UUID or in:UUID,UUID, after ! if it is forbidden
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
                raise BadQuery(f"{_BAD}Expected 'member_of' parameter to contain valid UUID(s). Got: {item}")
        if not negated:
            required.append(uuids)
        elif version < microversion.FORBIDDEN_AGGREGATES:
            raise BadQuery(
                f"Forbidden member_of{suffix} parameters are not supported in the specified microversion"
            )
        else:
            forbidden.append(uuids)
    return Membership(tuple(required), tuple(forbidden))


def parse_traits(values: Sequence[str], version: Version) -> Traits:
    """Read every value of ``required``; each must hold. Before 1.39 only the last value is used."""
    if version < microversion.ANY_TRAITS:
        values = values[-1:]
    required: list[frozenset[str]] = []
    forbidden: list[frozenset[str]] = []
    for value in values:
        if value.startswith("in:"):
            form = "in:HW_CPU_X86_VMX,CUSTOM_MAGIC"
            if version < microversion.ANY_TRAITS:
                raise BadQuery(
                    f"{_BAD}The format '{form}' only supported since microversion 1.39. Got: {value}"
                )
            any_of = frozenset(name.strip() for name in value[3:].split(","))
            if not all(any_of):
                raise BadQuery(
                    f"{_BAD}Expected 'required' parameter value of the form: {form}. Got an empty trait in: "
                    f"{value}"
                )
            if any(name.startswith("!") for name in any_of):
                raise BadQuery(f"{_BAD}The format '{form}' does not support forbidden traits. Got: {value}")
            required.append(any_of)
            continue
        names = [name.strip() for name in value.split(",")]
        unwanted = [name.lstrip("!") for name in names if name.startswith("!")]
        may_forbid = version >= microversion.FORBIDDEN_TRAITS
        form = f"HW_CPU_X86_VMX,{'!' if may_forbid else ''}CUSTOM_MAGIC"
        expected = f"{_BAD}Expected 'required' parameter value of the form: {form}. Got"
        if not all(names) or not all(unwanted):
            raise BadQuery(f"{expected} an empty trait in: {value}")
        if unwanted and not may_forbid:
            raise BadQuery(f"{expected}: {value}")
        required += [frozenset((name,)) for name in names if not name.startswith("!")]
        forbidden += [frozenset((name,)) for name in unwanted]
    return Traits(tuple(required), tuple(forbidden))
