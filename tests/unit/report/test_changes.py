# SPDX-License-Identifier: Apache-2.0
"""Plans and results as text for a terminal: bounded, grouped, and nothing twice."""

from dataclasses import replace

import pytest

from osc_placement.api.consumer import Consumer
from osc_placement.batch.facets import ABSENT, ProviderState, describe_identity
from osc_placement.batch.plan import Change, Plan
from osc_placement.batch.repeat import Recorded
from osc_placement.errors import PlacementError
from osc_placement.model import Inventory, Provider
from osc_placement.report.changes import Page, Row, make_table, rows_of_plan
from osc_placement.report.runs import NextCommands
from osc_placement.report.summary import sum_up
from osc_placement.terminal.lines import count_lines

WIDTH = 80
LONG = "because " * 50


def make_change(number, old=4.0, new=8.0):
    subject = Provider(f"{number:032}", f"compute-{number:05}", 1)
    before, after = (
        ProviderState(inventories={"VCPU": Inventory(8, allocation_ratio=ratio)}) for ratio in (old, new)
    )
    return Change(subject, before, after)


def make_rows(number, result="applied", reason="", **ratios):
    return [Row(make_change(each, **ratios), result, reason) for each in range(number)]


def test_many_changes_are_counted_the_most_frequent_first():
    """Each difference is one line with its number."""
    rows = [*make_rows(17, old=2.0), *make_rows(9983)]
    assert Page(WIDTH).describe(rows, more="(more)") == [
        "    9,983  VCPU:allocation_ratio from 4.0 to 8.0",
        "       17  VCPU:allocation_ratio from 2.0 to 8.0",
        "(more)",
    ]


@pytest.mark.parametrize(("failures", "groups"), [(0, 18), (8, 10), (40, 5)])
def test_as_many_differences_are_shown_as_there_is_space_for(failures, groups):
    """Failures come first; the lines of a plan that is to be confirmed leave space for its result."""
    rows = [Row(make_change(number, new=float(number + 5))) for number in range(30)]
    failed = [Row(make_change(number), "refused", LONG[: number + 9]) for number in range(failures)]
    page = Page(WIDTH)
    warned = page.warn([LONG])
    lines = page.describe([*rows, *failed], is_plan=True, more="(more)")
    shown = [line for line in lines if "VCPU:allocation_ratio" in line]
    assert len(shown) + 1 == groups
    assert f"... and {30 - len(shown)} more differences" in lines
    assert len([*warned, *lines, *page.summarize(LONG)]) <= 30


def test_few_changes_are_a_table_sorted_by_name_that_fits():
    """Without columns that are empty, and without UUIDs."""
    lines = Page(44).describe([Row(make_change(2)), Row(make_change(1))], is_plan=True, more="(more)")
    assert lines[1].split() == ["|", "name", "|", "change", "|"]
    assert max(map(len, lines)) <= 44
    assert lines[3].startswith("| compute-00001 |")


def make_claim(uuid, *providers):
    """A change of a consumer that moves from one provider to another."""
    before, after = (ProviderState(allocations={each: {"DISK_GB": 40}}) for each in providers)
    return Change(Consumer(uuid, {}), before, after)


def test_allocations_have_the_names_of_providers_and_come_after_these():
    """The names are those of the other changes; a consumer has a UUID only."""
    one, other = make_change(1), make_change(2)
    consumer = "00000000-c000-4000-8000-000000000000"
    page = Page(WIDTH)
    page.name_providers([one, other])
    lines = page.describe([Row(make_claim(consumer, one.uuid, other.uuid)), Row(other)])
    assert [line.split() for line in lines[3:6]] == [
        ["|", "compute-00002", "|", "VCPU:allocation_ratio", "from", "4.0", "to", "8.0", "|"],
        ["|", consumer, "|", "-compute-00001:DISK_GB=40", "|"],
        ["|", "|", "+compute-00002:DISK_GB=40", "|"],
    ]


