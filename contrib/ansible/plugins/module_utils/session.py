# SPDX-License-Identifier: Apache-2.0
"""The cloud that a module talks to, and how a module ends: its parameters, session, errors."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ansible.module_utils.basic import AnsibleModule, missing_required_lib

#: why osc-placement, or something in it, cannot be imported
_import_errors: list[ImportError] = []


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Remember an ImportError of the block: `run_module` tells of it instead of running the module."""
    try:
        yield
    except ImportError as error:
        _import_errors.append(error)


with importing():
    import openstack.config
    from keystoneauth1 import exceptions as keystone
    from openstack import exceptions as sdk

    from osc_placement import batch, errors
    from osc_placement.api.names import UnknownResourceClass, UnknownTraits, suggest
    from osc_placement.client import PlacementClient
    from osc_placement.model import CUSTOM_PREFIX, canonical_uuid, is_uuid
    from osc_placement.state.plan import LeftOut

CLOUD: Final[Mapping[str, Any]] = {
    "cloud": {"type": "raw"},
    "auth": {"type": "dict", "no_log": True},
    "auth_type": {"type": "str"},
    "region_name": {"type": "str"},
    "interface": {
        "type": "str",
        "choices": ["public", "internal", "admin"],
        "aliases": ["endpoint_type"],
    },
    "validate_certs": {"type": "bool", "aliases": ["verify"]},
    "ca_cert": {"type": "path", "aliases": ["cacert"]},
    "client_cert": {"type": "path", "aliases": ["cert"]},
    "client_key": {"type": "path", "no_log": True, "aliases": ["key"]},
    "api_timeout": {"type": "int"},
}
#: parameters whose name in the configuration of openstacksdk is another
_SDK_NAMES: Final = {
    "validate_certs": "verify",
    "ca_cert": "cacert",
    "client_cert": "cert",
    "client_key": "key",
}
#: how many failures a message tells of
_TOLD: Final = 5
#: from this microversion on, host aggregates show their UUIDs
_WITH_UUIDS: Final = "compute 2.41"


class Failed(Exception):
    """The task failed; ``facts`` are further results of the module."""

    def __init__(self, message: str, **facts: Any) -> None:
        self.facts = facts
        super().__init__(message)


def run_module(
    act: Callable[[AnsibleModule, Cloud], Mapping[str, Any]], options: Mapping[str, Any], **rules: Any
) -> None:
    """Run a module: read its parameters, call ``act``, and end with its results or with one message."""
    module = AnsibleModule({**CLOUD, **options}, supports_check_mode=True, **rules)
    if _import_errors:
        module.fail_json(msg=f"{missing_required_lib('osc-placement>=5')} ({_import_errors[0]})")
    try:
        results = act(module, connect(module.params))
    except Failed as error:
        module.fail_json(msg=str(error), **error.facts)
    except (errors.PlacementError, keystone.ClientException, sdk.SDKException) as error:
        module.fail_json(msg=explain(error))
    except OSError as error:  # of a certificate, or of a file
        module.fail_json(msg=one_line(error))
    except Exception as error:  # a fault of this collection; the trace is shown with -vvv only
        module.fail_json(msg=f"{type(error).__name__}: {error}", exception=traceback.format_exc())
    module.exit_json(**results)


class Cloud:
    """A cloud in use: its client of placement, and the names of its host aggregates."""

    def __init__(self, config: Any) -> None:
        self._config = config
        self._session = config.get_session()
        self._aggregates: Mapping[str, str] | None = None
        self.client = PlacementClient(
            self._session,
            region_name=config.get_region_name(),
            interface=config.get_interface("placement"),
            endpoint=config.get_endpoint("placement"),
            timeout=config.config.get("api_timeout"),
        )

    def find_provider(self, text: str) -> dict[str, Any] | None:
        """Return the document of the provider with this UUID or else with this name, or None."""
        found = self.client.list_providers(uuid=canonical_uuid(text)) if is_uuid(text) else []
        # the server ignores an empty name as a condition and would return all providers
        if not found and text:
            found = self.client.list_providers(name=text)
        return found[0] if found else None

    def require_provider(self, text: str, what: str) -> dict[str, Any]:
        """Return the document of a provider; raise Failed if there is none, ``what`` is the parameter."""
        found = self.find_provider(text)
        if found is None:
            raise Failed(
                f"{what}: no resource provider has the name or UUID {text!r}; nothing was changed. "
                "osc_placement.placement.resource_provider_info tells which there are"
            )
        return found

    def resolve_aggregates(self, texts: list[str]) -> list[str]:
        """Return the UUIDs of aggregates that are given by UUID, or by name in the compute service."""
        return [canonical_uuid(text) if is_uuid(text) else self._find_aggregate(text) for text in texts]

    def _find_aggregate(self, name: str) -> str:
        if self._aggregates is None:
            self._aggregates = self._read_aggregates(name)
        if name not in self._aggregates:
            known = ", ".join(sorted(self._aggregates)[:_TOLD]) or "none"
            raise Failed(
                f"{name!r} is not the UUID of an aggregate, and no host aggregate has this name; "
                f"nothing was changed. The host aggregates are {known}"
                + (", ..." if len(self._aggregates) > _TOLD else "")
            )
        return self._aggregates[name]

    def _read_aggregates(self, wanted: str) -> Mapping[str, str]:
        try:
            answer = self._session.get(
                "/os-aggregates",
                endpoint_filter={
                    "service_type": "compute",
                    "interface": self._config.get_interface("compute"),
                    "region_name": self._config.get_region_name(),
                },
                endpoint_override=self._config.get_endpoint("compute"),
                headers={"Accept": "application/json", "OpenStack-API-Version": _WITH_UUIDS},
                timeout=60,
            )
            return {aggregate["name"]: aggregate["uuid"] for aggregate in answer.json()["aggregates"]}
        except keystone.ClientException as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
        except (ValueError, LookupError, TypeError):
            reason = "its answer is not that of the compute API"
        raise Failed(
            f"{wanted!r} is not the UUID of an aggregate, and the names of host aggregates cannot be read "
            f"from the compute service ({reason}); nothing was changed. Give the UUID"
        )


