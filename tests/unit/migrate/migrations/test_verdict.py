# SPDX-License-Identifier: Apache-2.0
"""What an instance holds is judged by its state: every state of nova, in a task or not, on a host or not."""

from datetime import UTC, datetime, timedelta

import pytest

from osc_placement.migrate.migrations.verdict import Verdict, judge_instance
from osc_placement.migrate.nova.facts import Instance

NOW, PATIENCE = datetime(2026, 1, 2, tzinfo=UTC), 3600
BUILT = ("active", "error", "paused", "rescued", "resized", "shelved", "soft-delete", "stopped", "suspended")
OFF_HOST = ("deleted", "shelved_offloaded")
#: with a state that a later nova may have
UNSETTLED = ("building", None, "teleported")
HOURS = {"now": 0, "long ago": 2, "at an unknown time": None}


def judge(vm_state, task_state=None, host=None, when="now", is_expected=False):
    """The verdict on an instance that was changed at some time."""
    hours = HOURS[when]
    changed = None if hours is None else NOW - timedelta(hours=hours)
    instance = Instance("i", "p", "u", host, host, vm_state, task_state, changed_at=changed)
    return judge_instance(instance, is_expected=is_expected, now=NOW, patience=PATIENCE)


@pytest.mark.parametrize("task_state", [None, "spawning"])
@pytest.mark.parametrize("is_expected", [False, True])
@pytest.mark.parametrize("vm_state", [*BUILT, *OFF_HOST, *UNSETTLED])
def test_instance_on_a_host_is_placed_unless_nova_counts_nothing_of_it(vm_state, task_state, is_expected):
    """An instance that is offloaded or deleted counts while nova is still at it."""
    is_off = vm_state in OFF_HOST and not (task_state or is_expected)
    expected = Verdict.UNUSED if is_off else Verdict.PLACED
    assert judge(vm_state, task_state, "h1", "long ago", is_expected) is expected


@pytest.mark.parametrize("when", HOURS)
@pytest.mark.parametrize("vm_state", [*BUILT, *OFF_HOST])
def test_instance_on_no_host_and_in_no_task_uses_nothing(vm_state, when):
    """Nova gives it a task before it claims anything for it."""
    assert judge(vm_state, when=when) is Verdict.UNUSED


@pytest.mark.parametrize(
    ("vm_state", "task_state", "is_expected"),
    [
        *((vm_state, "deleting", False) for vm_state in (*BUILT, *OFF_HOST, *UNSETTLED)),
        *((vm_state, None, True) for vm_state in (*BUILT, *OFF_HOST, *UNSETTLED)),
        *((vm_state, None, False) for vm_state in UNSETTLED),
    ],
)
@pytest.mark.parametrize(
    ("when", "expected"),
    [("now", Verdict.PENDING), ("at an unknown time", Verdict.PENDING), ("long ago", Verdict.STUCK)],
)
def test_instance_that_nova_is_at_is_pending_and_then_stuck(
    vm_state, task_state, is_expected, when, expected
):
    """One of which nobody knows when it was changed may have been changed now."""
    assert judge(vm_state, task_state, None, when, is_expected) is expected
