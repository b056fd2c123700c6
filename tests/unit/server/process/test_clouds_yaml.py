# SPDX-License-Identifier: Apache-2.0
"""The entry in a clouds.yaml: written into the text, which stays as it is otherwise."""

import stat

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from osc_placement.server.process import clouds_yaml
from osc_placement.server.process.opening import CannotRun

URL = "http://127.0.0.1:8778"
ENTRY = {"auth_type": "admin_token", "auth": {"endpoint": URL, "token": "admin"}}

TEXTS = {
    "nothing": "",
    "only a comment": "# clouds of mine\n",
    "no clouds": "clouds:\n",
    "clouds that are null": "clouds: null\n",
    "an empty mapping": "clouds: {}\n",
    "another key": "client:\n  force_ipv4: true\n",
    "no newline at the end": "client:\n  force_ipv4: true",
    "a cloud": "clouds:\n  prod:\n    region_name: one\n",
    "a deep indent": "clouds:\n      prod:\n            region_name: one\n",
    "comments": "# a\nclouds:  \n  # b\n\n  prod: # c\n    region_name: one\n# d\nclient: {}\n",
    "clouds at the end": "client: {}\nclouds:\n  prod:\n    region_name: one",
    "an entry from before": (
        "clouds:\n  a: {}\n  placement:\n    auth_type: admin_token\n    auth:\n"
        "      endpoint: http://localhost:1\n      token: admin\n  b: {}\n"
    ),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_entry_is_added(text):
    """The entry is there, what else was said is still said, and every comment is still there."""
    merged = clouds_yaml.merge(text, URL)
    before = yaml.safe_load(text) or {}
    after = yaml.safe_load(merged)
    assert after.pop("clouds") == {**(before.pop("clouds", None) or {}), "placement": ENTRY}
    assert after == before
    assert [line for line in text.split("\n") if "#" in line and line not in merged.split("\n")] == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_merging_twice_leaves_one_entry(text):
    """A server that is started again leaves one entry, with its new address."""
    merged = clouds_yaml.merge(clouds_yaml.merge(text, "http://127.0.0.1:1"), URL)
    assert merged == clouds_yaml.merge(text, URL)


OURS = "{auth_type: admin_token, auth: {endpoint: 'http://[::1]:8778', token: admin}}"
#: what somebody may have made himself, with a token that nobody else knows
OTHERS = (
    "auth_type: admin_token",
    "{auth_type: admin_token, auth: {endpoint: 'http://127.0.0.1:8778', token: secret}}",
    "{auth_type: admin_token, auth: {endpoint: 'http://prod.example', token: admin}}",
    "{auth_type: admin_token, auth: {endpoint: 7, token: admin}}",
    "{auth_type: admin_token, auth: {token: admin}}",
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("clouds: [", "it is not a clouds.yaml"),
        ("[]", "it is not a clouds.yaml"),
        ("- clouds", "it is not a clouds.yaml"),
        ("clouds: 3", "it is not a clouds.yaml"),
        ("text", "it is not a clouds.yaml"),
        ("clouds:\n  placement:\n    auth_type: password\n", "it has a cloud 'placement' already"),
        ("clouds:\n  placement: yes\n", "it has a cloud 'placement' already"),
        ("clouds: {prod: {}}\n", "it is written in a way that leaves no place for another cloud"),
        (f"clouds:\n  placement: {OURS}\n", "it is written in a way that leaves no place"),
        *((f"clouds:\n  placement:\n    {entry}\n", "it has a cloud 'placement'") for entry in OTHERS),
    ],
)
def test_text_without_a_place_is_refused(text, message):
    """What is no clouds.yaml, has the name for something else, or cannot be added to, is refused."""
    with pytest.raises(clouds_yaml.CannotMerge, match=message):
        clouds_yaml.merge(text, URL)


def test_an_address_that_is_not_of_loopback_may_be_written_again():
    """It is the one that the server is told to listen on."""
    merged = clouds_yaml.merge("", "http://192.0.2.7:1")
    assert clouds_yaml.merge(merged, "http://192.0.2.7:2") == clouds_yaml.merge("", "http://192.0.2.7:2")
    with pytest.raises(clouds_yaml.CannotMerge):
        clouds_yaml.merge(merged, URL)


NAMES = st.from_regex(r"[a-z]{1,6}", fullmatch=True)


@given(
    st.dictionaries(NAMES, st.dictionaries(NAMES, NAMES | st.integers() | st.lists(NAMES), max_size=3)),
    st.integers(2, 6),
    st.booleans(),
)
def test_other_clouds_survive(clouds, indent, flow):
    """However a file is laid out, it is refused, or has its clouds and the new one."""
    text = yaml.safe_dump({"clouds": clouds, "client": {}}, indent=indent, default_flow_style=flow or None)
    try:
        merged = clouds_yaml.merge(text, URL)
    except clouds_yaml.CannotMerge:
        return
    assert yaml.safe_load(merged) == {"clouds": {**clouds, "placement": ENTRY}, "client": {}}


def test_file_is_replaced_as_a_whole(tmp_path):
    """The file is written when it is told to, and nothing is left beside it."""
    path = tmp_path / "clouds.yaml"
    path.write_text("clouds:\n  a: {}\n")
    change = clouds_yaml.prepare(path, URL)
    assert path.read_text() == "clouds:\n  a: {}\n"
    change.write()
    assert yaml.safe_load(path.read_text()) == {"clouds": {"placement": ENTRY, "a": {}}}
    assert list(tmp_path.iterdir()) == [path]


def test_private_file_behind_a_link_stays_private_and_behind_it(tmp_path):
    """Who could not read the passwords of other clouds cannot afterwards, and the link still leads there."""
    real = tmp_path / "elsewhere" / "real.yaml"
    real.parent.mkdir()
    real.write_text("clouds:\n  a: {}\n")
    real.chmod(0o640)
    path = tmp_path / "clouds.yaml"
    path.symlink_to(real)
    clouds_yaml.prepare(path, URL).write()
    assert path.readlink() == real
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert yaml.safe_load(real.read_text()) == {"clouds": {"placement": ENTRY, "a": {}}}
    assert [*real.parent.iterdir()] == [real]


def test_new_file_is_its_owners_only(tmp_path):
    """It will hold passwords sooner or later."""
    path = tmp_path / "clouds.yaml"
    clouds_yaml.prepare(path, URL).write()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_binary_file_is_refused(tmp_path):
    """Bytes that are no text are said to be unreadable."""
    path = tmp_path / "clouds.yaml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(CannotRun, match=r"Cannot read .*clouds\.yaml"):
        clouds_yaml.prepare(path, URL)


def test_file_in_a_missing_directory_is_refused(tmp_path):
    """A directory that does not exist is not made."""
    path = tmp_path / "nowhere" / "clouds.yaml"
    with pytest.raises(CannotRun, match=f"the directory {path.parent} does not exist"):
        clouds_yaml.prepare(path, URL)
    assert list(tmp_path.iterdir()) == []
