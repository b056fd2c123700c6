# SPDX-License-Identifier: Apache-2.0
"""Bodies and queries about resource providers, a constant per range of microversions."""

from osc_placement.server.api.schemas.fragments import TEXT, UUID, extend, record

_NAME = {"type": "string", "maxLength": 200}
_PARENT = {"parent_provider_uuid": {"anyOf": [UUID, {"type": "null"}]}}

POST_1_0 = record({"name": _NAME, "uuid": UUID}, required=("name",))
POST_1_14 = extend(POST_1_0, _PARENT)
PUT_1_0 = record({"name": _NAME}, required=("name",))
PUT_1_14 = extend(PUT_1_0, _PARENT)

LIST_1_0 = record({"name": TEXT, "uuid": UUID})
LIST_1_3 = extend(LIST_1_0, {"member_of": TEXT})
LIST_1_4 = extend(LIST_1_3, {"resources": TEXT})
LIST_1_14 = extend(LIST_1_4, {"in_tree": UUID})
LIST_1_18 = extend(LIST_1_14, {"required": TEXT})

#: the query of the bulk read, at any microversion
READ = extend(LIST_1_18, {"want": {"type": "string"}})
