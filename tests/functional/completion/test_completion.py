# SPDX-License-Identifier: Apache-2.0
"""Completion in bash and zsh: the tab key in a real shell on a terminal."""

import pytest
from keystoneauth1.session import Session
from keystoneauth1.token_endpoint import Token

from osc_placement.api.client import PlacementClient
from tests.functional.completion.terminal import Terminal

CLOUDS = """\
clouds:
  placement:
    auth_type: admin_token
    auth: {{endpoint: "{url}", token: admin}}
  other:
    auth_type: admin_token
    auth: {{endpoint: "http://127.0.0.1:1", token: admin}}
  asking:
    auth: {{auth_url: "http://127.0.0.1:1", username: somebody, project_name: p}}
"""
#: names by what is typed of them
NAMES = {
    "tab-pl": "tab-plain",
    "tab-co": "tab-colons :1:a",
    "tab-at@": "tab-at@home=1",
    "tab-ap": "tab-apostrophe's and a last'",
    "tab-q": 'tab-quotes "a"',
    "tab-v": "tab-values of $HOME, `id` and !x!",
    "tab-ü": "tab-ü ☃ *?[a]{b,c}#~;|&<>()\\",
}


@pytest.fixture(scope="module")
def client(server_url):
    return PlacementClient(Session(auth=Token(server_url, "admin")))


@pytest.fixture(scope="module")
def _providers(client):
    """Providers with names that shells quote."""
    made = [client.create_provider(name)["uuid"] for name in {*NAMES.values()}]
    client.create_trait("CUSTOM_TAB")
    client.create_resource_class("CUSTOM_TABS")
    yield
    for uuid in made:
        client.delete_provider(uuid)
    client.delete_trait("CUSTOM_TAB")
    client.delete_resource_class("CUSTOM_TABS")


@pytest.fixture(scope="module", params=["bash", "zsh"])
def terminal(request, tmp_path_factory, server_url, _providers):
    """A shell whose cloud is a server with these providers; tests share its home, with the names of these."""
    home = tmp_path_factory.mktemp(request.param)
    (home / "clouds.yaml").write_text(CLOUDS.format(url=server_url))
    made = Terminal(request.param, home, {"OS_CLOUD": "placement", "NO_PROXY": "127.0.0.1"})
    made.read_names()
    return made


SHOW = ["resource", "provider", "show"]


@pytest.mark.parametrize("quote", ["", "'", '"'], ids=["unquoted", "single", "double"])
def test_name_of_a_provider_is_completed_and_quoted(terminal, quote):
    """The command gets the name as it is, whatever characters it has."""
    lines = [f"openstack {' '.join(SHOW)} {quote}{text}\t" for text in NAMES]
    calls, shown = terminal.type(*lines)
    assert calls == [[*SHOW, name] for name in NAMES.values()], shown


def test_begun_name_with_quoted_characters_is_completed(terminal):
    """What was quoted by an earlier completion can be followed by another."""
    calls, shown = terminal.type(
        "openstack resource provider show tab-colons\\ :1:\t",
        "openstack resource provider show tab-at@h\t",
        "openstack resource provider show tab-apostrophe\\'\t",
        "openstack resource provider list --name=tab-at@h\t",
    )
    begun = ["tab-colons :1:a", "tab-at@home=1", "tab-apostrophe's and a last'", "--name=tab-at@home=1"]
    assert [call[3] for call in calls] == begun, shown


def test_words_options_and_values_are_completed(terminal):
    """A command line can be typed with little more than the tab key; no space follows where a value does."""
    calls, shown = terminal.type(
        "openstack resource pro\tbat\trat\ts\tCUSTOM_TABS\t2 --forb\tCUSTOM_TAB\t--dry\t",
        "openstack resource provider batch inventory set CUSTOM_TABS\tstep\t5",
        "openstack resource provider allocation set x --allocation rp=tab-plain,CUSTOM_TABS\t1",
        "openstack resource provider list --name=tab-pl\t",
    )
    assert list(map(" ".join, calls)) == [
        "resource provider batch ratio set CUSTOM_TABS=2 --forbidden CUSTOM_TAB --dry-run",
        "resource provider batch inventory set CUSTOM_TABS:step_size=5",
        "resource provider allocation set x --allocation rp=tab-plain,CUSTOM_TABS=1",
        "resource provider list --name=tab-plain",
    ], shown


