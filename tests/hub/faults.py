"""Answers that go wrong on purpose, and the log of what was asked."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Fault:
    """One way in which requests go wrong.

    Parameters
    ----------
    match
        Regular expression on `METHOD path`.
    action
        `drop`: the connection closes halfway through the request. `lose`: the request is done, its answer never comes.
        `cut`: half of the answer's body comes. `status`: an error is answered. `hold`: the request waits, for ever.
        `overtake`: somebody else commits, or puts the same tag on the first commit, just before.
        `spoil`: the commit is done without its first file.
    every, times
        Only each `every`th matching request, at most `times` times; None has no end.
    """

    match: str
    action: str
    every: int = 1
    times: int | None = None
    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    seen: int = 0
    done: int = 0

    def strikes(self, request: str) -> bool:
        """Whether this request goes wrong."""
        if not re.search(self.match, request):
            return False
        self.seen += 1
        if self.seen % self.every or (self.times is not None and self.done >= self.times):
            return False
        self.done += 1
        return True


class Faults:
    """The faults that are set now, and every request that came."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._log: list[dict[str, Any]] = []

    def set(self, faults: list[dict[str, Any]]) -> None:
        """Replace all faults and forget the log."""
        with self._lock:
            self._faults = [Fault(**fault) for fault in faults]
            self._log = []

    def log(self) -> list[dict[str, Any]]:
        """Every request since the faults were set."""
        with self._lock:
            return list(self._log)

    def on(self, request: str) -> Fault | None:
        """The fault that strikes a request, if any; the request is counted."""
        with self._lock:
            return next((fault for fault in self._faults if fault.strikes(request)), None)

    def note(self, request: str, body: int, status: int | None, fault: str | None) -> None:
        """Remember a request: bytes of body that came, the status that was answered, and what went wrong."""
        with self._lock:
            self._log.append({"request": request, "body": body, "status": status, "fault": fault})
