# SPDX-License-Identifier: Apache-2.0
"""The configuration, policy and database of a service, or one line that explains why they cannot be used."""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc

from osc_placement.package import explain_setting, how_to_install_driver
from osc_placement.server import conf as configuration
from osc_placement.server.db.engine import Database
from osc_placement.server.db.upgrade import SchemaError
from osc_placement.server.errors import PlacementError
from osc_placement.server.policy import Policy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOG = logging.getLogger(__name__)

#: the file to create in the working directory if no database is named
DEFAULT_DATABASE = "sqlite:///placement.db"


class CannotRun(Exception):
    """An error of the machine or the command line; the text says what is wrong, and what to do."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a command's configuration; a database named here replaces the configured one."""

    config_files: Sequence[str] | None = None
    config_dirs: Sequence[str] | None = None
    database: str | None = None

    @property
    def is_configured(self) -> bool:
        """Return whether the caller names a configuration."""
        return bool(self.config_files or self.config_dirs or configuration.named_config_dir())


def read_configuration(sources: Sources) -> cfg.ConfigOpts:
    """Return the operator's configuration; it or the command line has to name the database.

    :raises CannotRun: it cannot be read, or names no database
    """
    conf = _prepare(sources)
    with _parsing():
        configuration.parse(conf, config_files=sources.config_files, config_dirs=sources.config_dirs)
    return conf


def improvise_configuration(sources: Sources) -> cfg.ConfigOpts:
    """Return the configuration without a file: a SQLite file, created if needed, and no authentication.

    :raises CannotRun: a variable of the environment has an invalid value
    """
    conf = _prepare(sources)
    conf.set_default("connection", DEFAULT_DATABASE, group="placement_database")
    conf.set_default("sync_on_startup", True, group="placement_database")
    conf.set_default("auth_strategy", "noauth2", group="api")
    with _parsing():
        configuration.parse(conf, config_files=[], config_dirs=[])
    return conf


@contextmanager
def _parsing() -> Iterator[None]:
    try:
        yield
    except cfg.RequiredOptError as error:
        raise CannotRun(
            f"No database is named: say --database URL, such as {DEFAULT_DATABASE}, or give a placement.conf "
            "that has 'connection' in [placement_database] with --config-file"
        ) from error
    except cfg.Error as error:
        raise CannotRun(in_one_line(error)) from error
    except Exception as error:  # such as the error for a file that is not text
        raise CannotRun(f"The configuration cannot be read: {in_one_line(error)}") from error


def _prepare(sources: Sources) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    if sources.database is not None:
        conf.set_override("connection", sources.database, group="placement_database")
    return conf


def check_policy(conf: cfg.ConfigOpts) -> None:
    """Read the policy files; :raises CannotRun: there is an error in one of them."""
    try:
        Policy(conf).load()
    except Exception as error:  # any error of oslo.policy about a text
        name = conf.oslo_policy.policy_file
        raise CannotRun(f"The policy, {name}, cannot be read: {in_one_line(error)}") from error


def open_database(conf: cfg.ConfigOpts, *, create: bool = True, read_only: bool = False) -> Database:
    """Return the configured database without connecting to it.

    :param create: whether a missing SQLite file will be created
    :param read_only: whether the database is told to refuse changes
    :raises CannotRun: its URL is malformed, or names a database, driver or file that does not exist
    """
    try:
        database = Database.from_conf(conf, read_only=read_only)
    except sa.exc.NoSuchModuleError as error:
        raise CannotRun(f"There is no such kind of database: {_reason(error)}; {_URLS}") from error
    except sa.exc.ArgumentError as error:
        raise CannotRun(f"The database URL cannot be read; {_URLS}") from error
    except ImportError as error:
        url = sa.make_url(conf.placement_database.connection)
        remedy = how_to_install_driver(url.get_backend_name(), url.get_driver_name())
        raise CannotRun(f"The driver for the database is not installed: {error}; {remedy}") from error
    path = database.dialect.find_file(database.url)
    if path is not None and not create and not path.exists():
        raise CannotRun(f"There is no database {describe(database.url)}: no such file")
    return database


_URLS = (
    "one looks like sqlite:///FILE, mysql+pymysql://USER:PASSWORD@HOST/NAME or "
    "postgresql+psycopg2://USER:PASSWORD@HOST/NAME"
)


#: how SQLite tells that a file cannot be made, opened or written
_UNUSABLE_FILE = ("unable to open database file", "attempt to write a readonly database")


def describe(url: sa.URL | str) -> str:
    """Return a database URL without its password."""
    return sa.make_url(url).render_as_string(hide_password=True)


@contextmanager
def using(database: Database) -> Iterator[None]:
    """Convert errors of a database to one line, and dispose of the database at the end.

    :raises CannotRun: an error occurred; its traceback is logged at level DEBUG
    """
    try:
        yield
    except SchemaError as error:
        raise CannotRun(f"Database {describe(database.url)}: {error}") from error
    except (sa.exc.SQLAlchemyError, db_exc.DBError, PlacementError) as error:
        LOG.debug("failed", exc_info=True)
        reason = _reason(error)
        reason += _find_obstacle(database, reason)
        raise CannotRun(f"Cannot use the database {describe(database.url)}: {reason}") from error
    finally:
        database.dispose()


def _find_obstacle(database: Database, reason: str) -> str:
    """Return which file or directory SQLite could not open or write, which its own words do not tell."""
    path = database.dialect.find_file(database.url)
    if path is None or reason not in _UNUSABLE_FILE:
        return ""
    remedy = "--database names another database"
    if not path.absolute().parent.is_dir():
        return f": the directory {path.absolute().parent} does not exist; {remedy}"
    for each in (path.absolute().parent, path.absolute()):
        if each.exists() and not os.access(each, os.W_OK):
            return f": {each} is not writable; {remedy}"
    return ""


@contextmanager
def muted() -> Iterator[None]:
    """Suppress the log messages about an error that `CannotRun` reports in one line."""
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _reason(error: BaseException) -> str:
    """Return the innermost cause, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return in_one_line(error) or type(error).__name__


def in_one_line(error: BaseException) -> str:
    """Return the message of an error without line breaks, and without the objects of oslo.config."""
    return explain_setting(error)
