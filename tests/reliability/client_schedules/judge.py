# SPDX-License-Identifier: Apache-2.0
"""What must hold after a run, after its resume and after its undo, in cells; nothing here asks the engine.

After a resume each subject has what the run is to bring about, or is named as failed with a reason that what
others wrote explains. After an undo each subject is as if the run had written nothing, or is named as refused
because others have since set what the run had set, and is not touched.
"""

from tests.reliability.client_schedules.cloud import OTHER, RUN, of_subject

DONE = ("applied", "unchanged")


class Judge:
    """The rules for one case.

    :param goal: see `cases.Case`, as `is_closed` and `may_fail`
    """

    def __init__(self, goal, is_closed, may_fail):
        self._goal, self._is_closed, self._may_fail = goal, is_closed, may_fail

    def find_false_claims(self, ledger, outcomes, *, is_first=True):
        """Yield what a run says of its changes that is not so.

        :param is_first: whether nothing was written before; what a resume says is about itself alone
        """
        goal = self._goal(ledger.without)
        for outcome in outcomes:
            uuid, result = outcome.change.uuid, str(outcome.result)
            if result in DONE:
                yield from self._find_missing(ledger, goal, uuid)
            elif not (str(outcome.error or "") or outcome.note):
                yield f"{uuid} is {result} without a reason"
            elif outcome.untouched and is_first:
                left = [cell for cell in ledger.written if cell[1] == uuid and ledger.last.get(cell) == RUN]
                left = [cell for cell in left if ledger.now.get(cell) != ledger.without.get(cell)]
                yield from (f"{uuid} is untouched, and the run has set {cell}" for cell in left)

    def judge_resume(self, ledger, outcomes):
        """Yield what is wrong after a resume that no fault reached."""
        goal = self._goal(ledger.without)
        yield from self.find_false_claims(ledger, [each for each in outcomes if str(each.result) in DONE])
        failed = {}
        for outcome in outcomes:
            uuid, result = outcome.change.uuid, str(outcome.result)
            if result in DONE:
                continue
            failed[uuid] = outcome
            if not (str(outcome.error or "") or outcome.note):
                yield f"{uuid} is {result} without a reason"
            if not (self._may_fail(ledger, uuid) or ledger.is_overwritten(uuid)):
                yield f"{uuid} is {result}, and nobody prevented it: {outcome.error or outcome.note}"
        for uuid in {cell[1] for cell in goal} - failed.keys():
            yield from self._find_missing(ledger, goal, uuid)
        yield from self._find_strange(ledger, goal, failed)

    def _find_missing(self, ledger, goal, uuid):
        """Yield the cells of a subject that are not as the run is to make them."""
        wanted = of_subject(goal, uuid)
        closed = {cell: None for cell in of_subject(ledger.now, uuid) if self._is_closed(cell)}
        for cell, value in (closed | wanted).items():
            if ledger.now.get(cell) == value:
                continue
            overwritten = cell in ledger.written or ledger.first.get(cell) == value
            if not (ledger.last.get(cell) == OTHER and overwritten):
                yield f"{cell} is {ledger.now.get(cell)!r} and not {value!r}, though it is done"

    def _find_strange(self, ledger, goal, failed):
        """Yield the cells that are neither the run's to set nor as others left them."""
        for cell in ledger.now.keys() | ledger.without.keys():
            found = ledger.now.get(cell)
            if found == ledger.without.get(cell) or self._is_closed(cell) or found == goal.get(cell, ...):
                continue
            # found to be missing or not already; a name may be a temporary one
            if cell in goal and (cell[1] not in failed or cell[2] == "name"):
                continue
            yield f"{cell} is {found!r}, and would be {ledger.without.get(cell)!r} without the run"

    def judge_undo(self, ledger, before, outcomes, *, is_forced=False):
        """Yield what is wrong after an undo that no fault reached.

        :param ledger: with the writes of the undo as those of the run
        :param before: the cells before the undo
        """
        refused = {}
        for outcome in outcomes:
            uuid, result = outcome.change.uuid, str(outcome.result)
            if result in DONE or (outcome.untouched and not self._is_due(ledger, before, uuid)):
                continue
            refused[uuid] = outcome
            if not (str(outcome.error or "") or outcome.note):
                yield f"the undo of {uuid} is {result} without a reason"
            if not (self._may_fail(ledger, uuid) or (ledger.is_overwritten(uuid) and not is_forced)):
                yield f"{uuid} is not undone, and nobody prevented it: {outcome.error or outcome.note}"
        parted = _find_parted(ledger)
        for cell in ledger.now.keys() | ledger.without.keys():
            if cell[2] == "owner" and ledger.has_other(cell[1]):
                continue  # it is there as long as the consumer holds what others gave it
            found = ledger.now.get(cell)
            wanted = before.get(cell) if cell[1] in refused else ledger.without.get(cell)
            if cell[:4] in parted and (is_forced or cell not in ledger.others):
                continue  # the inventory cannot be there without its other fields
            if found != wanted and not (cell[1] in refused and cell[2] == "name"):
                yield f"{cell} is {found!r} after the undo and not {wanted!r}"

    def judge_refusal(self, ledger, before, error):
        """Yield what is wrong if a resume or an undo was refused as a whole."""
        if ledger.is_alone:
            yield f"it was refused, and nobody else wrote anything: {error}"
        for cell in before.keys() | ledger.now.keys():
            if before.get(cell) != ledger.now.get(cell):
                yield f"{cell} was changed, though it was refused: {error}"

    @staticmethod
    def _is_due(ledger, before, uuid):
        """Whether there was anything of a subject to undo."""
        return of_subject(before, uuid) != of_subject(ledger.without, uuid)


def _find_parted(ledger):
    """Return the inventories that the run added or removed, and of which others set fields."""
    set_by_both = {cell[:4] for cell in ledger.others & ledger.written if cell[2] == "inventories"}
    return {cell[:4] for cell in ledger.written - ledger.others if cell[:4] in set_by_both}
