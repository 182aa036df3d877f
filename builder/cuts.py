"""Recordings to sources: read, checked, and cut at pauses into stretches of speech and repeatable syllables.

How speech is found: a frame is speech where its level is within 20 dB of the loudest within half a second and 30 dB of
the recording's loud frames (95th percentile). Runs of speech closer than `max_pause_s` form a stretch; stretches are cut at
their pauses (or, without one, at the quietest moment) into cuts of `min_s` to `max_s`. A cut begins and ends with a frame of
speech (64 ms, each 10 ms).

What a cut must be, each with a limit in the recipe's `speech` and a counted reason: long enough (`min_s`, `max_s`: too_short), loud
enough (`min_level_dbfs`, its loud frames: too_quiet), unclipped (`max_clipped` samples: clipped), clear of the recording's floor
(`min_snr_db`: noisy) and voiced in a share of its frames (`min_voiced`: unvoiced). A knock far over the speech is refused too
(no_headroom). How far up a recording reaches is measured here, and asked for by the dimensions that need it.
"""

from __future__ import annotations

import hashlib
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from builder import fetch, places
from builder.acoustics import audio, bandwidth, meters, praat
from builder.corpora import Corpus, Recording
from builder.errors import NotFound, Refused
from builder.recipe import SpeechRule
from builder.records import BoolArray, FloatArray, Reason, Sound
from builder.words import counted

QUIETEST_DBFS = -60.0
WHOLE_SHARE = 0.95
LARGEST_SAMPLE = 1e4
MAX_OFFSET = 0.001
"""A constant in the samples beyond this share of full scale is taken out: it would count as sound in every pause."""


Stamp = str | tuple[int, int]


@dataclass(frozen=True)
class Cut:
    """A stretch of speech of one speaker, in samples at the working rate.

    `whole` says that it's all the speech of its recording, so that the recording's text is its text.
    """

    recording: Recording
    start: int
    end: int
    whole: bool = False


@dataclass
class Survey:
    """What reading a corpus found: usable cuts, what was refused, counted by reason with examples, and members' bandwidths."""

    cuts: list[Cut] = field(default_factory=list)
    syllables: list[tuple[Cut, int, int]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)
    bandwidth_hz: dict[str, float] = field(default_factory=dict)
    """Member -> how far up the recording reaches, of what was read."""
    checksum: dict[str, str] = field(default_factory=dict)
    """Member -> `file_digest` of what was read."""

    def add(self, other: Survey) -> None:
        """Take in what was found in other recordings."""
        self.cuts += other.cuts
        self.syllables += other.syllables
        self.refused += other.refused
        self.details += other.details
        self.checksum |= other.checksum
        self.bandwidth_hz |= other.bandwidth_hz

    def refuse(self, what: str, refusal: Refused, count: int = 1) -> None:
        """Count a refusal and keep its detail."""
        self.refused[refusal.reason.value] += count
        self.details.append(f"{what}: {refusal}")


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


def file_digest(corpus: Corpus, recording: Recording) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a recording's file; empty if there's no such file."""
    stamp = _stamp(corpus, recording.member)
    try:
        return _digest_cached(corpus.location[recording.member], stamp) if stamp else ""
    except FileNotFoundError:  # since it was listed
        return ""


def _stamp(corpus: Corpus, member: str) -> Stamp | None:
    """What changes when a file is replaced, in an object store as it was listed; None if there's no such file."""
    path = corpus.location[member]
    if places.is_remote(path):
        return corpus.stamps.get(member)
    if not path.is_file():
        return None
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4096)
def _digest_cached(path: Path, stamp: Stamp) -> str:
    content = _fetched(path, stamp) if places.is_remote(path) else None
    return (fetch.sha256_of(path) if content is None else hashlib.sha256(content).hexdigest())[:16]


@lru_cache(maxsize=2)
def _fetched(path: Path, stamp: Stamp) -> bytes:
    """A file of an object store, kept as its checksum and its samples are asked for one after the other."""
    del stamp
    return places.content(path)


