# SPDX-License-Identifier: Apache-2.0
"""Connection templates of cells, filled as nova fills them, and errors that are collisions."""

import pytest
import sqlalchemy as sa

from osc_placement.migrate.nova.database import _is_collision, resolve_connection
from osc_placement.migrate.nova.source import Unreadable

MAIN = "mysql+pymysql://nova:s3cret@db1:3306/nova_cell0?charset=utf8#top"


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("mysql://u:p@h/nova", "mysql://u:p@h/nova"),
        ("{scheme}://{username}:{password}@cell1:{port}/{path}?{query}", MAIN.replace("db1", "cell1")[:-4]),
        ("sqlite:///{path}{fragment}", "sqlite:///nova_cell0top"),
    ],
)
def test_template_gets_the_parts_of_the_main_connection(template, filled):
    """What is no template stays; the path has no slash of its own."""
    assert resolve_connection(template, MAIN, "cell c") == filled


def test_several_hosts_are_numbered():
    """A connection to several hosts gives each of them a number; without one the first is meant."""
    main = "mysql://u1:p1@h1:1,u2:p2@h2:2/nova"
    filled = resolve_connection(
        "{username}@{hostname} {username2}:{password2}@{hostname2}:{port2}", main, "c"
    )
    assert filled == "u1@h1 u2:p2@h2:2"


@pytest.mark.parametrize("template", ["{nobody}", "{", "{0}"])
def test_template_that_cannot_be_filled_is_unreadable(template):
    """The cell is named, and no part of the connection is told."""
    with pytest.raises(Unreadable) as caught:
        resolve_connection(template, MAIN, "cell c")
    assert str(caught.value).startswith("cell c: ")
    assert "s3cret" not in str(caught.value)


def test_without_a_main_connection_the_template_stays():
    """As in nova, which logs it and goes on to fail at the connection."""
    assert resolve_connection("{scheme}://x", None, "cell c") == "{scheme}://x"


@pytest.mark.parametrize(
    ("argument", "is_collision"),
    [(1213, True), ("database is locked", True), (1146, False), ({"C": "42P01"}, False), (["x"], False)],
)
def test_collision_is_told_by_what_the_driver_says(argument, is_collision):
    """Whatever it says, such as the fields of PostgreSQL's answer."""
    error = sa.exc.OperationalError("UPDATE x", {}, Exception(argument))
    assert _is_collision(error) == is_collision
