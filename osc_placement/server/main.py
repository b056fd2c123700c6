# SPDX-License-Identifier: Apache-2.0
"""The console script ``placement-server``: options to calls, nothing else."""

from __future__ import annotations

import argparse
import ipaddress
import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from osc_placement.package import EXIT_CLOSED_PIPE, BriefParser, ShowVersion, discard
from osc_placement.server.process import limits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from osc_placement.server.process.opening import Sources
    from osc_placement.server.process.tls import Files

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

# Each command imports its modules when it is called, so that `serve` answers within a second and the help
# immediately.

#: requests that a worker serves at once: enough to continue while some wait for the database
THREADS = 8
#: the entry points of our options and rules, for oslo-config-generator and oslopolicy-sample-generator too
NAMESPACE = "osc_placement.server"
#: the entry points of all options of placement.conf
CONFIG_NAMESPACES = (
    NAMESPACE,
    "keystonemiddleware.auth_token",
    "oslo.log",
    "oslo.middleware.cors",
    "oslo.middleware.http_proxy_to_wsgi",
    "oslo.policy",
)
#: the exit status if an upgrade check fails to run; 1 and 2 are results of a check
CHECK_FAILED = 255
#: the exit status if a shadow found differences that nothing explains
DIFFERS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    options = make_parser().parse_args(arguments)
    try:
        from osc_placement.server.process.opening import CannotRun

        try:
            status: int = options.run(options)
            print(end="", flush=True)
            return status
        except CannotRun as error:
            problem = str(error)
        except BrokenPipeError:
            discard(sys.stdout)
            return EXIT_CLOSED_PIPE
        except KeyboardInterrupt:
            return 130
    except ModuleNotFoundError as error:
        problem = f"{error.name} is not installed: run pip install 'osc-placement[server]'"
    from osc_placement.terminal.screen import wrap_for

    print(*wrap_for(sys.stderr, f"placement-server: {problem}"), sep="\n", file=sys.stderr)
    return getattr(options, "failure", 1)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of ``placement-server``."""
    parser: argparse.ArgumentParser = BriefParser(
        prog="placement-server",
        description="An OpenStack Placement service in one command.",
        epilog="Exit status: 0 if all went well, 1 if not (one line on stderr says why), 2 for a command "
        "line that cannot be read; 'db online_data_migrations' and 'status upgrade check' say more in their "
        "--help.",
    )
    parser.add_argument("--version", action=ShowVersion, help="print the version of osc-placement and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_serve(commands)
    _add_demo(commands)
    _add_shadow(commands)
    actions = _add_group(commands, "db", "look after the database")
    for name, text in (
        ("sync", "Make the tables, or bring them up to date."),
        ("version", "Print the version of the schema."),
        ("stamp", "Record a version of the schema without changing the tables."),
        ("online_data_migrations", "Repair rows that old releases wrote."),
        ("refresh", "Have all servers read the database anew, after it was changed by hand."),
    ):
        action = _add(actions, name, _manage_database, text)
        action.set_defaults(action=name)
        _add_sources(action)
    actions.choices["stamp"].add_argument("version", help="the version to record, or 'head' for the newest")
    migrations = actions.choices["online_data_migrations"]
    migrations.add_argument("--max-count", metavar="<number>", help="repair at most so many rows, then stop")
    migrations.epilog = (
        "Exit status: 0 nothing is left to do; 1 with --max-count, some rows were repaired and there may be "
        "more; 2 a repair failed; 127 the count is not a positive number."
    )
    upgrade = _add_group(_add_group(commands, "status", "say whether an upgrade can begin"), "upgrade", "")
    check = _add(upgrade, "check", _manage_database, "Check what stands in the way of an upgrade.")
    check.add_argument("--json", action="store_true", help="print JSON instead of a table")
    check.epilog = (
        "Exit status: 0 all checks passed; 1 there are warnings; 2 something must be done first; "
        f"{CHECK_FAILED} the checks could not be made."
    )
    check.set_defaults(action="check", failure=CHECK_FAILED)
    _add_sources(check)
    for kind, what in (
        ("config", "placement.conf with every option"),
        ("policy", "policy.yaml with every rule"),
    ):
        sample = _add_group(commands, kind, f"print a sample {kind} file")
        _add(sample, "sample", _print_sample, f"Print a {what}, its default and what it does.").set_defaults(
            kind=kind
        )
    return parser


def _add_serve(commands: Subparsers) -> None:
    parser = _add(
        commands,
        "serve",
        _serve,
        "Serve the placement API. Without arguments: on loopback, without authentication, on a SQLite "
        "database in the working directory, which is made at need. If a service manager passes a listening "
        "socket (LISTEN_FDS), it is used, without --host and --port.",
    )
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on; 0 takes a free one (default: 8778)")
    parser.add_argument(
        "--workers", type=_positive, default=2, help="worker processes (default: %(default)s)"
    )
    parser.add_argument(
        "--threads",
        type=_positive,
        default=THREADS,
        help="requests each worker serves at once (default: %(default)s)",
    )
    parser.add_argument(
        "--connections-per-address",
        type=_count,
        metavar="NUMBER",
        default=limits.CONNECTIONS_PER_ADDRESS,
        help="connections that each worker takes of one client address, or of one IPv6 network of 64 bits; "
        "0 for any number (default: %(default)s)",
    )
    parser.add_argument(
        "--proxy",
        type=_address,
        metavar="ADDRESS",
        action="append",
        default=[],
        help="address of a reverse proxy, which may have more connections; 127.0.0.1 and ::1 are taken for "
        "such; may be repeated",
    )
    _add_tls(parser)
    _add_sources(parser)
    parser.add_argument(
        "--write-clouds-yaml",
        metavar="FILE",
        type=Path,
        help="put a cloud 'placement' for this server into a clouds.yaml, for openstack --os-cloud "
        "placement; other clouds in the file are kept",
    )
    parser.add_argument(
        "--insecure", action="store_true", help="allow to serve without authentication beyond loopback"
    )
    parser.add_argument(
        "--allow-admin-reshape",
        action="store_true",
        help="let administrators reshape, which by default only services may; for rehearsals",
    )
    parser.add_argument("--log-requests", action="store_true", help="log a line per request on stderr")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="log on stderr what the server does, and its processes"
    )


def _add_demo(commands: Subparsers) -> None:
    parser = _add(
        commands,
        "demo",
        _demo,
        "Serve an example cloud of 200 hosts while a shell runs. The server has a free port on loopback and "
        "a temporary directory, and the shell has no other cloud. When the shell ends, the server is stopped "
        "and all its data removed.",
    )
    parser.usage = "placement-server demo [-h] [-- COMMAND ...]"
    parser.add_argument(
        "command",
        metavar="COMMAND",
        nargs=argparse.REMAINDER,
        help="run this command with its arguments instead of a shell, and exit with its status (default: "
        "$SHELL, or /bin/sh)",
    )


def _add_tls(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tls-certificate",
        metavar="FILE",
        type=Path,
        help="serve HTTPS with this certificate, in PEM format, followed by those of its issuers; read again "
        "within a second after it changed",
    )
    parser.add_argument(
        "--tls-key",
        metavar="FILE",
        type=Path,
        help="the key of the certificate, not encrypted, unless it is in the same file",
    )


def _add_shadow(commands: Subparsers) -> None:
    parser = _add(
        commands,
        "shadow",
        _shadow,
        "Forward each request to the placement in service and answer with its answer; ask our server, on the "
        "same database, for each read as well, and report what differs. Nothing is written to the database.",
    )
    parser.add_argument("--upstream", metavar="URL", help="the placement in service; required")
    parser.add_argument(
        "--ours",
        metavar="URL",
        help="our server, if it is to be asked over HTTP and not run by the shadow; it is sent reads only",
    )
    parser.add_argument(
        "--ca-file", metavar="FILE", help="certificates to verify services with, instead of the system's"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8780, help="port to listen on; 0 takes a free one (default: %(default)s)"
    )
    _add_tls(parser)
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        default=60.0,
        help="seconds without an answer after which the client gets 504 (default: %(default)s)",
    )
    parser.add_argument(
        "--threads",
        type=_positive,
        default=64,
        help="requests that are forwarded at once (default: %(default)s)",
    )
    parser.add_argument(
        "--sample",
        type=_part,
        metavar="RATE",
        default=1.0,
        help="the part of the reads to compare, from 0 to 1 (default: %(default)s)",
    )
    parser.add_argument(
        "--max-in-flight",
        type=_positive,
        metavar="NUMBER",
        default=64,
        help="comparisons under way; further reads are skipped (default: %(default)s)",
    )
    parser.add_argument(
        "--max-memory",
        type=_positive,
        metavar="MIB",
        default=64,
        help="MiB that the comparisons under way may take; further reads are skipped (default: %(default)s)",
    )
    parser.add_argument(
        "--comparing-threads",
        type=_positive,
        metavar="NUMBER",
        default=4,
        help="comparisons that are made at once (default: %(default)s)",
    )
    parser.add_argument(
        "--stall",
        type=_seconds,
        metavar="SECONDS",
        default=60.0,
        help="seconds without a result after which the process that compares is started again (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        default=Path("placement-shadow.json"),
        help="the report, which is written every ten seconds and at the end, and which a shadow that is "
        "started again continues (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=_endpoint,
        help="serve the report's counts for Prometheus there",
    )
    _add_sources(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="log on stderr what the shadow does")
    actions = parser.add_subparsers(metavar="ACTION")
    report = _add(actions, "report", _print_shadow_report, "Print the report of a shadow.")
    report.add_argument("file", metavar="FILE", type=Path, help="the report that a shadow writes")
    report.add_argument("--json", action="store_true", help="print JSON instead of text")
    report.epilog = (
        "Exit status: 0 nothing differs but what is meant to; 1 the report cannot be read; 3 there are "
        "differences that nothing explains."
    )


def _add_group(commands: Subparsers, name: str, text: str) -> Subparsers:
    parser = commands.add_parser(name, help=text, description=text)
    return parser.add_subparsers(metavar="ACTION", required=True)


def _add(
    commands: Subparsers, name: str, run: Callable[[argparse.Namespace], int], text: str
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text[0].lower() + text[1:].split(". ")[0], description=text)
    parser.set_defaults(run=run)
    return parser


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--database", metavar="URL", help="database to use, instead of the configured one")
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        help="placement.conf to read; may be repeated, the later one wins",
    )
    parser.add_argument(
        "--config-dir",
        metavar="DIRECTORY",
        action="append",
        help="directory whose *.conf are read after that; may be repeated",
    )


def _positive(text: str, least: int = 1) -> int:
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return number


def _count(text: str) -> int:
    return _positive(text, 0)


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds")
    return number


def _part(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return number


def _endpoint(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (host and port.isdecimal() and int(port) < 1 << 16):
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _address(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no IP address") from None


def _sources(options: argparse.Namespace) -> Sources:
    from osc_placement.server.process.opening import Sources

    return Sources(options.config_file, options.config_dir, options.database)


def _find_tls(options: argparse.Namespace) -> Files:
    from osc_placement.server.process.tls import Files

    return Files(options.tls_certificate, options.tls_key)


def _serve(options: argparse.Namespace) -> int:
    from osc_placement.server.process import serve

    serve.serve(
        serve.Options(
            sources=_sources(options),
            host=options.host,
            port=options.port,
            workers=options.workers,
            threads=options.threads,
            connections_per_address=options.connections_per_address,
            proxies=frozenset(options.proxy),
            tls=_find_tls(options),
            clouds_yaml=options.write_clouds_yaml,
            insecure=options.insecure,
            allow_admin_reshape=options.allow_admin_reshape,
            log_requests=options.log_requests,
            verbose=options.verbose,
        )
    )
    return 0


def _demo(options: argparse.Namespace) -> int:
    from osc_placement.server.process.demo import demo

    return demo(options.command[options.command[:1] == ["--"] :])


def _shadow(options: argparse.Namespace) -> int:
    from osc_placement.server.process.opening import CannotRun
    from osc_placement.server.shadow import run

    if options.upstream is None:
        raise CannotRun("Name the placement in service with --upstream URL")
    run.shadow(
        run.Options(
            sources=_sources(options),
            upstream=options.upstream,
            ours=options.ours,
            ca_file=options.ca_file,
            host=options.host,
            port=options.port,
            tls=_find_tls(options),
            timeout=options.timeout,
            threads=options.threads,
            sample=options.sample,
            most_in_flight=options.max_in_flight,
            most_megabytes=options.max_memory,
            comparing_threads=options.comparing_threads,
            stall_seconds=options.stall,
            report=options.report,
            metrics=options.metrics,
            verbose=options.verbose,
        )
    )
    return 0


def _print_shadow_report(options: argparse.Namespace) -> int:
    from osc_placement.server.shadow import report

    document = report.read_file(options.file)
    print(json.dumps(document, indent=2) if options.json else report.render(document))
    return DIFFERS if any(row["different"] for row in document["routes"]) else 0


def _manage_database(options: argparse.Namespace) -> int:
    """Carry out a command about the database, which is that of the last word of the command line."""
    from osc_placement.server import data_migrations, upgrade_check
    from osc_placement.server.db import upgrade, writers
    from osc_placement.server.process import opening

    conf = opening.read_configuration(_sources(options))
    database = opening.open_database(conf, create=options.action == "sync")
    status = 0
    with opening.muted(), opening.using(database):
        match options.action:
            case "sync":
                upgrade.upgrade(database)
            case "version":
                print(upgrade.version(database))
            case "stamp":
                upgrade.stamp(database, options.version)
            case "online_data_migrations":
                status = data_migrations.run(conf, database, max_count=options.max_count)
            case "refresh":
                upgrade.use_own(database)
                if not database.records_changes:
                    raise opening.CannotRun(
                        "There is nothing to do: without the tables of our own, which 'placement-server db "
                        "sync' makes, servers read the database anew with each request"
                    )
                database.write(writers.record, everything=True)
            case "check":
                status = upgrade_check.run(conf, database, as_json=options.json)
    return status


def _print_sample(options: argparse.Namespace) -> int:
    """Print a sample ``config`` or ``policy`` file, made by oslo's own generators from our entry points."""
    if options.kind == "config":
        from oslo_config import generator as config_generator

        config_generator.main([f"--namespace={namespace}" for namespace in CONFIG_NAMESPACES])
        return 0
    from oslo_config import cfg
    from oslo_policy import generator as policy_generator

    # the generator sets up logging, at this level
    logging.disable(logging.WARNING)
    policy_generator.generate_sample(["--namespace", NAMESPACE], conf=cfg.ConfigOpts())
    return 0


if __name__ == "__main__":
    sys.exit(main())
