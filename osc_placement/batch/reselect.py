# SPDX-License-Identifier: Apache-2.0
"""Check before providers are written that they still meet the selection."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from osc_placement.api.names import naming_unknown
from osc_placement.errors import PlacementError
from osc_placement.model import Provider

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient
    from osc_placement.batch.plan import Change, Reading
    from osc_placement.batch.selection import Selection

#: seconds for which a list of those selected holds; ten times what it takes to read it, if that is more
MAX_AGE: Final = 1.0
_TIMES: Final = 10


class NotSelected(PlacementError):
    """A provider left the selection since it was planned."""


class Reselection:
    """Judges the selection of a run again; for any number of threads.

    Before a first write the provider must be in a list of all that are selected, which is at most MAX_AGE
    old. What is written then is compared with the generation that was planned on: whoever changes
    inventories, traits, allocations or, from microversion 1.19 on, aggregates after the list was read makes
    the write a conflict. After a conflict the provider is read, then judged by itself, and then written with
    the generation that was read, so that in between these cannot change either. Names, parents and aggregates
    that are set before 1.19 change no generation: of these, what happened since the list, or between the
    judgement and the write, is not seen.

    No request is made for a selection that nothing leaves: all there are, or only UUIDs.
    """

    def __init__(self, client: PlacementClient, selection: Selection | None) -> None:
        self._client = client
        self._selection = selection if selection is not None and selection.can_be_left else None
        self._lock = threading.Lock()
        self._listed: frozenset[str] = frozenset()
        self._expires = 0.0

    def find_left(self, changes: Iterable[Change], *, anew: bool = False) -> dict[str, str]:
        """Return by UUID why some are not selected any more, as a list says that is recent, or read ``anew``.

        One that is there no more is not among them: its write fails, and tells.
        """
        if self._selection is None:
            return {}
        listed = self._list(self._selection, anew=anew)
        missing = [change.uuid for change in changes if change.uuid not in listed]
        return {uuid: reason for uuid in missing if (reason := self._ask(self._selection, uuid))}

    def find_left_of(self, found: Iterable[Reading]) -> dict[str, str]:
        """Return by UUID why some providers are not selected any more, by one request.

        :param found: the providers as they were just read, so that none of them is asked for by itself
        """
        if self._selection is None:
            return {}
        with naming_unknown(self._client, self._selection.traits, self._selection.resources or ()):
            listed = self._list(self._selection, anew=True)
        missing = [each for each in found if each.state is not None and each.subject.uuid not in listed]
        return {each.subject.uuid: self._selection.describe_left() for each in missing}

    def prepare(self) -> None:
        """Read the list, if it can be read, so that a first write need not wait for it under a rate."""
        if self._selection is not None:
            with contextlib.suppress(Exception):  # whoever needs it reads it again, and tells
                self._list(self._selection, anew=False)

    def require(self, change: Change) -> None:
        """Raise NotSelected if a provider, asked for by itself, is not selected any more."""
        reason = self._ask(self._selection, change.uuid) if self._selection is not None else ""
        if reason:
            raise NotSelected(reason)

    def _list(self, selection: Selection, *, anew: bool) -> frozenset[str]:
        with self._lock:
            began = time.monotonic()
            if anew or began >= self._expires:
                self._listed = frozenset(provider.uuid for provider in self._choose(selection))
                self._expires = began + max(MAX_AGE, _TIMES * (time.monotonic() - began))
            return self._listed

    def _choose(self, selection: Selection, uuid: str | None = None) -> list[Provider]:
        documents = self._client.list_providers(uuid=uuid, **selection.filters)
        return selection.choose([Provider.from_json(document) for document in documents])

    def _ask(self, selection: Selection, uuid: str) -> str:
        is_left = not self._choose(selection, uuid) and self._client.list_providers(uuid=uuid)
        return selection.describe_left() if is_left else ""