def test_global_options_choose_the_cloud(terminal):
    """They may stand before the command or after it, and are completed themselves."""
    calls, shown = terminal.type(
        "openstack --os-cloud placement resource provider show tab-pl\t",
        "openstack resource provider show --os-cl\tpl\ttab-pl\t",
        "openstack --os-cloud other resource provider show tab-pl\t",
        environment={"OS_CLOUD": ""},
    )
    assert calls == [
        ["--os-cloud", "placement", *SHOW, "tab-plain"],
        [*SHOW, "--os-cloud", "placement", "tab-plain"],
        ["--os-cloud", "other", *SHOW, "tab-pl"],
    ], shown


def test_only_the_present_command_of_a_line_counts(terminal):
    """Others may stand before it."""
    calls, _ = terminal.type(": && true; openstack resource provider show tab-pl\t | cat")
    assert calls == [[*SHOW, "tab-plain"]]


def test_own_programs_are_completed(terminal):
    """Commands, options and their values; and the names of the cloud that the line names."""
    (terminal.home / "nova.conf").touch()
    calls, shown = terminal.type(
        "placement-server ser\t--data\tsqlite://",
        "placement-server db sy\t--config-fi\tnova\t",
        "placement-migrate --so\tap\tmir\t--prune-f\t",
        "placement-migrate --os-cloud pla\taudit --res\ttab-pl\t",
        environment={"OS_CLOUD": ""},
    )
    assert list(map(" ".join, calls)) == [
        "serve --database sqlite://",
        "db sync --config-file nova.conf",
        "--source api mirror-aggregates --prune-foreign",
        "--os-cloud placement audit --resource-provider tab-plain",
    ], shown


def test_runs_are_completed(terminal):
    """Their journals are read here, with no cloud."""
    runs = terminal.home / ".local/state/osc-placement/runs"
    runs.mkdir(parents=True)
    (runs / "20261121T102540-6ecc6d.jsonl").touch()
    calls, shown = terminal.type(
        "openstack resource provider batch run show 2\t",
        "placement-migrate run undo 2\t",
        environment={"OS_CLOUD": "other"},
    )
    assert [call[-1] for call in calls] == ["20261121T102540-6ecc6d"] * 2, shown


def test_files_are_completed_by_the_shell(terminal):
    """With their names quoted."""
    (terminal.home / "a plan").touch()
    calls, _ = terminal.type("openstack resource provider batch apply a\\ p\t")
    assert calls == [["resource", "provider", "batch", "apply", "a plan"]]


@pytest.mark.parametrize("cloud", ["other", "asking", "unknown"])
def test_cloud_that_does_not_answer_leaves_the_line_alone(terminal, cloud):
    """Nothing is printed, and nothing is asked for."""
    calls, shown = terminal.type(
        "openstack resource provider show tab\t",
        "openstack resource provider show --os-cl\tpl\t",
        environment={"OS_CLOUD": cloud},
    )
    assert calls == [[*SHOW, "tab"], [*SHOW, "--os-cloud", "placement"]]
    assert "assword" not in shown
    assert "Traceback" not in shown


def test_completion_of_other_commands_is_kept(terminal):
    """What was there for openstack before completes what is not ours, and adds its words to ours."""
    others = {
        "bash": '_openstack() { COMPREPLY=($(compgen -W "server resilience" -- "$2")); }\n'
        "complete -F _openstack openstack",
        "zsh": "autoload -Uz compinit && compinit\n"
        "_others() { compadd server resilience }\ncompdef _others openstack",
    }
    # of `res` both have one, so that there is nothing to choose from
    lines = ("openstack se\t", "openstack res\to\tclass list", "openstack server ser\t")
    calls, shown = terminal.type(*lines, before=others[terminal.shell])
    assert calls == [["server"], ["resource", "class", "list"], ["server", "server"]], shown


def test_code_can_be_read_twice(terminal):
    """As it is where one start file reads another."""
    calls, shown = terminal.type(
        'source "$HOME"/.twice', "openstack resource provider show tab-pl\t", before='touch "$HOME"/.twice'
    )
    assert calls == [[*SHOW, "tab-plain"]], shown
