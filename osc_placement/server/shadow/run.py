# SPDX-License-Identifier: Apache-2.0
"""``placement-server shadow``: forward to the placement in service, and compare its answers with ours.

There are three processes: gunicorn's, the one that forwards and keeps the report, and the one that compares
(`judge`). The last one may end at any time without an effect on clients.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gunicorn.app.base import BaseApplication

from osc_placement.server.api import auth
from osc_placement.server.process import opening, serve
from osc_placement.server.process.address import format_url
from osc_placement.server.process.opening import CannotRun
from osc_placement.server.shadow import metrics
from osc_placement.server.shadow.dispatch import Dispatcher, Setup
from osc_placement.server.shadow.exchange import Request
from osc_placement.server.shadow.forward import Forwarder
from osc_placement.server.shadow.report import Report
from osc_placement.server.shadow.upstream import Upstream, UpstreamError

if TYPE_CHECKING:
    from pathlib import Path
    from wsgiref.types import WSGIApplication

    from oslo_config.cfg import ConfigOpts

    from osc_placement.server.process.tls import Files

LOG = logging.getLogger(__name__)

#: seconds between two writes of the report
SAVE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command line."""

    sources: opening.Sources
    upstream: str
    ours: str | None
    ca_file: str | None
    host: str
    port: int
    tls: Files
    timeout: float
    threads: int
    sample: float
    most_in_flight: int
    most_megabytes: int
    comparing_threads: int
    stall_seconds: float
    report: Path
    metrics: tuple[str, int] | None
    verbose: bool


def shadow(options: Options) -> None:
    """Forward and compare until told to stop.

    :raises CannotRun: the shadow cannot start
    """
    upstream = make_upstream(options)
    serve.check_files(options.threads)
    serve.check_tls(options.tls)
    if options.ours is None:
        conf = opening.read_configuration(options.sources)
        # the URL only: the database may be out of reach, which must not keep requests from being forwarded
        opening.open_database(conf, create=False, read_only=True).dispose()
    else:
        Upstream(options.ours, ca_file=options.ca_file)
        conf = opening.improvise_configuration(opening.Sources())
    serve.set_up_logging(
        conf, is_configured=options.sources.is_configured, log_requests=False, verbose=options.verbose
    )
    if options.ours is None:
        _check_access(conf)
    try:
        Report.resume(upstream.url, options.report).save(options.report)
    except OSError as error:
        raise CannotRun(
            f"The report, {options.report.absolute()}, cannot be written: {error.strerror}; --report names "
            "another file"
        ) from error
    if options.metrics is not None:
        serve.listen(*options.metrics).close()
    listener = serve.listen(options.host, options.port)
    url = format_url(options.host, listener.getsockname()[1], options.tls.scheme)
    try:
        _Gunicorn(options, listener.detach(), url).run()
    except SystemExit as end:
        if end.code:
            raise CannotRun("The shadow does not start; --verbose says why") from end


def _check_access(conf: ConfigOpts) -> None:
    """Find out whether our side can judge who asks, without asking Keystone or the database.

    :raises CannotRun: it would refuse, or fail, what upstream answers, so each comparison would differ
    """
    opening.check_policy(conf)
    try:
        with opening.muted():
            auth.check_tokens(conf)
    except Exception as error:
        raise CannotRun(
            f"Nothing could be compared: {opening.in_one_line(error)}; give the placement.conf of the "
            "service that the shadow stands before with --config-file"
        ) from error


def make_upstream(options: Options) -> Upstream:
    """Return the placement in service; :raises CannotRun: its URL cannot be used."""
    return Upstream(
        options.upstream, ca_file=options.ca_file, timeout=options.timeout, connections=options.threads
    )


class _Arbiter(serve.Arbiter):
    """The process that restarts the one that forwards."""

    def reload(self) -> None:
        """Refuse to replace the process that forwards, which would count some requests twice."""
        LOG.warning("a shadow does not read its configuration again; restart it")


class _Gunicorn(BaseApplication):  # type: ignore[misc]  # it has no annotations
    """gunicorn with one worker that forwards."""

    def __init__(self, options: Options, descriptor: int, url: str) -> None:
        self._options = options
        self._descriptor = descriptor
        self._url = url
        self._report: Report | None = None
        super().__init__()

    def run(self) -> None:
        """Forward until told to stop, then raise :exc:`SystemExit`."""
        _Arbiter(self).run()

    def load_config(self) -> None:
        """Set the settings."""
        options = self._options

        def admit_any_number(arbiter: Any, worker: Any) -> None:
            # one address may be that of a load balancer
            worker.connections_per_address = 0

        def announce(worker: Any) -> None:
            if worker.age == 1:
                serve.tell_ready(self._url, f"shadow of {options.upstream}, report {options.report}")

        settings = {
            **serve.make_settings(self._descriptor, 1, options.threads, options.tls, verbose=options.verbose),
            "post_fork": admit_any_number,
            "post_worker_init": announce,
            "worker_exit": lambda arbiter, worker: self._save(),
        }
        serve.apply_settings(self.cfg, settings)

    def load(self) -> WSGIApplication:
        """Create the application of the worker, and start what keeps its report."""
        options = self._options
        upstream = make_upstream(options)
        report = self._report = Report.resume(upstream.url, options.report)
        setup = Setup(
            options.sources,
            options.upstream,
            options.ours,
            options.ca_file,
            options.timeout,
            options.comparing_threads,
            options.verbose,
        )
        dispatcher = Dispatcher(
            setup,
            report,
            most=options.most_in_flight,
            most_bytes=options.most_megabytes << 20,
            stall_seconds=options.stall_seconds,
        )
        dispatcher.start()
        if options.metrics is not None:
            metrics.serve(report, *options.metrics)

        def save_regularly() -> None:
            while True:
                time.sleep(SAVE_SECONDS)
                self._save()

        def probe() -> None:
            # requests are forwarded even if there is no placement at the URL
            failure = ""
            try:
                answer, _ = upstream.ask(Request("GET", "/", prefix=upstream.prefix))
            except UpstreamError as error:
                failure = str(error)
            if failure:
                # outside of the handler, in which oslo.log would add the exception
                report.note(failure)
            elif not (isinstance(answer.data, dict) and "versions" in answer.data):
                report.note(
                    f"{upstream.url} answered status {answer.status}, and not with the versions of "
                    "placement; name the URL of the placement in service with --upstream"
                )

        threading.Thread(target=save_regularly, daemon=True).start()
        threading.Thread(target=probe, daemon=True).start()
        # a collection of what never becomes garbage would delay requests
        gc.freeze()
        return Forwarder(upstream, dispatcher, report, sample=options.sample)

    def _save(self) -> None:
        if self._report is None:
            return
        failure = ""
        try:
            self._report.save(self._options.report)
        except OSError as error:
            failure = f"The report, {self._options.report}, cannot be written: {error.strerror}"
        if failure:
            # outside of the handler, in which oslo.log would add the exception
            self._report.note(failure)
