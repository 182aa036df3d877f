"""Speech corpora: a table of recordings, checked, and cut at pauses into stretches of speech.

A corpus recipe names where audio is (a folder, an archive, or a release file of a package registry) and lists its
recordings inline or in a CSV table with the columns path, speaker, sex, language, text, licence, attribution. A recording
is known by corpus name, path inside the corpus and checksum, never by where the corpus lies, so moving a corpus changes
nothing and changing a file changes its sources.

How speech is found: a frame is speech where its level is within 20 dB of the loudest within half a second and 30 dB of
the recording's loud frames (95th percentile). Runs of speech closer than `max_pause_s` form a stretch; stretches are cut at
their pauses (or, without one, at the quietest moment) into cuts of `min_s` to `max_s`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, field_validator

from builder import fetch
from builder.acoustics import audio, meters, praat
from builder.errors import CorpusUnavailable, RecipeError, Refused
from builder.recipe import SpeechRule
from builder.records import BoolArray, FloatArray, Reason, Sound
from builder.strict_yaml import Strict, YamlFile, checked, one_of

QUIETEST_DBFS = -60.0
MAX_OFFSET = 0.001
"""A constant in the samples beyond this share of full scale is taken out: it would count as sound in every pause."""
TABLE_COLUMNS = ("path", "speaker", "sex", "language", "text", "licence", "attribution")
NEEDED_COLUMNS = ("path", "speaker", "licence")

Word = Annotated[str, Field(min_length=1)]
Segment = Annotated[tuple[float, float], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Segments = Annotated[tuple[Segment, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


def _outside(member: str) -> str | None:
    """Why a member's path can't be used; None if it can."""
    pure = PurePosixPath(member)
    return f"{member!r} would leave the corpus" if pure.is_absolute() or ".." in pure.parts else None


class RawRule(Strict):
    """How a file without a header is read."""

    sample_rate_hz: Annotated[int, Field(ge=8000, le=192_000)]
    channels: Annotated[int, Field(ge=1, le=8)]
    subtype: str

    @field_validator("subtype")
    @classmethod
    def _known(cls, value: str) -> str:
        return one_of(value, audio.RAW_SUBTYPES, "subtype")


class RecordingEntry(Strict):
    """A recording as a corpus recipe lists it."""

    member: Word
    speaker: Word
    sex: Literal["f", "m"] | None = None
    language: Annotated[str, Field(pattern=r"^[a-z]{2,3}$")] | None = None
    text: str | None = None
    licence: Word
    attribution: Word
    segments_s: Segments | None = None
    raw: RawRule | None = None

    @field_validator("member")
    @classmethod
    def _inside(cls, value: str) -> str:
        if _outside(value):
            raise ValueError(_outside(value))
        return value

    @field_validator("segments_s")
    @classmethod
    def _in_order(cls, value: tuple[tuple[float, float], ...] | None) -> tuple[tuple[float, float], ...] | None:
        edges = [edge for segment in value or () for edge in segment]
        if edges != sorted(edges) or any(edge < 0.0 for edge in edges) or any(low == high for low, high in value or ()):
            raise ValueError("segments must be [start, end] in seconds, in order, without overlap")
        return value


class FileEntry(Strict):
    """A place where audio lies; exactly one of package, folder and archive, and one of recordings and table."""

    package: Word | None = None
    file: Word | None = None
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    folder: Word | None = None
    archive: Word | None = None
    recordings: Annotated[tuple[RecordingEntry, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)] | None = None
    table: Word | None = None


class CorpusFile(Strict):
    """A corpus recipe."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    files: Annotated[tuple[FileEntry, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v), Field(min_length=1)]
    attributions: Mapping[str, Word] = Field(default_factory=dict)


@dataclass(frozen=True)
class Recording:
    """One speaker in one file of a corpus.

    Parameters
    ----------
    member
        Path inside the corpus, `/`-separated.
    speaker, sex, language, text
        As the corpus tells; sex is f, m or None, text is of the whole file.
    licence, attribution
        SPDX identifier; the line to print with it.
    segments_s
        Stretches that may be used, seconds; None for all.
    raw
        How to read a file without a header.
    """

    member: str
    speaker: str
    sex: str | None
    language: str | None
    text: str | None
    licence: str
    attribution: str
    segments_s: tuple[tuple[float, float], ...] | None = None
    raw: Mapping[str, int | str] | None = None


