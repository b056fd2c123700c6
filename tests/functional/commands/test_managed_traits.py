# SPDX-License-Identifier: Apache-2.0
"""Traits that nova-compute reports, and the commands that remove what they do not name."""

import json

import pytest
import yaml

from tests.functional.commands.proxy import proxy_to
from tests.functional.commands.pty_run import run_on_terminal

PROVIDER = ("resource", "provider")
BATCH = (*PROVIDER, "batch")
SET = (*BATCH, "trait", "set")
RUN = (*BATCH, "run")
DROP = "--force"
OURS = {"CUSTOM_LIQUID_COOLED"}
LOST = "traits that nova-compute reports: HW_CPU_X86_AVX (4), COMPUTE_NODE (1), OWNER_NOVA (1)"


@pytest.fixture
def hosts(rack):
    """Four hosts with a trait of nova-compute and one of the operator's; the first has two more."""
    for name in ("CUSTOM_LIQUID_COOLED", "CUSTOM_RACK_B"):
        rack.client.create_trait(name)
    first, *others = rack.hosts
    give(rack, first, {"OWNER_NOVA", "COMPUTE_NODE", "HW_CPU_X86_AVX", *OURS})
    for host in others:
        give(rack, host, {"HW_CPU_X86_AVX", *OURS})
    return rack


def give(rack, host, traits):
    """Give a host these traits and no others."""
    generation = rack.client.show_provider(host)["generation"]
    rack.client.set_provider_traits(host, sorted(traits), generation)


def first_name(rack):
    """The name of the first host."""
    return f"{rack.aggregate[:8]}-host0"


def some(rack, number):
    """How a message names so many hosts."""
    return f"{number} resource providers, such as {first_name(rack)},"


def traits(rack):
    return [rack.traits_of(host) for host in rack.hosts]


# trait set and trait delete of one provider


@pytest.mark.parametrize(
    ("verb", "arguments", "left"),
    [("set", ("--trait", "CUSTOM_LIQUID_COOLED"), OURS), ("delete", (), set())],
)
def test_script_is_warned_and_changes_the_provider(openstack, hosts, verb, arguments, left):
    """Stdout and status are those of the reference plugin; the option takes the warning away."""
    first, second, *_ = hosts.hosts
    result = openstack.run(*PROVIDER, "trait", verb, first, *arguments)
    assert (result.status, hosts.traits_of(first)) == (0, left)
    assert result.err == (
        f"Warning: {first} loses traits that nova-compute reports: COMPUTE_NODE, HW_CPU_X86_AVX, OWNER_NOVA\n"
    )
    result = openstack.run(*PROVIDER, "trait", verb, second, *arguments, "--yes")
    assert (result.status, result.err, hosts.traits_of(second)) == (0, "", left)


def test_no_warning_if_only_traits_of_the_operator_go(openstack, hosts):
    """Nor if nothing goes."""
    host = hosts.hosts[1]
    for names in (
        ("HW_CPU_X86_AVX", "COMPUTE_NODE"),
        ("HW_CPU_X86_AVX", "COMPUTE_NODE", "CUSTOM_LIQUID_COOLED"),
    ):
        options = [word for name in names for word in ("--trait", name)]
        result = openstack.run(*PROVIDER, "trait", "set", host, *options)
        assert (result.status, result.err, hosts.traits_of(host)) == (0, "", set(names))


@pytest.mark.parametrize("verb", ["set", "delete"])
def test_terminal_is_asked_unless_the_option_is_given(openstack, hosts, verb):
    """Without a yes nothing is written, and the lines fit 80 columns."""
    host = hosts.hosts[0]
    before = hosts.traits_of(host) | {f"COMPUTE_IMAGE_TYPE_{kind}" for kind in ("AKI", "AMI", "ARI", "ISO")}
    give(hosts, host, before)
    command = (*PROVIDER, "trait", verb, host)
    shown, status = run_on_terminal(openstack, *command, columns=80, answer="n\n")
    assert (status, hosts.traits_of(host)) == (1, before)
    assert f"OWNER_NOVA\nPlacement at {openstack.endpoint}: Remove them? [y/N] " in shown
    assert shown.endswith("Nothing was changed: not confirmed\n")
    # the answer was echoed before the question
    assert max(map(len, shown.replace("[y/N] ", "[y/N]\n").splitlines())) <= 80
    shown, status = run_on_terminal(openstack, *command, columns=80, answer="y\n")
    assert (status, hosts.traits_of(host)) == (0, set())
    give(hosts, host, before)
    shown, status = run_on_terminal(openstack, *command, "--yes", columns=80)
    assert (status, hosts.traits_of(host)) == (0, set())
    assert "Remove them?" not in shown


# batches


