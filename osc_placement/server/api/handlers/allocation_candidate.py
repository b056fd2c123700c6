# SPDX-License-Identifier: Apache-2.0
"""Allocation candidates over HTTP."""

from __future__ import annotations

import logging
import random
from itertools import islice
from typing import Any, Final

from osc_placement.candidates.query import BadQuery
from osc_placement.candidates.request import parse
from osc_placement.candidates.search import STEPS, search
from osc_placement.candidates.work import Work
from osc_placement.server import errors
from osc_placement.server.api.handlers import candidate_body
from osc_placement.server.api.http import Request, reply_bytes
from osc_placement.server.errors import Answer, answering

LOG = logging.getLogger(__name__)

#: the limit on candidates if neither client nor operator sets one: less than a second of work
MOST_CANDIDATES: Final = 50_000


def list_candidates(request: Request, _parameters: object) -> Any:
    """GET /allocation_candidates.

    That there is none is answered only if it is proved.

    :raises errors.SearchCut: if the work was over before a candidate was found
    """
    try:
        wanted = parse(list(request.web.GET.items()), request.version)
    except BadQuery as error:
        raise errors.HTTPError(400, str(error), code=error.code) from error
    loaded = request.current.get()
    view = loaded.snapshot
    answers = (
        Answer(errors.ResourceClassNotFound, 400, "Invalid resource class in resources parameter: {error}"),
        Answer(errors.TraitNotFound, 400, "{error}"),
    )
    with answering(*answers):
        traits = wanted.root.names.union(*(group.traits.names for group in wanted.groups))
        loaded.check_names(traits, wanted.classes)
    placement = request.service.conf.placement
    configured = placement.max_allocation_candidates
    bound = configured if configured >= 0 else MOST_CANDIDATES
    is_ours = wanted.limit is None or wanted.limit > bound
    if wanted.limit is not None and not is_ours:
        bound = wanted.limit
    work = Work(STEPS)
    shuffle = random.shuffle if placement.randomize_allocation_candidates else None
    # of the operator's limit, and not the client's, one more is searched, to find out whether there are more
    found = list(islice(search(view, wanted, work, shuffle=shuffle), bound + is_ours))
    request.service.metrics.searched(min(len(found), bound), whole=not (work.is_over or len(found) > bound))
    if work.is_over and not found:
        cut = errors.SearchCut()
        LOG.warning("%s", cut)
        raise cut
    if work.is_over or len(found) > bound:
        LOG.warning(
            "there are more candidates than the %d found: %s; ask for fewer groups or set a limit",
            min(len(found), bound),
            "searching on would take too long" if work.is_over else "[placement]max_allocation_candidates",
        )
    return reply_bytes(request, candidate_body.render(view, wanted, request.version, found[:bound]))