@dataclass(frozen=True)
class Corpus:
    """A corpus that lies on this machine.

    Parameters
    ----------
    name
        Part of every source identifier.
    recordings
        Sorted by member and speaker: folder order never matters.
    location
        Where each member lies.
    """

    name: str
    recordings: tuple[Recording, ...]
    location: Mapping[str, Path]


@dataclass(frozen=True)
class Cut:
    """A stretch of speech of one speaker, in samples at the working rate."""

    recording: Recording
    start: int
    end: int


@dataclass
class Survey:
    """What reading a corpus found: usable cuts, and what was refused, counted by reason with examples."""

    cuts: list[Cut] = field(default_factory=list)
    syllables: list[tuple[Cut, int, int]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    def refuse(self, what: str, refusal: Refused) -> None:
        """Count a refusal and keep its detail."""
        self.refused[refusal.reason.value] += 1
        self.details.append(f"{what}: {refusal}")


# -- where corpora lie ------------------------------------------------------------------------------------------------


def load(path: Path) -> Corpus:
    """A corpus, fetched if need be.

    Parameters
    ----------
    path
        Its recipe (YAML).

    Raises
    ------
    RecipeError
        The file or a table of it is wrong, with every fault.
    CorpusUnavailable
        Files are missing: the message names each and says how to build without speech.
    """
    file = YamlFile(path)
    faults = list(file.faults)
    if not file.values:
        raise RecipeError(faults)
    faults += _place_faults(file)
    faults += _attribution_faults(file)
    corpus = checked(CorpusFile, file.values, [file], faults)
    if faults or corpus is None:
        raise RecipeError(faults)
    listed: list[list[Recording]] = []
    roots: list[Path] = []
    missing: list[str] = []
    for entry in corpus.files:
        try:
            root = _root(path, entry)
            recordings = _recordings(root, entry, corpus.attributions, faults)
        except CorpusUnavailable as error:
            missing.append(str(error))
            root, recordings = path.parent, []
        listed.append(recordings)
        roots.append(root)
    faults += _overlap_faults([f"{path}: {entry.table}" if entry.table else str(path) for entry in corpus.files], listed)
    if faults:
        raise RecipeError(faults)
    if missing:
        raise CorpusUnavailable(
            f"corpus {corpus.name}: {len(missing)} of {len(corpus.files)} files can't be had:\n"
            + "\n".join(f"  {line}" for line in missing)
            + "\nCheck the network and pip's index settings and run the same command again (what arrived is kept),"
            + "\nor build from synthesis alone: make build RECIPE=recipes/synthesis.yaml"
        )
    location = {item.member: root / item.member for root, items in zip(roots, listed, strict=True) for item in items}
    ordered = sorted((item for items in listed for item in items), key=lambda item: (item.member, item.speaker, item.segments_s or ()))
    return Corpus(corpus.name, tuple(ordered), location)


def _place_faults(file: YamlFile) -> list[str]:
    """Entries that name no place or several, or list recordings in no way or two."""
    faults = []
    entries = file.values.get("files")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict):
            continue
        where = ("files", index)
        if sum(key in entry for key in ("package", "folder", "archive")) != 1:
            faults.append(file.fault(where, "exactly one of package, folder and archive is required"))
        if "package" in entry and not ("file" in entry and "sha256" in entry):
            faults.append(file.fault(where, "package needs file and sha256"))
        if ("recordings" in entry) == ("table" in entry):
            faults.append(file.fault(where, "exactly one of recordings and table is required"))
        elif "recordings" in entry and not entry["recordings"]:
            faults.append(file.fault((*where, "recordings"), "at least one recording is needed"))
    return faults


def _attribution_faults(file: YamlFile) -> list[str]:
    """Recordings whose attribution is no key of `attributions`."""
    known, entries = file.values.get("attributions"), file.values.get("files")
    faults = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        recordings = entry.get("recordings") if isinstance(entry, dict) else None
        for number, item in enumerate(recordings if isinstance(recordings, list) else []):
            key = item.get("attribution") if isinstance(item, dict) else None
            if isinstance(key, str) and not (isinstance(known, dict) and key in known):
                faults.append(file.fault(("files", index, "recordings", number, "attribution"), f"{key!r} isn't under attributions"))
    return faults


