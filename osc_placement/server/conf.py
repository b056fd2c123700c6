# SPDX-License-Identifier: Apache-2.0
"""The options of ``placement.conf``: groups, names, types and defaults are openstack-placement's.

Options of our own are in groups of our own, which openstack-placement ignores.

`register_opts` adds the options to a ConfigOpts of the caller, and `load` makes one as a WSGI container or a
command needs it. No configuration is global to the process: a conf is an argument everywhere.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
from typing import TYPE_CHECKING, Final

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_middleware import cors, http_proxy_to_wsgi
from oslo_policy import opts as policy_opts

from osc_placement.package import explain_setting

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOG = logging.getLogger(__name__)

PROJECT: Final = "placement"
CONFIG_FILE: Final = "placement.conf"
CONFIG_DIR_VARIABLE: Final = "OS_PLACEMENT_CONFIG_DIR"

#: the project and user of allocations made below microversion 1.8, which has neither
UNKNOWN_OWNER: Final = "00000000-0000-0000-0000-000000000000"

PLACEMENT_DATABASE = cfg.OptGroup(
    "placement_database", title="Database", help="Where placement keeps its state, and how it connects there."
)
PLACEMENT = cfg.OptGroup("placement", title="Service", help="How requests are answered.")
API = cfg.OptGroup("api", title="API", help="Who may talk to the API.")
METRICS = cfg.OptGroup(
    "metrics", title="Metrics", help="What monitoring is told. openstack-placement has no such group."
)
WORKAROUNDS = cfg.OptGroup(
    "workarounds", title="Workarounds", help="Switches of openstack-placement for problems it had."
)

DEFAULT_OPTS = [
    cfg.StrOpt("tempdir", help="Directory for temporary files. Without effect: none are made."),
    cfg.StrOpt(
        "pybasedir",
        default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        sample_default="<Path>",
        help="Directory the Python modules are installed in. Without effect but as default of state_path.",
    ),
    cfg.StrOpt("state_path", default="$pybasedir", help="Directory for state. Without effect: none is kept."),
    cfg.BoolOpt("log_options", default=True, help="Log the value of every option at start, at level DEBUG."),
]

DATABASE_OPTS = [
    cfg.StrOpt(
        "connection",
        required=True,
        secret=True,
        help="URL of the database, as SQLAlchemy spells it: "
        "mysql+pymysql://USER:PASSWORD@HOST/placement, postgresql://..., sqlite:////var/lib/placement.db.",
    ),
    cfg.StrOpt(
        "connection_parameters",
        default="",
        help="More parameters for the URL: NAME=VALUE, joined by &.",
    ),
    cfg.BoolOpt(
        "sqlite_synchronous",
        default=True,
        help="With SQLite, wait at each commit until it is on the disk. "
        "If false, a power cut may lose commits or damage the file.",
    ),
    cfg.StrOpt("slave_connection", secret=True, help="URL of a read replica. Without effect: it could lag."),
    cfg.StrOpt("mysql_sql_mode", default="TRADITIONAL", help="The sql_mode of MySQL and MariaDB sessions."),
    cfg.IntOpt(
        "connection_recycle_time",
        default=3600,
        help="Seconds after which a connection is replaced; keep it below the server's wait_timeout.",
    ),
    cfg.IntOpt("max_pool_size", help="Connections a process keeps open. By default SQLAlchemy's 5."),
    cfg.IntOpt(
        "max_retries",
        default=10,
        help="Attempts to connect at start. Without effect: see write_patience.",
    ),
    cfg.IntOpt("retry_interval", default=10, help="Seconds between those attempts. Without effect."),
    cfg.IntOpt("max_overflow", help="Connections a process may open beyond max_pool_size, at need."),
    cfg.IntOpt(
        "connection_debug",
        default=0,
        help="How much SQLAlchemy logs. Without effect: use default_log_levels with sqlalchemy.engine=INFO.",
    ),
    cfg.BoolOpt(
        "connection_trace",
        default=False,
        help="Add the Python call stack to statements as a comment. Without effect.",
    ),
    cfg.IntOpt("pool_timeout", help="Seconds a request waits for a free connection."),
    cfg.IntOpt(
        "write_patience",
        default=15,
        min=0,
        help="Seconds for which a write is tried again while the database cannot be reached, before it is "
        "answered with 503: nova does not repeat those that free what an instance held. Half of the threads "
        "of a process wait so at most. openstack-placement has no such option.",
    ),
    cfg.BoolOpt(
        "sync_on_startup",
        default=False,
        help="Create the tables, or bring them to the newest version, when the service starts.",
    ),
    cfg.BoolOpt(
        "other_programs_write",
        default=False,
        help="Read the whole database at each check for changes, because other programs than this server "
        "write to it, such as openstack-placement. If false, their changes are seen some seconds late. "
        "openstack-placement has no such option.",
    ),
]

PLACEMENT_OPTS = [
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="If there are more allocation candidates than the limit of a request, answer with a random "
        "choice of them. Otherwise equal requests get equal answers.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=UNKNOWN_OWNER,
        help="The project of allocations written below microversion 1.8, which does not ask for one.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=UNKNOWN_OWNER,
        help="The user of allocations written below microversion 1.8, which does not ask for one.",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        help="How often the server itself tries a write that loses a race to others. It goes on for at "
        "least 3 seconds.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        help="The most allocation candidates that are searched for a request; -1 for no such limit. "
        "Bounds time and memory where trees are wide.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=(
            ("depth-first", "All candidates of one root provider, then those of the next."),
            ("breadth-first", "One candidate of each root provider in turn."),
        ),
        help="The order of allocation candidates, and so which hosts are left when there is a limit. "
        "Without effect: root providers always take turns.",
    ),
]

API_OPTS = [
    cfg.StrOpt(
        "auth_strategy",
        default="keystone",
        choices=(
            ("keystone", "Tokens are checked by Keystone."),
            ("noauth2", "The token is believed: USER or USER:PROJECT, where admin is an administrator."),
        ),
        deprecated_group="DEFAULT",
        help="How callers prove who they are. noauth2 is for tests.",
    ),
]

METRICS_OPTS = [
    cfg.BoolOpt(
        "public",
        default=False,
        help="Answer GET /-/metrics without a token. It tells what the cloud has and what is used, so let "
        "nobody but the monitoring reach it then. Otherwise it takes a token that may list providers, "
        "inventories, usages and aggregates.",
    ),
    cfg.BoolOpt(
        "by_provider",
        default=False,
        help="Tell in GET /-/metrics what each provider has and what is used of it, beside the sums of "
        "classes and aggregates: four series for each provider and class.",
    ),
    cfg.BoolOpt(
        "by_project",
        default=False,
        help="Tell in GET /-/metrics what each project uses. The amounts are read from the database by each "
        "worker that is asked, at most once in 30 seconds.",
    ),
    cfg.StrOpt(
        "flavors_file",
        help="Tell in GET /-/metrics how many more instances of each flavor fit. The file has the output of "
        "'openstack flavor list --all --long -f json'; each worker that is asked reads it, at most once in "
        "60 seconds.",
    ),
    cfg.BoolOpt(
        "openstack_exporter_names",
        default=False,
        help="Tell in GET /-/metrics what each provider has under the names of openstack-exporter, for "
        "dashboards made for it: four series for each provider and class.",
    ),
]

WORKAROUND_OPTS = [
    cfg.BoolOpt(
        "optimize_for_wide_provider_trees",
        default=False,
        help="Search trees with many like child providers faster. Without effect: they always are.",
    ),
]

_OWN_OPTS: Mapping[cfg.OptGroup, Sequence[cfg.Opt]] = {
    PLACEMENT_DATABASE: DATABASE_OPTS,
    PLACEMENT: PLACEMENT_OPTS,
    API: API_OPTS,
    METRICS: METRICS_OPTS,
    WORKAROUNDS: WORKAROUND_OPTS,
}

#: the headers that a browser's script may send and read, if [cors] allows it at all
_CORS_DEFAULTS: Mapping[str, list[str]] = {
    "allow_headers": [
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Identity-Status",
        "X-Roles",
        "X-Service-Catalog",
        "X-User-Id",
        "X-Tenant-Id",
        "OpenStack-API-Version",
    ],
    "expose_headers": [
        "X-Auth-Token",
        "X-Openstack-Request-Id",
        "X-Subject-Token",
        "X-Service-Token",
        "OpenStack-API-Version",
    ],
    "allow_methods": ["GET", "PUT", "POST", "DELETE", "PATCH"],
}

#: options that are accepted for the sake of existing files; their help texts say why they have no effect
WITHOUT_EFFECT: Final = (
    ("DEFAULT", "tempdir"),
    ("DEFAULT", "pybasedir"),
    ("DEFAULT", "state_path"),
    (PLACEMENT_DATABASE.name, "slave_connection"),
    (PLACEMENT_DATABASE.name, "max_retries"),
    (PLACEMENT_DATABASE.name, "retry_interval"),
    (PLACEMENT_DATABASE.name, "connection_debug"),
    (PLACEMENT_DATABASE.name, "connection_trace"),
    (PLACEMENT.name, "allocation_candidates_generation_strategy"),
    (WORKAROUNDS.name, "optimize_for_wide_provider_trees"),
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option on a configuration; a second call changes nothing.

    keystonemiddleware registers those of ``[keystone_authtoken]`` itself when it is created.
    """
    conf.register_opts(DEFAULT_OPTS)
    for group, opts in _OWN_OPTS.items():
        # by name, because a group object shares its options and overrides with every other conf
        conf.register_opts(opts, group=group.name)
    if "log_file" not in conf:
        # oslo.config refuses options of the command line after parsing one, also if they are registered
        # already
        oslo_log.register_options(conf)
    policy_opts.set_defaults(conf)
    conf.set_default("policy_file", "policy.yaml", group="oslo_policy")
    conf.register_opts(cors.CORS_OPTS, group="cors")
    for name, value in _CORS_DEFAULTS.items():
        conf.set_default(name, value, group="cors")
    conf.register_opts(http_proxy_to_wsgi.OPTS, group="oslo_middleware")


