# SPDX-License-Identifier: Apache-2.0
"""The distributions that `tools/build` makes of this tree."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[3]
EPOCH = 1_700_000_000


def build(root, directory):
    """Have a tree's own tool build it; the wheel and the source distribution."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)}
    command = ["sh", root / "tools" / "build", directory]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = directory.glob("*.whl")
    (source,) = directory.glob("*.tar.gz")
    assert done.stdout.split() == [str(wheel), str(source)]
    return wheel, source


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The wheel and the source distribution of this tree."""
    return build(ROOT, tmp_path_factory.mktemp("built"))