def _overlap_faults(where: Sequence[str], listed: Sequence[Sequence[Recording]]) -> list[str]:
    """The same sound listed twice: it could be published twice, or under two names in two splits.

    Parameters
    ----------
    where
        Name of each entry's list, for the message.
    """
    faults = []
    places: dict[str, list[tuple[int, Recording]]] = {}
    for index, items in enumerate(listed):
        for item in items:
            places.setdefault(item.member, []).append((index, item))
    for member, found in places.items():
        if len({index for index, _ in found}) > 1:
            faults.append(f"{where[found[-1][0]]}: {member} stands in two entries of files; give one of the two another path")
        elif len(found) > 1:
            spans = sorted(span for _, item in found for span in item.segments_s or ((0.0, float("inf")),))
            if any(after[0] < before[1] for before, after in pairwise(spans)):
                speakers = ", ".join(sorted({item.speaker for _, item in found}))
                faults.append(f"{where[found[-1][0]]}: {member} is listed twice for the same stretch (speaker {speakers})")
    return faults


def _root(path: Path, entry: FileEntry) -> Path:
    """The folder that an entry's members lie in; of an archive, only what is listed is unpacked."""
    if entry.folder is not None:
        root = path.parent / entry.folder
        if not root.is_dir():
            raise CorpusUnavailable(f"{entry.folder}: no such folder beside {path.name}")
        return root
    if entry.package is not None:
        archive = fetch.fetch(entry.package, str(entry.file), str(entry.sha256))
        checksum = str(entry.sha256)
    else:
        archive = path.parent / str(entry.archive)
        if not archive.is_file():
            raise CorpusUnavailable(f"{entry.archive}: no such archive beside {path.name}")
        checksum = fetch.sha256_of(archive)
    root = fetch.cache_dir() / "unpacked" / checksum[:16]
    root.mkdir(parents=True, exist_ok=True)
    if entry.table is not None:
        fetch.extract(archive, [entry.table], root)
        faults: list[str] = []
        members = [item.member for item in _recordings(root, entry, {}, faults)]
        if faults:
            raise RecipeError(faults)
    else:
        members = [item.member for item in entry.recordings or ()]
    fetch.extract(archive, sorted(set(members)), root)
    return root


def _recordings(root: Path, entry: FileEntry, attributions: Mapping[str, str], faults: list[str]) -> list[Recording]:
    if entry.table is not None:
        return list(_from_table(root / entry.table, attributions, faults))
    return [
        Recording(
            member=item.member,
            speaker=item.speaker,
            sex=item.sex,
            language=item.language,
            text=" ".join(item.text.split()) if item.text else None,
            licence=item.licence,
            attribution=" ".join(attributions.get(item.attribution, "").split()),
            segments_s=item.segments_s,
            raw=item.raw.model_dump() if item.raw else None,
        )
        for item in entry.recordings or ()
    ]


def _from_table(path: Path, attributions: Mapping[str, str], faults: list[str]) -> Iterator[Recording]:
    """Recordings of a CSV table; faults are told with their line."""
    if not path.is_file():
        raise CorpusUnavailable(f"{path.name}: no such table in the corpus")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        faults.append(f"{path}: not UTF-8 text; save the table as UTF-8")
        return
    reader = csv.DictReader(text.splitlines(keepends=True))
    absent = [column for column in NEEDED_COLUMNS if column not in (reader.fieldnames or [])]
    faults += [f"{path}: column {column} is missing; columns: {', '.join(TABLE_COLUMNS)}" for column in absent]
    n_rows = 0
    for row in reader if not absent else ():
        n_rows += 1
        wrong = [f"column {column} is empty" for column in NEEDED_COLUMNS if not row[column]]
        wrong += ["more cells than columns"] if None in row else []
        wrong += [outside] if row["path"] and (outside := _outside(row["path"])) else []
        wrong += [f"sex is {row['sex']!r}; f, m or nothing is needed"] if row.get("sex") not in ("f", "m", "", None) else []
        faults += [f"{path}:{reader.line_num}: {fault}" for fault in wrong]
        if not wrong:
            line = row.get("attribution") or ""
            yield Recording(
                member=row["path"],
                speaker=row["speaker"],
                sex=row.get("sex") or None,
                language=row.get("language") or None,
                text=" ".join(row["text"].split()) if row.get("text") else None,
                licence=row["licence"],
                attribution=" ".join(attributions.get(line, line).split()),
            )
    if not absent and n_rows == 0:
        faults.append(f"{path}: has no rows")


