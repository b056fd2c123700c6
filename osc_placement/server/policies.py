# SPDX-License-Identifier: Apache-2.0
"""The policy rules with their names, defaults and descriptions; `policy` lists and enforces them.

Names, check strings and scopes are openstack-placement's, so an operator's ``policy.yaml`` keeps working.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oslo_policy import policy

_RESOURCE_PROVIDERS = "placement:resource_providers"
PROVIDER_LIST: Final = f"{_RESOURCE_PROVIDERS}:list"
PROVIDER_CREATE: Final = f"{_RESOURCE_PROVIDERS}:create"
PROVIDER_SHOW: Final = f"{_RESOURCE_PROVIDERS}:show"
PROVIDER_UPDATE: Final = f"{_RESOURCE_PROVIDERS}:update"
PROVIDER_DELETE: Final = f"{_RESOURCE_PROVIDERS}:delete"
RESOURCE_CLASS_LIST: Final = "placement:resource_classes:list"
RESOURCE_CLASS_CREATE: Final = "placement:resource_classes:create"
RESOURCE_CLASS_SHOW: Final = "placement:resource_classes:show"
RESOURCE_CLASS_UPDATE: Final = "placement:resource_classes:update"
RESOURCE_CLASS_DELETE: Final = "placement:resource_classes:delete"
INVENTORY_LIST: Final = f"{_RESOURCE_PROVIDERS}:inventories:list"
INVENTORY_CREATE: Final = f"{_RESOURCE_PROVIDERS}:inventories:create"
INVENTORY_SHOW: Final = f"{_RESOURCE_PROVIDERS}:inventories:show"
INVENTORY_UPDATE: Final = f"{_RESOURCE_PROVIDERS}:inventories:update"
INVENTORY_DELETE: Final = f"{_RESOURCE_PROVIDERS}:inventories:delete"
AGGREGATE_LIST: Final = f"{_RESOURCE_PROVIDERS}:aggregates:list"
AGGREGATE_UPDATE: Final = f"{_RESOURCE_PROVIDERS}:aggregates:update"
PROVIDER_USAGES: Final = f"{_RESOURCE_PROVIDERS}:usages"
TOTAL_USAGES: Final = "placement:usages"
TRAIT_LIST: Final = "placement:traits:list"
TRAIT_SHOW: Final = "placement:traits:show"
TRAIT_UPDATE: Final = "placement:traits:update"
TRAIT_DELETE: Final = "placement:traits:delete"
PROVIDER_TRAIT_LIST: Final = f"{_RESOURCE_PROVIDERS}:traits:list"
PROVIDER_TRAIT_UPDATE: Final = f"{_RESOURCE_PROVIDERS}:traits:update"
PROVIDER_TRAIT_DELETE: Final = f"{_RESOURCE_PROVIDERS}:traits:delete"
ALLOCATION_MANAGE: Final = "placement:allocations:manage"
ALLOCATION_LIST: Final = "placement:allocations:list"
ALLOCATION_UPDATE: Final = "placement:allocations:update"
ALLOCATION_DELETE: Final = "placement:allocations:delete"
PROVIDER_ALLOCATION_LIST: Final = f"{_RESOURCE_PROVIDERS}:allocations:list"
CANDIDATE_LIST: Final = "placement:allocation_candidates:list"
RESHAPE: Final = "placement:reshaper:reshape"

#: what each rule permits, in the order of sample files
DESCRIPTIONS: Final[Mapping[str, str]] = {
    PROVIDER_LIST: "List resource providers.",
    PROVIDER_CREATE: "Create a resource provider.",
    PROVIDER_SHOW: "Show a resource provider.",
    PROVIDER_UPDATE: "Rename or move a resource provider.",
    PROVIDER_DELETE: "Delete a resource provider.",
    RESOURCE_CLASS_LIST: "List resource classes.",
    RESOURCE_CLASS_CREATE: "Create a custom resource class.",
    RESOURCE_CLASS_SHOW: "Show a resource class.",
    RESOURCE_CLASS_UPDATE: "Create or rename a resource class.",
    RESOURCE_CLASS_DELETE: "Delete a resource class.",
    INVENTORY_LIST: "List a provider's inventories.",
    INVENTORY_CREATE: "Add inventory to a provider.",
    INVENTORY_SHOW: "Show a provider's inventory of one class.",
    INVENTORY_UPDATE: "Replace a provider's inventories, or that of one class.",
    INVENTORY_DELETE: "Delete a provider's inventories, or that of one class.",
    AGGREGATE_LIST: "List a provider's aggregates.",
    AGGREGATE_UPDATE: "Set a provider's aggregates.",
    PROVIDER_USAGES: "Show what is used of a provider.",
    TRAIT_LIST: "List traits.",
    TRAIT_SHOW: "Show whether a trait exists.",
    TRAIT_UPDATE: "Create a custom trait.",
    TRAIT_DELETE: "Delete a custom trait.",
    PROVIDER_TRAIT_LIST: "List a provider's traits.",
    PROVIDER_TRAIT_UPDATE: "Set a provider's traits.",
    PROVIDER_TRAIT_DELETE: "Remove a provider's traits.",
    ALLOCATION_MANAGE: "Set the allocations of several consumers.",
    ALLOCATION_LIST: "List a consumer's allocations.",
    ALLOCATION_UPDATE: "Set a consumer's allocations.",
    ALLOCATION_DELETE: "Delete a consumer's allocations.",
    PROVIDER_ALLOCATION_LIST: "List the allocations on a provider.",
    CANDIDATE_LIST: "Search allocation candidates.",
    TOTAL_USAGES: "Show the usages of a project.",
    RESHAPE: "Move inventory with its allocations.",
}
#: the checks of rules that are not for administrators and services
CHECKS: Final[Mapping[str, str]] = {
    TOTAL_USAGES: "rule:admin_or_project_reader_or_service_api",
    RESHAPE: "rule:service_api",
}
USUAL_CHECK: Final = "rule:admin_or_service_api"

_LEGACY = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="The defaults now know the service and reader roles beside admin.",
    deprecated_since="W",
)

ROLES: Final = (
    policy.RuleDefault("admin_api", "role:admin", "Administrators.", scope_types=["project"]),
    policy.RuleDefault(
        "service_api", "role:service", "OpenStack services.", scope_types=["project"], deprecated_rule=_LEGACY
    ),
    policy.RuleDefault(
        "admin_or_service_api",
        "role:admin or role:service",
        "Administrators and OpenStack services.",
        scope_types=["project"],
        deprecated_rule=_LEGACY,
    ),
    policy.RuleDefault(
        "project_reader_api",
        "role:reader and project_id:%(project_id)s",
        "Readers of the project asked about.",
        deprecated_rule=_LEGACY,
    ),
    policy.RuleDefault(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        "Administrators, OpenStack services, and readers of the project asked about.",
        scope_types=["project"],
        deprecated_rule=_LEGACY,
    ),
)
