"""The server as a process, and commands that talk to it, each in an environment where it's the only Hub there is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent

COMMANDS = """
import contextlib, io, json, os, sys
from builder.__main__ import main
for line in sys.stdin:
    argv, token = json.loads(line)
    os.environ.pop("HF_TOKEN", None)
    os.environ.update({"HF_TOKEN": token} if token else {})
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(argv)
        except SystemExit as stop:
            status = int(stop.code or 0)
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""
"""Runs `vocalgrad` commands one after another: what takes seconds to import is imported once."""


@dataclass(frozen=True)
class Said:
    """What a command ended with."""

    status: int
    out: str
    err: str


class Server:
    """A running Hub."""

    def __init__(self, url: str, home: Path, xet: bool) -> None:
        self.xet = xet
        self.url = url
        self.home = home

    def environment(self, **more: str | None) -> dict[str, str]:
        """Variables under which the real clients talk to this Hub and to nothing else; None takes one away."""
        found: dict[str, str | None] = {
            **{name: value for name, value in os.environ.items() if not name.startswith("HF_")},
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": "hf_write",
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_XET": "0" if self.xet else "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
            "HF_UPDATE_DOWNLOAD_COUNTS": "0",
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
            "no_proxy": "127.0.0.1",
            **more,
        }
        return {name: value for name, value in found.items() if value is not None}

    def control(self, action: str, value: Any = None) -> Any:
        """Ask for what only the tests may."""
        request = urllib.request.Request(f"{self.url}/_hub/{action}", json.dumps(value).encode(), method="POST")
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return json.load(answer)

    def go_wrong(self, *faults: dict[str, Any]) -> None:
        """Set faults (see `hub.faults.Fault`), and forget the log."""
        self.control("faults", list(faults))

    def log(self, pattern: str = "") -> list[dict[str, Any]]:
        """Requests since the last `go_wrong` whose `METHOD path` holds a text."""
        return [item for item in self.control("log") if pattern in item["request"]]

    def sent(self) -> list[str]:
        """Requests that changed something or sent a file."""
        verbs = ("PUT ", "POST /api/repos", "POST /api/datasets/acme/")
        found = [item["request"] for item in self.log() if item["status"] is not None]
        return [request for request in found if request.startswith(verbs) and "/preupload/" not in request]

    def python(self, code: str, *arguments: str, timeout_s: float = 120, **more: str | None) -> Said:
        """Run Python code in a process of its own."""
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, env=self.environment(**more), capture_output=True, text=True, timeout=timeout_s)
        return Said(done.returncode, done.stdout, done.stderr)


class Commands:
    """A process that runs `vocalgrad` commands against a Hub."""

    def __init__(self, server: Server) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", COMMANDS], env=server.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, *arguments: str | Path, token: str | None = "hf_write") -> Said:
        """Run one command under a token."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([[str(argument) for argument in arguments], token]) + "\n")
        self._process.stdin.flush()
        said = Said(*json.loads(self._process.stdout.readline()))
        assert "Traceback" not in said.err, said.err
        return said

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def serving(folder: Path, part_bytes: int = 0, page: int = 1000, xet: bool = False) -> Iterator[Server]:
    """A Hub in a process of its own, ended with the block."""
    (folder / "objects").mkdir()
    command = [sys.executable, "-m", "hub", str(folder / "objects"), str(part_bytes), str(page)]
    if xet:
        (folder / "xet").mkdir()
        command.append(str(folder / "xet"))
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Server(process.stdout.readline().strip(), folder / "home", xet)
        finally:
            process.terminate()
