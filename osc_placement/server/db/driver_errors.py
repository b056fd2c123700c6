# SPDX-License-Identifier: Apache-2.0
"""The meaning of the errors of database drivers: one table of their codes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final


class Kind(enum.Enum):
    """The meaning of an error."""

    #: there is no usable connection, or the server of the database is in trouble
    OUTAGE = enum.auto()
    #: there is no space for a change
    FULL = enum.auto()
    #: the database accepts no changes
    READ_ONLY = enum.auto()
    #: the account has no such privilege on a table or column
    DENIED = enum.auto()
    #: there is no such table
    NO_TABLE = enum.auto()
    #: there is no such column: somebody has changed a table, as upgrades of the schema are checked
    NO_COLUMN = enum.auto()
    #: SQLite gave up waiting for another writer
    BUSY = enum.auto()
    #: the transaction has to be repeated
    LOST_RACE = enum.auto()
    #: it has to be repeated, as another transaction held a lock for longer than this one may wait
    LOCKED = enum.auto()
    #: the database or the connection cannot represent a value
    UNSTORABLE = enum.auto()
    #: texts of different character sets or collations are compared; one of them may be a value
    MIXED_TEXTS = enum.auto()


#: the codes of MariaDB and MySQL are numbers; those of PostgreSQL have five characters, of which two are the
#: class; those of SQLite are the names of its constants
_CODES: Final[Mapping[Kind, tuple[int | str, ...]]] = {
    Kind.OUTAGE: (
        # no connection: too many, refused, unknown database, account locked or without a valid password
        *(1040, 1042, 1043, 1044, 1045, 1049, 1129, 1130, 1203, 1226, 1698, 1820, 1862, 3118, 3159, 4151),
        # the connection or the statement was ended: shutdown, kill, timeout, another node of a cluster
        *(1047, 1053, 1077, 1080, 1152, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161, 1184),
        *(1317, 1927, 1969, 3024, 4031),
        # files, memory and threads of the server
        *(3, 1015, 1016, 1017, 1023, 1024, 1026, 1030, 1034, 1035, 1037, 1038, 1041, 1105, 1135, 1180, 1181),
        *(1194, 1195, 1206, 1637, 1712, 1815),
        # the client's library, with the network; ProxySQL in front of the server
        *(*range(2000, 2100), *range(9000, 9010)),
        # connection, authorization, database, resources, operator, system, corruption
        *("08", "28", "3D", "53", "57", "58", "XX"),
        *("SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_INTERRUPT", "SQLITE_IOERR", "SQLITE_NOMEM"),
        *("SQLITE_NOTADB", "SQLITE_PERM", "SQLITE_PROTOCOL"),
    ),
    # with a quota or the largest size of a file, SQLite fails to write or to truncate
    Kind.FULL: (20, 1021, 1114, "53100", "SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_TRUNCATE"),
    # --read-only and --super-read-only; --innodb-read-only; a read-only transaction or session
    Kind.READ_ONLY: (1290, 1836, 1792, "25006", "SQLITE_READONLY"),
    Kind.DENIED: (1142, 1143, "42501"),
    Kind.NO_TABLE: (1146, "42P01"),
    Kind.NO_COLUMN: (1054, "42703"),
    Kind.BUSY: ("SQLITE_BUSY", "SQLITE_LOCKED"),
    # the first: MariaDB could not take the next id of a table, because others take ids and deadlock
    Kind.LOST_RACE: (1467, 1020, 1213, "40001", "40P01"),
    Kind.LOCKED: (1205, "55P03"),
    Kind.UNSTORABLE: (1264, 1265, 1292, 1300, 1366, 1406, 3854, 3988, "22", "SQLITE_TOOBIG"),
    Kind.MIXED_TEXTS: (1267, 1270, 1271),
}
_KINDS: Final = {code: kind for kind, codes in _CODES.items() for code in codes}
#: the words of SQLite, which has one code for all that is wrong with a statement; names and values come later
_SQLITE_WORDS: Final = {
    "no such table": Kind.NO_TABLE,
    "no such column": Kind.NO_COLUMN,
    "has no column named": Kind.NO_COLUMN,
}
_NO_SPACE: Final = "No space left on device"


def find(error: BaseException) -> BaseException:
    """Return the error of the driver that an error of oslo.db or SQLAlchemy is made of."""
    inner: BaseException = getattr(error, "inner_exception", None) or error
    return getattr(inner, "orig", None) or inner


def classify(error: BaseException) -> Kind | None:
    """Return the meaning of an error of a driver, None if its code is not in the table."""
    if isinstance(error, UnicodeEncodeError):
        return Kind.UNSTORABLE
    code = error.args[0] if error.args else None
    if not isinstance(code, int):
        names = ("sqlstate", "pgcode", "sqlite_errorname")
        code = next((state for name in names if (state := getattr(error, name, None))), None)
    if code is None:
        # the drivers for PostgreSQL have no code for a connection that fails
        is_lost = type(error).__name__ == "OperationalError" and type(error).__module__.startswith("psycopg")
        return Kind.OUTAGE if is_lost else None
    if code == "SQLITE_ERROR":
        found = (kind for words, kind in _SQLITE_WORDS.items() if words in str(error).partition(": ")[0])
        return next(found, None)
    # the code itself, or its class
    keys = (code, code[:2], "_".join(code.split("_")[:2])) if isinstance(code, str) else (code,)
    kind = next((_KINDS[key] for key in keys if key in _KINDS), None)
    return Kind.FULL if kind is Kind.OUTAGE and _NO_SPACE in str(error) else kind
