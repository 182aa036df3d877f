"""Speech corpora: a table of recordings, checked, and cut at pauses into stretches of speech.

A corpus recipe names where audio is (a folder, an archive, or a release file of a package registry) and lists its
recordings inline or in a CSV table with the columns path, speaker, sex, language, text, licence, attribution. A recording
is known by corpus name and path inside the corpus, never by where the corpus lies, so moving a corpus changes nothing.

How speech is found: a frame is speech where its level is within 20 dB of the loudest within half a second and 30 dB of
the recording's loud frames (95th percentile). Runs of speech closer than `max_pause_s` form a stretch; stretches are cut at
their pauses (or, without one, at the quietest moment) into cuts of `min_s` to `max_s`.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from builder import fetch
from builder.acoustics import audio, meters, praat
from builder.errors import CorpusUnavailable, RecipeError, Refused
from builder.recipe import SpeechRule
from builder.records import BoolArray, FloatArray, Reason, Sound

RECORDING_KEYS = {"member", "speaker", "sex", "language", "text", "licence", "attribution", "segments_s", "raw"}
ENTRY_KEYS = {"package", "file", "sha256", "folder", "archive", "recordings", "table"}
TABLE_COLUMNS = ("path", "speaker", "sex", "language", "text", "licence", "attribution")


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
        The file is wrong, with every fault.
    CorpusUnavailable
        Files are missing: the message names each and says how to build without speech.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecipeError([f"{path}: can't be read: {error}"]) from error
    faults = _faults(path, document)
    if faults:
        raise RecipeError(faults)
    attributions: dict[str, str] = {key: " ".join(line.split()) for key, line in document.get("attributions", {}).items()}
    recordings: list[Recording] = []
    location: dict[str, Path] = {}
    missing = []
    for entry in document["files"]:
        try:
            found, places = _open_entry(path, entry, attributions)
        except CorpusUnavailable as error:
            missing.append(str(error))
            continue
        recordings += found
        location.update(places)
    if missing:
        raise CorpusUnavailable(
            f"corpus {document['name']}: {len(missing)} of {len(document['files'])} files can't be had:\n"
            + "\n".join(f"  {line}" for line in missing)
            + "\nCheck the network and pip's index settings and run the same command again (what arrived is kept),"
            + "\nor build from synthesis alone: make build RECIPE=recipes/synthesis.yaml"
        )
    ordered = sorted(recordings, key=lambda item: (item.member, item.speaker, item.segments_s or ()))
    return Corpus(document["name"], tuple(ordered), location)


def _faults(path: Path, document: Any) -> list[str]:
    if not isinstance(document, dict):
        return [f"{path}: a corpus is a mapping with name, files and attributions"]
    faults = [f"{path}: {key}: unknown key" for key in document if key not in ("name", "files", "attributions")]
    if not isinstance(document.get("name"), str):
        faults.append(f"{path}: name: a short name is required")
    if not isinstance(document.get("files"), list) or not document.get("files"):
        return [*faults, f"{path}: files: a list of at least one is required"]
    for index, entry in enumerate(document["files"]):
        at = f"{path}: files.{index}"
        if not isinstance(entry, dict):
            faults.append(f"{at}: a mapping is required")
            continue
        places = [key for key in ("package", "folder", "archive") if key in entry]
        if len(places) != 1:
            faults.append(f"{at}: exactly one of package, folder and archive is required")
        if "package" in entry and not ("file" in entry and "sha256" in entry):
            faults.append(f"{at}: package needs file and sha256")
        if ("recordings" in entry) == ("table" in entry):
            faults.append(f"{at}: exactly one of recordings and table is required")
        faults += [f"{at}.{key}: unknown key" for key in entry if key not in ENTRY_KEYS]
        for number, item in enumerate(entry.get("recordings") or []):
            here = f"{at}.recordings.{number}"
            faults += [f"{here}.{key}: unknown key" for key in item if key not in RECORDING_KEYS]
            needed = ("member", "speaker", "licence", "attribution")
            faults += [f"{here}.{key}: missing" for key in needed if not item.get(key)]
            if item.get("attribution") not in document.get("attributions", {}):
                faults.append(f"{here}.attribution: {item.get('attribution')!r} isn't under attributions")
    return faults


def _open_entry(path: Path, entry: Mapping[str, Any], attributions: Mapping[str, str]) -> tuple[list[Recording], dict[str, Path]]:
    if "folder" in entry:
        root: Path = path.parent / entry["folder"]
        if not root.is_dir():
            raise CorpusUnavailable(f"{entry['folder']}: no such folder beside {path.name}")
    else:
        root = _unpacked(path, entry)
    if "table" in entry:
        recordings = list(_from_table(root / entry["table"], attributions))
    else:
        recordings = [_from_mapping(item, attributions) for item in entry["recordings"]]
    return recordings, {recording.member: root / recording.member for recording in recordings}


def _unpacked(path: Path, entry: Mapping[str, Any]) -> Path:
    """Folder with the members of an archive; only those that are listed are unpacked."""
    archive: Path
    if "package" in entry:
        archive = fetch.fetch(entry["package"], entry["file"], entry["sha256"])
        checksum = entry["sha256"]
    else:
        archive = path.parent / str(entry["archive"])
        if not archive.is_file():
            raise CorpusUnavailable(f"{entry['archive']}: no such archive beside {path.name}")
        checksum = fetch.sha256_of(archive)
    root = fetch.cache_dir() / "unpacked" / str(checksum)[:16]
    root.mkdir(parents=True, exist_ok=True)
    if "table" in entry:
        fetch.extract(archive, [entry["table"]], root)
        members = [item.member for item in _from_table(root / entry["table"], {})]
    else:
        members = [item["member"] for item in entry["recordings"]]
    fetch.extract(archive, sorted(set(members)), root)
    return root


def _from_mapping(item: Mapping[str, Any], attributions: Mapping[str, str]) -> Recording:
    segments = item.get("segments_s")
    return Recording(
        member=item["member"],
        speaker=item["speaker"],
        sex=item.get("sex"),
        language=item.get("language"),
        text=" ".join(item["text"].split()) if item.get("text") else None,
        licence=item["licence"],
        attribution=attributions[item["attribution"]],
        segments_s=tuple((float(low), float(high)) for low, high in segments) if segments else None,
        raw=item.get("raw"),
    )


def _from_table(path: Path, attributions: Mapping[str, str]) -> Iterator[Recording]:
    if not path.is_file():
        raise CorpusUnavailable(f"{path.name}: no such table in the corpus")
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream)
        absent = [column for column in ("path", "speaker", "licence") if column not in (reader.fieldnames or [])]
        if absent:
            raise RecipeError([f"{path}: column {column} is missing; columns: {', '.join(TABLE_COLUMNS)}" for column in absent])
        for row in reader:
            line = row.get("attribution") or ""
            yield Recording(
                member=row["path"],
                speaker=row["speaker"],
                sex=row.get("sex") or None,
                language=row.get("language") or None,
                text=" ".join(row["text"].split()) if row.get("text") else None,
                licence=row["licence"],
                attribution=attributions.get(line, line),
            )


# -- reading and cutting ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _read_cached(path: Path, raw: tuple[tuple[str, int | str], ...] | None, channels: str, min_rate_hz: int, rate_hz: int) -> Sound:
    samples, found_hz = audio.read(path, dict(raw) if raw else None)
    if not np.all(np.isfinite(samples)):
        raise Refused(Reason.NOT_FINITE, f"{int(np.sum(~np.isfinite(samples)))} samples aren't finite numbers")
    if samples.shape[1] > 1 and channels == "mono":
        raise Refused(Reason.NOT_MONO, f"{samples.shape[1]} channels, and the recipe takes mono only")
    if found_hz < min_rate_hz:
        raise Refused(Reason.RATE_TOO_LOW, f"{found_hz} Hz, at least {min_rate_hz} Hz are needed")
    if len(samples) == 0:
        raise Refused(Reason.TOO_SHORT, "no samples")
    return Sound(audio.resampled(samples.mean(axis=1), found_hz, rate_hz), rate_hz)


def read_recording(corpus: Corpus, recording: Recording, rule: SpeechRule, sample_rate_hz: int) -> Sound:
    """A whole recording, mono, at the working rate.

    Raises
    ------
    Refused
        `unreadable`, `not_finite`, `not_mono`, `rate_too_low` or `too_short`.
    """
    raw = tuple(sorted(recording.raw.items())) if recording.raw else None
    path = corpus.location[recording.member]
    if not path.is_file():
        raise Refused(Reason.UNREADABLE, "no such file")
    return _read_cached(path, raw, rule.channels, rule.min_rate_hz, sample_rate_hz)


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
    shortest, longest = rule.min_s / meters.SPECTRUM_HOP_S, rule.max_s / meters.SPECTRUM_HOP_S
    while last - first >= shortest:
        length = last - first
        end = last
        if length > longest:
            pieces = int(np.ceil(length / longest))
            low = int(first + max(shortest, length / pieces * 0.75))
            high = int(min(first + longest, last - shortest))
            end = low + int(np.argmin(level_db[low : high + 1])) if high > low else int(first + longest)
        spoken = first + np.flatnonzero(speech[first : end + 1])
        if spoken.size and spoken[-1] - spoken[0] >= shortest:
            half = meters.SPECTRUM_HOP_S
            begin = max(round((time_s[spoken[0]] - half) * rate), 0)
            stop = round((time_s[spoken[-1]] + half) * rate)
            yield Cut(recording, offset + begin, offset + stop)
        first = end + 1
        following = np.flatnonzero(speech[first : last + 1])
        if following.size == 0:
            return
        first += int(following[0])


def _check_cut(cut: Sound, whole: Sound, rule: SpeechRule) -> None:
    """Refuse a cut that is silent, clipped, noisy or mostly unvoiced."""
    peak = float(np.max(np.abs(cut.samples), initial=0.0))
    if peak < 10.0 ** (-60.0 / 20.0):
        raise Refused(Reason.SILENT, f"peak {audio.peak_dbfs(cut):.0f} dBFS")
    clipped = _clipped(cut.samples)
    if clipped > rule.max_clipped:
        raise Refused(Reason.CLIPPED, f"{clipped} samples at full scale, at most {rule.max_clipped} are allowed")
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
    peak = np.max(np.abs(samples), initial=0.0)
    at_peak = np.abs(samples) >= peak * (1.0 - 1e-4)
    return int(np.sum(at_peak[1:] & at_peak[:-1] & (np.abs(np.diff(samples)) < 1e-9)))


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
    best = sorted(found, key=lambda item: (-round(item[0], 3), item[1]))[:MAX_SYLLABLES_PER_CUT]
    return [(low, high) for _, low, high in best]


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