def test_batch_trait_set_is_refused_without_the_option(openstack, hosts):
    """Before a run begins, in one line that has the traits with their numbers."""
    before, runs = hosts.generations(), len(openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json)
    command = (*SET, "CUSTOM_LIQUID_COOLED", *hosts.select, "--yes")
    for options in ((), ("--atomic",)):
        result = openstack.run(*command, *options)
        assert (result.status, result.out) == (1, "")
        assert result.err == (
            f"Nothing was changed: {some(hosts, 4)} lose {LOST}; name those that are to stay as well, or "
            "give --force\n"
        )
    assert hosts.generations() == before
    assert len(openstack.run(*RUN, "list", "--all-clouds", "-f", "json").json) == runs
    result = openstack.run(*command, DROP)
    assert (result.status, result.err) == (0, f"Warning: {some(hosts, 4)} lose {LOST}\n")
    assert traits(hosts) == [OURS] * 4


def test_batch_trait_set_that_names_them_is_not_refused(openstack, hosts):
    """Traits of the operator may go, and where one provider would lose some it is named as one."""
    result = openstack.run(*SET, "HW_CPU_X86_AVX", *hosts.select, "--yes")
    assert result.status == 1
    assert result.err.startswith(
        f"Nothing was changed: {first_name(hosts)} loses traits that nova-compute reports: COMPUTE_NODE (1), "
        "OWNER_NOVA (1); "
    )
    named = {"HW_CPU_X86_AVX", "COMPUTE_NODE", "OWNER_NOVA"}
    result = openstack.run(*SET, *named, *hosts.select, "--yes")
    assert (result.status, result.err, traits(hosts)) == (0, "", [named] * 4)


def test_dry_run_warns(openstack, hosts):
    """It says what the write needs, unless it was given."""
    command = (*SET, "CUSTOM_LIQUID_COOLED", *hosts.select, "--dry-run")
    told = f"Warning: {some(hosts, 4)} lose {LOST}"
    result = openstack.run(*command)
    warning, *_ = result.err.splitlines()
    assert (result.status, warning) == (3, f"{told}; without --force nothing is written")
    result = openstack.run(*command, DROP)
    assert (result.status, result.err) == (0, f"{told}\n")


def test_saved_plan_has_the_option_with_which_it_was_made(openstack, hosts):
    """One that was made without it is warned of, and refused when it is carried out."""
    path = openstack.home / "drop.plan"
    path.unlink(missing_ok=True)
    command = (*SET, "CUSTOM_LIQUID_COOLED", *hosts.select, "--plan-out", path)
    apply = (*BATCH, "apply", path, "--yes")
    result = openstack.run(*command)
    assert (result.status, f"Warning: {some(hosts, 4)} lose {LOST}; without" in result.err) == (3, True)
    before = hosts.generations()
    result = openstack.run(*apply)
    assert (result.status, result.err.count("\n"), hosts.generations()) == (1, 1, before)
    assert result.err.startswith(f"Nothing was changed: {some(hosts, 4)} lose {LOST}; ")
    assert openstack.run(*apply[:-1], "--dry-run", DROP).status == 0
    path.unlink()
    assert openstack.run(*command, DROP).status == 0
    result = openstack.run(*apply)
    assert (result.status, result.err) == (0, f"Warning: {some(hosts, 4)} lose {LOST}\n")
    assert traits(hosts) == [OURS] * 4


def test_amending_verbs_and_undo_neither_warn_nor_refuse(openstack, hosts):
    """They name what they remove; an undo restores what was there."""
    before, runs = traits(hosts), []
    for words in (("remove", "HW_CPU_X86_AVX"), ("add", "COMPUTE_NODE", "HW_CPU_X86_SSE")):
        result = openstack.run(*BATCH, "trait", *words, *hosts.select, "--yes")
        assert (result.status, result.err) == (0, "")
        runs.append(openstack.last_run()["id"])
    assert all({"COMPUTE_NODE", "HW_CPU_X86_SSE", *OURS} <= each for each in traits(hosts))
    for run in reversed(runs):
        result = openstack.run(*RUN, "undo", run, "--yes")
        assert (result.status, result.err) == (0, "")
    assert traits(hosts) == before
    assert openstack.run(*PROVIDER, "trait", "remove", hosts.hosts[1], "HW_CPU_X86_AVX").err == ""


@pytest.fixture
def reporter(hosts):
    """A proxy's part: before the first write arrives, nova-compute reports a trait of the third host."""
    host, pending = hosts.hosts[2], [OURS | {"COMPUTE_STATUS_DISABLED"}]

    def report(method, _path):
        if method in ("PUT", "POST") and pending:
            give(hosts, host, pending.pop())

    for each in hosts.hosts:
        give(hosts, each, OURS)
    return report


@pytest.mark.parametrize("bulk_write", [False, True], ids=("one by one", "in portions"))
def test_trait_reported_between_plan_and_write_fails_that_provider(openstack, hosts, reporter, bulk_write):
    """The conflict plans it again, and the others are changed."""
    with proxy_to(openstack.endpoint, reporter, bulk_write=bulk_write) as endpoint:
        result = openstack.run(*SET, "CUSTOM_RACK_B", *hosts.select, "--yes", "-f", "json", endpoint=endpoint)
    failed = {row["uuid"]: row["error"] for row in result.json if row["result"] == "failed"}
    assert (result.status, list(failed)) == (3, [hosts.hosts[2]])
    assert failed[hosts.hosts[2]] == (
        "it would lose COMPUTE_STATUS_DISABLED, which nova-compute reports; --force does it all the same"
    )
    kept = OURS | {"COMPUTE_STATUS_DISABLED"}
    assert traits(hosts) == [{"CUSTOM_RACK_B"}, {"CUSTOM_RACK_B"}, kept, {"CUSTOM_RACK_B"}]


