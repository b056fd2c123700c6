# SPDX-License-Identifier: Apache-2.0
"""The classification of the errors of database drivers."""

from __future__ import annotations

from typing import Final

#: the messages of SQLite and MariaDB for a missing table, and PostgreSQL's code for it
_NO_TABLE: Final = ("no such table", "(1146,")
_PG_NO_TABLE: Final = "42P01"

#: MariaDB's codes for a missing privilege on a table and on a column, and PostgreSQL's for both
_DENIED: Final = ("(1142,", "(1143,")
_PG_DENIED: Final = "42501"

#: the messages for a disk, quota or maximum size that leaves no space
_FULL: Final = (
    "database or disk is full",
    # SQLite's message if the file may not grow
    "disk I/O error",
    "(1021,",
    "(1114,",
    "No space left on device",
)

#: PostgreSQL's code for a change in a read-only transaction; the language of the message varies
_PG_READ_ONLY: Final = "25006"
_READ_ONLY: Final = (
    "attempt to write a readonly database",
    # --read-only and --super-read-only; --innodb-read-only; a read-only transaction or session
    "(1290,",
    "(1836,",
    "(1792,",
)


def find(error: BaseException) -> BaseException:
    """Return the error of the driver that an error of oslo.db or SQLAlchemy is made of."""
    inner: BaseException = getattr(error, "inner_exception", None) or error
    return getattr(inner, "orig", None) or inner


def is_lost_race(error: BaseException) -> bool:
    """Return whether MariaDB could not take the next id of a table, because others take ids and deadlock."""
    return str(error).startswith("(1467,")


def is_busy(error: BaseException) -> bool:
    """Return whether SQLite gave up waiting for another writer."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def is_table_missing(error: BaseException) -> bool:
    """Return whether an error of a driver says that a table does not exist."""
    return _has_state(error, _PG_NO_TABLE) or str(error).startswith(_NO_TABLE)


def is_full(error: BaseException) -> bool:
    """Return whether the database had no space for a change."""
    return any(words in str(error) for words in _FULL)


def is_read_only(error: BaseException) -> bool:
    """Return whether an error of a driver says that the database refused a change because it is read-only."""
    # only the beginning of the message counts, as the rest may quote a value of a client
    return _has_state(error, _PG_READ_ONLY) or str(error).startswith(_READ_ONLY)


def is_denied(error: BaseException) -> bool:
    """Return whether an error of a driver says that the account has no such privilege on a table."""
    return _has_state(error, _PG_DENIED) or str(error).startswith(_DENIED)


def _has_state(error: BaseException, state: str) -> bool:
    """Return whether an error has this code of PostgreSQL, under whichever name the driver gives it."""
    return state in (getattr(error, "sqlstate", None), getattr(error, "pgcode", None))
