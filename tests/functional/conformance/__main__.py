# SPDX-License-Identifier: Apache-2.0
"""``tools/conformance``: tests of other projects, run with our server and with openstack-placement."""

import argparse
import pathlib
import sys

from benchmarks import environments
from tests.functional.conformance import deployments, images, nova, openstack_helm


def main(arguments=None):
    """Run, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="tools/conformance",
        description="Run the tests or the start scripts of another project with our server and with "
        "openstack-placement, and compare what comes of them.",
        epilog="Exit status: 0 no difference, 1 differences (printed), 2 nothing could be run.",
    )
    suites = parser.add_subparsers(dest="suite", required=True)
    suite = suites.add_parser(
        "nova",
        help="nova's functional tests",
        description="Run nova's functional tests with both servers side by side; all of them take hours.",
    )
    suite.add_argument(
        "modules",
        metavar="MODULE",
        nargs="*",
        help="a module or a package of nova.tests.functional, such as libvirt.test_vgpu or regressions; of a "
        "package, and by default, all modules that use placement: those with a class of tests that sets up "
        "nova's PlacementFixture, itself or by a class that it inherits from",
    )
    suite.add_argument("--list", action="store_true", help="print the modules, and run nothing")
    suite = suites.add_parser(
        "deployments",
        help="the start scripts of kolla and openstack-helm",
        description="Start openstack-placement with the scripts and the configuration of deployment tools, "
        "exchange the package, start our server with the same scripts, and exchange it back, with MariaDB, "
        "Keystone and memcached. Needs root, overlayfs and debootstrap, and downloads Debian and kolla.",
    )
    suite.add_argument(
        "--openstack-helm",
        metavar="DIRECTORY",
        type=pathlib.Path,
        help="a clone of openstack-helm; without it only kolla's scripts are run",
    )
    suite.add_argument("--mirror", default=images.MIRROR, help="a mirror of Debian (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        if options.suite == "deployments":
            return deployments.run(options.openstack_helm, mirror=options.mirror)
        return nova.run(options.modules, only_list=options.list)
    except (
        nova.NoSuchModule,
        nova.NotLoadable,
        environments.NotInstallable,
        images.NotPossible,
        openstack_helm.NoChart,
    ) as error:
        print(f"tools/conformance: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
