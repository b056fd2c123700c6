# SPDX-License-Identifier: Apache-2.0
"""Requests made of the OpenAPI description: those that fit it, and those that nearly do."""

import json

import hypothesis
import pytest

from tests import databases
from tests.functional import servers
from tests.reliability import openapi
from tests.reliability.profile import EXAMPLES, PROFILE

try:
    import schemathesis
except ImportError:
    databases.skip_or_fail("schemathesis is not installed (extra 'fuzz')", allow_module_level=True)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server on SQLite, which has something to find, and complains of nothing."""
    with servers.running(tmp_path_factory.mktemp("fuzz"), "--workers", 1) as server:
        yield server.url


DESCRIPTION = schemathesis.openapi.from_dict(json.loads(openapi.FILE.read_text()))
HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": "placement 1.39",
}


@DESCRIPTION.parametrize()
@hypothesis.settings(PROFILE, max_examples=max(10, EXAMPLES // 6))
def test_no_request_is_answered_with_500(url, case):
    """Made of the description: what fits it, and what nearly does."""
    response = case.call(base_url=url, headers=HEADERS)
    if any(name.lower() == "transfer-encoding" for name in case.headers or ()):
        # the answer to a transfer coding that is not known, by RFC 9112
        assert response.status_code < 500 or response.status_code == 501, response.text
    else:
        assert response.status_code < 500, response.text
