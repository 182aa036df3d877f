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

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from builder import fingerprints, recordings
from builder.acoustics import audio, bandwidth, meters, praat
from builder.corpora import Corpus, Recording
from builder.errors import Refused
from builder.recipe import SpeechRule
from builder.recordings import Tape
from builder.records import BoolArray, Carrier, Contour, FloatArray, Reason, Sound
from builder.words import counted

QUIETEST_DBFS = -60.0
WHOLE_SHARE = 0.95


@dataclass(frozen=True)
class Cut:
    """A stretch of speech of one speaker, in samples at the working rate.

    `whole` says that it's all the speech of its recording, so that the recording's text is its text.
    """

    recording: Recording
    start: int
    end: int
    whole: bool = False
    carrier: Carrier | None = None


@dataclass(frozen=True)
class Syllable:
    """A stretch of a cut that can be repeated, or held as a vowel, in samples of the recording."""

    cut: Cut
    start: int
    end: int
    carrier: Carrier | None = None


class Heard(NamedTuple):
    """What's heard of a file, of a long one in its first stretch: from and to which sample, and its fingerprint in hexadecimal digits."""

    start: int
    end: int
    fingerprint: str


@dataclass
class Survey:
    """What reading a corpus found: usable cuts, what was refused, counted by reason with examples, and members' bandwidths."""

    cuts: list[Cut] = field(default_factory=list)
    syllables: list[Syllable] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)
    bandwidth_hz: dict[str, float] = field(default_factory=dict)
    """Member -> how far up the recording reaches, of what was read."""
    heard: dict[str, Heard] = field(default_factory=dict)
    """Member -> what's heard of it, where there's any speech."""
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
        self.heard |= other.heard

    def refuse(self, what: str, refusal: Refused, count: int = 1) -> None:
        """Count a refusal and keep its detail."""
        self.refused[refusal.reason.value] += count
        self.details.append(f"{what}: {refusal}")


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
    found = Survey(checksum={recording.member: recordings.file_digest(corpus, recording)})
    what = f"{recording.member} ({recording.speaker})"
    try:
        tape = recordings.tape(corpus, recording, rule, sample_rate_hz)
        seen = _looked_over(tape)
        found.bandwidth_hz[recording.member] = seen.bandwidth_hz
        if seen.peak_dbfs < QUIETEST_DBFS:
            told = f"peak {seen.peak_dbfs:.0f} dBFS" if np.isfinite(seen.peak_dbfs) else "every sample is 0"
            raise Refused(Reason.SILENT, f"{told}, at least {QUIETEST_DBFS:.0f} dBFS is needed")
        cuts = list(_cuts_of(tape, recording, rule, seen.level))
        if not cuts:
            raise Refused(Reason.TOO_SHORT, f"no {rule.min_s} s of speech in a row")
        found.heard[recording.member] = _heard(tape)
    except Refused as refusal:
        found.refuse(what, refusal)
        return found
    for cut in cuts:
        try:
            stretch = tape.read(cut.start, cut.end)
            _check_cut(stretch, seen.level, rule)
        except Refused as refusal:
            found.refuse(f"{what} at {cut.start / sample_rate_hz:.2f} s", refusal)
            continue
        whole = len(cuts) == 1 and recording.segments_s is None and cut.end - cut.start >= WHOLE_SHARE * _spoken(seen.level, sample_rate_hz)
        cut = replace(cut, whole=whole, carrier=_carrier(stretch, seen.bandwidth_hz))
        found.cuts.append(cut)
        for low, high in _syllables(stretch):
            part = Sound(stretch.samples[low:high], sample_rate_hz)
            found.syllables.append(Syllable(cut, cut.start + low, cut.start + high, _carrier(part, seen.bandwidth_hz)))
    return found


def _carrier(stretch: Sound, bandwidth_hz: float) -> Carrier:
    """What tells which sweeps a stretch of a recording can carry."""
    f0 = meters.f0_semitones(stretch)
    f0_hz = 100.0 * 2.0 ** (float(np.median(f0.value[f0.valid])) / 12.0) if f0.valid.any() else 0.0
    tilt = meters.spectral_tilt_db_per_octave(stretch)
    tilt_db_per_octave = float(np.median(tilt.value[tilt.valid])) if tilt.valid.any() else -np.inf
    return Carrier(bandwidth_hz, round(f0_hz, 1), round(bandwidth.reach_octaves(stretch), 3), round(tilt_db_per_octave, 2))


