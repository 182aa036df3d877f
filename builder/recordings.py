"""A corpus's files: known by their stamps and digests, and read, a long one in stretches.

A recording of up to `STRETCH_S` is read whole, once for all that's cut from it. Of a longer one only what is asked for is read, with
some sound on either side, so that resampling gives what it gives on the whole (to 1e-15 of full scale); its offset is then that of
what was read. An hour at 48 kHz would take a gigabyte otherwise.
"""

from __future__ import annotations

import hashlib
import math
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from builder import fetch, places, stamps
from builder.acoustics import audio, meters
from builder.corpora import Corpus, Recording
from builder.errors import NotFound, Refused
from builder.kept import Kept
from builder.recipe import SpeechRule
from builder.records import FloatArray, Reason, Sound
from builder.words import counted

STRETCH_S = 120.0
MARGIN_S = 0.25
"""Read on either side of a stretch: resampling looks 10 ms away, and the decoders of lossy files need 80 ms to be where they'd be."""
MAX_OFFSET = 0.001
"""A constant in the samples beyond this share of full scale is taken out: it would count as sound in every pause."""

_whole = Kept[Sound](64 * 1024**2)
_fetched = Kept[bytes](32 * 1024**2)

Stamp = str | stamps.Stamp
T = TypeVar("T")


def check_seen(corpus: Corpus, recording: Recording) -> None:
    """Raise `NotFound` if a file is gone with all of its folder: then it's this machine that doesn't see it.

    A file that went away alone is refused when it's read. A disk that isn't there would have all of its recordings refused, and others
    taken in their place, on this worker only.
    """
    path = corpus.location[recording.member]
    if places.is_remote(path) or path.is_file() or (path.parent.is_dir() and any(path.parent.iterdir())):
        return
    raise NotFound(
        f"{socket.gethostname()}: {path.parent} isn't there or is empty, and it was when this build looked at the corpus {corpus.name!r}: "
        "leave corpora where they are while a build runs, and have them under the same path on every worker"
    )


def stamp_of(corpus: Corpus, member: str) -> Stamp | None:
    """What changes when a file is replaced, in an object store as it was listed; None if there's no such file."""
    path = corpus.location[member]
    return corpus.stamps.get(member) if places.is_remote(path) else stamps.stamp(path)


def is_settled(stamp: Stamp) -> bool:
    """Whether what's read of a file may be kept under its stamp."""
    return isinstance(stamp, str) or stamps.is_settled(stamp)


def file_digest(corpus: Corpus, recording: Recording) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a recording's file; empty if there's no such file."""
    stamp = stamp_of(corpus, recording.member)
    if stamp is None:
        return ""
    digest_of = _digest if is_settled(stamp) else _digest.__wrapped__
    try:
        return digest_of(corpus.location[recording.member], stamp)
    except FileNotFoundError:  # since it was listed
        return ""


@lru_cache(maxsize=4096)
def _digest(path: Path, stamp: Stamp) -> str:
    content = _content(path, stamp)
    return (fetch.sha256_of(path) if content is None else hashlib.sha256(content).hexdigest())[:16]


def _content(path: Path, stamp: Stamp) -> bytes | None:
    """A file of an object store, kept as its checksum and its samples are asked for one after the other; None of this machine's."""
    return _fetched.get((path, stamp), partial(places.content, path)) if places.is_remote(path) else None


