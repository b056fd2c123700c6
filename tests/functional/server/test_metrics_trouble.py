# SPDX-License-Identifier: Apache-2.0
"""`/-/metrics` where there is no room for what workers share, and where the database hangs."""

import concurrent.futures
import itertools
import resource
import shutil
import signal
import subprocess
import time

import pytest
import requests

from osc_placement.server import deploy
from osc_placement.server.db.engine import Database
from osc_placement.server.process.cloud_metrics import CloudMetrics
from tests.functional import servers
from tests.functional.server.test_health import NOAUTH, write_conf
from tests.functional.server.test_metrics import ADMIN, fill, find_workers, scrape

#: the program that runs another where it sees a small file system in memory at $1
UNSHARE = ("unshare", "--map-root-user", "--mount", "sh", "-c")
MOUNT = 'mount -t tmpfs -o size=12m tmpfs "$1" && shift && exec "$@"'


@pytest.fixture
def small_memory(tmp_path):
    """A directory, and the wrapper of a command that finds little room there."""
    directory = tmp_path / "memory"
    directory.mkdir()
    wrapper = (*UNSHARE, MOUNT, "sh", directory)
    if not shutil.which("unshare") or subprocess.run([*wrapper, "true"], check=False).returncode:
        pytest.skip("this account cannot mount a file system of its own")
    return directory, wrapper


def test_oversized_shared_metrics_are_not_stored(tmp_path, small_memory):
    """Ten thousand providers one by one, and a dozen megabytes for all workers: they serve, and count."""
    directory, wrapper = small_memory
    write_conf(tmp_path, f"sqlite:///{tmp_path}/placement.db", f"{NOAUTH}[metrics]\nby_provider = true\n")
    database = Database(f"sqlite:///{tmp_path}/placement.db")
    deploy.upgrade.upgrade(database)
    fill(database, 10_000)
    database.dispose()
    environment = servers.make_environment(PROMETHEUS_MULTIPROC_DIR=str(directory))
    arguments = ("--config-file", tmp_path / "placement.conf")
    with servers.running(tmp_path, *arguments, environment=environment, wrapper=wrapper) as server:
        workers = find_workers(server)
        for _ in range(5):
            answer = requests.get(f"{server.url}/-/metrics", headers=ADMIN, timeout=30)
            assert "\nplacement_providers 10000\n" in answer.text
        assert set(workers) <= set(find_workers(server))
        seen = f"/proc/{workers[0]}/root{directory}"
        files = subprocess.run(["ls", seen], capture_output=True, text=True, check=True).stdout.split()
        assert "cloud.lock" in files
        assert not {"cloud.new", "cloud.txt"} & set(files)
    assert "each worker makes its own metrics of the cloud" in server.log.read_text()


def test_metrics_that_cannot_be_written_are_still_reported(tmp_path):
    """And no part of it stays behind."""
    cloud = CloudMetrics(list, tmp_path, by_provider=False)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        text = cloud.get()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert b"placement_providers 0\n" in text
    assert [path.name for path in tmp_path.iterdir()] == ["cloud.lock"]


def test_removed_metrics_directory_does_not_prevent_scrapes(tmp_path):
    """Somebody has tidied up."""
    cloud = CloudMetrics(list, tmp_path / "gone", by_provider=False)
    assert b"placement_providers 0\n" in cloud.get()


def test_worker_without_a_snapshot_reports_no_snapshot_age(tmp_path):
    """One of two has looked, by the scrape that comes first; its snapshot is the oldest."""
    with servers.running(tmp_path, "--workers", 2) as server:
        assert scrape(server.url).get("snapshot_timestamp_seconds") is None
        assert time.time() - scrape(server.url).get("snapshot_timestamp_seconds") < 60


def test_scrapes_do_not_occupy_all_threads_while_the_database_hangs(tmp_path, hanging):
    """Eight for two workers of four threads each: all but one are answered, and so is a probe."""
    url, way = hanging
    arguments = ("--database", url, "--workers", 2, "--threads", 4)
    with (
        servers.running(tmp_path, *arguments) as server,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        assert scrape(server.url).get("database_up") == 1
        time.sleep(1.1)
        way.hang()
        scrapes = [pool.submit(scrape, server.url) for _ in range(8)]
        try:
            done = [one.result() for one in itertools.islice(concurrent.futures.as_completed(scrapes, 30), 7)]
            assert requests.get(f"{server.url}/-/healthz", timeout=5).status_code == 200
        finally:
            way.go_on()
        assert {scraped.get("database_up") for scraped in done} == {0}
        assert all(scraped.get("snapshot_looks_total") for scraped in done)
        concurrent.futures.wait(scrapes)
        time.sleep(1.1)
        assert scrape(server.url).get("database_up") == 1
