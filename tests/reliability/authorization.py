# SPDX-License-Identifier: Apache-2.0
"""Who may do what: as the policy defaults have it, and as the application answers.

``python -m tests.reliability.authorization`` prints the table of the defaults, for authorization.yaml.
"""

import json
import pathlib

import webob
import yaml
from oslo_context.context import RequestContext
from oslo_policy import policy as oslo_policy

from osc_placement.server import deploy, errors, policies
from osc_placement.server.api import routes
from osc_placement.server.policy import Policy, list_rules
from osc_placement.server.testing import make_conf

TABLE = pathlib.Path(__file__).with_name("authorization.yaml")

#: what our own routes need: no rule of the reference's names them, so they need those of all that they show
OWN_ROUTES = {
    "GET /-/allocations": (policies.ALLOCATION_LIST, policies.PROVIDER_ALLOCATION_LIST),
    "GET /-/providers": (
        policies.PROVIDER_LIST,
        policies.INVENTORY_LIST,
        policies.PROVIDER_USAGES,
        policies.PROVIDER_TRAIT_LIST,
        policies.AGGREGATE_LIST,
    ),
    "GET /-/metrics": (
        policies.PROVIDER_LIST,
        policies.INVENTORY_LIST,
        policies.PROVIDER_USAGES,
        policies.AGGREGATE_LIST,
    ),
    # one of them lets a caller in, each of them change its part; the defaults are the same for all
    "POST /-/providers": (
        policies.PROVIDER_CREATE,
        policies.INVENTORY_UPDATE,
        policies.PROVIDER_TRAIT_UPDATE,
        policies.AGGREGATE_UPDATE,
    ),
}

ROLES = ("none", "reader", "member", "manager", "admin", "service")
#: what a token is for: the project asked about, another one, or the whole cloud
SCOPES = ("project", "other project", "system")
#: parameters of paths in requests; none of them exists
VALUES = {
    "uuid": "7d2590ae-fb85-4080-9306-058b4c915e3f",
    "consumer_uuid": "7d2590ae-fb85-4080-9306-058b4c915e3f",
    "name": "CUSTOM_UNHEARD_OF",
    "resource_class": "VCPU",
}


def make_configuration(*, new_defaults, connection="sqlite://"):
    """A configuration with either generation of defaults."""
    conf = make_conf(connection)
    conf.set_override("enforce_new_defaults", new_defaults, group="oslo_policy")
    conf.set_override("auth_strategy", "noauth2", group="api")
    conf.set_override("sync_on_startup", True, group="placement_database")
    return conf


def list_operations():
    """Every operation of the API that is not for everybody, as ``METHOD /path``."""
    return [
        f"{method} {path}"
        for path, methods in routes.ROUTES.items()
        for method, endpoint in methods.items()
        if not endpoint.is_public
    ]


def list_public_paths():
    """The paths that are for everybody."""
    return [path for path, methods in routes.ROUTES.items() if routes.is_public(methods)]


def find_rules():
    """The rules that each operation needs: the one that names it, for those of the reference."""
    documented = {
        f"{operation['method']} {operation['path']}": (rule.name,)
        for rule in list_rules()
        if isinstance(rule, oslo_policy.DocumentedRuleDefault)
        for operation in rule.operations
    }
    return {**documented, **OWN_ROUTES}


def make_table(is_allowed):
    """The roles that may do each operation, by scope."""
    return {
        operation: {scope: [role for role in ROLES if is_allowed(operation, role, scope)] for scope in SCOPES}
        for operation in list_operations()
    }


def as_defaults_say(*, new_defaults):
    """The table that the rules make by themselves."""
    policy = Policy(make_configuration(new_defaults=new_defaults))
    rules = find_rules()

    def is_allowed(operation, role, scope):
        project = {"project": "own", "other project": "other"}.get(scope)
        context = RequestContext(
            user_id="user",
            project_id=project,
            system_scope="all" if scope == "system" else None,
            roles=[] if role == "none" else [role],
        )
        target = {"project_id": "own"} if operation == "GET /usages" else None
        try:
            for rule in rules[operation]:
                policy.authorize(context, rule, target)
        except errors.Forbidden:
            return False
        return True

    return make_table(is_allowed)


def as_application_answers(*, new_defaults, connection):
    """The table that requests find; nothing they ask for exists, and their bodies are empty."""
    application = deploy.loadapp(make_configuration(new_defaults=new_defaults, connection=connection))

    def is_allowed(operation, role, scope):
        method, _, path = operation.partition(" ")
        path = path.format_map(VALUES) + ("?project_id=own" if operation == "GET /usages" else "")
        headers = {
            "X-Auth-Token": {"project": "user:own", "other project": "user:other"}.get(scope, "user"),
            "X-Roles": "" if role == "none" else role,
            "OpenStack-API-Version": "placement 1.39",
        }
        if scope == "system":
            headers["OpenStack-System-Scope"] = "all"
        request = webob.Request.blank(path, method=method, headers=headers)
        if method in ("PUT", "POST"):
            request.content_type, request.body = "application/json", json.dumps({}).encode()
        status = request.get_response(application).status_int
        assert status < 500, (operation, role, scope)
        return status != 403

    return make_table(is_allowed)


def describe():
    """The content of authorization.yaml."""
    return {
        "legacy defaults": as_defaults_say(new_defaults=False),
        "new defaults": as_defaults_say(new_defaults=True),
    }


if __name__ == "__main__":
    print(yaml.safe_dump(describe(), sort_keys=False, default_flow_style=None, width=110), end="")
