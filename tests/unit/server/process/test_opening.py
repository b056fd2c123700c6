# SPDX-License-Identifier: Apache-2.0
"""What is said of a database that cannot be used."""

import os
import sqlite3

import pytest
from oslo_db import exception as db_exc

from osc_placement.server.db.engine import Database
from osc_placement.server.process.opening import CannotRun, using
from osc_placement.server.testing import make_conf


@pytest.mark.parametrize(
    ("reason", "blocked", "told"),
    [
        ("unable to open database file", ".", ": {} is not writable; --database names another database"),
        ("attempt to write a readonly database", "p.db", ": {} is not writable; --database names another"),
        ("database is locked", ".", "database is locked"),
    ],
)
def test_file_that_cannot_be_written_is_named(tmp_path, monkeypatch, reason, blocked, told):
    """SQLite names neither the file nor its directory, which is the working directory if none was named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.db").touch()
    is_allowed = os.access
    denied = tmp_path / blocked
    monkeypatch.setattr(os, "access", lambda path, mode: path != denied and is_allowed(path, mode))
    database = Database.from_conf(make_conf("sqlite:///p.db"))
    with pytest.raises(CannotRun) as caught, using(database):
        raise db_exc.DBError() from sqlite3.OperationalError(reason)
    assert str(caught.value).startswith("Cannot use the database sqlite:///p.db: ")
    assert told.format(denied) in str(caught.value)
    assert ("not writable" in str(caught.value)) == ("not writable" in told)
