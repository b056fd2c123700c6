# SPDX-License-Identifier: Apache-2.0
"""The functions and constants that OpenStackClient looks for in a plugin.

This module is loaded at every start of ``openstack``, whatever the command, so it imports as little as
possible.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from osc_placement import microversion

if TYPE_CHECKING:
    from osc_placement.api.client import PlacementClient

API_NAME = "placement"
API_VERSION_OPTION = "os_placement_api_version"
#: the name that OpenStackClient gives ``--os-placement-timeout`` when it merges options into clouds.yaml
TIMEOUT_SETTING = "placement_timeout"
#: the default, with which the client negotiates the version
DEFAULT_API_VERSION = "1"
API_VERSIONS = dict.fromkeys(
    (DEFAULT_API_VERSION, *map(str, microversion.ALL)), "osc_placement.api.client.PlacementClient"
)


def make_client(instance: Any) -> PlacementClient:
    """Make the client of a command from OpenStackClient's client manager; this sends no request."""
    from osc_placement.api.client import PlacementClient

    version = instance._api_version[API_NAME]
    if version not in API_VERSIONS:
        from osc_lib.exceptions import UnsupportedVersion

        raise UnsupportedVersion(
            f"Invalid {API_NAME} client version '{version}'. must be one of: {', '.join(API_VERSIONS)}"
        )
    return PlacementClient(
        instance.session,
        service_type=API_NAME,
        region_name=instance.region_name,
        interface=instance.interface,
        api_version=version,
        endpoint=instance._cli_options.get_endpoint(API_NAME),
        timeout=instance._cli_options.config.get(TIMEOUT_SETTING),
    )


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the global option that chooses the API version."""
    parser.add_argument(
        "--os-placement-api-version",
        metavar="<placement-api-version>",
        default=os.environ.get("OS_PLACEMENT_API_VERSION") or DEFAULT_API_VERSION,
        help="Version of the placement API to use: one such as 1.25, or 1 for the highest that both sides "
        f"speak (default: {DEFAULT_API_VERSION}; Env: OS_PLACEMENT_API_VERSION)",
    )
    parser.add_argument(
        "--os-placement-timeout",
        metavar="<seconds>",
        type=_read_seconds,
        default=os.environ.get("OS_PLACEMENT_TIMEOUT") or None,
        help="How long to wait for each answer of placement (default: 600; Env: OS_PLACEMENT_TIMEOUT)",
    )
    return parser


def _read_seconds(text: str) -> float:
    from osc_placement.terminal.values import read_seconds

    return read_seconds(text)
