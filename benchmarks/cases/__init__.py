# SPDX-License-Identifier: Apache-2.0
"""The cases, in the order of the table: a new one is a new file and a line here."""

from collections.abc import Callable, Iterator

from benchmarks.case import Case, Scale
from benchmarks.cases import (
    batch_ratio,
    batch_trait,
    claims,
    deployments,
    edits,
    flat,
    headroom,
    hot_provider,
    load,
    memory,
    metrics,
    migrations,
    migrations_ports,
    near_misses,
    nested,
    pages,
    plugin_start,
    production,
    shadow,
    shared,
    start,
    web_layer,
    whole_cloud,
    wide,
)

MAKERS: tuple[Callable[[Scale], Iterator[Case]], ...] = (
    flat.make_cases,
    nested.make_cases,
    wide.make_cases,
    shared.make_cases,
    near_misses.make_cases,
    memory.make_cases,
    metrics.make_cases,
    start.make_cases,
    edits.make_cases,
    web_layer.make_cases,
    claims.make_cases,
    hot_provider.make_cases,
    production.make_cases,
    deployments.make_cases,
    plugin_start.make_cases,
    whole_cloud.make_cases,
    headroom.make_cases,
    pages.make_cases,
    shadow.make_cases,
    batch_ratio.make_cases,
    batch_trait.make_cases,
    load.make_cases,
    migrations.make_cases,
    migrations_ports.make_cases,
)


def make_all(scale: Scale) -> tuple[Case, ...]:
    """Every case at this scale; the names are the same at each."""
    return tuple(case for make in MAKERS for case in make(scale))