def connect(params: Mapping[str, Any]) -> Cloud:
    """Return the cloud that the parameters of a module name; authentication comes with the first request."""
    cloud = params["cloud"]
    given = {
        _SDK_NAMES.get(name, name): params[name]
        for name in CLOUD
        if name != "cloud" and params[name] is not None
    }
    if isinstance(cloud, dict):
        if given:
            names = ", ".join(name for name in CLOUD if name != "cloud" and params[name] is not None)
            raise Failed(
                f"cloud is a dictionary with a whole cloud, and {names} is given beside it; put it there"
            )
        given = cloud
    elif cloud is not None:
        given["cloud"] = str(cloud)
    try:
        return Cloud(openstack.config.get_cloud_region(**given))
    except (sdk.ConfigException, keystone.AuthPluginException) as error:
        named = set(openstack.config.OpenStackConfig().get_cloud_names()) - {"defaults", "envvars"}
        names = ", ".join(sorted(named)) or "none"
        asked = "The cloud that is given cannot be used"
        if not isinstance(cloud, dict):  # which may have a password
            asked = "No cloud was named" if cloud is None else f"The cloud {cloud!r} cannot be used"
        raise Failed(
            f"{asked}: {one_line(error).rstrip('.')}. The clouds in clouds.yaml on this host: {names}. Name "
            "one of them with cloud, or give auth"
        ) from error


def explain(error: Exception) -> str:
    """Return what went wrong and what to do, in the words of a playbook instead of a command line."""
    if isinstance(error, LeftOut):
        return one_line(error).replace("the file", "the state").replace("--prune", "prune")
    if isinstance(error, batch.Overcommitted):
        told = "; ".join(map(str, error.excesses))
        return f"{told}; allow_overcommitted: true changes it all the same"
    if isinstance(error, batch.NothingSelected):
        return f"No resource provider is {error.selection}; correct the selection, or give allow_empty: true"
    if isinstance(error, UnknownTraits):
        return explain_unknown("trait", error.names, error.known)
    if isinstance(error, UnknownResourceClass):
        return explain_unknown("resource class", [error.name], error.known)
    if isinstance(error, errors.EndpointMissing):
        told = one_line(error).partition("; register one")[0]
        return f"{told}; register one, or choose another with region_name and interface"
    if isinstance(error, errors.TimedOut):
        return f"{one_line(error).partition('. --os')[0]}. api_timeout allows more time"
    if isinstance(error, errors.Unauthorized | keystone.Unauthorized):
        return f"{one_line(error)}; check the credentials of this cloud in clouds.yaml, or auth"
    if isinstance(error, keystone.Forbidden) or errors.advise_on_policy(error):
        return f"{one_line(error)}; use a cloud whose user has the role for this, usually an administrator"
    if isinstance(error, keystone.ClientException | sdk.SDKException):
        return f"{one_line(error)}; check auth_url of this cloud and that its services run"
    return one_line(error)


def explain_unknown(kind: str, names: Any, known: Any = ()) -> str:
    """Return that the server does not know some traits or resource classes, and what to do."""
    names = sorted(names)
    custom = any(name.startswith(CUSTOM_PREFIX) for name in names)
    remedy = (
        "create_missing: true creates it"
        if custom
        else f"only names that begin with {CUSTOM_PREFIX} can be created"
    )
    return (
        f"The server does not know the {kind} {', '.join(names)}{suggest(names, known)}; nothing was "
        f"changed. Correct the name; {remedy}"
    )


def tell_failures(failures: list[Mapping[str, Any]]) -> str:
    """Return the first failures in one line."""
    told = [f"{failure['name']}: {failure['error']}" for failure in failures[:_TOLD]]
    more = [f"and {len(failures) - _TOLD} more, see failures"] if len(failures) > _TOLD else []
    return "; ".join([*told, *more])


def one_line(error: Exception) -> str:
    """Return the text of an error in one line, also if it tells several mistakes in a line each."""
    lines = [" ".join(line.split()) for line in str(error).splitlines()]
    return "; ".join(filter(None, lines)) or type(error).__name__
