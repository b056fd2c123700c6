# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate` whose run stops itself: it says why, and its status is neither success nor a signal."""

import pytest

from osc_placement.batch import journal

# what differs between databases is tested with the source
pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)


@pytest.fixture
def full_disk(monkeypatch):
    """Journals are begun, and then nothing can be kept any more."""

    def refuse(_self, _outcome):
        raise journal.JournalError("the journal cannot be written: No space left on device")

    monkeypatch.setattr(journal.Journal, "end", refuse)


def test_mirror_that_halts_is_no_success(cloud, add_host, full_disk, migrate):
    """A service manager learns that it did not end as it is meant to, which is by a signal."""
    add_host("h1")
    cloud.add_aggregate("rack1", ["h1"])
    done = migrate("aggregates", "--follow", "--interval", "0.1")
    assert (done.returncode, done.stderr) == (3, "")
    assert "stopped: the journal cannot be written: No space left on device" in done.stdout
