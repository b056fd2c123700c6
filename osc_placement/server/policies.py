# SPDX-License-Identifier: Apache-2.0
"""The policy rules with their names, defaults and operations; `policy` enforces them.

Names, check strings and scopes are openstack-placement's, so an operator's ``policy.yaml`` keeps working.
"""

from __future__ import annotations

from typing import Any, Final

from oslo_policy import policy

_ADMIN_OR_SERVICE: Final = "rule:admin_or_service_api"

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

# each item is a rule, its description, and its operations
_OPERATIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (PROVIDER_LIST, "List resource providers.", ("GET /resource_providers",)),
    (PROVIDER_CREATE, "Create a resource provider.", ("POST /resource_providers",)),
    (PROVIDER_SHOW, "Show a resource provider.", ("GET /resource_providers/{uuid}",)),
    (PROVIDER_UPDATE, "Rename or move a resource provider.", ("PUT /resource_providers/{uuid}",)),
    (PROVIDER_DELETE, "Delete a resource provider.", ("DELETE /resource_providers/{uuid}",)),
    (RESOURCE_CLASS_LIST, "List resource classes.", ("GET /resource_classes",)),
    (RESOURCE_CLASS_CREATE, "Create a custom resource class.", ("POST /resource_classes",)),
    (RESOURCE_CLASS_SHOW, "Show a resource class.", ("GET /resource_classes/{name}",)),
    (RESOURCE_CLASS_UPDATE, "Create or rename a resource class.", ("PUT /resource_classes/{name}",)),
    (RESOURCE_CLASS_DELETE, "Delete a resource class.", ("DELETE /resource_classes/{name}",)),
    (INVENTORY_LIST, "List a provider's inventories.", ("GET /resource_providers/{uuid}/inventories",)),
    (INVENTORY_CREATE, "Add inventory to a provider.", ("POST /resource_providers/{uuid}/inventories",)),
    (
        INVENTORY_SHOW,
        "Show a provider's inventory of one class.",
        ("GET /resource_providers/{uuid}/inventories/{resource_class}",),
    ),
    (
        INVENTORY_UPDATE,
        "Replace a provider's inventories, or that of one class.",
        (
            "PUT /resource_providers/{uuid}/inventories",
            "PUT /resource_providers/{uuid}/inventories/{resource_class}",
        ),
    ),
    (
        INVENTORY_DELETE,
        "Delete a provider's inventories, or that of one class.",
        (
            "DELETE /resource_providers/{uuid}/inventories",
            "DELETE /resource_providers/{uuid}/inventories/{resource_class}",
        ),
    ),
    (AGGREGATE_LIST, "List a provider's aggregates.", ("GET /resource_providers/{uuid}/aggregates",)),
    (AGGREGATE_UPDATE, "Set a provider's aggregates.", ("PUT /resource_providers/{uuid}/aggregates",)),
    (PROVIDER_USAGES, "Show what is used of a provider.", ("GET /resource_providers/{uuid}/usages",)),
    (TRAIT_LIST, "List traits.", ("GET /traits",)),
    (TRAIT_SHOW, "Show whether a trait exists.", ("GET /traits/{name}",)),
    (TRAIT_UPDATE, "Create a custom trait.", ("PUT /traits/{name}",)),
    (TRAIT_DELETE, "Delete a custom trait.", ("DELETE /traits/{name}",)),
    (PROVIDER_TRAIT_LIST, "List a provider's traits.", ("GET /resource_providers/{uuid}/traits",)),
    (PROVIDER_TRAIT_UPDATE, "Set a provider's traits.", ("PUT /resource_providers/{uuid}/traits",)),
    (PROVIDER_TRAIT_DELETE, "Remove a provider's traits.", ("DELETE /resource_providers/{uuid}/traits",)),
    (ALLOCATION_MANAGE, "Set the allocations of several consumers.", ("POST /allocations",)),
    (ALLOCATION_LIST, "List a consumer's allocations.", ("GET /allocations/{consumer_uuid}",)),
    (ALLOCATION_UPDATE, "Set a consumer's allocations.", ("PUT /allocations/{consumer_uuid}",)),
    (ALLOCATION_DELETE, "Delete a consumer's allocations.", ("DELETE /allocations/{consumer_uuid}",)),
    (
        PROVIDER_ALLOCATION_LIST,
        "List the allocations on a provider.",
        ("GET /resource_providers/{uuid}/allocations",),
    ),
    (CANDIDATE_LIST, "Search allocation candidates.", ("GET /allocation_candidates",)),
)

_LEGACY = policy.DeprecatedRule(
    name="rule:admin_api",
    check_str="role:admin",
    deprecated_reason="The defaults now know the service and reader roles beside admin.",
    deprecated_since="W",
)

_ROLES = (
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


def _documented(
    name: str, description: str, operations: tuple[str, ...], check: str = _ADMIN_OR_SERVICE
) -> policy.DocumentedRuleDefault:
    split = [operation.split(" ", 1) for operation in operations]
    pairs: list[Any] = [{"method": method, "path": path} for method, path in split]
    return policy.DocumentedRuleDefault(name, check, description, pairs, scope_types=["project"])


def list_rules() -> list[policy.RuleDefault]:
    """Return every rule with its default, in a stable order, for the enforcer and oslopolicy's generators."""
    return [
        *_ROLES,
        *(_documented(*operation) for operation in _OPERATIONS),
        _documented(
            TOTAL_USAGES,
            "Show the usages of a project.",
            ("GET /usages",),
            "rule:admin_or_project_reader_or_service_api",
        ),
        _documented(RESHAPE, "Move inventory with its allocations.", ("POST /reshaper",), "rule:service_api"),
    ]