def test_table_that_would_break_a_uuid_is_a_line_for_each_cell():
    """So both can be copied; an empty line is between two rows."""
    consumer, other, *providers = (f"{each}0000000-0000-4000-8000-000000000000" for each in "cdab")
    changes = [f"change: -{providers[0]}:DISK_GB=40", f"        +{providers[1]}:DISK_GB=40"]
    assert Page(WIDTH).describe([Row(make_claim(each, *providers)) for each in (consumer, other)]) == [
        *(f"name:   {consumer}", *changes),
        "",
        *(f"name:   {other}", *changes),
    ]
    last = replace(make_claim(other, *providers), reason="as it moves")
    *_, change, space, reason = Page(WIDTH).describe([Row(last, "", last.reason)])
    assert (change, space, reason.strip()) == (changes[-1], "", f"{other}: as it moves")


def test_few_refusals_without_a_change_are_a_table_of_names():
    """What could not be read has no difference to show."""
    row = Row(Change(Provider("u", "compute-1", 1), ProviderState(), ProviderState()), "refused", "not read")
    lines = Page(WIDTH).describe([row], is_plan=True)
    assert lines[1].split() == ["|", "name", "|", "result", "|"]
    assert lines[-1] == "Refused: compute-1: not read"


def test_a_row_of_a_table_has_its_reason_below_with_its_name():
    """A number would be taken for that of rows that are not in the table."""
    rows = [*make_rows(1, "applied"), *make_rows(3, "unchanged", "is as it was before")[1:]]
    assert Page(WIDTH).describe(rows)[-1] == "Unchanged: compute-00001 and 1 more: is as it was before"


def test_what_is_created_or_deleted_is_called_so_in_a_table():
    """The sign before a name was taken for that of another name."""
    there = ProviderState(traits=frozenset({"CUSTOM_A"}), identity=describe_identity("p", "above"))
    gone = ProviderState(traits=frozenset(), identity=ABSENT)
    provider = Provider("u", "p", 1)
    lines = Page(WIDTH).describe([Row(Change(provider, there, gone), "applied")])
    assert [line.split("|")[2].strip() for line in lines[3:6]] == ["deleted", "-parent=above", "-CUSTOM_A"]


def test_unchanged_rows_do_not_hide_the_few_that_change():
    """They are counted with their reason."""
    rows = [*make_rows(1), *make_rows(9999, "unchanged", "has the ratio already")]
    lines = Page(WIDTH).describe(rows)
    assert len([line for line in lines if line.startswith("| compute")]) == 1
    assert lines[-1] == "    9,999  unchanged: has the ratio already"


def test_reasons_that_differ_in_names_count_as_one():
    """Each removal of an audit has the host where it is orphaned; amounts are not names."""
    rows = [Row(row.change, "applied", f"orphaned on host{each}") for each, row in enumerate(make_rows(100))]
    rows += [Row(row.change, "applied", f"orphaned, VCPU={each}") for each, row in enumerate(make_rows(2))]
    assert Page(WIDTH).describe(rows)[1:] == [
        "      100  applied: orphaned on host0 and similar",
        "        1  applied: orphaned, VCPU=0",
        "        1  applied: orphaned, VCPU=1",
    ]


@pytest.mark.parametrize("count", [3, 10000])
def test_one_reason_of_many_failures_is_said_once_and_whole(count):
    """With the first name and the number of the others, also where the names are part of the reason."""
    rows = [
        Row(row.change, "failed", f"PUT /{row.change.uuid} for {row.change.subject.name} failed {LONG}")
        for row in make_rows(count)
    ]
    text = " ".join(Page(WIDTH).describe(rows))
    assert f"Failed: compute-00000 and {count - 1:,} more: PUT /" in text
    assert text.endswith(LONG.strip())


def test_one_line_for_failures_at_different_objects_names_none_of_them():
    """The UUID of the first would stand for all; one that all have is named."""
    uuids = [f"ad8c83f5-0000-4000-8000-00000000000{number}" for number in range(3)]

    def tell(*named):
        changes = [row.change for row in make_rows(len(named))]
        rows = [Row(change, "failed", f"on '{uuid}'") for change, uuid in zip(changes, named, strict=True)]
        return Page(WIDTH).describe(rows)[-1]

    assert tell(*uuids) == "Failed: compute-00000 and 2 more: on '<UUID>'"
    assert tell(uuids[0], uuids[0]) == f"Failed: compute-00000 and 1 more: on '{uuids[0]}'"


