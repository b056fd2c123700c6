# SPDX-License-Identifier: Apache-2.0
"""What nova asks of neutron for instances without networks: lists, and all of them are empty."""

import json


def application(environ, start_response):
    """Answer with the empty list that the path names, such as that of ports."""
    name = environ["PATH_INFO"].rstrip("/").rpartition("/")[2].removesuffix(".json").replace("-", "_")
    body = json.dumps({name: []}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
