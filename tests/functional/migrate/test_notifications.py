# SPDX-License-Identifier: Apache-2.0
"""`placement-migrate mirror-aggregates --follow --notifications`, with RabbitMQ and nova's messages."""

import contextlib
import os
import pathlib
import subprocess
import sys

import kombu
import pytest

from tests import databases
from tests.functional.migrate import nova_databases as nova
from tests.functional.migrate.nova_databases import new_uuid
from tests.functional.migrate.test_mirror_aggregates import aggregates_of, make_providers, wait_until
from tests.functional.servers import make_environment

pytestmark = pytest.mark.parametrize("nova_databases", ["sqlite"], indirect=True)
#: names another broker, with a user that may do everything in it
VARIABLE, DEFAULT = "OSC_PLACEMENT_TEST_RABBITMQ_URL", "rabbit://guest:guest@127.0.0.1:5672/"
NOTIFY = pathlib.Path(__file__).with_name("nova_notify.py")
MESSAGES = """\
[DEFAULT]
transport_url = {url}
[notifications]
notification_format = versioned
versioned_notifications_topics = {topic}
[oslo_messaging_notifications]
driver = messagingv2
"""


@pytest.fixture
def broker():
    """The URL of RabbitMQ; skips or fails the test if there is none."""
    url = os.environ.get(VARIABLE) or DEFAULT
    try:
        with connected(url):
            return url
    except OSError as error:
        return databases.skip_or_fail(f"no RabbitMQ ({VARIABLE} names another): {error}")


def connected(url):
    """A connection to the broker."""
    connection = kombu.Connection(url.replace("rabbit://", "amqp://", 1).rstrip("/") + "//")
    connection.ensure_connection(max_retries=1, timeout=5)
    return connection


@pytest.fixture
def topic(broker):
    """A topic that nobody else uses; its queue goes when the test is over."""
    name = f"osc_placement_test_{new_uuid()}"
    yield name
    with connected(broker) as connection:
        connection.default_channel.queue_delete(f"{name}.info")


@pytest.fixture
def messages_conf(broker, topic, tmp_path):
    """The part of nova.conf that lets nova send versioned notifications."""
    path = tmp_path / "messages.conf"
    path.write_text(MESSAGES.format(url=broker, topic=topic))
    return path


@pytest.fixture
def notify(messages_conf):
    """Let nova's code tell of a change."""

    def run(uuid, name, action="add_host"):
        command = [nova.find_nova() / "python", NOTIFY, messages_conf, uuid, name, action]
        done = subprocess.run(
            command, capture_output=True, text=True, env=make_environment(), timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr

    return run


@contextlib.contextmanager
def following(files, tmp_path, *options):
    """A mirror that follows; killed in the end if it does not end itself."""
    program = [sys.executable, "-c", "from osc_placement.migrate.main import main; raise SystemExit(main())"]
    access = [word for file in files for word in ("--config-file", str(file))]
    with subprocess.Popen(
        [*program, *access, "mirror-aggregates", "--follow", "--prune", *options],
        env=make_environment(XDG_STATE_HOME=str(tmp_path / "state")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def rack(cloud, client):
    """Two hosts, of which one is in an aggregate; the UUID of the aggregate."""
    make_providers(client, cloud.add_host("h1"), cloud.add_host("h2"))
    return cloud.add_aggregate("rack", ["h1"])


def has_queue(broker, topic):
    """Whether somebody listens."""
    with connected(broker) as connection:
        try:
            return connection.default_channel.queue_declare(f"{topic}.info", passive=True).consumer_count > 0
        except connection.channel_errors:
            return False


def test_notification_is_mirrored_at_once(
    rack, cloud, client, nova_conf, tmp_path, broker, topic, messages_conf, notify
):
    """A host that joins or leaves is mirrored when nova says so, long before the next comparison.

    Where nova sends its messages is read from its own configuration.
    """
    options = ("--interval", "3600", "--notifications", "--notifications-topic", topic)
    with following([nova_conf, messages_conf], tmp_path, *options) as process:
        wait_until(lambda: aggregates_of(client) == {"h1": {rack}, "h2": set()})
        wait_until(lambda: has_queue(broker, topic))
        cloud.join("rack", "h2")
        notify(rack, "rack")
        wait_until(lambda: aggregates_of(client) == {"h1": {rack}, "h2": {rack}})
        cloud.update("api", "DELETE FROM aggregate_hosts WHERE host = 'h1'")
        notify(rack, "rack", "remove_host")
        wait_until(lambda: aggregates_of(client) == {"h1": set(), "h2": {rack}})
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


def test_next_comparison_finds_a_lost_message(rack, cloud, client, nova_conf, tmp_path, broker, topic):
    """What no message tells of is found by the next comparison."""
    options = ("--interval", "1", "--notifications", broker, "--notifications-topic", topic)
    with following([nova_conf], tmp_path, *options) as process:
        wait_until(lambda: aggregates_of(client)["h1"] == {rack})
        wait_until(lambda: has_queue(broker, topic))
        cloud.join("rack", "h2")
        wait_until(lambda: aggregates_of(client)["h2"] == {rack})
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert aggregates_of(client) == {"h1": {rack}, "h2": {rack}}
    assert (process.returncode, err) == (0, "")


def test_mirror_works_without_a_broker(rack, cloud, client, nova_conf, tmp_path):
    """A broker that does not answer is told of, and hinders neither the mirror nor its end."""
    options = ("--interval", "0.5", "--notifications", "rabbit://guest:guest@127.0.0.1:1/")
    with following([nova_conf], tmp_path, *options) as process:
        cloud.join("rack", "h2")
        wait_until(lambda: aggregates_of(client)["h2"] == {rack})
        assert "placement-migrate: notifications: " in process.stderr.readline()
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "Traceback" not in err


@pytest.mark.usefixtures("rack")
def test_invalid_broker_url_is_a_one_line_error(migrate):
    """What is no URL of a message broker is told, and nothing is begun."""
    done = migrate("mirror-aggregates", "--follow", "--notifications", "nonsense://x")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
