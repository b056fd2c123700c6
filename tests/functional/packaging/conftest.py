# SPDX-License-Identifier: Apache-2.0
"""The distributions that `tools/build` makes of this tree."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]
EPOCH = 1_700_000_000


def build(root, directory):
    """Have a tree's own tool build it; wheel and source distribution, then those of osc-placement-compat."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = ["sh", root / "tools" / "build", directory]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wheel, compat_wheel = sorted(directory.glob("*.whl"))
    source, compat_source = sorted(directory.glob("*.tar.gz"))
    assert done.stdout.split() == [str(path) for path in (wheel, compat_wheel, source, compat_source)]
    return wheel, source, compat_wheel, compat_source


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The distributions of this tree, see `build`."""
    return build(ROOT, tmp_path_factory.mktemp("built"))
