# SPDX-License-Identifier: Apache-2.0
"""Opens pages in a headless Chromium, over the pipe of its DevTools protocol."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no browser, install Chromium (Debian: apt install chromium)"
# The pages are files of this project: a sandbox, which containers often refuse, protects nothing.
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
         "--disable-background-networking", "--remote-debugging-pipe")  # fmt: skip
TIMEOUT = 60.0
LOOK = "JSON.stringify((() => {{ {} }})())"
LOADED = """new Promise(done => document.readyState === "complete" ? done() :
  addEventListener("load", () => done()))"""


class BrowserError(Exception):
    """The browser ended, was silent or refused a command; the text names the command."""


def found() -> str | None:
    """Returns the path of the browser, None if none is installed."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A running browser; a context manager that ends it."""

    def __init__(self, folder: Path) -> None:
        """Starts the browser with its profile in `folder`; raises BrowserError."""
        program = found()
        if program is None:
            raise BrowserError(MISSING)
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        self._log = folder / "log"
        # The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "bash", program, *FLAGS,
                 f"--user-data-dir={folder / 'profile'}"],
                pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        os.close(commands)
        os.close(answers)
        self._unread = b""
        self._last = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        # Without its pipe the browser ends.
        os.close(self._commands)
        os.close(self._answers)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Sends a command; returns its result. Events that arrive before are kept. Raises
        BrowserError."""
        self._last += 1
        command = {"id": self._last, "method": method, "params": parameters,
                   **({"sessionId": session} if session else {})}  # fmt: skip
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._read(method)
            if message.get("id") != self._last:
                self.events.append(message)
            elif "error" in message:
                raise BrowserError(f"{method}: {message['error']['message']}")
            else:
                result: dict[str, Any] = message["result"]
                return result

    def _read(self, wanted: str) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0, end - time.monotonic()))
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                raise BrowserError(f"{wanted}: no answer: the browser ended or needs more than "
                                   f"{TIMEOUT:.0f} s; its output is in {self._log}")
            self._unread += part
        text, _, self._unread = self._unread.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, path: Path, width: int, dark: bool = False) -> Page:
        """Opens a file in a new window, `width` pixels wide, and waits until it is loaded."""
        return Page(self, path, width, dark)


class Page:
    """A page in a window of the browser: what it reports, a pointer, and the state of its elements.
    """

    def __init__(self, browser: Browser, path: Path, width: int, dark: bool) -> None:
        self._browser, self._url = browser, path.resolve().as_uri()
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self._target,
                                     flatten=True)["sessionId"]  # fmt: skip
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=900,
                   deviceScaleFactor=1, mobile=False)  # fmt: skip
        self._send("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self._send("Page.navigate", url=self._url)
        self._send("Runtime.evaluate", expression=LOADED, awaitPromise=True)

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **parameters)

    def look(self, body: str) -> Any:
        """Returns what the body of a JavaScript function returns, as JSON has it; raises
        BrowserError with the text of its exception."""
        done = self._send("Runtime.evaluate", expression=LOOK.format(body), returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(f"{body}: {done['exceptionDetails']['exception']['description']}")
        return json.loads(done["result"]["value"])

    def point(self, element: str, click: bool = False) -> None:
        """Moves the pointer to the middle of an element (a JavaScript expression), which scrolls
        into view; clicks there, if wanted."""
        x, y = self.look(f"const one = {element}; one.scrollIntoView({{ block: 'center' }});"
                         "const box = one.getBoundingClientRect();"
                         "return [box.x + box.width / 2, box.y + box.height / 2]")  # fmt: skip
        self._mouse("mouseMoved", x, y)
        if click:
            self._mouse("mousePressed", x, y, button="left", clickCount=1)
            self._mouse("mouseReleased", x, y, button="left", clickCount=1)

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def complaints(self) -> list[str]:
        """Returns errors and warnings of the console, and each request beside the page itself."""
        self.look("return 0")
        lines = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            match event:
                case {"method": "Runtime.exceptionThrown", "params": {"exceptionDetails": one}}:
                    lines.append(f"exception: {one.get('exception', one).get('description', one)}")
                case {"method": "Runtime.consoleAPICalled", "params": {"type": kind, "args": text}}:
                    lines.append(f"console.{kind}: {text}")
                case {"method": "Log.entryAdded", "params": {"entry": one}}:
                    lines.append(f"{one['level']}: {one['text']}")
                case {"method": "Network.requestWillBeSent", "params": {"request": one}}:
                    # A picture inside the page is a data URL.
                    if one["url"] != self._url and not one["url"].startswith("data:"):
                        lines.append(f"request: {one['url']}")
        return lines

    def close(self) -> None:
        """Closes the window."""
        self._browser.send("Target.closeTarget", targetId=self._target)
