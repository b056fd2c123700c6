# SPDX-License-Identifier: Apache-2.0
"""The errors of the server, and how they are answered.

::

    PlacementError                      answered as
    ├── NotFound                        404, without "vary"
    │   ├── PathNotFound
    │   ├── ProviderNotFound
    │   ├── ResourceClassNotFound
    │   ├── TraitNotFound
    │   ├── InventoryNotFound
    │   └── AllocationsNotFound
    ├── Conflict                        409
    │   ├── ConcurrentUpdate            with code placement.concurrent_update
    │   │   ├── ProviderChanged
    │   │   └── ConsumerChanged
    │   ├── DuplicateProvider           with code placement.duplicate_name
    │   ├── ProviderInUse               with code placement.resource_provider.inuse
    │   ├── ProviderHasChildren         with code placement.resource_provider.cannot_delete_parent
    │   ├── InventoryInUse              with code placement.inventory.inuse
    │   ├── ResourceClassExists, ResourceClassInUse, TraitInUse
    │   ├── GenerationExhausted         clients must not try again
    │   └── InventoryUnfit              no such inventory
    │       ├── CapacityExceeded
    │       └── ConstraintsViolated
    ├── Invalid                         400
    │   ├── BadContentHeaders           without "vary"
    │   ├── TreeRefused
    │   ├── ReservedTooLarge
    │   ├── SearchCut                   with code placement.allocation_candidates.search_cut
    │   ├── StandardIsFixed
    │   └── Unstorable
    ├── Unavailable                     503
    │   ├── DatabaseUnavailable
    │   │   └── OutcomeUnknown
    │   ├── DatabaseFull
    │   ├── DatabaseReadOnly
    │   ├── SchemaUnfit
    │   └── TooMuchContention
    ├── Forbidden                       403, without "vary"
    │   └── WrongScope
    └── HTTPError                       as it says

The messages are those of openstack-placement if clients are known to match on them or show them. A handler
that answers an error differently uses `answering`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from osc_placement import codes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Retry(Exception):
    """The transaction lost a race and is to be repeated; this never leaves the database layer."""


class PlacementError(Exception):
    """Base of all errors that are answered intentionally."""

    status = 500
    code = codes.UNDEFINED
    #: whether the answer's "vary" names the microversion header, which openstack-placement omits from some
    varies = True


class NotFound(PlacementError):
    """An object named in the request does not exist."""

    status = 404
    varies = False


class PathNotFound(NotFound):
    """The API has no such path."""


class ProviderNotFound(NotFound):
    """No provider has this UUID."""

    def __init__(self, uuid: str) -> None:
        super().__init__(f"No resource provider with uuid {uuid} found")
        self.uuid = uuid


class ResourceClassNotFound(NotFound):
    """No resource class has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No such resource class {name}.")
        self.name = name


class TraitNotFound(NotFound):
    """No trait has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No such trait(s): {name}.")
        self.name = name


class InventoryNotFound(NotFound):
    """The provider has no inventory of this class."""

    def __init__(self, resource_class: str) -> None:
        super().__init__(f"No inventory of class {resource_class} found.")


class AllocationsNotFound(NotFound):
    """The consumer holds nothing."""

    def __init__(self, consumer_uuid: str) -> None:
        super().__init__(f"No allocations for consumer '{consumer_uuid}'")


class Conflict(PlacementError):
    """The request contradicts the present state."""

    status = 409


class ConcurrentUpdate(Conflict):
    """The data that the request was based on were changed; reading again and retrying may succeed."""

    code = codes.CONCURRENT_UPDATE

    def __init__(
        self, message: str = "Another thread concurrently updated the data. Please retry your update"
    ) -> None:
        super().__init__(message)


class ProviderChanged(ConcurrentUpdate):
    """A provider's generation is not the one that was read."""

    def __init__(self) -> None:
        super().__init__(
            "Another thread concurrently updated the resource provider data. Please retry your update"
        )


class ConsumerChanged(ConcurrentUpdate):
    """A consumer's generation is not the one the request is based on; None means no such consumer."""

    def __init__(self, expected: int | None, given: int | None) -> None:
        said = "null" if expected is None else expected
        super().__init__(f"consumer generation conflict - expected {said} but got {given}")


class GenerationExhausted(Conflict):
    """The generation is the largest number that its column holds, so nothing can be changed any more.

    :param table: that of the object, which an operator has to change
    """

    def __init__(self, table: str, uuid: str, generation: int) -> None:
        super().__init__(
            f"The generation of {uuid} is {generation}, the largest that the database stores, so it cannot "
            f"be changed any more; an operator has to set 'generation' to 1 in the database, where 'uuid' is "
            f"{uuid} in the table {table}"
        )


class DuplicateProvider(Conflict):
    """Another provider has this name or UUID; ``duplicates`` is like ``name: compute-1``."""

    code = codes.DUPLICATE_NAME

    def __init__(self, duplicates: str) -> None:
        super().__init__(f"Conflicting resource provider {duplicates} already exists.")


class ProviderInUse(Conflict):
    """Consumers hold allocations on the provider."""

    code = codes.PROVIDER_IN_USE

    def __init__(self) -> None:
        super().__init__("Resource provider has allocations.")


class ProviderHasChildren(Conflict):
    """Other providers have this one as their parent."""

    code = codes.CANNOT_DELETE_PARENT


