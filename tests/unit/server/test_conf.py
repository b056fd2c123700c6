# SPDX-License-Identifier: Apache-2.0
"""The options are openstack-placement's, and every configuration is its own."""

import importlib
import pathlib
import re

import pytest
from oslo_config import cfg

from osc_placement.server import conf as configuration
from tests import databases

URL = ("placement_database", "connection", "sqlite://")


def make_conf():
    """A configuration with every option, and nothing read."""
    conf = cfg.ConfigOpts()
    configuration.register_opts(conf)
    return conf


def describe(conf):
    """Type, default and choices of every option, by group and name."""
    groups = {"DEFAULT": conf._opts, **{name: group._opts for name, group in conf._groups.items()}}
    return {
        (group, name): (repr(info["opt"].type), info["opt"].default, info["opt"].required, info["opt"].secret)
        for group, opts in groups.items()
        for name, info in opts.items()
    }


def normalize(description):
    """Leave out what the descriptions of choices, which are ours, add to a type."""
    kind, *others = description
    return (kind.partition("(choices=")[0], *others)


def test_options_equal_the_reference():
    """Groups, names, types, defaults and choices are those that openstack-placement registers."""
    try:
        reference = importlib.import_module("placement.conf")
    except ImportError:
        databases.skip_or_fail("openstack-placement is not installed (extra 'reference')")
    theirs = cfg.ConfigOpts()
    reference.register_opts(theirs)
    ours = {key: normalize(value) for key, value in describe(make_conf()).items()}
    wanted = {key: normalize(value) for key, value in describe(theirs).items()}
    # where each of the two is installed
    del ours["DEFAULT", "pybasedir"], wanted["DEFAULT", "pybasedir"]
    # what the reference does not have
    del ours["placement_database", "other_programs_write"], ours["placement_database", "write_patience"]
    ours = {(group, name): value for (group, name), value in ours.items() if group != "metrics"}
    assert ours == wanted
    for group, name in (("api", "auth_strategy"), ("placement", "allocation_candidates_generation_strategy")):
        choices = [conf._groups[group]._opts[name]["opt"].type.choices for conf in (make_conf(), theirs)]
        assert list(choices[0]) == list(choices[1])


def test_old_name_is_read(tmp_path):
    """auth_strategy is still read from [DEFAULT], where it was."""
    path = tmp_path / "placement.conf"
    path.write_text("[DEFAULT]\nauth_strategy = noauth2\n[placement_database]\nconnection = sqlite://\n")
    conf = configuration.load(config_files=[str(path)], config_dirs=[])
    assert conf.api.auth_strategy == "noauth2"


def test_every_option_has_a_help_text():
    """Whoever reads the sample file finds out what an option does."""
    options = [option for _, group in configuration.list_opts() for option in group]
    assert [option.name for option in options if not (option.help or "").endswith(".")] == []


def test_configurations_share_nothing():
    """What is set in one configuration is not set in another."""
    first, second = make_conf(), make_conf()
    first.set_override("connection", "sqlite:///first.db", group="placement_database")
    first.set_default("auth_strategy", "noauth2", group="api")
    assert second.placement_database.connection is None
    assert second.api.auth_strategy == "keystone"


def test_options_may_be_registered_again():
    """Registering a second time keeps what was set, also after the values were read."""
    conf = make_conf()
    conf.set_override(URL[1], URL[2], group=URL[0])
    configuration.parse(conf, config_files=[], config_dirs=[])
    configuration.register_opts(conf)
    assert conf.placement_database.connection == "sqlite://"


def test_environment_names_the_directory(tmp_path, monkeypatch):
    """OS_PLACEMENT_CONFIG_DIR says where placement.conf is."""
    (tmp_path / "placement.conf").write_text("[placement_database]\nconnection = sqlite:///there.db\n")
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))
    assert configuration.load(config_dirs=[]).placement_database.connection == "sqlite:///there.db"


def test_environment_wins_over_files(tmp_path, monkeypatch):
    """OS_<GROUP>__<OPTION> replaces what a file says."""
    path = tmp_path / "placement.conf"
    path.write_text("[placement_database]\nconnection = sqlite:///file.db\n")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///variable.db")
    conf = configuration.load(config_files=[str(path)], config_dirs=[])
    assert conf.placement_database.connection == "sqlite:///variable.db"


