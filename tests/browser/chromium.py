"""A page in the system's headless Chromium, over its debugging protocol: no driver and no download."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)
SCREENSHOTS = Path(__file__).parents[2] / ".cache" / "screenshots"
"""Kept after the tests, to look at."""
PAPER = {"printBackground": True, "preferCSSPageSize": True}


def installed() -> str | None:
    """The browser that is on PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab. `console` holds every error, warning and uncaught exception since it was opened, as text."""

    def __init__(self, socket: Any):
        self._socket, self._calls, self._loads = socket, 0, 0
        self.console: list[str] = []
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    def open(self, place: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Load a file, or an address."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[theme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self._load(
            "Page.navigate", url="about:blank"
        )  # or else an address that differs behind its # alone loads nothing
        self._load("Page.navigate", url=place if isinstance(place, str) else place.resolve().as_uri())

    def again(self) -> None:
        """Load the same page again."""
        self._load("Page.reload")

    def follow(self, selector: str) -> None:
        """Click a link and wait for the page it leads to."""
        loads = self._loads
        self.click(selector)
        self._loaded(loads)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        found = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, condition: str, seconds: float = 20) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, f"still not so after {seconds} s: {condition}"
            time.sleep(0.05)

    def click(self, selector: str) -> None:
        """As a mouse does, in the middle of the first element that fits."""
        place = self.run(
            f"""(() => {{
              const found = document.querySelector({json.dumps(selector)});
              found.scrollIntoView({{block: "center", behavior: "instant"}});
              const box = found.getClientRects()[0];
              return [box.x + box.width / 2, box.y + box.height / 2];
            }})()"""
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def picture(self, path: Path) -> None:
        """A screenshot of the whole page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def paper(self, path: Path) -> None:
        """The page as it prints."""
        path.write_bytes(base64.b64decode(self._call("Page.printToPDF", **PAPER)["data"]))

    def _load(self, method: str, **parameters: Any) -> None:
        loads = self._loads
        self._call(method, **parameters)
        self._loaded(loads)

    def _loaded(self, loads: int) -> None:
        """Until more pages than that have been loaded."""
        while self._loads == loads:
            self._note(json.loads(self._socket.recv(timeout=60)))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._socket.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("id") == self._calls:
                assert "error" not in message, message["error"]
                return message["result"]
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        self._loads += message.get("method") == "Page.loadEventFired"
        if message.get("method") == "Runtime.exceptionThrown":
            self.console.append(json.dumps(said["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.console.append(said["entry"]["text"])
        if message.get("method") == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
            self.console.append(json.dumps(said["args"]))


@contextmanager
def chromium(program: str) -> Iterator[Page]:
    """A browser with one page; it and its profile are gone afterwards."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        words = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            line = next(line for line in process.stderr if "DevTools listening on" in line)
            browser = line.split()[-1]
            with connect(browser, max_size=None) as socket:
                socket.send(json.dumps({"id": 0, "method": "Target.getTargets"}))
                targets = json.loads(socket.recv(timeout=60))["result"]["targetInfos"]
            tab = next(target["targetId"] for target in targets if target["type"] == "page")
            address = f"{browser.split('/devtools/')[0]}/devtools/page/{tab}"
            with connect(address, max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(timeout=30)
