# SPDX-License-Identifier: Apache-2.0
"""`/-/metrics`: what is counted, by all processes together, and what it costs."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest
import requests
import sqlalchemy as sa
import webob
from prometheus_client.parser import text_string_to_metric_families

from osc_placement.server import deploy, errors
from osc_placement.server.db import tables
from osc_placement.server.db.engine import Database
from osc_placement.server.process import cloud_metrics, metrics_directory
from osc_placement.server.testing import make_conf
from tests.functional import containers, servers
from tests.functional.server.test_health import serving, write_conf
from tests.functional.server.test_reload import await_

ADMIN = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
MEMORY = pathlib.Path(metrics_directory.find_memory() or "/nonexistent")
#: writes to the memory from which the system tells the command line of a process, as the library does
SETPROCTITLE = """
import ctypes, pathlib

def getproctitle():
    return ""

def setproctitle(title):
    fields = pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = map(int, fields[45:47])
    ctypes.memmove(start, title.encode().ljust(end - start, b"\\0")[: end - start], end - start)
"""
RACK, ROW = str(uuid.uuid4()), str(uuid.uuid4())


def parse(text):
    """The samples of a scrape: values by name and labels; what is no such text fails."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Scraped(dict):
    """The samples of one scrape."""

    def get(self, name, **labels):
        """The value of a series; None if there is none."""
        return super().get((f"placement_{name}", frozenset(labels.items())))