def test_atomic_batch_fails_on_a_trait_reported_since_planning(openstack, hosts, reporter):
    """None is changed."""
    with proxy_to(openstack.endpoint, reporter, bulk_write=True) as endpoint:
        result = openstack.run(*SET, "CUSTOM_RACK_B", *hosts.select, "--yes", "--atomic", endpoint=endpoint)
    assert result.status == 3
    assert "it would lose COMPUTE_STATUS_DISABLED, which nova-compute reports" in result.err
    assert [each - {"COMPUTE_STATUS_DISABLED"} for each in traits(hosts)] == [OURS] * 4


def test_option_drops_a_trait_reported_since_planning(openstack, hosts, reporter):
    """As was said on the command line."""
    with proxy_to(openstack.endpoint, reporter) as endpoint:
        result = openstack.run(*SET, "CUSTOM_RACK_B", *hosts.select, "--yes", DROP, endpoint=endpoint)
    assert (result.status, traits(hosts)) == (0, [{"CUSTOM_RACK_B"}] * 4)


def test_resume_keeps_a_trait_reported_since_planning(openstack, hosts, reporter, writable):
    """The provider is refused until the option is given; a run that began with it needs it no more."""
    begun = (*SET, "CUSTOM_RACK_B", *hosts.select, "--yes")
    runs = []
    for options in ((), (DROP,)):
        assert openstack.run(*begun, *options).status == 3
        runs.append(openstack.last_run()["id"])
    writable.set()
    reporter("PUT", "")
    result = openstack.run(*RUN, "resume", runs[0], "--yes", "-f", "json")
    rows = {row["uuid"]: row for row in result.json}
    assert (result.status, rows[hosts.hosts[2]]["result"]) == (3, "refused")
    assert "COMPUTE_STATUS_DISABLED" in hosts.traits_of(hosts.hosts[2])
    assert hosts.traits_of(hosts.hosts[0]) == {"CUSTOM_RACK_B"}
    assert openstack.run(*RUN, "resume", runs[0], "--yes", "--dry-run", DROP).status == 0
    assert openstack.run(*RUN, "resume", runs[1], "--yes").status == 0
    assert traits(hosts) == [{"CUSTOM_RACK_B"}] * 4


# state files


def test_apply_is_refused_without_the_option(openstack, hosts):
    """The file was made before nova-compute reported more; deletions of providers do not count."""
    name = f"{hosts.aggregate[:8]}-host*"
    document = yaml.safe_load(openstack.run(*PROVIDER, "export", "--name", name).out)
    for entry in document["providers"]:
        entry["traits"] = sorted({*entry["traits"]} - {"OWNER_NOVA", "HW_CPU_X86_AVX"})
    path = openstack.home / "old.yaml"
    path.write_text(json.dumps(document))
    command = (*PROVIDER, "apply", "-f", path, "--name", name)
    lost = f"{some(hosts, 5)} lose traits that nova-compute reports: HW_CPU_X86_AVX (5), OWNER_NOVA (1)"
    before = hosts.generations()
    result = openstack.run(*command)
    assert (result.status, result.out) == (1, "")
    assert result.err == (
        f"Nothing was changed: {lost}; name those that are to stay as well, or give {DROP}\n"
    )
    result = openstack.run(*command, "--dry-run")
    assert (result.status, result.err) == (3, f"Warning: {lost}; without {DROP} nothing is written\n")
    assert hosts.generations() == before
    result = openstack.run(*command, DROP, "--yes")
    assert (result.status, result.complaints) == (0, f"Warning: {lost}\n")
    assert traits(hosts) == [OURS | {"COMPUTE_NODE"}, OURS, OURS, OURS]
    result = openstack.run(*RUN, "undo", openstack.last_run()["id"], "--yes")
    assert (result.status, hosts.traits_of(hosts.outsider)) == (0, {"HW_CPU_X86_AVX"})


def test_provider_that_apply_deletes_is_no_loss_of_traits(openstack, hosts):
    """Its traits go with it."""
    name = f"{hosts.aggregate[:8]}-gone"
    gone = hosts.client.create_provider(name)["uuid"]
    give(hosts, gone, {"COMPUTE_NODE"})
    document = "version: 1\nproviders: []\n"
    command = (*PROVIDER, "apply", "-f", "-", "--name", name, "--prune", "--yes")
    result = openstack.run(*command, text=document)
    assert (result.status, result.complaints) == (0, "")
    assert not hosts.client.list_providers(uuid=gone)
