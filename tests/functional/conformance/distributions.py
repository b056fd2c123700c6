# SPDX-License-Identifier: Apache-2.0
"""The distributions that images are made of: those of this tree, and openstack-placement."""

import shutil

from benchmarks import environments
from tests.functional.conformance import images

OURS, REFERENCE = "osc-placement-compat", "openstack-placement"
#: where a container has the directory while its image is built
PLACE = "/build"


class Distributions:
    """A directory with the distributions of this tree, and the source of openstack-placement."""

    def __init__(self, directory):
        """Build and download them into a directory.

        :raises environments.NotInstallable: openstack-placement cannot be had
        :raises images.Failed: the build of this tree fails
        """
        images.run(["sh", environments.ROOT / "tools" / "build", directory])
        source = directory / "reference"
        source.mkdir()
        environments.download_source(environments.PINS[0], source).rename(directory / f"{REFERENCE}.tar.gz")
        (compat,) = directory.glob("osc_placement_compat-*.tar.gz")
        compat.rename(directory / f"{OURS}.tar.gz")
        shutil.copy(environments.CONSTRAINTS, directory)
        self.mount = images.Mount(PLACE, directory, read_only=True)

    def get_source(self, name):
        """Return the path that a source distribution has while an image is built."""
        return f"{PLACE}/{name}.tar.gz"

    def install(self, virtual_environment, *requirements):
        """Return the line of a shell that installs requirements into a virtual environment of an image.

        The versions are those that this project is tested with.
        """
        options = f"--no-cache-dir --quiet --find-links {PLACE} --constraint {PLACE}/constraints.txt"
        names = " ".join(f"'{name}'" for name in requirements)
        return f"{virtual_environment}/bin/pip install {options} {names}"
