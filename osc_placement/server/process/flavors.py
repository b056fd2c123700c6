# SPDX-License-Identifier: Apache-2.0
"""The number of instances of each flavor that still fit, for the metrics.

The server does not ask nova for flavors. They are in a file, which is read each time, so that a new one is
noticed.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from osc_placement.candidates.fit import count_total
from osc_placement.candidates.flavor import make_groups
from osc_placement.candidates.request import NotCountable
from osc_placement.flavor import flavor_from_listing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from osc_placement.candidates.snapshot import Snapshot
    from osc_placement.flavor import Flavor

LOG = logging.getLogger(__name__)


class FlavorsFile:
    """A file with the output of ``openstack flavor list --all --long -f json``."""

    def __init__(self, path: str) -> None:
        self._path = path
        #: what was wrong last; it is logged once
        self._problems: Sequence[str] = ()

    def count(self, snapshot: Snapshot, classes: Collection[str]) -> list[tuple[str, int]]:
        """Return each flavor's name and how many of its instances still fit, by name.

        Flavors that cannot be counted are left out, or all if the file cannot be read; the log says why.

        :param classes: all resource classes that exist
        """
        problems: list[str] = []
        counts: dict[str, int] = {}
        flavors: list[Flavor] = []
        try:
            flavors = [flavor_from_listing(row) for row in json.loads(Path(self._path).read_bytes())]
        except OSError as error:
            problems.append(f"all flavors, as it cannot be read: {error.strerror}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            problems.append(
                "all flavors, as it is not the output of 'openstack flavor list --all --long -f json': "
                f"{type(error).__name__}: {error}"
            )
        for flavor in flavors:
            try:
                counts[flavor.name] = count_total(snapshot, make_groups(flavor, classes))
            except NotCountable as error:
                problems.append(f"flavor {flavor.name!r} {error}")
        if problems != self._problems:
            for problem in problems:
                LOG.warning("flavors_file %s: left out of the metrics: %s", self._path, problem)
        self._problems = problems
        return sorted(counts.items())