def list_opts() -> list[tuple[cfg.OptGroup | str, list[cfg.Opt]]]:
    """Return our own options for oslo-config-generator; libraries have their own namespaces."""
    return [("DEFAULT", list(DEFAULT_OPTS)), *((group, list(opts)) for group, opts in _OWN_OPTS.items())]


def set_library_defaults() -> None:
    """Set the defaults of libraries' options as `register_opts` does, for oslo-config-generator.

    This changes the libraries' own options, so only the process of the generator may call it.
    """
    cors.set_defaults(**_CORS_DEFAULTS)


def load(
    *, config_files: Sequence[str] | None = None, config_dirs: Sequence[str] | None = None
) -> cfg.ConfigOpts:
    """Return a configuration read from the files given, or found as by `parse`."""
    conf = cfg.ConfigOpts()
    register_opts(conf)
    parse(conf, config_files=config_files, config_dirs=config_dirs)
    return conf


def parse(
    conf: cfg.ConfigOpts,
    *,
    config_files: Sequence[str] | None = None,
    config_dirs: Sequence[str] | None = None,
) -> None:
    """Read the configuration as openstack-placement's WSGI script finds it.

    That is ``placement.conf`` in ``OS_PLACEMENT_CONFIG_DIR`` if that is set, else where oslo.config looks
    (``/etc/placement`` among others); variables named ``OS_<GROUP>__<OPTION>`` win over files.

    :param config_files: read these instead
    :param config_dirs: then read every ``*.conf`` in these; by default in the ``placement.conf.d`` there is
    :raises cfg.Error: a file or value is invalid, or a required option is missing
    """
    directory = named_config_dir()
    if config_files is None and directory:
        config_files = [os.path.join(directory, CONFIG_FILE)]
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            conf(
                [f"--config-dir={path}" for path in config_dirs or ()],
                project=PROJECT,
                # the default is the name of the WSGI container, whose own configuration file would be read
                prog="placement-server",
                default_config_files=None if config_files is None else list(config_files),
                default_config_dirs=None if config_dirs is None else list(config_dirs),
            )
    except SystemExit as error:
        # so oslo.config refuses a value of an option that command lines have too
        told = printed.getvalue().strip().removeprefix("argument --")
        files = " or ".join(config_files or (CONFIG_FILE,))
        raise cfg.ConfigFileValueError(f"{told}, in [DEFAULT] of {files}") from error
    # oslo.config validates a value only when it is read
    problems = []
    for group, opts in _OWN_OPTS.items():
        for opt in opts:
            try:
                conf[group.name][opt.dest]
            except ValueError as error:
                problems.append(explain_setting(error, f" in [{group.name}]"))
    if problems:
        raise cfg.ConfigFileValueError("; ".join(problems))


