# SPDX-License-Identifier: Apache-2.0
"""The alerts and the dashboard in etc/, on what a Prometheus has scraped from a server."""

import contextlib
import json
import pathlib
import shutil
import subprocess
import time

import pytest
import requests

from benchmarks.processes import find_free_port
from osc_placement.server.db.engine import Database
from tests import databases
from tests.functional import servers
from tests.functional.server.test_health import NOAUTH, write_conf
from tests.functional.server.test_metrics import ADMIN, fill, write_flavors

ETC = pathlib.Path(__file__).parents[3] / "etc"
RULES = ETC / "prometheus" / "placement.rules.yml"
DASHBOARD = json.loads((ETC / "grafana" / "placement.json").read_text())
#: queries that have no result as long as nothing has gone wrong
EMPTY_WITHOUT_TROUBLE = ("placement_conflicts_total",)
SEARCHES = 'placement_request_seconds_bucket{job="placement",route="/allocation_candidates",le="%s"}'


def find(program):
    """The path of a program of Debian's package prometheus; without it the test is skipped, or fails."""
    return shutil.which(program) or databases.skip_or_fail(f"{program} is not installed (Debian: prometheus)")


@contextlib.contextmanager
def scraping(directory, url):
    """A Prometheus that scrapes a server each second and evaluates the alerts; its URL."""
    port = find_free_port()
    (directory / "prometheus.yml").write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [
                    {
                        "job_name": "placement",
                        "metrics_path": "/-/metrics",
                        "static_configs": [{"targets": [url.removeprefix("http://")]}],
                    }
                ],
            }
        )
    )
    command = [find("prometheus"), f"--config.file={directory}/prometheus.yml"]
    options = [f"--storage.tsdb.path={directory}/data", f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=log, stderr=log, cwd=directory)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def ask(url, path, **parameters):
    """The data of an answer of Prometheus; None while it does not answer."""
    with contextlib.suppress(requests.ConnectionError):
        answer = requests.get(f"{url}/api/v1/{path}", params=parameters, timeout=10)
        if answer.status_code != 503:
            assert answer.ok, answer.text
            return answer.json()["data"]
    return None


def wait_for(url, query):
    """The results of a query as soon as there are any."""
    for _ in range(300):
        data = ask(url, "query", query=query)
        if data and data["result"]:
            return data["result"]
        time.sleep(0.1)
    pytest.fail(f"no result: {query}")


def get_queries():
    """The queries of the dashboard, for any job and over ten seconds."""
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$job", "placement").replace("$__rate_interval", "10s")


def test_queries_and_alerts_fit_what_is_scraped(tmp_path):
    """Each query of the dashboard has results, and Prometheus evaluates each rule without an error."""
    find("prometheus")
    url = f"sqlite:///{tmp_path}/placement.db"
    options = f"[metrics]\npublic = true\nflavors_file = {write_flavors(tmp_path)}\n"
    path = write_conf(tmp_path, f"{url}\nsync_on_startup = true", f"{NOAUTH}{options}")
    with servers.running(tmp_path, "--config-file", path) as server:
        database = Database(url)
        fill(database, 50)
        database.dispose()
        with scraping(tmp_path, server.url) as prometheus:
            wait_for(prometheus, "placement_providers == 50")
            end = time.monotonic() + 4
            while time.monotonic() < end:
                search = f"{server.url}/allocation_candidates?resources=VCPU:1"
                requests.get(search, headers=ADMIN, timeout=30).raise_for_status()
                time.sleep(0.1)
            for query in get_queries():
                if not any(name in query for name in EMPTY_WITHOUT_TROUBLE):
                    wait_for(prometheus, query)
                assert ask(prometheus, "query", query=query) is not None
            (group,) = ask(prometheus, "rules")["groups"]
            assert {rule["health"] for rule in group["rules"]} == {"ok"}
            assert not [rule["name"] for rule in group["rules"] if rule["state"] == "firing"]


def test_rules_are_valid_and_described():
    subprocess.run([find("promtool"), "check", "rules", RULES], check=True, capture_output=True)


def test_alerts_fire_when_they_should(tmp_path):
    """On series that show the trouble, each of them and no other."""
    cases = {
        "PlacementDown": ('up{job="placement"}', "0x30"),
        "PlacementDatabaseDown": ("placement_database_up", "0x30"),
        "PlacementErrors": ('placement_requests_total{job="placement",status="503"}', "0+60x30"),
        "PlacementSlowCandidates": (SEARCHES % "+Inf", "0+60x30"),
        "PlacementTransactionsGivenUp": ("placement_transactions_given_up_total", "0x10 1x20"),
        "PlacementNearlyFull": ('placement_resource_used{resource_class="VCPU"}', "95x30"),
    }
    others = [
        {"series": 'placement_resource_capacity{resource_class="VCPU"}', "values": "100x30"},
        {"series": SEARCHES % "10", "values": "0x30"},
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values}, *others],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "22m",
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}],
                }
            ],
        }
        for name, (series, values) in cases.items()
    ]
    path = tmp_path / "tests.yml"
    path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    command = [find("promtool"), "test", "rules", path]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dashboard_shows_the_cloud_once_whatever_the_number_of_services(tmp_path):
    """Every service of a deployment tells of the same cloud."""
    amounts = {"resource_used": 30, "resource_capacity": 100, "aggregate_used": 30, "aggregate_capacity": 100}
    series = [
        {
            "series": f'placement_{name}{{job="placement",instance="{instance}",resource_class="VCPU"'
            + (',aggregate="a"}' if name.startswith("aggregate") else "}"),
            "values": f"{amount}x5",
        }
        for name, amount in amounts.items()
        for instance in ("one", "two", "three")
    ]
    queries = [query for query in get_queries() if "_used" in query]
    assert len(queries) == 3
    checks = [
        {"expr": f"count({query})", "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for query in queries
    ] + [
        {"expr": f"sum({query})", "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": value}]}
        for query, value in zip(queries, (0.3, 70, 0.7), strict=True)
    ]
    path = tmp_path / "tests.yml"
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": checks}]
    path.write_text(json.dumps({"rule_files": [], "tests": tests}))
    done = subprocess.run(
        [find("promtool"), "test", "rules", path], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
