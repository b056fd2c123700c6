# SPDX-License-Identifier: Apache-2.0
"""The values that arguments take, by the metavar that stands for them in usage texts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from osc_placement.completion.names import list_clouds, read_names
from osc_placement.model import INVENTORY_FIELDS, is_uuid

#: the global options of a command line that lead to a cloud, by name; None where no cloud is given
Access = Mapping[str, str] | None
#: gives the values for the text before the cursor; the caller leaves out those that do not begin with it
Offer = Callable[[Access, str], Iterable[str]]


class FilesWanted(Exception):
    """An argument takes the name of a file, which shells complete themselves."""


def _names(kind: str, access: Access, text: str) -> Iterable[str]:
    """Return the names that begin with a text; if there are none, the UUIDs."""
    if access is None:
        return ()
    found = [name for name in read_names(kind, access) if name.startswith(text)]
    return [name for name in found if not is_uuid(name)] or found


def _listed(offer: Offer, access: Access, text: str) -> Iterable[str]:
    """Return the values for the last item of a list with commas."""
    head, comma, last = text.rpartition(",")
    return (head + comma + value for value in offer(access, last))


def _with_amounts(access: Access, text: str) -> Iterable[str]:
    return (f"{name}=" for name in _names("classes", access, text))


def _with_fields(access: Access, text: str) -> Iterable[str]:
    name, colon, _field = text.partition(":")
    if colon:
        return (f"{name}:{field}=" for field in INVENTORY_FIELDS)
    return (f"{name}:" for name in _names("classes", access, text))


def _allocation(access: Access, text: str) -> Iterable[str]:
    """Return the values for ``rp=PROVIDER,CLASS=AMOUNT,...``."""
    if "," in text:
        return _listed(_with_amounts, access, text)
    return (f"rp={name}" for name in _names("providers", access, text.removeprefix("rp=")))


def _to_provider(access: Access, text: str) -> Iterable[str]:
    uuid, equals, name = text.partition("=")
    return (f"{uuid}={name}" for name in _names("providers", access, name)) if equals else ()


def _runs(_access: Access, _text: str) -> Iterable[str]:
    # PERF: 0.1 s to load
    from osc_placement.batch import Journals

    return Journals().list_ids()


def _files(_access: Access, _text: str) -> Iterable[str]:
    raise FilesWanted


_providers: Final = partial(_names, "providers")
_aggregates: Final = partial(_listed, partial(_names, "aggregates"))
_traits: Final = partial(_listed, partial(_names, "traits"))
_classes: Final = partial(_names, "classes")
_amounts: Final = partial(_listed, _with_amounts)

_BY_METAVAR: Final[Mapping[str, Offer]] = {
    "<provider>": _providers,
    "<parent_provider>": _providers,
    "<in_tree>": _providers,
    "provider_uuid": _providers,
    "<uuid>=<provider>": _to_provider,
    "<aggregate>": _aggregates,
    "<aggregate_uuid>": _aggregates,
    "<member_of>": _aggregates,
    "<trait>": _traits,
    "<required>": _traits,
    "<forbidden>": _traits,
    "<class>": _classes,
    "<resource_class>": _classes,
    "resource_class": _classes,
    "<resource_class>=<value>": _amounts,
    "<resource_class>=<amount>": _amounts,
    "<resource_class>=<amount>[,...]": _amounts,
    "<resource_class>=<ratio>": _amounts,
    "<resource_class>:<field>=<value>": _with_fields,
    "<resource_class>:<inventory_field>=<value>": _with_fields,
    "<rp=resource-provider,resource-class=amount>": _allocation,
    "<rp=resource-provider-id,resource-class-name=amount-of-resource-used>": _allocation,
    "<run>": _runs,
    "<cloud>": lambda _access, _text: list_clouds(),
    "<file>": _files,
    "FILE": _files,
    "DIRECTORY": _files,
    "<directory>": _files,
}
#: arguments whose metavar is that of other things as well, by command and name
_BY_ARGUMENT: Final[Mapping[tuple[str, str], Offer]] = {
    ("resource class delete", "name"): _classes,
    ("resource class set", "name"): _classes,
    ("resource class show", "name"): _classes,
    ("resource provider list", "name"): _providers,
    ("resource provider list", "uuid"): _providers,
    ("trait delete", "name"): _traits,
    ("trait show", "name"): _traits,
}
#: how the help text of a provider begins where the metavar is that of UUIDs
_PROVIDER: Final = "Name or UUID of the resource provider"


def find_offer(command: str, action: argparse.Action) -> Offer | None:
    """Return what gives the values of an argument of a command; None if any text may stand there."""
    by_argument = _BY_ARGUMENT.get((command, action.dest))
    if by_argument:
        return by_argument
    if action.metavar == "<uuid>" and (action.help or "").startswith(_PROVIDER):
        return _providers
    return _BY_METAVAR.get(str(action.metavar or action.dest))
