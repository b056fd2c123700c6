# SPDX-License-Identifier: Apache-2.0
"""The entry for a server in a clouds.yaml, so that ``openstack --os-cloud placement`` finds it.

Everything else in the file, including comments, is left unchanged.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from osc_placement.server.process.address import is_loopback
from osc_placement.server.process.opening import CannotRun
from osc_placement.whole_file import write_whole

CLOUD_NAME = "placement"
AUTH_TYPE = "admin_token"
TOKEN = "admin"
_OWNER_ONLY = 0o600

_ENTRY = """\
{indent}{name}:
{indent}  auth_type: {auth_type}
{indent}  auth:
{indent}    endpoint: {url}
{indent}    token: {token}
"""


class CannotMerge(Exception):
    """An error: the entry cannot be added to the text."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file and the text that it will have."""

    path: Path
    text: str

    def write(self) -> None:
        """Replace the file atomically; :raises CannotRun: it cannot be written.

        Its permissions stay, and a symbolic link to it stays a link; only its owner can read a new file.
        """
        try:
            write_whole(self.path, [self.text], _OWNER_ONLY)
        except OSError as error:
            raise CannotRun(f"Cannot write {self.path}: {error.strerror}") from error


def prepare(path: Path, url: str) -> Change:
    """Return the change of the file without writing it.

    :raises CannotRun: the file cannot be read or written, or `merge` is refused
    """
    directory = Path(os.path.realpath(path)).parent
    if not os.access(directory, os.W_OK | os.X_OK):
        reason = "is not writable" if directory.exists() else "does not exist"
        raise CannotRun(f"Cannot write {path}: the directory {directory} {reason}")
    try:
        return Change(path, merge(path.read_text() if path.exists() else "", url))
    except CannotMerge as error:
        raise CannotRun(f"Cannot add a cloud to {path}: {error}; name another file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRun(f"Cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def merge(text: str, url: str) -> str:
    """Return the text of a clouds.yaml with the entry added.

    The entry is inserted into the text, which keeps comments; then the text is parsed to check that nothing
    else has changed.

    :raises CannotMerge: it is not a clouds.yaml, or has a cloud of this name that is another server
    """
    clouds = _read_clouds(text)
    ours = {"auth_type": AUTH_TYPE, "auth": {"endpoint": url, "token": TOKEN}}
    old = clouds.get(CLOUD_NAME)
    if old is not None:
        # it may belong to an earlier server, on this machine or at this address
        try:
            host = urlsplit(old["auth"]["endpoint"]).hostname or ""
            is_known = (old["auth_type"], old["auth"]["token"]) == (AUTH_TYPE, TOKEN)
        except (AttributeError, KeyError, TypeError, ValueError):
            host, is_known = "", False
        if not is_known or not (is_loopback(host) or host == urlsplit(url).hostname):
            raise CannotMerge(f"it has a cloud '{CLOUD_NAME}' already, which is not a server of this kind")
    # in place of an existing one
    text = re.sub(rf"(?m)^( +){CLOUD_NAME}:\n(?:\1 .*\n?)+", "", text)
    head = re.search(r"(?m)^clouds:[ \t]*(?:\{\}|null|~)?[ \t]*$\n?", text)
    if head is None:
        separator = "" if not text or text.endswith("\n") else "\n"
        merged = f"{text}{separator}clouds:\n{_format_entry('  ', url)}"
    else:
        before, after = text[: head.start()], text[head.end() :]
        child = re.match(r"(?:[ \t]*(?:#.*)?\n)*( +)\S", after)
        merged = f"{before}clouds:\n{_format_entry(child[1] if child else '  ', url)}{after}"
    if _read_clouds(merged) != {**clouds, CLOUD_NAME: ours}:
        raise CannotMerge("it is written in a way that leaves no place for another cloud")
    return merged


def _read_clouds(text: str) -> dict[str, Any]:
    try:
        document = yaml.safe_load(text) or {}
        clouds = document.get("clouds") or {}
        return dict(clouds)
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        raise CannotMerge("it is not a clouds.yaml") from error


def _format_entry(indent: str, url: str) -> str:
    return _ENTRY.format(indent=indent, name=CLOUD_NAME, auth_type=AUTH_TYPE, url=url, token=TOKEN)
