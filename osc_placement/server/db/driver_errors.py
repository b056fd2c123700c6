# SPDX-License-Identifier: Apache-2.0
"""How the drivers say what failed."""

from __future__ import annotations

from typing import Final

#: how SQLite and MariaDB say that a table does not exist, and PostgreSQL's code for it
_NO_TABLE: Final = ("no such table", "(1146,")
_PG_NO_TABLE: Final = "42P01"

#: how the databases say that a disk, a quota or a largest size leaves no space
_FULL: Final = (
    "database or disk is full",
    # what SQLite makes of a file that may not grow
    "disk I/O error",
    "(1021,",
    "(1114,",
    "No space left on device",
)

#: PostgreSQL's code for a change in a transaction that may only read, whatever the language of the message
_PG_READ_ONLY: Final = "25006"
_READ_ONLY: Final = (
    "attempt to write a readonly database",
    # --read-only and --super-read-only; --innodb-read-only; a transaction, or a session, that may only read
    "(1290,",
    "(1836,",
    "(1792,",
)


def is_busy(error: BaseException) -> bool:
    """Return whether SQLite gave up waiting for another writer."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def is_table_missing(error: BaseException) -> bool:
    """Return whether an error of a driver says that a table does not exist."""
    return _has_state(error, _PG_NO_TABLE) or str(error).startswith(_NO_TABLE)


def is_full(error: BaseException) -> bool:
    """Return whether the database had no space for what was to be written."""
    return any(words in str(error) for words in _FULL)


def is_read_only(error: BaseException) -> bool:
    """Return whether an error of a driver says that the database refused a change because it takes none."""
    # what follows the beginning of a message may quote a value of a client
    return _has_state(error, _PG_READ_ONLY) or str(error).startswith(_READ_ONLY)


def _has_state(error: BaseException, state: str) -> bool:
    """Return whether a driver for PostgreSQL gives this code to its error, as each does by another name."""
    return state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None))
