# SPDX-License-Identifier: Apache-2.0
"""``tools/cloud``: a control plane of nova on our server, to try things with a real scheduler."""

import argparse
import sys
import time

import pytest

from benchmarks import environments
from tests.reliability.cloud import plane


def main(arguments=None):
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="tools/cloud",
        description="Keystone, glance and nova with computes that run nothing, on our server, on loopback, "
        "with MariaDB and RabbitMQ of this machine, where rabbitmqctl must be allowed.",
        epilog="Exit status: 0 done, 1 not, in one line; of status, 1 if not all is running.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verb = verbs.add_parser("up", help="bring it up")
    verb.add_argument("--computes", metavar="NUMBER", type=_parse_computes, default=3, help="(default: 3)")
    verb.add_argument(
        "--vcpus", metavar="NUMBER", type=_parse_number, default=1000, help="of each (default: 1000)"
    )
    verb.add_argument(
        "--openstack-placement", action="store_true", help="openstack-placement, not our server"
    )
    verbs.add_parser("down", help="take it away, but for the environments in .cache")
    verbs.add_parser("status", help="what is running, where the logs are, whether placement answers")
    options = parser.parse_args(arguments)
    try:
        return _run(options)
    except (plane.NotPossible, environments.NotInstallable, pytest.skip.Exception) as error:
        print(f"tools/cloud: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("tools/cloud: interrupted; what there is goes with: tools/cloud down", file=sys.stderr)
    return 1


def _parse_computes(text):
    return _parse_number(text, 20)


def _parse_number(text, most=1000):
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is no number from 1 to {most}")
    return int(text)


def _run(options):
    if options.verb == "down":
        plane.down()
        return 0
    if options.verb == "status":
        lines, is_well = plane.describe()
        print("\n".join(lines))
        return 0 if is_well else 1
    began = time.monotonic()
    plane.up(computes=options.computes, vcpus=options.vcpus, is_reference=options.openstack_placement)
    print(f"up in {time.monotonic() - began:.0f} s; now: . {plane.PLACE}/openrc")
    return 0


if __name__ == "__main__":
    sys.exit(main())
