"""A page in headless Chromium, driven over the pipe of its debugging protocol: no further package is needed.

https://chromedevtools.github.io/devtools-protocol/ says what can be asked.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 60  # for any one answer
# The protocol's pipe is file descriptors 3 and 4.
START = "import os, sys; a = sys.argv; os.dup2(int(a[1]), 3); os.dup2(int(a[2]), 4); os.execv(a[3], a[3:])"


class Browser:
    """One tab. `problems` has what its console complains about, `requests` the addresses that it asked for."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest = to, back, b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.problems: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0,
                  uploadThroughput=0)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            found = self._next(end)
            if found.get("id") == number:
                if "error" in found:
                    raise RuntimeError(f"{method}: {found['error']}")
                return found["result"]
            self._note(found)

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._back], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            if not (more := os.read(self._back, 1 << 20)):
                raise RuntimeError("the browser is gone")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.problems.append(json.dumps(params["args"])[:500])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def tell(self, code: str) -> Any:
        """What an expression of JavaScript is in the page; a promise is waited for."""
        answer = self.call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:500])
        return answer["result"].get("value")

    def wait(self, code: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + SECONDS
        while not self.tell(code):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {code}; {self.problems}")
            time.sleep(0.02)

    def look(self, width: int, theme: str = "light", height: int = 900) -> None:
        """The size of the window, and the theme that the system asks for."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def open(self, path: Path) -> float:
        """Open a file and wait until its plots are drawn; the seconds that took."""
        began = time.monotonic()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.documentElement?.dataset.drawn === 'all'")
        return time.monotonic() - began

    def screenshot(self, path: Path, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **({"clip": {
            "x": 0, "y": 0, "scale": 1, "width": self.tell("innerWidth"),
            "height": min(self.tell("document.documentElement.scrollHeight"), 12_000)}} if whole else {}))
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])


def _high(end: int) -> int:
    """The same end of a pipe under a number that is not in the way."""
    moved = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(end)
    return moved


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, without the net, gone at the end."""
    assert CHROMIUM is not None
    to_read, to_write, back_read, back_write = (_high(end) for end in (*os.pipe(), *os.pipe()))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", START, str(to_read), str(back_write), CHROMIUM, "--headless=new",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
             "--disable-extensions", "--disable-background-networking", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(to_read, back_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(back_write)
        try:
            yield Browser(to_write, back_read)
        finally:
            os.close(to_write)
            os.close(back_read)
            process.terminate()
            process.wait(timeout=SECONDS)