def test_later_sources_win(tmp_path):
    """Of several files the later one counts, and what is in a directory comes last."""
    for number in (1, 2):
        text = f"[placement_database]\nconnection = sqlite:///{number}.db\nmax_pool_size = {number}\n"
        (tmp_path / f"{number}.conf").write_text(text)
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.conf").write_text("[placement_database]\nmax_pool_size = 3\n")
    files = [str(tmp_path / "1.conf"), str(tmp_path / "2.conf")]
    conf = configuration.load(config_files=files, config_dirs=[str(tmp_path / "d")])
    assert (conf.placement_database.connection, conf.placement_database.max_pool_size) == (
        "sqlite:///2.db",
        3,
    )


def test_database_is_required():
    """A configuration that names no database cannot be worked with."""
    with pytest.raises(cfg.RequiredOptError, match="connection"):
        configuration.load(config_files=[], config_dirs=[])


@pytest.mark.parametrize(
    ("group", "line"),
    [
        ("api", "auth_strategy = none"),
        ("placement", "max_allocation_candidates = many"),
        ("placement_database", "sync_on_startup = perhaps"),
    ],
)
def test_wrong_value_is_found_at_once(tmp_path, group, line):
    """A value that is none is an error when the file is read, not when a request needs it."""
    path = tmp_path / "placement.conf"
    path.write_text(f"[{group}]\n{line}\n")
    conf = make_conf()
    conf.set_default(URL[1], URL[2], group=URL[0])
    with pytest.raises(ValueError, match=line.partition(" ")[0]):
        configuration.parse(conf, config_files=[str(path)], config_dirs=[])


def test_wrong_values_are_told_together_with_their_places(tmp_path, monkeypatch):
    """A line for the operator: the option, its group, the file or variable, and what is wrong."""
    path = tmp_path / "placement.conf"
    path.write_text("[placement_database]\nmax_pool_size = abc\n[api]\nauth_strategy = none\n")
    monkeypatch.setenv("OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES", "many")
    conf = make_conf()
    conf.set_default(URL[1], URL[2], group=URL[0])
    with pytest.raises(ValueError, match="max_pool_size") as caught:
        configuration.parse(conf, config_files=[str(path)], config_dirs=[])
    assert str(caught.value) == (
        f"max_pool_size in [placement_database] of {path}: 'abc' is no whole number; "
        "max_allocation_candidates in [placement] of OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES: 'many' is no "
        f"whole number; auth_strategy in [api] of {path}: Valid values are [keystone, noauth2], but found "
        "'none'"
    )


def test_options_without_effect_are_found(tmp_path):
    """Of the options that have no effect, those that somebody has set are named."""
    path = tmp_path / "placement.conf"
    path.write_text(
        "[DEFAULT]\ntempdir = /x\n[placement_database]\nconnection = sqlite://\nretry_interval = 10\n"
    )
    conf = configuration.load(config_files=[str(path)], config_dirs=[])
    assert configuration.find_without_effect(conf) == [
        "[DEFAULT] tempdir",
        "[placement_database] retry_interval",
    ]


def test_options_without_effect_say_so():
    """The help text of an option without effect says that it has none, and no other text does."""
    said = {
        (getattr(group, "name", group), option.name)
        for group, options in configuration.list_opts()
        for option in options
        if "Without effect" in option.help
    }
    assert said == set(configuration.WITHOUT_EFFECT)


def test_options_that_nobody_reads_are_without_effect():
    """What is said to have an effect is asked for somewhere in the server."""
    own = pathlib.Path(configuration.__file__)
    code = "".join(path.read_text() for path in own.parent.rglob("*.py") if path != own)
    unread = {
        (getattr(group, "name", group), option.name)
        for group, options in configuration.list_opts()
        for option in options
        if not re.search(rf"\.{option.dest}\b", code)
    }
    # it is read in the file of the options
    assert unread - {("DEFAULT", "log_options")} <= set(configuration.WITHOUT_EFFECT)


def test_options_without_effect_are_documented():
    """The page for operators names each option that is accepted in vain."""
    page = pathlib.Path(__file__).parents[3] / "doc" / "source" / "admin" / "drop-in.rst"
    named = set(re.findall(r"``(?:\[\w+\] )?(\w+)``", page.read_text()))
    assert {name for _, name in configuration.WITHOUT_EFFECT} - named == set()
