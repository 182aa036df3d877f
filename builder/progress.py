"""Progress for people: a bar with rate and time left on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tqdm import tqdm

LINE_EVERY_S = 15.0


class Progress:
    """Counts published pairs out of a total, and candidates tried."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total = total
        self._say = say
        self._published = 0
        self._tried = 0
        self._started = self._last = time.monotonic()
        self._bar = tqdm(total=total, unit="pair", dynamic_ncols=True) if sys.stderr.isatty() else None
        self._closed = False

    def add(self, published: int, tried: int) -> None:
        """Count pairs that were published and candidates that were tried."""
        self._published += published
        self._tried += tried
        if self._bar is not None:
            self._bar.update(published)
            self._bar.set_postfix(rejected=self._tried - self._published, refresh=False)
        elif time.monotonic() - self._last >= LINE_EVERY_S:
            self._last = time.monotonic()
            self._line()

    def _line(self) -> None:
        elapsed = time.monotonic() - self._started
        rate = self._published / elapsed if elapsed > 0 else 0.0
        left = f"{(self._total - self._published) / rate:.0f} s left" if rate > 0 else "time left unknown"
        self._say(f"build    {self._published}/{self._total} pairs, {self._tried - self._published} rejected, {rate:.1f} pairs/s, {left}")

    def close(self) -> None:
        """Finish the bar or print a last line; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._bar is not None:
            self._bar.close()
        else:
            self._line()
