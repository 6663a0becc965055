"""Opens a page in a real Chromium and tells what a person would meet: errors, loads, sizes."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
START_TIMEOUT_S = 60.0
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class Tab:
    """One tab, driven through the DevTools protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._ids = itertools.count(1)
        self.requests: list[str] = []
        """Addresses that the page asked for."""
        self.complaints: list[str] = []
        """Console errors and warnings, exceptions, blocked loads."""

    def open(self, address: str) -> Self:
        """Go there and wait until everything is loaded."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=address)
        self._read_until(lambda message: message.get("method") == "Page.loadEventFired")
        self.evaluate("document.fonts.ready.then(() => 1)")
        return self

    def evaluate(self, expression: str) -> Any:
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        return result["result"].get("value")

    def resize(self, width: int, height: int) -> None:
        """The size of a screen, narrow ones as phones have them."""
        is_mobile = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=is_mobile,
        )

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        answer = self._read_until(lambda message: message.get("id") == number)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _read_until(self, is_wanted: Any) -> dict[str, Any]:
        while True:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=60))
            self._note(message.get("method", ""), message.get("params", {}))
            if is_wanted(message):
                return message

    def _note(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(parameters["entry"]["text"])
        elif method in {"Runtime.exceptionThrown", "Runtime.consoleAPICalled"}:
            self.complaints.append(json.dumps(parameters))


@contextmanager
def browser_tab() -> Iterator[Tab]:
    """A tab of a fresh browser; skips the test where no Chromium is installed."""
    binary = next((found for name in NAMES if (found := shutil.which(name))), None)
    if binary is None:
        pytest.skip("needs Chromium (apt-get install chromium)")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [binary, *OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with connect(_tab_address(Path(folder)), max_size=None) as connection:
                yield Tab(connection)
        finally:
            process.terminate()
            process.wait(30)


def _tab_address(folder: Path) -> str:
    """WebSocket address of the first tab; the browser writes its port when it is ready."""
    written = folder / "DevToolsActivePort"
    deadline = time.monotonic() + START_TIMEOUT_S
    while not (written.exists() and len(written.read_text().splitlines()) == 2):
        assert time.monotonic() < deadline, "Chromium did not start"
        time.sleep(0.05)
    port, browser_path = written.read_text().splitlines()
    with connect(f"ws://127.0.0.1:{port}{browser_path}") as connection:
        connection.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        targets = json.loads(connection.recv(timeout=30))["result"]["targetInfos"]
    target = next(target for target in targets if target["type"] == "page")
    return f"ws://127.0.0.1:{port}/devtools/page/{target['targetId']}"
