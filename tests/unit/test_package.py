# SPDX-License-Identifier: Apache-2.0
"""What both programs say of the package: its version, and the extra that has a missing driver."""

import sys
from importlib.metadata import version

import pytest

from osc_placement.migrate import main as migrate
from osc_placement.migrate.nova.database import NovaDatabase
from osc_placement.migrate.nova.source import Unreadable
from osc_placement.server import main as server


@pytest.mark.parametrize(("program", "name"), [(server, "placement-server"), (migrate, "placement-migrate")])
def test_programs_show_their_version(capsys, program, name):
    """Without a command."""
    with pytest.raises(SystemExit) as ended:
        program.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr() == (f"{name} {version('osc-placement')}\n", "")


@pytest.mark.parametrize(
    ("program", "line", "text", "told"),
    [
        (
            server,
            ("db", "version"),
            "[placement_database]\nconnection = sqlite://\nmax_pool_size = many\n",
            "placement-server: max_pool_size in [placement_database] of {}: 'many' is no whole number\n",
        ),
        (
            migrate,
            ("status",),
            "[placement]\nauth_type = none\ntimeout = 1s\n[api_database]\nconnection = sqlite://\n",
            "placement-migrate: The access to placement cannot be set up: timeout of {}: '1s' is no number\n",
        ),
    ],
)
def test_wrong_setting_is_told_with_its_place(capsys, tmp_path, program, line, text, told):
    """The option, the file and what is wrong, without the objects of oslo.config."""
    path = tmp_path / "its.conf"
    path.write_text(text)
    options = ["--config-file", str(path)]
    assert program.main([*options, *line] if program is migrate else [*line, *options]) == 1
    assert capsys.readouterr() == ("", told.format(path))


MYSQL = "run pip install 'osc-placement[mysql]'"
DRIVERS = pytest.mark.parametrize(
    ("url", "driver", "remedy"),
    [
        ("mysql+pymysql://u:s3cret@h/d", "pymysql", MYSQL),
        ("mariadb+pymysql://u:s3cret@h/d", "pymysql", MYSQL),
        (
            "mysql+mysqldb://u:s3cret@h/d",
            "MySQLdb",
            f"{MYSQL} and name its driver in the URL: mysql+pymysql://",
        ),
        ("postgresql+psycopg2://u:s3cret@h/d", "psycopg2", "run pip install 'osc-placement[postgresql]'"),
        ("oracle+oracledb://u:s3cret@h/d", "oracledb", "install oracledb"),
    ],
)


@DRIVERS
def test_server_names_the_extra_of_a_missing_driver(capsys, monkeypatch, url, driver, remedy):
    """One line, without the password."""
    monkeypatch.setitem(sys.modules, driver, None)
    assert server.main(["db", "version", "--database", url]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("placement-server: The driver for the database is not installed: ")
    assert err.endswith(f"; {remedy}\n")
    assert "s3cret" not in err


@DRIVERS
def test_migrate_names_the_extra_of_a_missing_driver(monkeypatch, url, driver, remedy):
    """The database is named, and not its password."""
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(Unreadable) as caught:
        NovaDatabase(url, "cell c")
    assert str(caught.value).startswith("cell c: the driver of ")
    assert str(caught.value).endswith(f"; {remedy}")
    assert "s3cret" not in str(caught.value)
