# SPDX-License-Identifier: Apache-2.0
"""The commands as entry points name them; a command's module is loaded only when it is used.

OpenStackClient loads the entry points of all plugins at every start, whatever the command; this plugin has
dozens, of which one command uses one. An entry point is therefore
``osc_placement.commands.deferred:tree.ShowTree``: a placeholder that becomes
``osc_placement.commands.tree.ShowTree`` when it is called, and costs nothing before. So a module of commands
may import anything at its top.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from osc_lib.command.command import Command

_PACKAGE = __name__.rpartition(".")[0]


class _Module:
    """A module of commands that is not loaded yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, command: str) -> type[Command]:
        if command.startswith("__"):
            raise AttributeError(command)
        return defer(self._name, command)


def __getattr__(name: str) -> _Module:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Module(name)


@cache
def defer(module: str, command: str) -> type[Command]:
    """Return a placeholder class that makes instances of the command class it stands for."""

    class Deferred(Command):
        def __new__(cls, *arguments: Any, **settings: Any) -> Any:
            return find(module, command)(*arguments, **settings)

    Deferred.__name__ = Deferred.__qualname__ = command
    return Deferred


def find(module: str, command: str) -> type[Command]:
    """Load the module and return the command class."""
    found: type[Command] = getattr(import_module(f"{_PACKAGE}.{module}"), command)
    return found
