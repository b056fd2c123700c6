# SPDX-License-Identifier: Apache-2.0
"""Repairs of providers: which errors concern one host, and which would meet the next one too."""

import pytest

from osc_placement.batch.journal import JournalError
from osc_placement.batch.reshape import ReshapeRefused
from osc_placement.batch.transaction import NotKnown
from osc_placement.batch.writers.reshape import MayNotReshape
from osc_placement.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    NotFound,
    ServerError,
    Unauthorized,
    UnconfirmedForbidden,
    Unreachable,
)
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.migrate.repair import HostRefused, is_of_one


@pytest.mark.parametrize(
    "error",
    [
        BadRequest(400, "no"),
        NotFound(404, "no"),
        Conflict(409, "no"),
        ReshapeRefused("it does not fit"),
        HostRefused("it is enabled"),
    ],
)
def test_errors_of_one_host_let_the_others_be_repaired(error):
    """The next host need not meet them."""
    assert is_of_one(error)


@pytest.mark.parametrize(
    "error",
    [
        Unauthorized(401, "no"),
        Forbidden(403, "no"),
        UnconfirmedForbidden(403, "no"),
        ServerError(503, "no"),
        MayNotReshape(Forbidden(403, "no")),
        Unreachable("GET", "http://placement.test", "refused"),
        NotKnown(ServerError(503, "no")),
        JournalError("the disk is full"),
        Unreadable("cell cell1", "no answer"),
        OSError("the disk is full"),
    ],
)
def test_errors_of_all_hosts_end_the_command(error):
    """A server that refuses or does not answer does so for the next host too, and so does a full disk."""
    assert not is_of_one(error)
