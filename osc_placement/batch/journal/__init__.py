# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: the plan, the state before it, and the outcome, from which a run is resumed and undone.

A run is one file of JSON Lines, appended to and never rewritten, readable by its owner only:

    {"record": "run", "version": 1, ...}          which run, on which server, what edit
    {"record": "intent", "provider": {...}, "before": {...}, "after": {...}}      one for each change
    {"record": "intent", ..., "error": "..."}     one for each that will not be tried, and why
    {"record": "planned", "changes": 2}           all intents are here and on the disk; now writes may begin
    {"record": "intent", ...}                     planned again, because somebody else was faster
    {"record": "outcome", "uuid": ..., "result": "applied", "generation": 5}
    {"record": "end", "status": 0}                how this attempt ended; a resume appends more of the above

A process may die at any byte, and a disk be full at any: a last line that is torn counts as not written, and
is cut off before the next. Each line has a checksum that the one before it goes into, and beside the journal
``ID.mark`` says how many lines there were, and the checksum of the last, when something was last
synchronized: a journal of which any line was changed, or is missing, is refused. Only the file's own writer
holds a lock on it, so a run that is under way can be told from one that died.

``file`` writes and finds journals, ``record`` has changes and edits as JSON and reads the lines of a run,
``run`` is what they tell, ``checksum`` has the chain of sums, and ``saved`` keeps plans that are carried out
later.
"""

from osc_placement.batch.journal.file import Journal, Journals, identify_server, state_directory
from osc_placement.batch.journal.run import (
    Ending,
    Header,
    JournalDamaged,
    JournalError,
    Run,
    Summary,
    Undone,
    find_undone,
)

__all__ = [
    "Ending",
    "Header",
    "Journal",
    "JournalDamaged",
    "JournalError",
    "Journals",
    "Run",
    "Summary",
    "Undone",
    "find_undone",
    "identify_server",
    "state_directory",
]