# -- reading and cutting ----------------------------------------------------------------------------------------------


def file_digest(corpus: Corpus, recording: Recording) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of a recording's file; empty if there's no such file."""
    path = corpus.location[recording.member]
    return _digest_cached(path, *_stamp(path)) if path.is_file() else ""


def _stamp(path: Path) -> tuple[int, int]:
    """What changes when a file is replaced."""
    found = path.stat()
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4096)
def _digest_cached(path: Path, *stamp: int) -> str:
    del stamp
    return fetch.sha256_of(path)[:16]


@lru_cache(maxsize=64)
def _read_cached(
    path: Path,
    stamp: tuple[int, int],
    raw: tuple[tuple[str, int | str], ...] | None,
    channels: str,
    min_rate_hz: int,
    rate_hz: int,
) -> Sound:
    del stamp
    samples, found_hz = audio.read(path, dict(raw) if raw else None)
    if not np.all(np.isfinite(samples)):
        raise Refused(Reason.NOT_FINITE, f"{int(np.sum(~np.isfinite(samples)))} samples aren't finite numbers")
    if samples.shape[1] > 1 and channels == "mono":
        raise Refused(Reason.NOT_MONO, f"{samples.shape[1]} channels, and the recipe takes mono only")
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
    path = corpus.location[recording.member]
    if not path.is_file():
        raise Refused(Reason.UNREADABLE, "no such file")
    return _read_cached(path, _stamp(path), raw, rule.channels, rule.min_rate_hz, sample_rate_hz)


def survey(corpus: Corpus, rule: SpeechRule, sample_rate_hz: int) -> Survey:
    """Read every recording of a corpus and cut it into usable stretches of speech.

    Returns
    -------
    Survey
        Cuts in the order of the corpus, repeatable syllables in them, and every refusal with its reason.
    """
    found = Survey()
    for recording in corpus.recordings:
        what = f"{recording.member} ({recording.speaker})"
        try:
            sound = read_recording(corpus, recording, rule, sample_rate_hz)
            peak_dbfs = audio.peak_dbfs(sound)
            if peak_dbfs < QUIETEST_DBFS:
                raise Refused(Reason.SILENT, f"peak {peak_dbfs:.0f} dBFS, at least {QUIETEST_DBFS:.0f} dBFS is needed")
            cuts = list(_cuts_of(sound, recording, rule))
            if not cuts:
                raise Refused(Reason.TOO_SHORT, f"no {rule.min_s} s of speech in a row")
        except Refused as refusal:
            found.refuse(what, refusal)
            continue
        for cut in cuts:
            try:
                stretch = Sound(sound.samples[cut.start : cut.end], sample_rate_hz)
                _check_cut(stretch, sound, rule)
            except Refused as refusal:
                found.refuse(f"{what} at {cut.start / sample_rate_hz:.2f} s", refusal)
                continue
            found.cuts.append(cut)
            found.syllables += [(cut, cut.start + low, cut.start + high) for low, high in _syllables(stretch)]
    return found


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
    """Refuse a cut that is clipped, noisy, mostly unvoiced, or holds a click far above its speech."""
    clipped = _clipped(cut.samples)
    if clipped > rule.max_clipped:
        raise Refused(Reason.CLIPPED, f"{clipped} samples at full scale, at most {rule.max_clipped} are allowed")
    peak_dbfs = audio.peak_dbfs(audio.at_reference_level(cut))
    if peak_dbfs > audio.PEAK_LIMIT_DBFS:
        over_db = peak_dbfs - audio.REFERENCE_LUFS
        raise Refused(Reason.NO_HEADROOM, f"a peak {over_db:.0f} dB over the level of the speech: a click or a knock")
    _, level_db, speech = _speech_frames(cut)
    floor_db = np.percentile(meters.frame_level_db(whole).value, 2)
    snr_db = float(np.percentile(level_db[speech], 80) - floor_db) if speech.any() else 0.0
    if snr_db < rule.min_snr_db:
        raise Refused(Reason.SILENT, f"speech {snr_db:.0f} dB over the floor, at least {rule.min_snr_db:.0f} dB are needed")
    voiced = float(praat.f0_autocorrelation_hz(cut).valid.mean())
    if voiced < rule.min_voiced:
        raise Refused(Reason.UNVOICED, f"{voiced:.0%} voiced, at least {rule.min_voiced:.0%} is needed")


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