@lru_cache(maxsize=64)
def _read_cached(
    path: Path,
    stamp: Stamp,
    raw: tuple[tuple[str, int | str], ...] | None,
    channels: str,
    min_rate_hz: int,
    rate_hz: int,
) -> Sound:
    try:
        content = _fetched(path, stamp) if places.is_remote(path) else None
    except FileNotFoundError as error:  # since it was listed
        raise Refused(Reason.UNREADABLE, "no such file") from error
    samples, found_hz = audio.read(path, dict(raw) if raw else None, content)
    wild = ~(np.abs(samples) < LARGEST_SAMPLE)
    if np.any(wild):
        raise Refused(
            Reason.NOT_FINITE,
            f"{counted(int(np.sum(wild)), 'sample is', 'samples are')} not finite, or beyond {LARGEST_SAMPLE:g} times full scale",
        )
    if samples.shape[1] > 1 and channels == "mono":
        raise Refused(Reason.NOT_MONO, f"{counted(samples.shape[1], 'channel')}, and the recipe takes mono only")
    if found_hz < min_rate_hz:
        raise Refused(Reason.RATE_TOO_LOW, f"{found_hz} Hz, at least {min_rate_hz} Hz are needed")
    if len(samples) == 0:
        raise Refused(Reason.TOO_SHORT, "no samples")
    mono = samples.mean(axis=1)
    offset = float(mono.mean())
    return Sound(audio.resampled(mono - offset if abs(offset) > MAX_OFFSET else mono, found_hz, rate_hz), rate_hz)


def read_recording(corpus: Corpus, recording: Recording, rule: SpeechRule, sample_rate_hz: int) -> Sound:
    """A whole recording, mono, without its offset, at the working rate.

    Raises
    ------
    Refused
        `unreadable`, `not_finite`, `not_mono`, `rate_too_low` or `too_short`.
    """
    raw = tuple(sorted(recording.raw.items())) if recording.raw else None
    stamp = _stamp(corpus, recording.member)
    if stamp is None:
        raise Refused(Reason.UNREADABLE, "no such file")
    return _read_cached(corpus.location[recording.member], stamp, raw, rule.channels, rule.min_rate_hz, sample_rate_hz)


def survey(corpus: Corpus, rule: SpeechRule, sample_rate_hz: int) -> Survey:
    """Read every recording of a corpus and cut it into usable stretches of speech.

    Returns
    -------
    Survey
        Cuts in the order of the corpus, repeatable syllables in them, and every refusal with its reason.
    """
    found = Survey()
    for recording in corpus.recordings:
        found.add(survey_recording(corpus, recording, rule, sample_rate_hz))
    return found


def survey_recording(corpus: Corpus, recording: Recording, rule: SpeechRule, sample_rate_hz: int) -> Survey:
    """Read one recording of a corpus and cut it; depends on the recording, its file's bytes, the rule and the rate alone."""
    found = Survey(checksum={recording.member: file_digest(corpus, recording)})
    what = f"{recording.member} ({recording.speaker})"
    try:
        sound = read_recording(corpus, recording, rule, sample_rate_hz)
        found.bandwidth_hz[recording.member] = bandwidth.bandwidth_hz(sound)
        peak_dbfs = audio.peak_dbfs(sound)
        if peak_dbfs < QUIETEST_DBFS:
            raise Refused(Reason.SILENT, f"peak {peak_dbfs:.0f} dBFS, at least {QUIETEST_DBFS:.0f} dBFS is needed")
        cuts = list(_cuts_of(sound, recording, rule))
        if not cuts:
            raise Refused(Reason.TOO_SHORT, f"no {rule.min_s} s of speech in a row")
    except Refused as refusal:
        found.refuse(what, refusal)
        return found
    for cut in cuts:
        try:
            stretch = Sound(sound.samples[cut.start : cut.end], sample_rate_hz)
            _check_cut(stretch, sound, rule)
        except Refused as refusal:
            found.refuse(f"{what} at {cut.start / sample_rate_hz:.2f} s", refusal)
            continue
        whole = len(cuts) == 1 and recording.segments_s is None and cut.end - cut.start >= WHOLE_SHARE * _spoken(sound)
        cut = replace(cut, whole=whole)
        found.cuts.append(cut)
        found.syllables += [(cut, cut.start + low, cut.start + high) for low, high in _syllables(stretch)]
    return found