def scrape(url, headers=ADMIN):
    """What a service tells now."""
    answer = requests.get(f"{url}/-/metrics", headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scraped(parse(answer.text))


def count_in_all_processes(url):
    """Requests on separate connections reach several processes, and every scrape includes them all."""
    for _ in range(40):
        requests.get(f"{url}/traits/CUSTOM_NOT_THERE", headers=ADMIN, timeout=30)
    labels = {"method": "GET", "route": "/traits/{name}"}
    for _ in range(10):
        scraped = scrape(url)
        assert scraped.get("requests_total", status="404", microversion="1.39", **labels) == 40
        assert scraped.get("request_seconds_count", **labels) == 40
        assert scraped.get("database_up") == 1


def run_program(program, environment):
    """Run Python code in a process of its own, which has to end well; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["serve", "gunicorn", "uwsgi"])
def test_every_process_reports_the_metrics_of_all(way, tmp_path):
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    with serving(way, tmp_path, PROMETHEUS_MULTIPROC_DIR=str(tmp_path / "metrics")) as url:
        count_in_all_processes(url)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("container", ["gunicorn", "uwsgi"])
def test_containers_need_no_directory_in_the_environment(container, moment, tmp_path):
    """Whether the application is imported before or after the container makes its processes."""
    options = {("gunicorn", "before"): ["--preload"], ("uwsgi", "after"): ["--lazy-apps"]}
    arguments = options.get((container, moment), [])
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    with containers.serving(tmp_path, *arguments, container=container) as (url, _):
        count_in_all_processes(url)


def test_processes_that_name_what_they_are_for_share_a_directory(tmp_path):
    """With setproctitle, the command lines of gunicorn's processes differ; here a module takes its place."""
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    (tmp_path / "setproctitle.py").write_text(SETPROCTITLE)
    with containers.serving(tmp_path, PYTHONPATH=str(tmp_path)) as (url, process):
        command = pathlib.Path(f"/proc/{process.pid}/cmdline")
        await_(lambda: command.read_bytes().startswith(b"gunicorn: master ["), "another command line")
        count_in_all_processes(url)
        assert len(list(MEMORY.glob(f"placement-metrics-{os.getuid()}-{process.pid}-*"))) == 1


def test_process_of_another_user_takes_another_directory(tmp_path):
    """As after ``gunicorn --preload --user`` and uWSGI's ``drop-after-apps``: the first user's is closed."""
    if os.getuid():
        pytest.skip("only root can become another user")
    program = (
        "import os, pathlib\n"
        "from osc_placement.server.process import metrics_directory\n"
        "metrics_directory.join('DIRECTORY')\n"
        "first = os.environ['DIRECTORY']\n"
        "os.setuid(65534)\n"
        "metrics_directory.join('DIRECTORY')\n"
        "second = os.environ['DIRECTORY']\n"
        "assert pathlib.Path(second).stat().st_uid == 65534 and os.access(second, os.W_OK), second\n"
        "metrics_directory.join('DIRECTORY')\n"
        "assert os.environ['DIRECTORY'] == second != first\n"
        "os.rmdir(second)\n"
    )
    environment = servers.make_environment()
    environment.pop("DIRECTORY", None)
    run_program(program, environment)


def test_two_containers_count_separately(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for name in ("a", "b"):
        write_conf(tmp_path / name, f"sqlite:///{tmp_path}/{name}.db\nsync_on_startup = true")
    with containers.serving(tmp_path / "a") as (one, _), containers.serving(tmp_path / "b") as (other, _):
        count_in_all_processes(one)
        count_in_all_processes(other)


def test_container_removes_the_directory_of_one_that_ended(tmp_path):
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    with containers.serving(tmp_path) as (url, process):
        scrape(url)
        (old,) = MEMORY.glob(f"placement-metrics-{os.getuid()}-{process.pid}-*")
        with containers.serving(tmp_path) as (other, _):
            scrape(other)
            assert old.is_dir()
    with containers.serving(tmp_path) as (url, _):
        scrape(url)
        assert not old.exists()


def test_empty_file_of_a_process_does_not_prevent_scrapes(tmp_path):
    """One is empty until its process has made it longer; that of a killed process stays so."""
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    shared = tmp_path / "metrics"
    with containers.serving(tmp_path, PROMETHEUS_MULTIPROC_DIR=str(shared)) as (url, process):
        scrape(url)
        killed = shared / "counter_999999999.db"
        killed.touch()
        scrape(url)
        assert not killed.exists()
        # the process that started the workers lives and counts nothing
        growing = shared / f"counter_{process.pid}.db"
        growing.touch()
        timer = threading.Timer(0.02, growing.write_bytes, [bytes(1 << 16)])
        timer.start()
        scrape(url)
        timer.join()


def test_counters_of_many_ended_processes_are_kept_in_one_file(tmp_path):
    program = (
        "from osc_placement.server.process.metrics import Metrics\n"
        "metrics = Metrics()\n"
        "metrics.conflicted('placement.undefined_code')\n"
        "metrics.searched(3, whole=True)\n"
        "print(metrics.render().decode())\n"
    )
    environment = servers.make_environment(PROMETHEUS_MULTIPROC_DIR=str(tmp_path))
    for number in range(1, 21):
        scraped = Scraped(parse(run_program(program, environment)))
        assert scraped.get("conflicts_total", code="placement.undefined_code") == number
        assert scraped.get("candidates_sum") == 3 * number
        assert len(list(tmp_path.glob("counter_*.db"))) <= 10
    assert (tmp_path / "counter_0.db").exists()


def find_directory(server):
    """Where a server keeps its numbers: the directory that it has open, for others have theirs beside it."""
    for descriptor in pathlib.Path(f"/proc/{server.process.pid}/fd").iterdir():
        path = descriptor.readlink()
        if path.name.startswith("placement-metrics-"):
            return path
    raise AssertionError("the server has no such directory open")


def test_metrics_directory_is_removed_with_the_server(tmp_path):
    with servers.running(tmp_path) as server:
        directory = find_directory(server)
        assert directory.is_dir()
    assert not directory.exists()


def test_separate_counts_of_several_processes_are_refused(tmp_path):
    """A number of one of several processes would be useless, because the next scrape may reach another."""
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db\nsync_on_startup = true")
    # the library chooses where to count when it is imported, which is too early here
    (tmp_path / "early.py").write_text("import prometheus_client\n")
    with containers.serving(tmp_path, "--config", "early.py") as (url, _):
        answer = requests.get(f"{url}/-/metrics", headers=ADMIN, timeout=30)
    assert answer.status_code == 503
    assert "PROMETHEUS_MULTIPROC_DIR" in answer.json()["errors"][0]["detail"]


def test_an_unusable_directory_is_refused_at_start(tmp_path):
    """The server does not start, and gives the reason in one line."""
    (tmp_path / "file").touch()
    environment = servers.make_environment(PROMETHEUS_MULTIPROC_DIR="file/metrics")
    command = [*servers.make_command(), "serve", "--port", "0"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    line = "PROMETHEUS_MULTIPROC_DIR is file/metrics, which cannot be made: Not a directory"
    assert done.stderr == f"placement-server: {line}\n"


def find_workers(server):
    """The ids of the processes that a server has made."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    if not children.exists():
        pytest.skip("this system does not list the children of a process")
    return [int(word) for word in children.read_text().split()]


def test_counters_of_a_dead_process_remain_and_its_gauges_do_not(tmp_path):
    """A counter never goes back; what a process had open is gone with it."""
    with servers.launched(tmp_path, "--workers", 1) as server:
        for _ in range(5):
            requests.get(f"{server.url}/usages", headers=ADMIN, timeout=30)
        (worker,) = find_workers(server)
        os.kill(worker, signal.SIGKILL)
        scraped = scrape(server.url)
        labels = {"method": "GET", "route": "/usages", "status": "400", "microversion": "1.39"}
        assert scraped.get("requests_total", **labels) == 5
        assert scraped.get("pool_connections", pool="read", state="open") == 1
        assert server.stop() == 0


def test_next_server_removes_the_directory_of_a_killed_one(tmp_path):
    """Its directory goes when no process of it is left; that of a server that runs stays."""
    if not MEMORY.is_dir():
        pytest.skip("this system has no directory in memory")
    with servers.launched(tmp_path) as server:
        workers = find_workers(server)
        left = find_directory(server)
        server.process.kill()
        server.process.wait()
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
    assert left.is_dir()
    with servers.running(tmp_path) as first, servers.running(tmp_path) as second:
        assert not left.exists()
        for server in (first, second):
            assert scrape(server.url).get("providers") == 0


@pytest.fixture
def database(tmp_path):
    """An up-to-date database."""
    opened = Database(f"sqlite:///{tmp_path}/placement.db")
    deploy.upgrade.upgrade(opened)
    yield opened
    opened.dispose()


@pytest.fixture
def make_application(database):
    """A function that makes an application without authentication, with options of [metrics]."""

    def make(**options):
        conf = make_conf()
        conf.set_override("auth_strategy", "noauth2", group="api")
        for name, value in options.items():
            conf.set_override(name, value, group="metrics")
        return deploy.make_application(conf, database)

    return make


def send(application, method, path, body=None, **headers):
    """The answer to a request of an administrator."""
    request = webob.Request.blank(path, method=method, headers={**ADMIN, **headers})
    if body is not None:
        request.body, request.content_type = json.dumps(body).encode(), "application/json"
    return request.get_response(application)


def read(application):
    """What an application tells."""
    answer = send(application, "GET", "/-/metrics")
    assert answer.status_int == 200
    return Scraped(parse(answer.text))


def make_host(application, name, *aggregates, vcpu=8):
    """A provider in aggregates, with VCPU of a ratio of 2; its UUID."""
    created = send(application, "POST", "/resource_providers", {"name": name}).json
    path = f"/resource_providers/{created['uuid']}"
    inventory = {"VCPU": {"total": vcpu, "reserved": 1, "allocation_ratio": 2.0}}
    body = {"resource_provider_generation": 0, "inventories": inventory}
    assert send(application, "PUT", f"{path}/inventories", body).status_int == 200
    body = {"resource_provider_generation": 1, "aggregates": list(aggregates)}
    assert send(application, "PUT", f"{path}/aggregates", body).status_int == 200
    return created["uuid"]


def claim(application, host, amount, generation=None):
    """Have a new consumer hold VCPU of a host."""
    body = {
        "allocations": {host: {"resources": {"VCPU": amount}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }
    return send(application, "PUT", f"/allocations/{uuid.uuid4()}", body)


def test_cloud_metrics_are_summed_by_class_and_aggregate(make_application):
    """By class, and by aggregate and class; a host in two aggregates counts in both."""
    application = make_application()
    host = make_host(application, "one", RACK, ROW)
    make_host(application, "two", RACK)
    make_host(application, "three")
    assert claim(application, host, 5).status_int == 204
    scraped = read(application)
    assert scraped.get("providers") == 3
    assert scraped.get("aggregate_providers", aggregate=RACK) == 2
    sums = {"inventory": 8, "reserved": 1, "capacity": 14}
    for name, one in sums.items():
        assert scraped.get(f"resource_{name}", resource_class="VCPU") == 3 * one
        assert scraped.get(f"aggregate_{name}", aggregate=RACK, resource_class="VCPU") == 2 * one
        assert scraped.get(f"aggregate_{name}", aggregate=ROW, resource_class="VCPU") == one
    assert scraped.get("resource_used", resource_class="VCPU") == 5
    assert scraped.get("aggregate_used", aggregate=ROW, resource_class="VCPU") == 5
    assert not any(name.startswith("placement_provider_") for name, _ in scraped)


def test_by_provider_reports_each_provider(make_application):
    """With by_provider, whatever its name has in it."""
    application = make_application(by_provider=True)
    name = 'a "host"\\ of\nmine'
    host = make_host(application, name)
    labels = {"provider": name, "uuid": host, "resource_class": "VCPU"}
    scraped = read(application)
    assert scraped.get("provider_capacity", **labels) == 14
    assert scraped.get("provider_used", **labels) == 0


def test_by_project_reports_what_the_consumers_of_each_hold(make_application):
    """The query of all allocations is not repeated within half a minute."""
    application = make_application(by_project=True)
    host = make_host(application, "one")
    claim(application, host, 2)
    claim(application, host, 3)
    assert read(application).get("project_used", project="p", resource_class="VCPU") == 5
    claim(application, host, 1)
    time.sleep(1.1)
    scraped = read(application)
    assert scraped.get("resource_used", resource_class="VCPU") == 6
    assert scraped.get("project_used", project="p", resource_class="VCPU") == 5


def write_flavors(directory, **properties):
    """A file as the client for compute lists a flavor, with these properties; its path."""
    row = {"ID": "1", "Name": "m1.small", "RAM": 512, "Disk": 0, "Ephemeral": 0, "VCPUs": 2, "Swap": 0}
    path = directory / "flavors.json"
    path.write_text(json.dumps([{**row, "Is Public": True, "RXTX Factor": 1.0, "Properties": properties}]))
    return path


NO_MEMORY = {"resources:MEMORY_MB": "0"}


def test_flavors_file_reports_how_many_more_instances_fit(make_application, tmp_path):
    """What is used counts, and the number is kept for a minute."""
    application = make_application(flavors_file=str(write_flavors(tmp_path, **NO_MEMORY)))
    host = make_host(application, "one")
    make_host(application, "two")
    claim(application, host, 5)
    assert read(application).get("flavor_free", flavor="m1.small") == 4 + 7
    claim(application, host, 4)
    time.sleep(1.1)
    scraped = read(application)
    assert scraped.get("resource_used", resource_class="VCPU") == 9
    assert scraped.get("flavor_free", flavor="m1.small") == 4 + 7


def test_flavors_file_is_read_again_after_a_minute(make_application, tmp_path, monkeypatch):
    monkeypatch.setattr(cloud_metrics, "FRESH", 0)
    monkeypatch.setattr(cloud_metrics, "FLAVORS_FRESH", 0)
    application = make_application(flavors_file=str(write_flavors(tmp_path, **NO_MEMORY)))
    make_host(application, "one")
    assert read(application).get("flavor_free", flavor="m1.small") == 7
    write_flavors(tmp_path, **NO_MEMORY, **{"trait:CUSTOM_NOBODY": "required"})
    assert read(application).get("flavor_free", flavor="m1.small") == 0
    # nobody has this class, which nova asks for nevertheless
    write_flavors(tmp_path, **NO_MEMORY, **{"resources:PGPU": "1"})
    assert read(application).get("flavor_free", flavor="m1.small") == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        ("{", "is not the output of"),
        ('{"flavors": []}', "is not the output of"),
        ('[{"name": "m1.small"}]', "KeyError: 'VCPUs'"),
    ],
)
def test_flavors_file_that_cannot_be_read_leaves_flavors_out(
    make_application, tmp_path, monkeypatch, caplog, text, problem
):
    """The other series are there, and the log says it once."""
    monkeypatch.setattr(cloud_metrics, "FRESH", 0)
    monkeypatch.setattr(cloud_metrics, "FLAVORS_FRESH", 0)
    path = tmp_path / "flavors.json"
    if text is not None:
        path.write_text(text)
    application = make_application(flavors_file=str(path))
    make_host(application, "one")
    for _ in range(2):
        scraped = read(application)
        assert scraped.get("providers") == 1
        assert not any(name == "placement_flavor_free" for name, _ in scraped)
    (message,) = [record.message for record in caplog.records if "flavors_file" in record.message]
    assert problem in message


def test_flavor_with_numbered_groups_is_counted(make_application, tmp_path):
    """No host has a virtual GPU, so none fits."""
    application = make_application(flavors_file=str(write_flavors(tmp_path, **{"resources1:VGPU": "1"})))
    make_host(application, "one")
    assert [value for (name, _), value in read(application).items() if name == "placement_flavor_free"] == [0]


def test_flavor_that_placement_would_refuse_is_left_out(make_application, tmp_path, caplog):
    """It has several groups, and does not say whether they may share a provider."""
    specs = {"resources1:VGPU": "1", "resources2:VGPU": "1"}
    application = make_application(flavors_file=str(write_flavors(tmp_path, **specs)))
    make_host(application, "one")
    assert not any(name == "placement_flavor_free" for name, _ in read(application))
    assert "flavor 'm1.small' has several numbered request groups and no group_policy" in caplog.text


def test_names_of_the_exporter_are_reported_beside_the_others(make_application):
    application = make_application(openstack_exporter_names=True)
    make_host(application, "one")
    text = send(application, "GET", "/-/metrics").text
    labels = '{hostname="one",resourcetype="VCPU"}'
    assert "\nopenstack_placement_up 1\n" in text
    for line in ("total%s 8", "reserved%s 1", "allocation_ratio%s 2.0", "usage%s 0"):
        assert f"\nopenstack_placement_resource_{line % labels}\n" in text


def test_every_series_is_documented(make_application, tmp_path):
    """The page for operators tells what there is, and of nothing else."""
    page = (pathlib.Path(__file__).parents[3] / "doc/source/admin/operations.rst").read_text()
    application = make_application(
        by_provider=True, by_project=True, flavors_file=str(write_flavors(tmp_path))
    )
    make_host(application, "one", RACK)
    # of the snapshot there is something to tell once there is one
    read(application)
    text = send(application, "GET", "/-/metrics").text
    # the library tells of each counter when it was made, where there is one process
    named = re.findall(r"^# TYPE placement_(\w+) ", text, re.MULTILINE)
    families = {name for name in named if not name.endswith("_created")}
    told = set()
    for row in page.split("   * - ")[1:]:
        first, *others = re.findall(r"``(\w+)", row.partition("     - ")[0]) or ["none"]
        prefix = first.removeprefix("placement_").removesuffix("_inventory")
        told |= {first.removeprefix("placement_"), *(f"{prefix}{other}" for other in others)}
    assert told - {"none"} == families


def test_a_huge_capacity_is_reported_as_infinite(database, make_application):
    """A huge ratio, written by another program, must not make the text invalid."""
    application = make_application()
    make_host(application, "one")
    boast = sa.update(tables.inventories).values(allocation_ratio=1e308)
    database.write(lambda conn: conn.execute(boast).rowcount)
    application = make_application()
    assert read(application).get("resource_capacity", resource_class="VCPU") == float("inf")


def test_conflicts_and_searches_are_counted(make_application):
    """By error code, and by how many candidates there were."""
    application = make_application()
    host = make_host(application, "one")
    make_host(application, "two")
    assert claim(application, host, 99).status_int == 409
    assert claim(application, host, 1, generation=7).status_int == 409
    for limit in ("", "&limit=1"):
        answer = send(application, "GET", f"/allocation_candidates?resources=VCPU:1{limit}")
        assert answer.status_int == 200
    assert claim(application, host, 1).status_int == 204
    assert send(application, "GET", "/resource_providers").status_int == 200
    scraped = read(application)
    assert scraped.get("conflicts_total", code="placement.undefined_code") == 1
    assert scraped.get("conflicts_total", code="placement.concurrent_update") == 1
    assert scraped.get("candidates_count") == 2
    assert scraped.get("candidates_sum") == 3
    assert scraped.get("searches_bounded_total") == 0
    assert scraped.get("snapshot_refresh_seconds_count", extent="whole") == 1
    assert scraped.get("snapshot_refresh_seconds_count", extent="changes") >= 1
    assert time.time() - scraped.get("snapshot_timestamp_seconds") < 60


def test_conflicts_in_a_bulk_write_are_counted_one_by_one(make_application):
    """The answer to all of them is 200."""
    application = make_application()
    hosts = [make_host(application, name) for name in ("one", "two", "three")]
    changes = [
        {"uuid": host, "resource_provider_generation": generation, "traits": ["CUSTOM_X"]}
        for host, generation in zip(hosts, (2, 7, 8), strict=True)
    ]
    assert send(application, "PUT", "/traits/CUSTOM_X").status_int == 201
    assert send(application, "POST", "/-/providers", {"changes": changes}).status_int == 200
    assert read(application).get("conflicts_total", code="placement.concurrent_update") == 2


def test_database_metrics_are_reported_on_every_backend(server):
    """Readiness, the cloud and the connections are reported by the server itself."""
    assert requests.get(f"{server.url}/-/readyz", timeout=30).json() == {"status": "ready"}
    created = requests.post(
        f"{server.url}/resource_providers", json={"name": str(uuid.uuid4())}, headers=ADMIN, timeout=30
    )
    assert created.status_code == 200
    time.sleep(1.1)
    scraped = scrape(server.url)
    assert scraped.get("database_up") == 1
    assert scraped.get("providers") >= 1
    assert scraped.get("pool_connections", pool="write", state="open") >= 1
    assert scraped.get("pool_connections", pool="write", state="in_use") == 0
    assert scraped.get("pool_connections", pool="read", state="in_use") == 0


def test_lost_races_are_counted(database, make_application, monkeypatch):
    """Each by itself, and those after which a transaction is given up."""
    monkeypatch.setattr("osc_placement.server.db.engine.LEAST_SECONDS", 0)
    application = make_application()
    attempts = []

    def lose(_connection, times):
        attempts.append(1)
        if len(attempts) <= times:
            raise errors.Retry

    database.write(lose, 3)
    with pytest.raises(errors.TooMuchContention):
        database.write(lose, 1000)
    scraped = read(application)
    assert scraped.get("races_lost_total") == 13
    assert scraped.get("transactions_given_up_total") == 1


def test_connections_in_use_are_counted(database, make_application):
    """One that is lost, or kept out of the pool, is no longer the pool's."""
    application = make_application()
    read(application)
    pool = {"pool": "write"}

    def look(_connection):
        return read(application).get("pool_connections", state="in_use", **pool)

    assert database.write(look) == 1
    after = read(application)
    assert after.get("pool_connections", state="in_use", **pool) == 0
    assert after.get("pool_connections", state="open", **pool) == 1
    database.dispose()
    assert read(application).get("pool_connections", state="open", **pool) == 0


def test_unknown_paths_share_one_series(make_application):
    """Whoever asks for many different things does not fill the memory of the monitoring."""
    application = make_application()
    for number in range(5):
        send(application, f"M{number}", f"/nothing/{number}")
        send(application, "GET", f"/traits/CUSTOM_{number}", **{"OpenStack-API-Version": "placement 1.99"})
    series = [dict(labels) for name, labels in read(application) if name == "placement_requests_total"]
    assert {(one["method"], one["route"], one["status"]) for one in series} == {
        ("other", "", "404"),
        ("GET", "", "406"),
    }


def test_scrape_needs_a_token_by_default(make_application):
    """By default that of somebody who may read all of it by other requests."""
    guarded, public = make_application(), make_application(public=True)
    scrape_ = webob.Request.blank("/-/metrics")
    assert scrape_.get_response(guarded).status_int == 401
    assert scrape_.get_response(public).status_int == 200
    anybody = webob.Request.blank("/-/metrics", headers={"X-Auth-Token": "somebody"})
    assert anybody.get_response(guarded).status_int == 403
    assert anybody.get_response(public).status_int == 200
    assert webob.Request.blank("/traits").get_response(public).status_int == 401


def test_counters_are_reported_without_the_database():
    """Monitoring continues, and learns that the database does not answer."""
    database = Database("mysql+pymysql://nobody@127.0.0.1:1/placement")
    conf = make_conf()
    conf.set_override("auth_strategy", "noauth2", group="api")
    application = deploy.make_application(conf, database)
    send(application, "GET", "/traits")
    scraped = read(application)
    assert scraped.get("database_up") == 0
    assert scraped.get("providers") is None
    labels = {"method": "GET", "route": "/traits", "status": "503", "microversion": "1.39"}
    assert scraped.get("requests_total", **labels) == 1


PROVIDERS = 2_000
CLASSES = 3


def fill(database, providers=PROVIDERS):
    """Write hosts in a hundred aggregates, with three classes each."""

    def write(conn):
        numbers = range(1, providers + 1)
        conn.execute(
            sa.insert(tables.resource_providers),
            [
                {"id": n, "uuid": str(uuid.UUID(int=n)), "name": f"h{n}", "root_provider_id": n}
                for n in numbers
            ],
        )
        conn.execute(
            sa.insert(tables.placement_aggregates),
            [{"id": n, "uuid": str(uuid.UUID(int=n))} for n in range(1, 101)],
        )
        conn.execute(
            sa.insert(tables.resource_provider_aggregates),
            [{"resource_provider_id": n, "aggregate_id": n % 100 + 1} for n in numbers],
        )
        stock = {
            "total": 64,
            "reserved": 2,
            "min_unit": 1,
            "max_unit": 64,
            "step_size": 1,
            "allocation_ratio": 4,
        }
        conn.execute(
            sa.insert(tables.inventories),
            [
                {"resource_provider_id": n, "resource_class_id": class_id, **stock}
                for n in numbers
                for class_id in range(CLASSES)
            ],
        )

    database.write(write)


def count_reads(database):
    """A list that grows with each statement that this thread sends to a database from now on.

    The thread that compares the snapshot in the background also reads, when it is its time.
    """
    statements = []
    own = threading.get_ident()

    def note(conn, cursor, statement, *rest):
        if threading.get_ident() == own:
            statements.append(statement)

    for engine in {database._reader, database._writer}:
        sa.event.listen(engine, "before_cursor_execute", note)
    return statements


@pytest.mark.parametrize("by_provider", [False, True])
def test_scrapes_query_the_database_at_most_once_a_second(database, make_application, by_provider):
    """However many there are; how long one takes is in the benchmarks."""
    fill(database)
    application = make_application(by_provider=by_provider)
    answer = send(application, "GET", "/-/metrics")
    scraped = Scraped(parse(answer.text))
    assert scraped.get("resource_capacity", resource_class="VCPU") == PROVIDERS * 62 * 4
    assert scraped.get("aggregate_providers", aggregate=str(uuid.UUID(int=1))) == PROVIDERS / 100
    time.sleep(1.1)
    statements = count_reads(database)
    send(application, "GET", "/-/metrics")
    of_one = len(statements)
    assert of_one
    begun = time.perf_counter()
    for _ in range(20):
        send(application, "GET", "/-/metrics")
    seconds = time.perf_counter() - begun
    assert len(statements) <= of_one * (1 + int(seconds + 1))


def test_workers_share_the_query_of_a_scrape(tmp_path):
    """Forty scrapes of two workers within a second or two look at the database that many times."""
    with servers.running(tmp_path) as server:
        scrape(server.url)
        time.sleep(1.1)
        before = scrape(server.url).get("snapshot_looks_total")
        begun = time.monotonic()
        for _ in range(40):
            last = scrape(server.url).get("snapshot_looks_total")
        assert last - before <= time.monotonic() - begun + 2
