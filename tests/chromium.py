"""A headless Chromium for tests, driven over its debugging pipe: nothing but the browser itself is needed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SWITCHES = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def there() -> str | None:
    """The browser's command, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One page of a browser of its own; a context manager.

    Parameters
    ----------
    command
        The browser.
    profile
        An empty folder for it.
    """

    def __init__(self, command: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        incoming, theirs_out = os.pipe()
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", command, *SWITCHES, f"--user-data-dir={profile}"],
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in = os.fdopen(incoming, "rb")
        self._numbers = itertools.count(1)
        self._left = b""
        self._session: str | None = None
        self.requested: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
        self._in.close()
        os.close(self._out)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send one command and wait for its answer; addresses that the page asks for meanwhile are kept."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters} | ({"sessionId": self._session} if self._session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("method") == "Network.requestWillBeSent":
                self.requested.append(answer["params"]["request"]["url"])
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            read = os.read(self._in.fileno(), 1 << 20)
            assert read, "the browser ended"
            self._left += read
        message, self._left = self._left.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, path: Path, width: int, scheme: str = "light") -> None:
        """Load a file at a width, in a colour scheme, and wait until it's there."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=path.as_uri())
        self.said("new Promise((done) => document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1)))")

    def said(self, expression: str) -> Any:
        """The value of an expression in the page, awaited."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press one key."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
