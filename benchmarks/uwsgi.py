# SPDX-License-Identifier: Apache-2.0
"""uWSGI with the options of deployment tools, for the benchmarks and for the tests of the packages.

tests/functional/packaging/test_compat.py names the files of these tools. The application that they load is
left out: it may be ours or that of the reference.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

#: the options of kolla-ansible's role service-uwsgi-config, but for plugins, which PyPI's uWSGI has built in
KOLLA = (
    "add-header = Connection: close",
    "buffer-size = 65535",
    "die-on-term = true",
    "enable-threads = true",
    "exit-on-reload = false",
    "hook-master-start = unix_signal:15 gracefully_kill_them_all",
    "http = 127.0.0.1:{port}",
    "lazy-apps = true",
    "master = true",
    "processes = 5",
    "thunder-lock = true",
    "worker-reload-mercy = 80",
)
#: openstack-helm makes such a file of the values of its chart, which deployments change
HELM = (
    "add-header = Connection: close",
    "buffer-size = 65535",
    "chunked-input-limit = 4096000",
    "die-on-term = true",
    "enable-threads = true",
    "exit-on-reload = false",
    "hook-master-start = unix_signal:15 gracefully_kill_them_all",
    "http-socket = 127.0.0.1:{port}",
    "lazy-apps = true",
    "log-x-forwarded-for = true",
    "master = true",
    "need-app = true",
    "processes = 4",
    "procname-prefix-spaced = placement-api:",
    "route-user-agent = ^kube-probe.* donotlog:",
    "socket-timeout = 10",
    "thunder-lock = true",
    "worker-reload-mercy = 80",
)
#: those of openstack-ansible's role uwsgi, but for the account
ANSIBLE = (
    "http-socket = 127.0.0.1:{port}",
    "master = true",
    "enable-threads = true",
    "processes = 4",
    "threads = 1",
    "exit-on-reload = true",
    "die-on-term = true",
    "lazy-apps = true",
    "add-header = Connection: close",
    "buffer-size = 65535",
    "thunder-lock = true",
    "disable-logging = true",
    "http-auto-chunked = true",
    "http-raw-body = true",
    "socket-timeout = 10",
    "need-app = true",
    "log-x-forwarded-for = true",
    "route-user-agent = ^osa-haproxy-healthcheck$ donotlog:",
)


def write(path: pathlib.Path, options: Iterable[str], **values: object) -> None:
    """Write a file for ``--ini``.

    :param values: what stands in the places in braces: ``port``, and what the caller's own options need
    """
    lines = [option.format(**values) for option in options]
    path.write_text("\n".join(["[uwsgi]", *lines]) + "\n")
