# SPDX-License-Identifier: Apache-2.0
"""The options of nova.conf that the request filters of nova's scheduler read."""

from __future__ import annotations

import dataclasses

from oslo_config import cfg

from osc_placement.candidates.nova_filters import Options
from osc_placement.errors import PlacementError, one_line

_ZONE = "default_schedule_zone"


def read_options(path: str, *, is_usual: bool = False) -> Options:
    """Read the options from a file; raise PlacementError if it cannot be read or has a wrong value.

    ``is_usual`` says that it is the nova.conf of this machine, whose directories of further files count.
    """
    conf = cfg.ConfigOpts()
    try:
        directories: list[str] | None = None if is_usual else []
        conf([], project="nova", default_config_files=[path], default_config_dirs=directories)
        return options_of(conf)
    except cfg.Error as error:
        raise PlacementError(f"{path} cannot be used: {one_line(error)}") from error
    except (OSError, UnicodeError) as error:
        raise PlacementError(f"{path} cannot be read: {error}") from error


def options_of(conf: cfg.ConfigOpts) -> Options:
    """Return the options of a configuration that was read; raise `cfg.Error` if one has a wrong value."""
    names = [field.name for field in dataclasses.fields(Options) if field.name != _ZONE]
    conf.register_opt(cfg.StrOpt(_ZONE))
    conf.register_opts([cfg.BoolOpt(name, default=False) for name in names], group="scheduler")
    return Options(**{name: conf.scheduler[name] for name in names}, default_schedule_zone=conf[_ZONE])