@dataclass(frozen=True)
class _Seen:
    """What's asked of a whole recording: its largest sample, how far up it reaches, and the level of its frames."""

    peak_dbfs: float
    bandwidth_hz: float
    level: Contour


def _looked_over(tape: Tape) -> _Seen:
    """A recording looked through from end to end, once."""
    peak_dbfs, levels, bands = [], list[Contour](), list[FloatArray]()
    for piece in tape.pieces(0, tape.n_samples):
        peak_dbfs.append(audio.peak_dbfs(piece))
        levels.append(meters.frame_level_db(piece))
        bands.append(bandwidth.band_power(piece))
    return _Seen(max(peak_dbfs), bandwidth.reach_hz(bands, tape.sample_rate_hz), _joined(levels, tape.sample_rate_hz))


def _heard(tape: Tape) -> Heard:
    sound = tape.read(0, round(recordings.STRETCH_S * tape.sample_rate_hz))
    start, end = (round(at_s * tape.sample_rate_hz) for at_s in audio.active_region_s(sound))
    return Heard(start, end, fingerprints.of(Sound(sound.samples[start:end], tape.sample_rate_hz)).tobytes().hex())


def _level_of(tape: Tape, start: int, end: int) -> Contour:
    """Level of the frames of a stretch, times from its start."""
    return _joined([meters.frame_level_db(piece) for piece in tape.pieces(start, end)], tape.sample_rate_hz)


def _joined(pieces: Sequence[Contour], sample_rate_hz: int) -> Contour:
    """Levels of consecutive pieces as those of the whole."""
    value = np.concatenate([piece.value for piece in pieces])
    return Contour(meters.frame_centres_s(value.size, sample_rate_hz), value)


def _spoken(level: Contour, sample_rate_hz: int) -> int:
    """Samples from the first to the last speech of a recording."""
    frames = np.flatnonzero(_speech_frames(level))
    return round((level.time_s[frames[-1]] - level.time_s[frames[0]]) * sample_rate_hz) if frames.size else 0


def _speech_frames(level: Contour) -> BoolArray:
    """Which frames are speech."""
    if level.value.size == 0:
        return np.zeros(0, dtype=np.bool_)
    loud = np.percentile(level.value, 95)
    return meters.audible(level.value) & (level.value > max(loud - 30.0, -70.0))


def _cuts_of(tape: Tape, recording: Recording, rule: SpeechRule, whole: Contour) -> Iterator[Cut]:
    """Stretches of speech between pauses, cut to the allowed length."""
    rate, n_samples = tape.sample_rate_hz, tape.n_samples
    for low_s, high_s in recording.segments_s or ((0.0, n_samples / rate),):
        start, end = round(low_s * rate), min(round(high_s * rate), n_samples)
        level = whole if (start, end) == (0, n_samples) else _level_of(tape, start, end)
        speech = _speech_frames(level)
        for first, last in _runs(speech, round(rule.max_pause_s / meters.SPECTRUM_HOP_S)):
            yield from _split(first, last, level.time_s, level.value, speech, rule, recording, start, rate)


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


def _check_cut(cut: Sound, whole: Contour, rule: SpeechRule) -> None:
    """Refuse a cut that is too quiet, clipped, noisy, mostly unvoiced, or holds a click far above its speech."""
    level = meters.frame_level_db(cut)
    loud_dbfs = float(np.percentile(level.value, 95))
    if loud_dbfs < rule.min_level_dbfs:
        raise Refused(Reason.TOO_QUIET, f"loud frames at {loud_dbfs:.1f} dBFS, at least {rule.min_level_dbfs:g} dBFS are needed")
    clipped = _clipped(cut.samples)
    if clipped > rule.max_clipped:
        raise Refused(Reason.CLIPPED, f"{counted(clipped, 'sample')} at full scale, the most allowed is {rule.max_clipped}")
    peak_dbfs = audio.peak_dbfs(audio.at_reference_level(cut))
    if peak_dbfs > audio.PEAK_LIMIT_DBFS:
        over_db = peak_dbfs - audio.REFERENCE_LUFS
        raise Refused(Reason.NO_HEADROOM, f"a peak {over_db:.0f} dB over the level of the speech: a click or a knock")
    speech = _speech_frames(level)
    floor_db = np.percentile(whole.value, 2)
    snr_db = float(np.percentile(level.value[speech], 80) - floor_db) if speech.any() else 0.0
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
