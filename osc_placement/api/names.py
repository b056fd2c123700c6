# SPDX-License-Identifier: Apache-2.0
"""Names of traits and resource classes that the server does not know, and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from osc_placement.errors import BadRequest, PlacementError
from osc_placement.model import CUSTOM_PREFIX

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient

#: placement has no list of aggregates; this one has those of resource providers with inventories
SEE_AGGREGATES: Final = "see the aggregates with: openstack resource provider capacity --by aggregate"
#: how similar a known name must be to be suggested, from 0 to 1
_SIMILARITY: Final = 0.75
#: how many names are suggested in place of one
_MOST: Final = 3
_NUMBER: Final = re.compile(r"[0-9]+")


def suggest(names: Iterable[str], known: Iterable[str]) -> str:
    """Return `` (is it A or B?)`` with the known names that are similar to these; empty if there are none.

    Of a name that up to three others begin with, these are suggested: DISK_GB for DISK.
    """
    import difflib

    known = list(known)
    near: set[str] = set()
    for name in names:
        similar = difflib.get_close_matches(name, known, _MOST, _SIMILARITY)
        longer = [other for other in known if other.startswith(f"{name}_")]
        near.update(similar or (longer if len(longer) <= _MOST else ()))
    return _ask(near)


def suggest_provider(names: Iterable[str], known: Iterable[str]) -> str:
    """Return `` (is it A or B?)`` with the names of providers that are similar to these; empty if none is.

    The number in the name of a host says which it is, so a name with other numbers is not suggested: host01
    and hots1 are similar to host1, and host2 is not. Of a name that others begin with, these are suggested.
    """
    import difflib

    known = list(known)
    numbers: dict[tuple[str, ...], list[str]] = {}
    for name in known:
        numbers.setdefault(_read_numbers(name), []).append(name)
    near: set[str] = set()
    for name in names:
        same = difflib.get_close_matches(name, numbers.get(_read_numbers(name), ()), _MOST, _SIMILARITY)
        near.update(same or sorted(other for other in known if other.startswith(name))[:_MOST])
    return _ask(near)


def _ask(names: Iterable[str]) -> str:
    return f" (is it {' or '.join(sorted(names))}?)" if names else ""


def _read_numbers(name: str) -> tuple[str, ...]:
    """Return the numbers in a name, without leading zeros."""
    return tuple(number.lstrip("0") for number in _NUMBER.findall(name))


class UnknownTraits(PlacementError):
    """The server does not know some traits, which are to be set or, with ``in_query``, are a condition.

    :ivar known: the traits that it knows
    """

    def __init__(self, names: Sequence[str], known: Iterable[str] = (), *, in_query: bool = False) -> None:
        self.names = names
        self.known = tuple(known)
        custom = [name for name in names if name.startswith(CUSTOM_PREFIX)]
        remedy = "see: openstack trait list"
        if not in_query:
            remedy = (
                f"create it first with: openstack trait create {custom[0]}"
                if custom
                else f"only traits that start with {CUSTOM_PREFIX} can be created, {remedy}"
            )
        plural = "s" if len(names) > 1 else ""
        guess = suggest(names, self.known)
        super().__init__(f"The server does not know the trait{plural} {', '.join(names)}{guess}; {remedy}")


class UnknownResourceClass(PlacementError):
    """The server does not know a resource class, which is to be set or, with ``in_query``, is a condition.

    :ivar known: the classes that it knows
    """

    def __init__(self, name: str, known: Iterable[str] = (), *, in_query: bool = False) -> None:
        self.name = name
        self.known = tuple(known)
        remedy = "see: openstack resource class list"
        if not in_query:
            remedy = (
                f"create it first with: openstack resource class create {name}"
                if name.startswith(CUSTOM_PREFIX)
                else f"only those named {CUSTOM_PREFIX}... can be created, {remedy}"
            )
        guess = suggest([name], self.known)
        super().__init__(f"The server does not know the resource class {name}{guess}; {remedy}")


def require_traits(client: PlacementClient, names: Iterable[str], *, in_query: bool = False) -> None:
    """Raise UnknownTraits unless the server knows all of them."""
    wanted = sorted(set(names))
    if not wanted:
        return
    known = set(client.list_traits(name=f"in:{','.join(wanted)}"))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UnknownTraits(unknown, client.list_traits(), in_query=in_query)


def require_classes(client: PlacementClient, names: Iterable[str], *, in_query: bool = False) -> None:
    """Raise UnknownResourceClass unless the server knows all of them."""
    wanted = list(names)
    known = [document["name"] for document in client.list_resource_classes()] if wanted else []
    for name in wanted:
        if name not in known:
            raise UnknownResourceClass(name, known, in_query=in_query)


@contextmanager
def naming_unknown(client: PlacementClient, traits: Iterable[str], classes: Iterable[str]) -> Iterator[None]:
    """Raise UnknownTraits or UnknownResourceClass where the server refuses a query because of such a name.

    The server is asked for names only if it refuses the query, so this costs nothing otherwise.
    """
    try:
        yield
    except BadRequest:
        require_traits(client, traits, in_query=True)
        require_classes(client, classes, in_query=True)
        raise
