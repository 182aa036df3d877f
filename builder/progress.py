"""Progress for people: a bar with rate and time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable
from types import TracebackType
from typing import Self

from tqdm import tqdm

from builder.words import counted

LINE_EVERY_S = 10.0


class Progress:
    """Counts clips, or what else a step does, out of a total; a context that ends with a last line if it took long.

    Parameters
    ----------
    what
        The stage.
    total
        How many are to be done.
    say
        Takes lines for people, where there's no terminal.
    unit
        What is counted.
    """

    def __init__(self, what: str, total: int, say: Callable[[str], None], unit: str = "clip") -> None:
        self._what = what
        self._total = total
        self._say = say
        self._unit = unit
        self._done: Counter[Hashable] = Counter()
        self._rejected: Counter[Hashable] = Counter()
        self._started = time.monotonic()
        self._bar = tqdm(total=total, desc=what, unit=unit, dynamic_ncols=True) if sys.stderr.isatty() else None
        self._closed = threading.Event()
        self._lines = threading.Thread(target=self._line_now_and_then, daemon=True)

    def add(self, task: Hashable, done: int, rejected: int | None = None) -> None:
        """Count clips of a task."""
        self._done[task] += done
        if rejected is not None:
            self._rejected[task] += rejected
        self._show()

    def told(self, task: Hashable, value: tuple[int, ...] | None) -> None:
        """What a worker tells of a task: clips done, and rejected if any can be, since it last did; None if it begins again."""
        if value is None:
            self.forget(task)
        else:
            self.add(task, *value)

    def forget(self, task: Hashable) -> None:
        """A task begins again: what it had counts no longer."""
        self._done.pop(task, None)
        self._rejected.pop(task, None)
        self._show()

    def line(self) -> str:
        """Done, rejected, rate, time left."""
        done, rejected = sum(self._done.values()), sum(self._rejected.values())
        elapsed_s = time.monotonic() - self._started
        rate = done / elapsed_s if elapsed_s > 0 else 0.0
        left = f"{(self._total - done) / rate:.0f} s left" if rate > 0 else "time left unknown"
        if done >= self._total:
            left = f"{elapsed_s:.0f} s"
        counts = f"{done}/{counted(self._total, self._unit)}" + (f", {rejected} rejected" if self._rejected else "")
        return f"{self._what:<8} {counts}, {rate:.1f} {self._unit}s/s, {left}"

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.n = sum(self._done.values())
            if any(self._rejected.values()):
                self._bar.set_postfix(rejected=sum(self._rejected.values()), refresh=False)
            self._bar.update(0)

    def _line_now_and_then(self) -> None:
        while not self._closed.wait(LINE_EVERY_S):
            self._say(self.line())

    def __enter__(self) -> Self:
        if self._bar is None:
            self._lines.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        self._closed.set()
        if self._bar is not None:
            self._bar.close()
            return
        self._lines.join()
        if time.monotonic() - self._started >= LINE_EVERY_S:
            self._say(self.line())
