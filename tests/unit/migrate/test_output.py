# SPDX-License-Identifier: Apache-2.0
"""What people read of problems."""

from osc_placement.migrate.output import describe_problems
from osc_placement.migrate.problem import Problem, Reason


def test_problems_of_one_text_are_counted_after_the_first_20():
    """A thousand lines of one reason hide the others; what somebody can mend has its line, however many."""
    away = [Problem(Reason.UNKNOWN, f"host h{number}", "its cell is away") for number in range(1000)]
    full = [Problem(Reason.OVER_CAPACITY, f"instance i{number}", "no room") for number in range(50)]
    cell = Problem(Reason.UNKNOWN, "cell c", "refused")
    lines = describe_problems([*away, *full, cell])
    assert lines[:20] == [f"host h{number}: its cell is away" for number in range(20)]
    assert lines[20:70] == [f"instance i{number}: no room" for number in range(50)]
    assert lines[70:] == ["cell c: refused", "... and 980 more, which -f json has: its cell is away"]


def test_few_problems_have_a_line_each():
    """As many as fit on a screen."""
    away = [Problem(Reason.UNKNOWN, f"host h{number}", "its cell is away") for number in range(20)]
    assert describe_problems(away) == list(map(str, away))