class InventoryInUse(Conflict):
    """Inventory that consumers hold allocations of cannot go away."""

    code = codes.INVENTORY_IN_USE

    def __init__(self, resource_classes: Iterable[str], provider_uuid: str) -> None:
        classes = ", ".join(resource_classes)
        super().__init__(f"Inventory for '{classes}' on resource provider '{provider_uuid}' in use.")


class ResourceClassExists(Conflict):
    """The name is taken by another resource class."""


class ResourceClassInUse(Conflict):
    """Some provider has inventory of the class."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Cannot delete resource class {name}. Class is in use in inventory.")


class TraitInUse(Conflict):
    """Some provider has the trait."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The trait {name} is in use by a resource provider.")


class InventoryUnfit(Conflict):
    """An allocation does not fit the inventory, here because there is none."""

    problem = ""
    subject = "Inventory for"
    verdict = "invalid."

    def __init__(self, resource_class: str, provider_uuid: str) -> None:
        super().__init__(
            f"{self.subject} '{resource_class}' on resource provider '{provider_uuid}'{self.problem} "
            f"{self.verdict}".strip()
        )


class CapacityExceeded(InventoryUnfit):
    """The provider would be used beyond its capacity."""

    subject = "Unable to create allocation for"
    problem = "."
    verdict = "The requested amount would exceed the capacity."


class ConstraintsViolated(InventoryUnfit):
    """The amount violates min_unit, max_unit or step_size."""

    subject = "Unable to create allocation for"
    problem = "."
    verdict = "The requested amount would violate inventory constraints."


class Invalid(PlacementError):
    """The request can never succeed as it is."""

    status = 400


class BadContentHeaders(Invalid):
    """The headers content-length and content-type do not describe the body."""

    varies = False


class TreeRefused(Invalid):
    """A provider cannot take this place in a tree."""

    def __init__(self, action: str, reason: str) -> None:
        super().__init__(f"Object action {action} failed because: {reason}")


class ReservedTooLarge(Invalid):
    """An inventory reserves more than the microversion allows."""

    def __init__(self, resource_class: str, provider_uuid: str, *, may_equal_total: bool) -> None:
        excess = "greater than" if may_equal_total else "greater than or equal to"
        super().__init__(
            f"Invalid inventory for '{resource_class}' on resource provider '{provider_uuid}'. "
            f"The reserved value is {excess} total."
        )


class SearchCut(Invalid):
    """A search for candidates took too much work before it found one; there may be one.

    This is no `Unavailable`: the same request would take the same work again.
    """

    code = codes.SEARCH_CUT

    def __init__(self) -> None:
        super().__init__(
            "The search for allocation candidates was cut before it found one, as the groups can be "
            "combined in too many ways: whether there is a candidate is not known. Ask for fewer groups, or "
            "narrow them with required, member_of or in_tree."
        )


class StandardIsFixed(Invalid):
    """A standard trait or resource class can be neither renamed nor deleted."""


class Unstorable(Invalid):
    """The database, as it is configured, cannot represent a value, such as a character."""

    def __init__(self) -> None:
        super().__init__("The request contains a value that the database cannot store.")


class Forbidden(PlacementError):
    """The policy does not permit the caller to do this."""

    status = 403
    varies = False

    def __init__(self, action: str) -> None:
        super().__init__(f"Policy does not allow {action} to be performed.")


class WrongScope(Forbidden):
    """The caller's token is not for a project; the answer names only the rule."""

    def __init__(self, action: str) -> None:
        PlacementError.__init__(self, action)


class Unavailable(PlacementError):
    """The request is valid, but cannot be answered now; it may be sent again later."""

    status = 503


class DatabaseUnavailable(Unavailable):
    """There is no usable connection to the database, so nothing was changed."""

    def __init__(self, message: str = "The database cannot be reached. Please retry your request.") -> None:
        super().__init__(message)


class OutcomeUnknown(DatabaseUnavailable):
    """The connection to the database broke at the commit, so everything was changed, or nothing."""

    def __init__(self) -> None:
        super().__init__(
            "The database was lost while it stored the change, which may be in effect. Read before you retry."
        )


class DatabaseFull(Unavailable):
    """The database has no space on its disk for a change; reading is possible."""

    def __init__(self) -> None:
        super().__init__("The database has no room left; nothing was changed. Tell the operator.")


class DatabaseReadOnly(Unavailable):
    """The database accepts no changes, as on a standby; reading is possible."""

    def __init__(self) -> None:
        super().__init__("The database is read-only; nothing was changed. Tell the operator.")


class SchemaUnfit(Unavailable):
    """The tables are not as required; the operator has been told what to do."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"The service cannot be used yet. {fault}.")


class TooMuchContention(Unavailable):
    """The transaction lost a race at each attempt."""

    def __init__(self) -> None:
        super().__init__("Too many requests change the same data at once. Please retry your request.")


class HTTPError(PlacementError):
    """An answer with a status that is set where it is raised."""

    def __init__(
        self,
        status: int,
        message: str | None = None,
        *,
        code: str = codes.UNDEFINED,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to errors of one class; ``template`` may use ``{error}`` and the facts given."""

    error: type[PlacementError]
    status: int
    template: str
    code: str = codes.UNDEFINED


@contextmanager
def answering(*answers: Answer, **facts: object) -> Iterator[None]:
    """Answer errors raised in the block by the first of ``answers`` for their class or a base of it."""
    try:
        yield
    except HTTPError:
        raise
    except PlacementError as error:
        for answer in answers:
            if isinstance(error, answer.error):
                message = answer.template.format(error=error, **facts)
                raise HTTPError(answer.status, message, code=answer.code) from error
        raise