@pytest.mark.parametrize(("count", "others"), [(1, ""), (14, " and 13 more")])
def test_reason_that_begins_with_the_name_does_not_repeat_it(count, others):
    """Elsewhere in the reason the name stays."""
    rows = [
        Row(make_change(each), "failed", f"compute-{each:05} was changed; see compute-{each:05}")
        for each in range(count)
    ]
    lines = Page(WIDTH).describe(rows)
    assert lines[-1] == f"Failed: compute-00000{others}: was changed; see compute-00000"


def test_different_failures_are_one_line_each_up_to_forty():
    """The others are counted."""
    rows = [Row(row.change, "failed", f"{number} {LONG}") for number, row in enumerate(make_rows(10000))]
    lines = Page(WIDTH).describe(rows)
    assert max(map(len, lines)) <= WIDTH
    failed = [line for line in lines if line.startswith("Failed: ")]
    assert (len(failed), lines[-1]) == (39, "... and 9,961 more failures")


def test_result_says_nothing_that_the_plan_said():
    """Neither the changes, if all were made, nor what was refused."""
    page = Page(WIDTH)
    refused = Row(make_change(9), "refused", "too much is used")
    assert len(page.describe([*make_rows(30, ""), refused], is_plan=True)) == 2
    assert page.describe([*make_rows(30), Row(refused.change, "failed", refused.reason)]) == []
    assert page.describe(make_rows(29)) == ["       29  VCPU:allocation_ratio from 4.0 to 8.0"]


