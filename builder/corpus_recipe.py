"""Corpus recipes: their keys, what each may hold, and every fault of a file at once.

A corpus recipe names places where audio lies, and for each how its recordings are listed: inline, in a CSV table, by the layout
of a well-known corpus, or as the columns of a dataset. `docs/corpora.md` tells each with an example.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from builder import fetch, places
from builder.acoustics import audio
from builder.errors import CorpusUnavailable, RecipeError
from builder.layouts import LayoutRule
from builder.licences import CUSTOM, KNOWN, Terms
from builder.spelling import named
from builder.streamed import ColumnRule
from builder.strict_yaml import Strict, YamlFile, checked, one_of, spelt

LANGUAGE = re.compile(r"^[a-z]{2,3}$")

Word = Annotated[str, Field(min_length=1)]
AsTuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Language = Annotated[str, spelt("[a-z]{2,3}", "a language code of two or three small letters (ISO 639), such as en")]
Segment = Annotated[tuple[float, float], AsTuple]
Segments = Annotated[tuple[Segment, ...], AsTuple]
VARIABLE = re.compile(r"^\$\{([A-Za-z_][A-Za-z0-9_]*)\}(.*)$")
LONGEST_NAME = 255
"""Bytes of a file's or folder's name, on any file system of today."""
COMMIT = re.compile(r"^[0-9a-f]{40}$")
PLACES = ("package", "debian", "folder", "archive", "dataset")
LISTS = ("recordings", "table", "layout", "columns")
NEEDS: Mapping[str, tuple[str, ...]] = {
    "package": ("file", "sha256"),
    "debian": ("version", "sha256"),
    "dataset": ("split", "columns"),
    "layout": ("licence", "attribution"),
    "columns": ("dataset", "licence", "attribution"),
}
"""Key of an entry -> keys that must stand with it."""
BELONGS: Mapping[str, tuple[str, ...]] = {
    "file": ("package",),
    "version": ("debian",),
    "sha256": ("package", "debian"),
    "revision": ("dataset",),
    "config": ("dataset",),
    "split": ("dataset",),
    "only": ("dataset",),
    "inside": ("folder", "archive", "debian", "package"),
    **dict.fromkeys(("licence", "attribution", "language", "speaker_prefix", "trust", "limit", "max_per_speaker"), ("layout", "columns")),
}
"""Key of an entry -> keys of which one must stand with it, or it would be ignored."""


def outside(member: str) -> str | None:
    """Why a member's path can't be used; None if it can."""
    if "\0" in member or any(len(os.fsencode(step)) > LONGEST_NAME for step in member.split("/")):
        return f"{member!r} is no path: it has a zero byte, or a name of more than {LONGEST_NAME} bytes"
    pure = PurePosixPath(member)
    if fetch.leaves(member):
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
    language: Language | None = None
    text: str | None = None
    licence: Word
    attribution: Word
    segments_s: Segments | None = None
    raw: RawRule | None = None

    @field_validator("speaker")
    @classmethod
    def _named(cls, value: str) -> str:
        found = named(value)
        if found is None:
            raise ValueError(f"{value!r} names nobody: it stands for a missing value, or can't be seen")
        return found

    @field_validator("member")
    @classmethod
    def _inside(cls, value: str) -> str:
        if outside(value):
            raise ValueError(outside(value))
        return value

    @field_validator("segments_s")
    @classmethod
    def _in_order(cls, value: tuple[tuple[float, float], ...] | None) -> tuple[tuple[float, float], ...] | None:
        edges = [edge for segment in value or () for edge in segment]
        if edges != sorted(edges) or any(edge < 0.0 for edge in edges) or any(low == high for low, high in value or ()):
            raise ValueError("segments must be [start, end] in seconds, in order, without overlap")
        return value


class FileEntry(Strict):
    """A place where audio lies, and how its recordings are listed.

    Parameters
    ----------
    package, file, sha256
        A release file of a package index.
    debian, version, sha256
        A Debian package.
    folder, archive
        Beside the recipe, or `${NAME}`: the environment variable. A folder may be a URL: `s3://`, `hf://`, `file://`.
    dataset, revision, config, split
        Of the Hugging Face Hub; a folder with a dataset in it has no revision.
    inside
        The folder in there that counts as the corpus.
    recordings, table, layout, columns
        How recordings are listed: here, in a CSV table, by a layout, or in a dataset's columns.
    only
        Dataset: column -> regular expression that a row's value must hold.
    licence, attribution
        Of all recordings of a layout or dataset; `attribution` is a key of `attributions`.
    language
        Where the corpus itself tells none.
    speaker_prefix
        Before each speaker's name, so that speakers of several corpora are told apart.
    trust
        What is taken as the corpus says; the rest counts as unknown. Speakers are always trusted.
    limit, max_per_speaker
        Recordings at most, in all and of one speaker.
    """

    package: Word | None = None
    file: Word | None = None
    sha256: Annotated[str, spelt("[0-9a-f]{64}", "a SHA-256: 64 hexadecimal digits in small letters")] | None = None
    debian: Annotated[str, spelt("[a-z0-9][a-z0-9+.-]+", "the name of a Debian package")] | None = None
    version: Annotated[str, spelt("[0-9][A-Za-z0-9.+:~-]*", "the version of a Debian package, which begins with a digit")] | None = None
    folder: Word | None = None
    archive: Word | None = None
    dataset: Word | None = None
    revision: Word | None = None
    config: Word | None = None
    split: Word | None = None
    inside: Word | None = None
    recordings: Annotated[tuple[RecordingEntry, ...], AsTuple] | None = None
    table: Word | None = None
    layout: LayoutRule | None = None
    columns: ColumnRule | None = None
    only: Mapping[Word, Word] = Field(default_factory=dict)
    licence: Word | None = None
    attribution: Word | None = None
    language: Language | None = None
    speaker_prefix: str = ""
    trust: Annotated[tuple[Literal["sex", "language", "text"], ...], AsTuple] = ("sex", "language", "text")
    limit: Annotated[int, Field(ge=1)] | None = None
    max_per_speaker: Annotated[int, Field(ge=1)] | None = None

    @field_validator("inside")
    @classmethod
    def _below(cls, value: str | None) -> str | None:
        if value is not None and outside(value):
            raise ValueError(outside(value))
        return value

    @field_validator("only")
    @classmethod
    def _patterns(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for column, pattern in value.items():
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{column}: {pattern!r} isn't a regular expression: {error}") from error
        return value


class CorpusFile(Strict):
    """A corpus recipe."""

    name: Annotated[str, spelt("[a-z0-9][a-z0-9_.-]*", "a name of small letters, digits, _, . and - that begins with a letter or digit")]
    files: Annotated[tuple[FileEntry, ...], AsTuple, Field(min_length=1)]
    attributions: Mapping[str, Word] = Field(default_factory=dict)
    licences: Mapping[str, Terms] = Field(default_factory=dict)

    @field_validator("licences")
    @classmethod
    def _not_known(cls, value: Mapping[str, Terms]) -> Mapping[str, Terms]:
        for name in value:
            if name in KNOWN:
                raise ValueError(f"the terms of {name} are known; state only those of others, such as {CUSTOM}NAME")
        return value


# -- reading ----------------------------------------------------------------------------------------------------------


def read(path: Path) -> CorpusFile:
    """A checked corpus recipe.

    Raises
    ------
    RecipeError
        With every fault of the file.
    """
    file = YamlFile(path)
    faults = list(file.faults)
    if not file.values:
        raise RecipeError(faults)
    entries = file.values.get("files")
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            faults += _entry_faults(file, ("files", index), entry)
    faults += _attribution_faults(file)
    corpus = checked(CorpusFile, file.values, [file], faults)
    if faults or corpus is None:
        raise RecipeError(faults)
    return corpus


def _entry_faults(file: YamlFile, where: tuple[Any, ...], entry: Mapping[str, Any]) -> list[str]:
    """Places that are none or several, recordings listed in no way or two, and keys that lack or need others."""
    faults = []
    if sum(key in entry for key in PLACES) != 1:
        faults.append(file.fault(where, f"exactly one of {_any(PLACES, 'and')} is required"))
    if sum(key in entry for key in LISTS) != 1:
        faults.append(file.fault(where, f"exactly one of {_any(LISTS, 'and')} is required"))
    elif "recordings" in entry and not entry["recordings"]:
        faults.append(file.fault((*where, "recordings"), "at least one recording is needed"))
    for key, needed in NEEDS.items():
        absent = [name for name in needed if key in entry and name not in entry]
        faults += [file.fault(where, f"{key} needs {_any(needed, 'and')}")] if absent else []
    for key, owners in BELONGS.items():
        if key in entry and not any(name in entry for name in owners):
            faults.append(file.fault((*where, key), f"goes with {_any(owners, 'or')} only"))
    return faults


def _any(words: tuple[str, ...], joined: str) -> str:
    return " ".join([", ".join(words[:-1]), joined, words[-1]]) if len(words) > 1 else words[0]


def _attribution_faults(file: YamlFile) -> list[str]:
    """Entries and recordings whose attribution is no key of `attributions`."""
    known, entries = file.values.get("attributions"), file.values.get("files")
    asked: list[tuple[tuple[Any, ...], Any]] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict):
            asked.append((("files", index), entry))
            recordings = entry.get("recordings")
            asked += [
                (("files", index, "recordings", n), item) for n, item in enumerate(recordings if isinstance(recordings, list) else [])
            ]
    faults = []
    for where, item in asked:
        key = item.get("attribution") if isinstance(item, dict) else None
        if isinstance(key, str) and not (isinstance(known, dict) and key in known):
            faults.append(file.fault((*where, "attribution"), f"{key!r} isn't under attributions"))
    return faults


# -- the environment --------------------------------------------------------------------------------------------------


def place(path: Path, value: str) -> Path:
    """A folder or archive that a recipe names: beside the recipe, a URL, or `${NAME}/...` where an environment variable says.

    Parameters
    ----------
    path
        The corpus recipe.
    value
        As the recipe writes it.

    Raises
    ------
    CorpusUnavailable
        The variable isn't set.
    StoreFault
        A URL that can't be used.
    """
    found = resolved(path, value)
    if places.is_url(found):
        return places.parsed(found)
    return Path(found).absolute() if VARIABLE.match(value) else path.parent / found


def resolved(path: Path, value: str) -> str:
    """A value with the environment variable that it begins with, if it does; raises as `place`."""
    found = VARIABLE.match(value)
    if found is None:
        return value
    given = os.environ.get(found[1], "")
    if not given:
        raise CorpusUnavailable(f"{found[1]} isn't set: {path.name} takes {value} from the environment; set it, such as {found[1]}=...")
    return given + found[2]


def is_folder(value: str) -> bool:
    """Whether a dataset is a folder, not an identifier of the Hub: `./name`, `../name`, `/name` or `${NAME}...`."""
    return value.startswith(("./", "../", "/", "${"))


def commit(path: Path, entry: FileEntry) -> str | None:
    """The commit of a dataset on the Hub; None for a folder.

    Raises
    ------
    CorpusUnavailable
        The revision is missing or could move.
    """
    if is_folder(str(entry.dataset)):
        return None
    found = resolved(path, entry.revision or "")
    if not COMMIT.match(found):
        raise CorpusUnavailable(
            f"{entry.dataset}: revision is {found or 'missing'!r}; a commit of 40 hexadecimal digits is needed, since branches and tags "
            f"move (the dataset's page lists commits under Files and versions)"
        )
    return found
