# SPDX-License-Identifier: Apache-2.0
"""`tools/conformance nova` on a small module of nova's, and on one that finds a difference."""

import contextlib
import re
import subprocess
import sys

import pytest

from benchmarks import environments
from tests import databases
from tests.functional.conformance import nova

#: a test of nova's kind that only the reference passes, as only our server has this path
PROBE = """
from nova import test
from nova.tests.functional import fixtures as func_fixtures

class Probe(test.TestCase):
    def test_path_of_ours(self):
        placement = self.useFixture(func_fixtures.PlacementFixture())
        self.assertEqual(404, placement.api.get("/-/healthz").status)
"""


@pytest.fixture(scope="module")
def binaries():
    """The bin directory of the environment of nova's tests."""
    try:
        return environments.make_nova_tests()
    except environments.NotInstallable as error:
        return databases.skip_or_fail(f"nova cannot be installed: {error}")


def test_module_of_nova_passes_with_both_servers(binaries):
    """A test that boots a server and deletes it; placement is asked the same number of times."""
    command = [sys.executable, "-m", "tests.functional.conformance", "nova", "regressions.test_bug_1628606"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[1]
    assert re.fullmatch(
        r"regressions.test_bug_1628606: 1 tests; ours (1 passed, 0 failed, 0 skipped, \d\d requests); "
        r"reference \1; 0 differ",
        line,
    )


def test_difference_between_the_servers_is_found(binaries, tmp_path, monkeypatch, capsys):
    """So what is called ours is our server, and what is called the reference is not."""
    (tmp_path / "nova_probe.py").write_text(PROBE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with contextlib.closing(nova.Pair(binaries / "python", str(tmp_path))) as pair:
        assert nova.report(pair, ["nova_probe"]) == 1
    output = capsys.readouterr().out
    assert "nova_probe.Probe.test_path_of_ours\n    ours: failed\n" in output
    assert "MismatchError: 404 != 200\n    reference: passed\n" in output