def test_table_that_was_shown_is_not_shown_again_unless_something_is_left():
    """If all was applied the summary says it."""
    page = Page(WIDTH)
    page.describe(make_rows(3, ""), is_plan=True)
    assert page.describe(make_rows(3)) == []
    assert "skipped" in "\n".join(page.describe([*make_rows(2), *make_rows(1, "skipped", "stopped")]))


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("many", [20, 10000])
def test_everything_at_once_takes_less_than_sixty_lines(confirmed, many):
    """Different changes, reasons, refusals, failures, warnings and a long summary."""
    page, lines = Page(WIDTH), []
    warnings = [f"compute-{number}: {LONG}" for number in range(many)]
    planned = [
        Row(make_change(number, new=float(number + 5)), "", f"{number} {LONG}") for number in range(many)
    ]
    refused = [Row(make_change(number), "refused", f"{number}: {LONG}") for number in range(many)]
    if confirmed:
        lines += page.describe([*planned, *refused], is_plan=True, more="(more)")
    lines += page.warn(warnings)
    lines += page.summarize(LONG * 20) if confirmed else []
    done = [Row(row.change, "applied", f"noted {row.reason}") for row in planned[: many // 2]]
    failed = [Row(row.change, "failed", f"failed {row.reason}") for row in planned[many // 2 :]]
    lines += page.describe([*done, *failed, *(Row(row.change, "failed", row.reason) for row in refused)])
    lines += page.summarize(LONG * 20)
    # beside them there are the question, the run and its control file, an interruption, three commands, and
    # what an undo left
    assert count_lines(lines, WIDTH) <= 60 - 12


def test_numbers_of_a_summary_are_never_cut():
    """Of a terminal's two lines; the reasons why providers stay have a line each, the most frequent first."""
    subject, state = Provider("p", "p", 1), ProviderState()
    lacking = "no inventory of VCPU; no inventory of MEMORY_MB"
    reasons = ["has the ratio already"] * 40 + [lacking]
    refused = [make_change(number) for number in range(7, 10)]
    plan = Plan(
        Recorded("ratio set VCPU=5.0 MEMORY_MB=1.0", ()),
        (
            *map(make_change, range(7)),
            *refused,
            *(Change(subject, state, state, reason) for reason in reasons),
        ),
        refused={change.uuid: PlacementError("too little is left") for change in refused},
    )
    assert Page(WIDTH).sum_up(plan) == [
        "       40  unchanged: has the ratio already",
        f"        1  unchanged: {lacking}",
        "ratio set VCPU=5.0 MEMORY_MB=1.0: 7 resource providers to change, 41 unchanged,",
        "3 refused",
    ]
    assert Page().sum_up(plan) == [sum_up(plan).line]
    long = replace(plan, edit=Recorded("trait add " + "CUSTOM_TRAIT " * 30, ()))
    shown = Page(WIDTH).sum_up(long)[2:]
    assert (len(shown), "..." in shown[2]) == (3, True)
    assert " ".join(shown).endswith(": 7 resource providers to change, 41 unchanged, 3 refused")


def test_commands_that_do_not_fit_beside_their_labels_have_lines_of_their_own():
    """No option is broken, so that they can be copied; all of them, if it is so of one."""
    run = "20261123T154355-8f24e5"
    show = f"openstack resource provider batch run show {run} --failed-only"
    undo = f"openstack resource provider batch run undo {run}"
    commands = NextCommands(run, {"show": show, "undo": undo})
    assert Page(WIDTH).name_commands(commands) == [f"Run {run}", "show:", show, "undo:", undo]
    assert Page(WIDTH + 20).name_commands(commands) == commands.lines


def test_what_an_undo_left_follows_the_commands():
    """The command that undoes it has a line of its own, whole."""
    run, undo = "20261123T154355-8f24e5", "20261123T154401-0a12b3"
    command = f"openstack resource provider batch run undo {run}"
    left = f"run {run} still has 2 changes to undo, when what was set since is undone: {command}"
    commands = NextCommands(undo, {"undo": "undo it"}, left)
    assert Page(WIDTH).name_commands(commands) == [
        f"Run {undo}",
        "undo:   undo it",
        f"Run {run} still has 2 changes to undo, when what was set since",
        "is undone:",
        command,
    ]
    assert Page().name_commands(commands)[-1] == f"R{left[1:]}"
    assert str(commands) == f"Run {undo}; to undo it: undo it; {left}"


def test_nothing_is_said_of_no_rows():
    """There is nothing more to see either."""
    assert Page(WIDTH).describe([], more="(more)") == []


def test_nothing_is_left_out_where_there_is_no_terminal():
    """Warnings in a file are complete."""
    assert len(Page().warn([f"{number} {LONG}" for number in range(100)])) == 100


def test_warnings_that_differ_in_names_and_numbers_share_a_line_if_there_are_many():
    """The others, which may end with a command, are whole."""
    command = "openstack resource provider batch run undo 20260101T000000-abcdef"
    undone = f"Run 20260101T000000-123456 was undone; {'its resume makes some changes; ' * 3}undo: {command}"
    over = [f"host{number}: VCPU would be over capacity by {number}: 64 allocated" for number in range(1, 11)]
    told = "Warning (1 of 10 alike): host1: VCPU would be over capacity by 1: 64 allocated"
    lines = Page(WIDTH).warn([undone, *over])
    assert " ".join(lines).endswith(f"{command} {told}")
    assert Page(WIDTH).warn(over[:2]) == [f"Warning: {each}" for each in over[:2]]
    assert Page().warn(over) == [f"Warning: {each}" for each in over]


def test_plan_has_rows_for_changes_and_refusals():
    """With the reason; what is unchanged has none."""
    change, refused = make_change(1), make_change(2)
    unchanged = make_change(3, new=4.0)
    plan = Plan(
        Recorded("title", ("inventories",)),
        (change, refused, unchanged),
        refused={refused.uuid: PlacementError("no")},
    )
    assert rows_of_plan(plan) == [Row(change), Row(refused, "refused", "no")]


def test_table_escapes_control_characters():
    """In names and reasons."""
    change = make_change(1)
    row = Row(Change(Provider("u", "a\x1b[2J", 1), change.before, change.after), "failed", "\x1b[2J")
    assert make_table([row], ("name", "reason")) == (["name", "reason"], [["a\\x1b[2J", "\\x1b[2J"]])
