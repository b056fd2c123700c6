# SPDX-License-Identifier: Apache-2.0
"""``placement-server serve``: the application under gunicorn, from an open socket to a graceful stop."""

from __future__ import annotations

import contextlib
import gc
import http.client
import logging
import os
import socket
import ssl
import sys
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter as BaseArbiter
from gunicorn.glogging import Logger

from osc_placement.server import conf as configuration
from osc_placement.server import deploy
from osc_placement.server.api import auth
from osc_placement.server.db import standard_names, upgrade
from osc_placement.server.process import clouds_yaml, limits, metrics, metrics_directory, tls, trial
from osc_placement.server.process.address import find_own, format_url, is_loopback
from osc_placement.server.process.opening import (
    CannotRun,
    Sources,
    check_policy,
    describe,
    improvise_configuration,
    in_one_line,
    muted,
    open_database,
    read_configuration,
    using,
)
from osc_placement.server.process.worker import Worker, find_shortage, until_handled
from osc_placement.terminal.screen import wrap_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from wsgiref.types import WSGIApplication

    from oslo_config.cfg import ConfigOpts

LOG = logging.getLogger(__name__)

#: where to listen by default
HOST = "127.0.0.1"
PORT = 8778
#: the first descriptor that a service manager passes
_FIRST_PASSED = 3
#: seconds that an idle connection stays open; more than clients pause between two requests
KEEP_ALIVE = 65
#: seconds that requests under way get when the server is told to stop
GRACE = 30
#: seconds that the database gets when the configuration is read again
TRIAL_SECONDS = 10
#: the directory with the policy for --allow-admin-reshape
ADMIN_RESHAPE = Path(__file__).with_name("admin_reshape")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line.

    :ivar host: None if it is not given, and so is the port
    """

    sources: Sources
    host: str | None
    port: int | None
    workers: int
    threads: int
    connections_per_address: int
    proxies: frozenset[str]
    tls: tls.Files
    clouds_yaml: Path | None
    insecure: bool
    allow_admin_reshape: bool
    log_requests: bool
    verbose: bool


def serve(options: Options) -> None:
    """Serve until told to stop.

    :raises CannotRun: the server cannot start
    """
    check_files(options.threads)
    listener = take_socket()
    if listener is None:
        host = HOST if options.host is None else options.host
        port = PORT if options.port is None else options.port
    elif options.host is None and options.port is None:
        host, port = listener.getsockname()[:2]
    else:
        raise CannotRun(
            "The service manager passes a listening socket, whose address it names (ListenStream in a socket "
            "unit of systemd): leave out --host and --port"
        )
    options = replace(options, host=host, port=port)
    conf = _read(options)
    _set_up_logging(conf, options)
    if listener is None:
        listener = listen(host, port)
    address: tuple[str, int] = listener.getsockname()[:2]
    url = format_url(host, address[1], options.tls.scheme)
    cloud = None
    if options.clouds_yaml is not None:
        if conf.api.auth_strategy != "noauth2":
            raise CannotRun(
                "--write-clouds-yaml is for noauth2: only you know how to authenticate with keystone"
            )
        cloud = clouds_yaml.prepare(options.clouds_yaml, url)
    try:
        metrics.find_directory()
    except metrics.CannotCount as error:
        raise CannotRun(str(error)) from error
    with metrics_directory.provided(metrics.DIRECTORY_VARIABLE) as directory:
        with contextlib.nullcontext() if options.verbose else muted():
            _prepare_database(conf)
            if options.sources.is_configured:
                _try_to_load(conf, directory)
        if cloud is not None:
            cloud.write()
        # gunicorn closes the descriptor, so it is detached: the socket object would close a later one with
        # its number
        server = _Gunicorn(conf, options, listener.detach(), directory, address, url)
        master = os.getpid()
        try:
            server.run()
        except SystemExit as end:
            # every process ends here; gunicorn reads the exit statuses of workers, so those stay unchanged
            if os.getpid() != master:
                raise
            # close a SQLite file last, which merges the write-ahead log into it, so that it can be copied
            # FileNotFoundError: the working directory was removed
            with contextlib.suppress(CannotRun, FileNotFoundError):
                database = open_database(server.conf)
                if database.dialect.find_file(database.url) is not None:
                    with using(database):
                        upgrade.version(database)
            if end.code:
                raise CannotRun("The workers do not start; --verbose says why") from end


def _read(options: Options) -> ConfigOpts:
    """Return the configuration after checking it; :raises CannotRun: the server cannot run with it."""
    read = read_configuration if options.sources.is_configured else improvise_configuration
    conf = read(options.sources)
    check_tls(options.tls)
    believes_everybody = conf.api.auth_strategy == "noauth2"
    host = options.host or ""
    if believes_everybody and not options.insecure and not is_loopback(host):
        raise CannotRun(
            f"Without authentication (noauth2) anybody who reaches {host or 'this machine'} is an "
            "administrator; serve on 127.0.0.1, configure keystone, or say --insecure"
        )
    if options.allow_admin_reshape:
        # the last directory is read last, so its rule counts
        directories = [*conf.oslo_policy.policy_dirs, str(ADMIN_RESHAPE)]
        conf.set_override("policy_dirs", directories, group="oslo_policy")
    return conf


def check_tls(files: tls.Files) -> None:
    """Load the certificate for clients, if there is one; :raises CannotRun: it cannot be used."""
    try:
        files.check()
    except tls.CannotUse as error:
        raise CannotRun(str(error)) from error


def set_up_logging(conf: ConfigOpts, *, is_configured: bool, log_requests: bool, verbose: bool) -> None:
    """Set up logging as configured; without a configuration, log errors and what the options request only.

    :raises CannotRun: it cannot be set up
    """
    try:
        if not (conf.log_file or conf.log_dir or conf.use_syslog or conf.use_journal):
            # otherwise the log would go to stdout, which is for the line that announces readiness
            conf.set_default("use_stderr", True)
        configuration.set_up_logging(conf)
        own = logging.getLogger("osc_placement")
        if verbose:
            own.setLevel(logging.DEBUG)
        elif not is_configured:
            own.setLevel(logging.WARNING)
        if log_requests or verbose:
            logging.getLogger(deploy.__name__).setLevel(logging.INFO)
        configuration.log_options(conf)
    except Exception as error:  # any error of oslo.log about a value, or of the system about a file
        raise CannotRun(f"The log cannot be set up as configured: {in_one_line(error)}") from error


def _set_up_logging(conf: ConfigOpts, options: Options) -> None:
    set_up_logging(
        conf,
        is_configured=options.sources.is_configured,
        log_requests=options.log_requests,
        verbose=options.verbose,
    )


def check_files(threads: int) -> None:
    """Find out whether workers may have enough open files; :raises CannotRun: they may not."""
    if shortage := find_shortage(threads):
        raise CannotRun(shortage)


def take_socket() -> socket.socket | None:
    """Return the socket that a service manager opened and passes as sd_listen_fds(3) describes, or None.

    Connections wait in it while no server runs. The variables that announce it are removed.

    :raises CannotRun: there are several, or it does not listen on an address and a port
    """
    count, pid = (os.environ.pop(name, "") for name in ("LISTEN_FDS", "LISTEN_PID"))
    os.environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()):
        return None
    advice = "name one address and port to listen on (ListenStream in a socket unit of systemd)"
    if count != "1":
        raise CannotRun(f"The service manager passes {count or 'no'} sockets, and not one: {advice}")
    try:
        listener = socket.socket(fileno=_FIRST_PASSED)
        listens = listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    except OSError as error:
        raise CannotRun(f"The service manager passes no socket: {error.strerror}; {advice}") from error
    if not listens or listener.family not in (socket.AF_INET, socket.AF_INET6):
        raise CannotRun(f"The service manager passes a socket that does not listen on a TCP port: {advice}")
    listener.set_inheritable(False)
    return listener


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, first of all, so that an address in use and the number for port 0 are known early.

    A client that connects before there are workers waits for them and is not refused.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        raise CannotRun(
            f"Cannot listen on {host} port {port}: {getattr(error, 'strerror', None) or error}; choose "
            "another port with --port (0 takes a free one), or another address with --host"
        ) from error
    return listener


def _prepare_database(conf: ConfigOpts) -> None:
    """Upgrade the schema and the standard names once, before several workers would do so."""
    database = open_database(conf)
    with using(database):
        if conf.placement_database.sync_on_startup:
            upgrade.upgrade(database)
            conf.set_override("sync_on_startup", False, group="placement_database")
        else:
            upgrade.check(database)
        standard_names.synchronize(database)


def _try_to_load(conf: ConfigOpts, directory: Path) -> None:
    """Create the application and discard it, so that an error is reported once and not by every worker."""
    check_policy(conf)
    try:
        deploy.loadapp(conf)
        auth.check_tokens(conf)
    except Exception as error:
        LOG.debug("failed", exc_info=True)
        raise CannotRun(f"The service cannot be set up as configured: {in_one_line(error)}") from error
    # its connections must be closed before workers could inherit them
    gc.collect()
    metrics_directory.forget_this_process(directory)


def _forget_log_levels(conf: ConfigOpts) -> None:
    """Reset the levels of single loggers, which the next configuration may not mention."""
    for pair in conf.default_log_levels:
        logging.getLogger(pair.partition("=")[0]).setLevel(logging.NOTSET)


class Log(Logger):  # type: ignore[misc]  # it has no annotations
    """The log of gunicorn, written to the same place and in the same form as other messages."""

    def setup(self, cfg: Any) -> None:
        """Leave the handlers to oslo.log."""
        super().setup(cfg)
        self.error_log.handlers.clear()
        self.error_log.propagate = True


class Arbiter(BaseArbiter):  # type: ignore[misc]  # it has no annotations
    """The process that starts and stops the workers, including one that has only just started."""

    def spawn_worker(self) -> Any:
        """Start a worker."""
        with until_handled():
            return super().spawn_worker()

    def reexec(self) -> None:
        """Ignore SIGUSR2: the process that gunicorn starts then would open another socket."""
        self.log.error("SIGUSR2 is ignored: restart the service instead")


def make_settings(
    descriptor: int, workers: int, threads: int, files: tls.Files, *, verbose: bool
) -> dict[str, Any]:
    """Return the settings of gunicorn for workers of ours that accept connections from a listening socket."""
    return {
        **files.make_settings(),
        "bind": f"fd://{descriptor}",
        "workers": workers,
        "worker_class": Worker,
        "threads": threads,
        "worker_connections": limits.CONNECTIONS,
        "keepalive": KEEP_ALIVE,
        "graceful_timeout": GRACE,
        # the worker has its own limit; the setting allows at most 8,190 bytes
        "limit_request_line": 0,
        # gunicorn would use gunicorn_h1c if it is installed, which takes a bare line feed for a line end
        "http_parser": "python",
        # a client must not set the mount point of the service; gunicorn trusts clients on this machine
        "forwarder_headers": "",
        # if a heartbeat waited for a slow disk, the worker would seem to hang
        "worker_tmp_dir": metrics_directory.find_memory(),
        "logger_class": Log,
        "loglevel": "info" if verbose else "error",
        "proc_name": "placement-server",
        "control_socket_disable": True,
    }


def apply_settings(cfg: Any, settings: Mapping[str, Any]) -> None:
    """Set those settings that this release of gunicorn has."""
    for name, value in settings.items():
        if name in cfg.settings:
            cfg.set(name, value)


def tell_ready(url: str, facts: str) -> None:
    """Print the address of a server that is ready; on a terminal, in lines that end between words."""
    # the reader of stdout may have ended
    with contextlib.suppress(BrokenPipeError):
        print(*wrap_for(sys.stdout, f"placement-server: ready at {url} ({facts})"), sep="\n", flush=True)


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # it has no annotations
    """gunicorn with the settings of this server and an application in every worker."""

    def __init__(
        self,
        conf: ConfigOpts,
        options: Options,
        descriptor: int,
        directory: Path,
        address: tuple[str, int],
        url: str,
    ) -> None:
        self.conf = conf
        self._options = options
        self._directory = directory
        self._descriptor = descriptor
        self._address = address
        self._url = url
        super().__init__()

    def run(self) -> None:
        """Serve until told to stop, then raise :exc:`SystemExit`, as each worker does."""
        Arbiter(self).run()

    def load_config(self) -> None:
        """Set the settings."""
        options = self._options

        def share_memory(arbiter: Any) -> None:
            # otherwise the garbage collector of each worker would write to, and so copy, the shared memory
            gc.collect()
            gc.freeze()

        def set_limits(arbiter: Any, worker: Worker) -> None:
            worker.connections_per_address = options.connections_per_address
            worker.proxies |= options.proxies

        def announce(worker: Any) -> None:
            if worker.age == 1 and worker.alive:
                # the worker starts answering when this function has returned
                threading.Thread(target=self._print_readiness, daemon=True).start()

        settings = {
            **make_settings(
                self._descriptor, options.workers, options.threads, options.tls, verbose=options.verbose
            ),
            "when_ready": share_memory,
            "post_fork": set_limits,
            "post_worker_init": announce,
        }
        apply_settings(self.cfg, settings)

    def reload(self) -> None:
        """Read the configuration again for the workers that SIGHUP starts in place of the old ones.

        An invalid configuration is refused as at the start, but the server continues with the present one.
        """
        refusal = None
        try:
            self._read_again()
        except CannotRun as error:
            refusal = str(error)
        if refusal is not None:
            # logged outside of the handler, in which oslo.log would add the exception
            LOG.error("the configuration has not been read again: %s", refusal)
        super().reload()

    def _read_again(self) -> None:
        conf = _read(self._options)

        def check() -> None:
            with muted():
                _set_up_logging(conf, self._options)
                _prepare_database(conf)
                _try_to_load(conf, self._directory)

        failure = trial.find_failure(check, TRIAL_SECONDS)
        if failure is not None:
            raise CannotRun(failure)
        # the synchronization has been done before
        conf.set_override("sync_on_startup", False, group="placement_database")
        _forget_log_levels(self.conf)
        try:
            _set_up_logging(conf, self._options)
        except CannotRun:
            _forget_log_levels(conf)
            _set_up_logging(self.conf, self._options)
            raise
        self.conf = conf

    def load(self) -> WSGIApplication:
        """Create the application of a worker, which inherits modules but no connection."""
        return deploy.loadapp(self.conf)

    def _print_readiness(self) -> None:
        """Print, for people and scripts that wait for it, that the server is ready, once it has answered."""
        host, port = find_own(self._address[0]), self._address[1]
        connection = http.client.HTTPConnection(host, port)
        if self._options.tls.certificate is not None:
            # the certificate is that of the name which clients know
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(host, port, context=context)
        try:
            with contextlib.closing(connection):
                connection.request("GET", "/")
                connection.getresponse().read()
        except (OSError, http.client.HTTPException) as error:
            LOG.error("the server does not answer: %s", error)
            return
        database = describe(self.conf.placement_database.connection)
        workers = "1 worker" if self._options.workers == 1 else f"{self._options.workers} workers"
        tell_ready(self._url, f"database {database}, {self.conf.api.auth_strategy}, {workers}")