def _spoken(sound: Sound) -> int:
    """Samples from the first to the last speech of a recording."""
    time_s, _, speech = _speech_frames(sound)
    frames = np.flatnonzero(speech)
    return round((time_s[frames[-1]] - time_s[frames[0]]) * sound.sample_rate_hz) if frames.size else 0


def _speech_frames(sound: Sound) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Frame times, levels, and which are speech."""
    level = meters.frame_level_db(sound)
    if level.value.size == 0:
        return level.time_s, level.value, np.zeros(0, dtype=np.bool_)
    loud = np.percentile(level.value, 95)
    return level.time_s, level.value, meters.audible(level.value) & (level.value > max(loud - 30.0, -70.0))


def _cuts_of(sound: Sound, recording: Recording, rule: SpeechRule) -> Iterator[Cut]:
    """Stretches of speech between pauses, cut to the allowed length."""
    rate = sound.sample_rate_hz
    segments = recording.segments_s or ((0.0, sound.duration_s),)
    for low_s, high_s in segments:
        start, end = round(low_s * rate), min(round(high_s * rate), len(sound.samples))
        part = Sound(sound.samples[start:end], rate)
        time_s, level_db, speech = _speech_frames(part)
        for first, last in _runs(speech, round(rule.max_pause_s / meters.SPECTRUM_HOP_S)):
            yield from _split(first, last, time_s, level_db, speech, rule, recording, start, rate)


def _runs(speech: BoolArray, max_gap: int) -> Iterator[tuple[int, int]]:
    """First and last frame of each run of speech with gaps of at most `max_gap` frames."""
    frames = np.flatnonzero(speech)
    if frames.size == 0:
        return
    breaks = np.flatnonzero(np.diff(frames) > max_gap)
    for group in np.split(frames, breaks + 1):
        yield int(group[0]), int(group[-1])


def _split(
    first: int, last: int, time_s: FloatArray, level_db: FloatArray, speech: BoolArray,
    rule: SpeechRule, recording: Recording, offset: int, rate: int,
) -> Iterator[Cut]:  # fmt: skip
    """Cuts of one run: as few as fit, each ended at its quietest allowed moment, with its silent edges trimmed."""
    hop_s = meters.SPECTRUM_HOP_S
    shortest, longest = rule.min_s / hop_s, rule.max_s / hop_s - 1.0
    while last - first + 1 >= shortest:
        length = last - first
        end = last
        if length > longest:
            pieces = int(np.ceil(length / longest))
            low = int(first + max(shortest, length / pieces * 0.75))
            high = int(min(first + longest, last - shortest))
            end = low + int(np.argmin(level_db[low : high + 1])) if high > low else int(first + longest)
        spoken = first + np.flatnonzero(speech[first : end + 1])
        if spoken.size and spoken[-1] - spoken[0] + 1 >= shortest:
            begin = round((time_s[spoken[0]] - hop_s / 2.0) * rate)
            stop = begin + round((spoken[-1] - spoken[0] + 1) * hop_s * rate)
            yield Cut(recording, offset + begin, offset + stop)
        first = end + 1
        following = np.flatnonzero(speech[first : last + 1])
        if following.size == 0:
            return
        first += int(following[0])


def _check_cut(cut: Sound, whole: Sound, rule: SpeechRule) -> None:
    """Refuse a cut that is too quiet, clipped, noisy, mostly unvoiced, or holds a click far above its speech."""
    loud_dbfs = float(np.percentile(meters.frame_level_db(cut).value, 95))
    if loud_dbfs < rule.min_level_dbfs:
        raise Refused(Reason.TOO_QUIET, f"loud frames at {loud_dbfs:.1f} dBFS, at least {rule.min_level_dbfs:g} dBFS are needed")
    clipped = _clipped(cut.samples)
    if clipped > rule.max_clipped:
        raise Refused(Reason.CLIPPED, f"{counted(clipped, 'sample')} at full scale, the most allowed is {rule.max_clipped}")
    peak_dbfs = audio.peak_dbfs(audio.at_reference_level(cut))
    if peak_dbfs > audio.PEAK_LIMIT_DBFS:
        over_db = peak_dbfs - audio.REFERENCE_LUFS
        raise Refused(Reason.NO_HEADROOM, f"a peak {over_db:.0f} dB over the level of the speech: a click or a knock")
    _, level_db, speech = _speech_frames(cut)
    floor_db = np.percentile(meters.frame_level_db(whole).value, 2)
    snr_db = float(np.percentile(level_db[speech], 80) - floor_db) if speech.any() else 0.0
    if snr_db < rule.min_snr_db:
        raise Refused(Reason.NOISY, f"speech {snr_db:.1f} dB over the floor, at least {rule.min_snr_db:g} dB are needed")
    voiced = float(praat.f0_autocorrelation_hz(cut).valid.mean())
    if voiced < rule.min_voiced:
        raise Refused(Reason.UNVOICED, f"{voiced:.1%} voiced, at least {rule.min_voiced:.1%} is needed")


def _clipped(samples: FloatArray) -> int:
    """Samples in runs of two or more equal ones at the extreme: what clipping leaves, at any later scale."""
    total = 0
    for side in (samples, -samples):
        near_peak = side >= np.max(side, initial=0.0) - 1e-4 * np.ptp(samples)
        total += int(np.sum(near_peak[1:] & near_peak[:-1] & (np.abs(np.diff(side)) < 1e-9)))
    return total


# -- syllables --------------------------------------------------------------------------------------------------------

SYLLABLE_S = (0.12, 0.32)
MAX_SYLLABLES_PER_CUT = 3


def _syllables(cut: Sound) -> list[tuple[int, int]]:
    """Stretches of a cut that can be repeated as one syllable: from dip to dip about a clear, mostly voiced nucleus."""
    envelope = meters.envelope_db(cut)
    if envelope.value.size == 0:
        return []
    f0 = praat.f0_autocorrelation_hz(cut)
    nuclei = meters.event_times_s(cut)
    found = []
    for nucleus_s in nuclei:
        peak = int(np.argmin(np.abs(envelope.time_s - nucleus_s)))
        low, high = _dips(envelope.value, peak)
        low_s, high_s = envelope.time_s[low], envelope.time_s[high]
        inside = (f0.time_s >= low_s) & (f0.time_s <= high_s)
        voiced = float(f0.valid[inside].mean()) if inside.any() else 0.0
        edge_db = envelope.value[peak] - max(envelope.value[low], envelope.value[high])
        if SYLLABLE_S[0] <= high_s - low_s <= SYLLABLE_S[1] and voiced >= 0.5 and edge_db >= 8.0:
            found.append((float(voiced), round(low_s * cut.sample_rate_hz), round(high_s * cut.sample_rate_hz)))
    best: list[tuple[int, int]] = []
    for _, low_sample, high_sample in sorted(found, key=lambda item: (-round(item[0], 3), item[1])):
        apart = all(high_sample <= low or low_sample >= high for low, high in best)
        if apart and len(best) < MAX_SYLLABLES_PER_CUT:
            best.append((low_sample, high_sample))
    return best


def _dips(level_db: FloatArray, peak: int) -> tuple[int, int]:
    """The lowest frames on either side of a peak before the level rises again by 1 dB, at most 0.2 s away."""
    bounds = []
    for step in (-1, 1):
        at = lowest = peak
        while 0 <= at + step < len(level_db) and abs(at + step - peak) * meters.ENVELOPE_HOP_S <= 0.2:
            at += step
            if level_db[at] < level_db[lowest]:
                lowest = at
            elif level_db[at] > level_db[lowest] + 1.0:
                break
        bounds.append(lowest)
    return bounds[0], bounds[1]
