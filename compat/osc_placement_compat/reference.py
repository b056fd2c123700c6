# SPDX-License-Identifier: Apache-2.0
"""The check that openstack-placement is not installed beside this distribution.

Both own the import package ``placement``. Metadata cannot express that: pip installs one over the other, and
removing one then removes files of the other.
"""

from importlib import metadata


class InstalledToo(ImportError):
    """openstack-placement is installed too; the text says what to do."""


def refuse() -> None:
    """Raise `InstalledToo` if openstack-placement is installed."""
    try:
        version = metadata.version("openstack-placement")
    except metadata.PackageNotFoundError:
        return
    raise InstalledToo(
        f"osc-placement-compat cannot be used beside openstack-placement {version}, because both install the "
        "package 'placement': run 'pip uninstall openstack-placement osc-placement-compat', then install the "
        "one that is to serve"
    )
