# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven by the DevTools protocol over a pipe: no port, no further package."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
#: seconds that a step of a page may take
_PATIENCE = 60


def find_chromium() -> str | None:
    """Return the program, or None if it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@dataclass
class Page:
    """A page in Chromium; every method raises RuntimeError if the page or Chromium fails."""

    _input: int
    _output: int
    _session: str = ""
    _last: int = 0
    _rest: bytes = b""
    #: the messages about events that came meanwhile
    events: list[dict[str, Any]] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._input, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def attach(self) -> None:
        """Open an empty page, to which all further calls go."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")

    def resize(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window, and the colours that its user prefers."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, file: pathlib.Path) -> None:
        """Load a file, and wait until it is loaded and a first frame of it was painted."""
        self.events.clear()
        self.call("Page.navigate", url=file.resolve().as_uri())
        deadline = time.monotonic() + _PATIENCE
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{file} is not loaded after {_PATIENCE} s")
            self.events.append(self._receive())
        self.settle()

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript in the page; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return result["result"].get("value")

    def settle(self) -> float:
        """Wait until what was begun is painted; return the milliseconds since the start of the page."""
        value: float = self.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
            "() => setTimeout(() => done(performance.now()), 0))))"
        )
        return value

    def press(self, key: str, text: str = "") -> None:
        """Press a key, such as ``Tab`` or ``Enter``, on what has the focus."""
        codes = {"Enter": 13, "Tab": 9, " ": 32}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes.get(key, 0),
                **({"text": text} if text and kind == "keyDown" else {}),
            )
        self.settle()

    def click(self, selector: str) -> None:
        """Click into the middle of the first element that matches, as a person would."""
        box = self.evaluate(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            "element.scrollIntoView({block: 'nearest', behavior: 'instant'});"
            "const box = element.getBoundingClientRect();"
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)
        self.settle()

    def screenshot(self, file: pathlib.Path) -> None:
        """Write what is in the window as a PNG file."""
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._output, 1 << 20)
            if not part:
                raise RuntimeError("Chromium ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received


@contextlib.contextmanager
def browsing(program: str) -> Iterator[Page]:
    """Start Chromium, yield an empty page of it, and end it."""
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        their_input, our_output = _pipe(stack)
        our_input, their_output = _pipe(stack)

        def connect() -> None:
            # the numbers at which Chromium reads and writes
            os.dup2(their_input, 3)
            os.dup2(their_output, 4)

        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "--remote-debugging-pipe"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(3, 4),
            preexec_fn=connect,
        )
        os.close(their_input)
        os.close(their_output)
        try:
            page = Page(our_output, our_input)
            page.attach()
            yield page
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    """Return a pipe whose ends have numbers from 10 on, closed at the end if they are still open."""
    ends = []
    for end in os.pipe():
        moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
        os.close(end)
        ends.append(moved)
    return ends[0], ends[1]
