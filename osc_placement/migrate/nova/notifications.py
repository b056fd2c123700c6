# SPDX-License-Identifier: Apache-2.0
"""Nova's versioned notifications of changes of aggregates, each of which starts a comparison.

No content of a message is used: nova is read again. So a message that is lost, comes twice or is forged does
no harm, and a change whose message was lost is found by the next comparison.
"""

from __future__ import annotations

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from osc_placement.errors import PlacementError, one_line

#: where nova sends them unless [notifications]/versioned_notifications_topics says otherwise
TOPIC: Final = "versioned_notifications"
_EVENTS: Final = r"^aggregate\.(add_host|remove_host)\.end$"
#: nova's name for its exchange, unless [DEFAULT]/control_exchange says otherwise
_EXCHANGE: Final = "nova"
#: seconds between two checks whether the process is to end
_POLL: Final = 0.2


class Bell:
    """A wait that any thread can end by ringing; rings before it count as one."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._rung = threading.Event()

    def ring(self) -> None:
        """End the wait that is under way, or the next one."""
        self._rung.set()

    def wait(self, seconds: float) -> None:
        """Wait until it rings, or the time is over, or the process is to end."""
        give_up = time.monotonic() + seconds
        while not self._stop.is_set() and (left := give_up - time.monotonic()) > 0:
            if self._rung.wait(min(_POLL, left)):
                self._rung.clear()
                return


class _Endpoint:
    """The object that oslo.messaging calls with each notification of a matching type."""

    def __init__(self, ring: Callable[[], None], event_filter: Any) -> None:
        self.filter_rule = event_filter
        self._ring = ring

    def info(self, _context: Any, _publisher: str, _event: str, _payload: Any, _metadata: Any) -> None:
        self._ring()


@contextlib.contextmanager
def listening(
    ring: Callable[[], None], *, url: str | None, topic: str, config_files: Sequence[str]
) -> Iterator[None]:
    """Ring at every change of an aggregate's hosts, while the message broker can be reached.

    Without a URL, the configuration files say where nova sends its notifications. Raises PlacementError if
    they do not; tries again in the background while the broker does not answer.
    """
    try:
        with warnings.catch_warnings():
            # it loads eventlet to see whether that is in use, and eventlet tells everybody that it is old
            warnings.simplefilter("ignore")
            import oslo_messaging
        from oslo_config import cfg
    except ModuleNotFoundError as error:
        needed = (
            f"Notifications need {error.name}: install it with pip install 'osc-placement[notifications]'"
        )
        raise PlacementError(needed) from error
    conf = cfg.ConfigOpts()
    oslo_messaging.set_transport_defaults(_EXCHANGE)
    try:
        conf([], project="nova", default_config_files=list(config_files))
        transport = oslo_messaging.get_notification_transport(conf, url=url)
    except (cfg.Error, OSError, UnicodeError, oslo_messaging.MessagingException) as error:
        raise PlacementError(f"Nova's notifications cannot be listened to: {one_line(error)}") from error
    listener = oslo_messaging.get_notification_listener(
        transport,
        [oslo_messaging.Target(topic=topic)],
        [_Endpoint(ring, oslo_messaging.NotificationFilter(event_type=_EVENTS))],
        executor="threading",
    )
    # connecting lasts as long as the broker is away
    starting = threading.Thread(target=listener.start, daemon=True)
    starting.start()
    try:
        yield
    finally:
        starting.join(_POLL)
        if not starting.is_alive():
            listener.stop()
            listener.wait()
