# SPDX-License-Identifier: Apache-2.0
"""Commands that remove traits which they do not name."""

import pytest

from osc_placement.commands import trait
from tests.unit.commands.shell import run
from tests.unit.fake_placement import FakePlacement, error

UUID = "cccccccc-0001-4000-8000-000000000001"
PATH = f"/resource_providers/{UUID}"


@pytest.mark.parametrize(
    ("command", "arguments", "request_"),
    [
        (trait.SetResourceProviderTrait, f"--trait CUSTOM_A {UUID}", f"PUT {PATH}/traits"),
        (trait.DeleteResourceProviderTrait, UUID, f"DELETE {PATH}/traits"),
    ],
)
def test_who_may_not_read_traits_may_write_them_as_before(command, arguments, request_):
    """A policy may permit to write traits and not to read them."""
    fake = FakePlacement().on("GET", PATH, {"uuid": UUID, "name": "host", "generation": 3})
    fake.on("GET", f"{PATH}/traits", error(403, "Forbidden"))
    fake.on("PUT", f"{PATH}/traits", {"traits": ["CUSTOM_A"], "resource_provider_generation": 4})
    fake.on("DELETE", f"{PATH}/traits", (204, ""))
    run(command, fake.client(), arguments)
    assert fake.lines[-1] == request_