def named_config_dir() -> str:
    """Return the directory of ``placement.conf`` in the environment, or an empty string."""
    return os.environ.get(CONFIG_DIR_VARIABLE, "").strip()


def set_up_logging(conf: cfg.ConfigOpts) -> None:
    """Set up the log as configured; lines of our loggers go where those of the logger ``placement`` go.

    Logging files of deployment tools name that logger only; their root logger writes warnings, or nothing.
    """
    logging.getLogger("osc_placement").parent = logging.getLogger(PROJECT)
    oslo_log.setup(conf, PROJECT)


def log_options(conf: cfg.ConfigOpts) -> None:
    """Log, at start, options set without effect, and all values if ``log_options`` and DEBUG are on."""
    if in_vain := find_without_effect(conf):
        LOG.warning("without effect here: %s", ", ".join(in_vain))
    if conf.log_options and LOG.isEnabledFor(logging.DEBUG):
        conf.log_opt_values(LOG, logging.DEBUG)


def find_without_effect(conf: cfg.ConfigOpts) -> list[str]:
    """Return the options that are set although they have no effect, as ``[group] name``."""
    found = []
    for group, name in WITHOUT_EFFECT:
        source = conf.get_location(name, None if group == "DEFAULT" else group)
        # an option without default and value has no location
        if source is not None and source.location.is_user_controlled:
            found.append(f"[{group}] {name}")
    return found
