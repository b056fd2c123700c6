# SPDX-License-Identifier: Apache-2.0
"""When a mirror that follows acts again, and what ends it."""

import threading

import pytest

from osc_placement.batch.facets import ProviderState
from osc_placement.batch.membership import TraitEdit
from osc_placement.batch.plan import Change, Outcome, Plan, Result
from osc_placement.errors import Forbidden, PlacementError, Unreachable, UsageError
from osc_placement.migrate.commands import is_progress
from osc_placement.migrate.migrations.base import Assessment
from osc_placement.migrate.migrations.follow import Memory, Sight, follow
from osc_placement.migrate.nova.settings import Misconfigured
from osc_placement.migrate.problem import Problem, Reason
from osc_placement.model import Provider

INTERVAL = 60.0


def see(*traits, generation=0, problems=()):
    """A provider that is to get these traits, and what is left alone."""
    provider = Provider("u", "h1", generation, None, "u")
    changes = [
        Change(provider, ProviderState(traits=frozenset()), ProviderState(traits=frozenset(traits)))
    ] * bool(traits)
    found = [Problem(Reason.UNKNOWN, name, "why") for name in problems]
    return Sight.of(Assessment(Plan(TraitEdit("add", frozenset(traits)), tuple(changes)), found))


IN_VAIN = Memory().note_run(see("A"), 0, 1000.0, INTERVAL)


@pytest.mark.parametrize(
    ("memory", "sight", "now", "is_due"),
    [
        (Memory(), see(), 0, True),
        (Memory(see()), see(), 1, False),
        (Memory(see()), see("A"), 1, True),
        (Memory(see("A")), see("A"), 1, True),
        (Memory(see("A")), see(problems=["h2"]), 1, True),
        (IN_VAIN, see("A"), 1059, False),
        (IN_VAIN, see("A", generation=7), 1059, False),
        (IN_VAIN, see("A"), 1060, True),
        (IN_VAIN, see("A", "B"), 1001, True),
        (IN_VAIN, see("A", problems=["h2"]), 1001, True),
        (IN_VAIN, see(), 5000, False),
    ],
)
def test_refused_changes_are_tried_again_after_a_pause_or_a_difference(memory, sight, now, is_due):
    """What others do to the provider is no difference; more to change, or to tell, is one."""
    assert memory.is_due(sight, now) == is_due


@pytest.mark.parametrize(
    ("result", "error", "progress"),
    [
        (Result.APPLIED, None, True),
        (Result.FAILED, Forbidden(403, "no"), False),
        (Result.FAILED, Unreachable("PUT", "http://p", "refused"), True),
        (Result.SKIPPED, None, False),
    ],
)
def test_changes_are_tried_again_at_once_after_placement_did_not_answer(result, error, progress):
    """It may answer at the next look, and is not left alone for an hour."""
    change = Change(Provider("u", "h1", 0), ProviderState(), ProviderState())
    assert is_progress(Outcome(change, result, error=error)) is progress


def test_pauses_grow_to_an_hour_and_end_with_a_success():
    """What is refused a whole day makes thirty journals and not 1,440; what stood in the way may go."""
    memory, pauses = Memory(), []
    for _ in range(8):
        memory = memory.note_run(see("A"), 0, 0.0, INTERVAL)
        pauses.append(memory.pause)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert memory.note_run(see("A", "B"), 0, 0.0, INTERVAL).pause == 60
    assert memory.note_run(see("A"), 1, 0.0, INTERVAL).pause == 0
    assert Memory().note_run(see("A"), 0, 0.0, 7200.0).pause == 7200


class Sequence:
    """Looks that end as they are told to; the last ends the following."""

    def __init__(self, *endings):
        self.stop = threading.Event()
        self._endings = list(endings)

    def look(self):
        ending = self._endings.pop(0)
        if not self._endings:
            self.stop.set()
        if isinstance(ending, Exception):
            raise ending
        return ending

    def follow(self):
        follow(self.look, lambda _: 0, interval=1, stop=self.stop, wait=lambda _: None)


NOTHING = Assessment(Plan(TraitEdit("add", frozenset()), ()))


@pytest.mark.parametrize("error", [Misconfigured("no such file"), UsageError("no such aggregate")])
def test_wrong_configuration_ends_follow_before_a_comparison_succeeded(error, capsys):
    """Also where placement was away when it began; an aggregate that goes later may come again."""
    with pytest.raises(type(error)):
        Sequence(PlacementError("nobody answers"), error, NOTHING).follow()
    capsys.readouterr()
    Sequence(NOTHING, error, error, NOTHING).follow()
    assert capsys.readouterr().err == f"placement-migrate: {error}\n"
