"""Words of messages: counted nouns, how far a spectrum reaches, and the nearest known name for one that isn't known."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: "1 clip", "0 clips", "2 clips".

    Parameters
    ----------
    noun
        For one; with what agrees with it, such as an adjective before it or a verb after it.
    plural
        For any other count, if it isn't the noun with an s.
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def reaching(frequency_hz: float) -> str:
    """How far up a spectrum reaches; nowhere, where it can't be measured (0 Hz)."""
    return f"reaches up to {frequency_hz:.0f} Hz" if frequency_hz else "reaches nowhere that can be measured"


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint such as " (did you mean 'seed'?)"; empty where nothing is near."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """A message for a name that isn't known: the nearest one, and all of them."""
    return f"unknown {what} {name!r}{nearest(name, known)}; known: {', '.join(known)}"
