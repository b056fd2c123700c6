# SPDX-License-Identifier: Apache-2.0
"""The words that follow in command lines."""

import shlex

import pytest

from osc_placement.completion import programs, values
from osc_placement.completion.programs import EXIT_FILES, EXIT_OTHERS, EXIT_WHOLE, Answer, complete

UUID = "cccccccc-0004-4000-8000-000000000001"
NAMES = {
    "aggregates": ["rack1", "rack2", UUID],
    "classes": ["CUSTOM_GPU", "VCPU"],
    "providers": ["compute 1", "compute2", UUID],
    "traits": ["CUSTOM_A", "CUSTOM_B"],
}


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """A cloud with some names; what was asked for, and with which options."""
    asked = []

    def read_names(kind, access):
        asked.append((kind, access))
        return NAMES[kind]

    monkeypatch.setattr(values, "read_names", read_names)
    monkeypatch.setattr(values, "list_clouds", lambda: ["production", "test"])
    monkeypatch.setattr(programs, "list_clouds", lambda: ["production", "test"])
    monkeypatch.setenv("COMP_LINE", "")
    return asked


def ask(line):
    """What follows in a line, of which the last word is not complete; none after a space."""
    words = shlex.split(line)
    text = "" if line.endswith(" ") else words.pop()
    return complete(words, text)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("openstack resource provider show ", "compute 1|compute2"),
        ("openstack resource provider show compute2", "compute2"),
        ("openstack resource provider show cccc", UUID),
        ("openstack resource provider aggregate add x rack1 ", "rack1|rack2"),
        ("openstack resource provider trait set x --trait ", "CUSTOM_A|CUSTOM_B"),
        ("openstack resource provider trait set x --trait=CUSTOM_B", "--trait=CUSTOM_B"),
        ("openstack resource provider list --required CUSTOM_A,", "CUSTOM_A,CUSTOM_A|CUSTOM_A,CUSTOM_B"),
        ("openstack resource provider list --member-of rack1,rack2", "rack1,rack2"),
        ("openstack resource provider list --name c", "compute 1|compute2"),
        ("openstack resource provider list --resource ", "CUSTOM_GPU=|VCPU="),
        ("openstack resource provider capacity --fit VCPU=1,", "VCPU=1,CUSTOM_GPU=|VCPU=1,VCPU="),
        ("openstack resource provider batch inventory set V", "VCPU:"),
        ("openstack resource provider batch inventory set VCPU:m", "VCPU:max_unit=|VCPU:min_unit="),
        ("openstack resource provider inventory class set x C", "CUSTOM_GPU"),
        ("openstack resource provider inventory delete x --resource-class V", "VCPU"),
        ("openstack resource provider allocation set u --allocation ", "rp=compute 1|rp=compute2"),
        ("openstack resource provider allocation set u --allocation rp=x,V", "rp=x,VCPU="),
        ("openstack resource provider reshape --consumer u=compute2", "u=compute2"),
        ("openstack resource provider reshape --consumer u", ""),
        ("openstack resource provider create ", ""),
        ("openstack resource provider allocation show ", ""),
        ("openstack resource class show ", "CUSTOM_GPU|VCPU"),
        ("openstack trait show CUSTOM_A", "CUSTOM_A"),
        ("openstack resource provider list --os-cloud t", "test"),
        ("openstack resource provider list --os-region-name ", ""),
        ("openstack resource provider show -f js", "json"),
        ("openstack resource provider delete x --os-c", "--os-cloud"),
        ("openstack resource provider cap", "capacity"),
        ("openstack --debug --os-auth-url=http://x help resource provider cap", "capacity"),
        ("openstack resource provider nonsense ", ""),
        ("/usr/bin/placement-server db ", "online_data_migrations|refresh|stamp|sync|version"),
        ("placement-migrate mirror-aggregates --prune", "--prune|--prune-foreign"),
        ("placement-migrate mirror-aggregates --aggregate ", ""),
        ("placement-migrate --os-cloud p", "production"),
        ("placement-migrate mirror-aggregates --os-cloud p", "production"),
        ("placement-migrate run undo x --os-cl", "--os-cloud"),
        ("placement-migrate audit --config-", "--config-file"),
        ("placement-migrate --os-cloud test mirror-aggregates --aggregate ", "rack1|rack2"),
        ("placement-migrate carry-ratios --conflict ", "max|min"),
    ],
)
def test_words_that_follow_are_found(line, words):
    """Commands, options, values that are fixed, and names of the cloud."""
    shown = [word for word in ask(line).words if not line.endswith(" ") or not word.startswith("-")]
    assert sorted(shown) == [word for word in words.split("|") if word]


def test_options_are_shown_if_nothing_else_can_follow():
    """They are not beside the names of an argument, unless a hyphen asks for them."""
    assert "--parent-provider" in ask("openstack resource provider create x ").words
    assert list(ask("openstack resource provider show ").words) == ["compute 1", "compute2"]
    assert "--allocations" in ask("openstack resource provider show -").words


@pytest.mark.parametrize(
    ("line", "access"),
    [
        ("openstack resource provider show ", {}),
        ("openstack --os-cloud a -v resource provider show --os-region-name=b ", None),
        ("openstack --log-file f --os-cloud a --insecure resource provider --os-region-name b show ", None),
    ],
)
def test_global_options_say_which_cloud(line, access, asked):
    """Wherever they stand."""
    expected = {"--os-cloud": "a", "--os-region-name": "b"} if access is None else access
    assert ask(line).words
    assert asked == [("providers", expected)]


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("openstack ", EXIT_OTHERS),
        ("openstack server list", EXIT_OTHERS),
        ("openstack resource ", EXIT_WHOLE),
        ("openstack resource nonsense ", EXIT_WHOLE),
        ("openstack resource provider list ", EXIT_WHOLE),
    ],
)
def test_status_says_whether_others_have_words(line, status):
    """They are asked for commands that are not ours, and where any command may follow."""
    assert ask(line).status == status


@pytest.mark.parametrize(
    "line",
    [
        "openstack resource provider batch apply ",
        "openstack resource provider apply --file ",
        "placement-server serve --config-file ",
        "placement-migrate --config-file /etc/no",
    ],
)
def test_status_says_that_files_follow(line):
    """The shell completes their names."""
    assert ask(line) == Answer(status=EXIT_FILES)
