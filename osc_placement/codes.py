# SPDX-License-Identifier: Apache-2.0
"""Error codes of the placement REST API: the ``code`` of each entry of ``errors`` from microversion 1.23.

They are part of the API (nova branches on some of them), so they are never renamed; one constant per code.
"""

from typing import Final

UNDEFINED: Final = "placement.undefined_code"
CONCURRENT_UPDATE: Final = "placement.concurrent_update"
DUPLICATE_NAME: Final = "placement.duplicate_name"
INVENTORY_IN_USE: Final = "placement.inventory.inuse"
PROVIDER_IN_USE: Final = "placement.resource_provider.inuse"
CANNOT_DELETE_PARENT: Final = "placement.resource_provider.cannot_delete_parent"
PROVIDER_NOT_FOUND: Final = "placement.resource_provider.not_found"
QUERY_DUPLICATE_KEY: Final = "placement.query.duplicate_key"
QUERY_BAD_VALUE: Final = "placement.query.bad_value"
QUERY_MISSING_VALUE: Final = "placement.query.missing_value"
#: sent by the bundled server only
SEARCH_CUT: Final = "placement.allocation_candidates.search_cut"
