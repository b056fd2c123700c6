# SPDX-License-Identifier: Apache-2.0
"""The reshaper over HTTP: inventory and its allocations move together."""

from __future__ import annotations

from typing import Any

from osc_placement import codes
from osc_placement.server import errors
from osc_placement.server.api.handlers.allocation import (
    CONSUMER_CHANGED,
    PROVIDER_MISSING,
    UNFIT,
    by_canonical_uuid,
    read_claims,
)
from osc_placement.server.api.handlers.inventory import read_inventories
from osc_placement.server.api.http import Request, no_content
from osc_placement.server.db import reshaper as db
from osc_placement.server.errors import Answer, answering

_ANSWERS = (
    Answer(db.InventoriesOfUnknown, 400, "{error}", codes.PROVIDER_NOT_FOUND),
    Answer(db.Outdated, 409, "{error}", codes.CONCURRENT_UPDATE),
    PROVIDER_MISSING,
    CONSUMER_CHANGED,
    UNFIT,
    Answer(errors.ConcurrentUpdate, 409, "update conflict: {error}", codes.CONCURRENT_UPDATE),
    Answer(errors.NotFound, 400, "malformed reshaper data: {error}"),
    Answer(errors.InventoryInUse, 409, "update conflict: {error}", codes.INVENTORY_IN_USE),
)


def reshape(request: Request, data: Any) -> Any:
    """POST /reshaper."""
    wanted = {
        uuid: db.NewInventories(
            item["resource_provider_generation"],
            read_inventories(item["inventories"]),
        )
        for uuid, item in by_canonical_uuid(data["inventories"]).items()
    }
    with answering(*_ANSWERS):
        request.database.write(db.reshape, wanted, read_claims(request, data["allocations"]))
    return no_content(request)