# -- samples ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tape:
    """A recording at the working rate, mono, without its offset; nothing of it is read before it's asked for.

    Parameters
    ----------
    path, stamp, raw
        Its file.
    channels, min_rate_hz
        What the recipe takes.
    sample_rate_hz
        Working rate.
    """

    path: Path
    stamp: Stamp
    raw: tuple[tuple[str, int | str], ...] | None
    channels: str
    min_rate_hz: int
    sample_rate_hz: int

    @property
    def n_samples(self) -> int:
        """Length at the working rate; of a long recording as its header says.

        Raises
        ------
        Refused
            As `read`.
        """
        n_samples = _header_length(self) if is_settled(self.stamp) else _header_length.__wrapped__(self)
        return n_samples if self._is_long(n_samples) else len(self._all().samples)

    def _is_long(self, n_samples: int) -> bool:
        return n_samples > STRETCH_S * self.sample_rate_hz

    def read(self, start: int = 0, end: int | None = None) -> Sound:
        """A stretch of the recording, by default all of it.

        Parameters
        ----------
        start, end
            In samples at the working rate.

        Returns
        -------
        Sound
            Shorter than asked for where the recording ends before.

        Raises
        ------
        Refused
            `unreadable`, `not_finite`, `not_mono`, `rate_too_low` or `too_short`.
        """
        n_samples = self.n_samples
        end = n_samples if end is None else min(end, n_samples)
        if self._is_long(n_samples):
            return self._part(start, end) if start < end else Sound(np.zeros(0), self.sample_rate_hz)
        whole = self._all()
        if (start, end) == (0, n_samples):
            return whole
        return Sound(whole.samples[start:end].copy(), self.sample_rate_hz)  # a view would keep all of it

    def pieces(self, start: int, end: int) -> Iterator[Sound]:
        """A stretch in pieces that are short enough to be looked at; their spectral frames are those of the whole, each in one piece."""
        width, hop = meters.spectrum_frames(self.sample_rate_hz)
        if not self._is_long(end - start):
            yield self.read(start, end)
            return
        n_frames, at_once = (end - start - width) // hop + 1, int(STRETCH_S / meters.SPECTRUM_HOP_S)
        for first in range(0, n_frames, at_once):
            low, frames = start + first * hop, min(at_once, n_frames - first)
            yield self.read(low, low + (frames - 1) * hop + width)

    def _all(self) -> Sound:
        """A short recording."""
        return _whole.get(self, self._read_all) if is_settled(self.stamp) else self._read_all()

    def _read_all(self) -> Sound:
        samples, found_hz = self._mono(0, None)
        return Sound(audio.resampled(samples, found_hz, self.sample_rate_hz), self.sample_rate_hz)

    def _part(self, start: int, end: int) -> Sound:
        """A stretch of a long recording. What is read begins where samples of both rates fall together."""
        found_hz = self._opened(audio.length)[1]
        common = math.gcd(found_hz, self.sample_rate_hz)
        theirs, ours = found_hz // common, self.sample_rate_hz // common
        margin = math.ceil(MARGIN_S * common)
        low, high = max(start // ours - margin, 0), -(-end // ours) + margin
        samples, _ = self._mono(low * theirs, (high - low) * theirs)
        made = audio.resampled(samples, found_hz, self.sample_rate_hz)
        return Sound(made[start - low * ours : end - low * ours].copy(), self.sample_rate_hz)

    def _mono(self, first: int, most: int | None) -> tuple[FloatArray, int]:
        """Frames of the file as the recipe takes them, at the file's own rate, which comes with them."""
        samples, found_hz = self._opened(partial(audio.read, first=first, most=most))
        audio.check_finite(samples)
        if samples.shape[1] > 1 and self.channels == "mono":
            raise Refused(Reason.NOT_MONO, f"{counted(samples.shape[1], 'channel')}, and the recipe takes mono only")
        if found_hz < self.min_rate_hz:
            raise Refused(Reason.RATE_TOO_LOW, f"{found_hz} Hz, at least {self.min_rate_hz} Hz are needed")
        if len(samples) == 0:
            raise Refused(Reason.TOO_SHORT, "no samples")
        mono = samples.mean(axis=1)
        offset = float(mono.mean())
        return (mono - offset if abs(offset) > MAX_OFFSET else mono), found_hz

    def _opened(self, look: Callable[..., T]) -> T:
        """What a reader of audio files finds in the file."""
        try:
            return look(self.path, dict(self.raw) if self.raw else None, _content(self.path, self.stamp))
        except FileNotFoundError as error:  # since it was listed
            raise Refused(Reason.UNREADABLE, "no such file") from error


@lru_cache(maxsize=4096)
def _header_length(tape: Tape) -> int:
    n_frames, found_hz = tape._opened(audio.length)
    return round(n_frames * tape.sample_rate_hz / found_hz)


def tape(corpus: Corpus, recording: Recording, rule: SpeechRule, sample_rate_hz: int) -> Tape:
    """A recording, ready to be read.

    Raises
    ------
    Refused
        `unreadable` where there's no such file.
    """
    stamp = stamp_of(corpus, recording.member)
    if stamp is None:
        raise Refused(Reason.UNREADABLE, "no such file")
    raw = tuple(sorted(recording.raw.items())) if recording.raw else None
    return Tape(corpus.location[recording.member], stamp, raw, rule.channels, rule.min_rate_hz, sample_rate_hz)
