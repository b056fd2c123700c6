# SPDX-License-Identifier: Apache-2.0
"""Names of the providers, traits, resource classes and aggregates of a cloud.

Nobody wants to wait for a cloud at a key. So a background process reads names and keeps them in files that
only their owner can read; the key waits for it for a short time, and then does with what was read before. The
process has no terminal: it prints nothing, and nothing asks for a password.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import pathlib
import re
import select
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import IO, Any, Final

from osc_placement.whole_file import find_user_directory, write_whole

#: seconds for which names are used without asking again, and a cloud that did not answer is left alone
FRESH: Final = 30.0
#: seconds that a press of the tab key waits for the cloud
PATIENCE: Final = 2.0
#: seconds after which a background process ends
LIFETIME: Final = 20
#: seconds after which names that nobody used are removed
_OLD: Final = 86_400.0
_OWNER_ONLY: Final = 0o600
#: variables that say who asks but not which cloud is asked, and are not to be found out from a file's name
_SECRET: Final = re.compile("PASSWORD|PASSCODE|SECRET|TOKEN")
#: variables that are no settings of a cloud
_OTHER: Final = ("OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "OS_PLACEMENT_API_VERSION")

#: the global options of a command line, as ``{"--os-cloud": "production"}``
Access = Mapping[str, str]


def read_names(kind: str, access: Access) -> Sequence[str]:
    """Return the names of a kind, of which there are those of `READERS`.

    They are at most FRESH seconds old, or older or none if the cloud does not answer in PATIENCE seconds.
    """
    directory = find_user_directory("XDG_CACHE_HOME", ".cache") / "completion"
    path = directory / f"{_identify(access)}-{kind}"
    if _is_younger(path, FRESH):
        return _load(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # an earlier key has waited for this already
            return _load(path)
        done, writer = os.pipe()
        if not os.fork():
            _refresh(path, lambda: READERS[kind](_open_cloud(access)), lock, writer)
        os.close(writer)
        # the other end is closed as soon as the process ends
        select.select([done], [], [], PATIENCE)
        os.close(done)
    return _load(path)


def list_clouds() -> Iterable[str]:
    """Return the names of the clouds in clouds.yaml."""
    # PERF: brings openstacksdk, which takes 0.2 s to load
    from osc_lib.cli.client_config import OSC_Config

    names: list[str] = OSC_Config().get_cloud_names()
    return names


def _identify(access: Access) -> str:
    """Return a text for the cloud of a command line: another one for other options, variables or files."""
    facts = {name: value for name, value in _list_settings(access).items() if not _SECRET.search(name)}
    for file in (os.environ.get("OS_CLIENT_CONFIG_FILE") or "clouds.yaml", "clouds.yaml"):
        if os.path.exists(file):
            facts[os.path.abspath(file)] = str(os.stat(file).st_mtime_ns)
    return hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:32]


def _list_settings(access: Access) -> dict[str, str]:
    """Return the settings of a cloud by the names of their variables; options win, as in OpenStackClient."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("OS_") and value}
    return settings | {name[2:].replace("-", "_").upper(): value for name, value in access.items()}


def _is_younger(path: pathlib.Path, seconds: float) -> bool:
    try:
        return 0 <= time.time() - path.stat().st_mtime < seconds
    except FileNotFoundError:  # or another process has just removed it
        return False


def _load(path: pathlib.Path) -> Sequence[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return ()


def _refresh(path: pathlib.Path, read: Callable[[], Iterable[str]], lock: IO[str], writer: int) -> None:
    """Read names into a file, then end this process; where they cannot be read, keep what is there."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(64):
            if number < 3:
                os.dup2(null, number)
            elif number not in (lock.fileno(), writer, null):
                # what the shell has open is not kept from being closed
                os.closerange(number, number + 1)
        signal.signal(signal.SIGALRM, _give_up)
        signal.alarm(LIFETIME)
        try:
            # neither a line of the file nor one of the terminal could have any other
            names: Iterable[str] = sorted(name for name in read() if name.isprintable())
        except Exception:
            names = _load(path)
        write_whole(path, (f"{name}\n" for name in names), _OWNER_ONLY, keep_mode=False)
        for other in path.parent.iterdir():
            if not _is_younger(other, _OLD):
                other.unlink(missing_ok=True)
    finally:
        os._exit(0)


def _give_up(_number: int, _frame: object) -> None:
    raise TimeoutError


def _open_cloud(access: Access) -> Any:
    """Return as much of OpenStackClient's client manager as the client and the names of aggregates need."""
    from osc_lib.cli.client_config import OSC_Config

    from osc_placement import plugin

    settings = {name.lower(): value for name, value in _list_settings(access).items() if name not in _OTHER}
    options = argparse.Namespace(**settings)
    region = OSC_Config().get_one(cloud=getattr(options, "os_cloud", None), argparse=options)
    manager = SimpleNamespace(
        session=region.get_session(),
        region_name=region.region_name,
        interface=region.interface,
        _cli_options=region,
        _api_version={plugin.API_NAME: plugin.DEFAULT_API_VERSION},
    )
    manager.placement = plugin.make_client(manager)
    return manager


def _read_aggregates(manager: Any) -> Iterable[str]:
    """Return the names of host aggregates and the UUIDs of all aggregates.

    Placement has no list of aggregates, so that UUIDs can be read only where all providers are read at once.
    """
    from osc_placement.commands.host_aggregate import AggregateNames

    named = AggregateNames(manager).names()
    records = manager.placement.read_providers_at_once(want=("aggregates",)) or ()
    return {*named.values(), *named, *(uuid for record in records for uuid in record.aggregates)}


READERS: Final[Mapping[str, Callable[[Any], Iterable[str]]]] = {
    "aggregates": _read_aggregates,
    "classes": lambda manager: (item["name"] for item in manager.placement.list_resource_classes()),
    "providers": lambda manager: (
        item[key] for item in manager.placement.list_providers() for key in ("name", "uuid")
    ),
    "traits": lambda manager: manager.placement.list_traits(),
}
