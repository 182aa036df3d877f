"""Speech corpora: where they lie, and a checked table of their recordings.

A corpus recipe (`corpus_recipe`) names where audio is, and how its recordings are listed: inline, in a CSV table with the columns
path, speaker, sex, language, text, licence, attribution, by a known layout (`layouts`), or as a dataset's columns (`streamed`). A
recording is known by corpus name, path inside the corpus and checksum, never by where the corpus lies, so moving a corpus changes
nothing and changing a file changes its sources.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path

from builder import corpus_recipe, debian, fetch, glance, layouts, licences, places, streamed, tables
from builder.corpus_recipe import LANGUAGE, FileEntry
from builder.errors import CorpusUnavailable, RecipeError, StoreFault
from builder.layouts import Listed, Unlisted
from builder.licences import Licence, Terms
from builder.records import Reason
from builder.spelling import alike, composed, named, words
from builder.words import counted

TABLE_COLUMNS = ("path", "speaker", "sex", "language", "text", "licence", "attribution")
NEEDED_COLUMNS = ("path", "speaker", "licence")
CHECK_NETWORK = "\nCheck the network and pip's index settings and run the same command again (what arrived is kept),\n"
HUB_FOLDER = re.compile(r"^hf://datasets/[^/@]+/[^/@]+@[0-9a-f]{40}(/.*)?$")
SET_FOLDER = "\nSay where the corpus lies, as docs/corpora.md tells,\n"


@dataclass(frozen=True)
class Recording:
    """One speaker in one file of a corpus.

    Parameters
    ----------
    member
        Path inside the corpus, `/`-separated, in Unicode's composed form.
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
    """A corpus that lies on this machine, or where it can be read as if it did.

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
    refused
        What it holds and isn't in `recordings`, with the reason.
    stamps
        Of members in an object store, what changes when the file is replaced; one that isn't there has none.
    notes
        What else couldn't be read, a line each; the recordings that it's about are used.
    """

    name: str
    recordings: tuple[Recording, ...]
    location: Mapping[str, Path]
    licences: Mapping[str, Terms] = field(default_factory=dict)
    refused: tuple[Unlisted, ...] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def listed(self) -> Mapping[tuple[str, str | None], Recording]:
        """(member, speaker) -> recording; the first, where a speaker has several stretches of a file."""
        return {(item.member, item.speaker): item for item in reversed(self.recordings)}

    def refusals(self) -> tuple[Counter[str], list[str]]:
        """What it refuses: recordings by reason, and a line for each refusal and note."""
        counts: Counter[str] = Counter()
        for item in self.refused:
            counts[item.reason.value] += item.count
        return counts, [*(f"{item.what}: {item.reason.value}: {item.detail}" for item in self.refused), *self.notes]


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
    corpus = corpus_recipe.read(path)
    faults: list[str] = []
    missing: list[str] = []
    parts: list[_Part] = []
    attributions = {words(key) or "": line for key, line in corpus.attributions.items()}
    for entry in corpus.files:
        try:
            parts.append(_part(path, entry, attributions, faults))
        except CorpusUnavailable as error:
            missing.append(str(error))
            parts.append(_Part([], {}, []))
    where = [f"{path}: {entry.table}" if entry.table else str(path) for entry in corpus.files]
    listed = [part.recordings for part in parts]
    faults += [*_overlap_faults(where, listed), *_licence_faults(where, listed, licences.known_with(corpus.licences))]
    if faults:
        raise RecipeError(faults)
    if missing:
        raise CorpusUnavailable(
            f"corpus {corpus.name}: {len(missing)} of {counted(len(corpus.files), 'file')} can't be had:\n"
            + "\n".join(f"  {line}" for line in missing)
            + (CHECK_NETWORK if any(_is_fetched(entry) for entry in corpus.files) else SET_FOLDER)
            + "or build from synthesis alone, with another recipe and OUT: make build RECIPE=recipes/synthesis.yaml OUT=synthesis"
        )
    location = {member: place if places.is_remote(place) else place.absolute() for part in parts for member, place in part.location.items()}
    stamps = {member: stamp for part in parts for member, stamp in part.stamps.items()}
    recordings = [item for part in parts for item in part.recordings]
    ordered = sorted(recordings, key=lambda item: (item.member, item.speaker, item.segments_s or ()))
    refused = tuple(item for part in parts for item in part.refused)
    notes = tuple(line for part in parts for line in part.notes)
    return Corpus(corpus.name, tuple(ordered), location, corpus.licences, refused, stamps, notes)


def _is_fetched(entry: FileEntry) -> bool:
    """Whether an entry comes over the network."""
    on_the_hub = entry.dataset is not None and not corpus_recipe.is_folder(entry.dataset)
    return bool(entry.package or entry.debian or on_the_hub)


def load_all(paths: Sequence[Path]) -> dict[str, Corpus]:
    """Corpora by name.

    Parameters
    ----------
    paths
        Their recipes.

    Raises
    ------
    RecipeError
        Two have one name, one speaker's name stands for a woman in one and a man in another, or two speakers' names differ by case alone.
    CorpusUnavailable
        As `load`.
    """
    corpora: dict[str, Corpus] = {}
    faults: list[str] = []
    sex_in: dict[str, tuple[str, str]] = {}
    for path in paths:
        corpus = load(path)
        if corpus.name in corpora:
            faults.append(f"{path}: another corpus of this recipe is named {corpus.name} too; sources are known by that name")
        corpora[corpus.name] = corpus
        for speaker, sex in sorted({(item.speaker, item.sex) for item in corpus.recordings if item.sex}):
            other, where = sex_in.setdefault(speaker, (sex, corpus.name))
            if other != sex and where != corpus.name:
                faults.append(f"{path}: speaker {speaker} is {sex} here and {other} in {where}: give one corpus another speaker_prefix")
    faults += _case_faults(corpora)
    if faults:
        raise RecipeError(faults)
    return corpora


def _case_faults(corpora: Mapping[str, Corpus]) -> list[str]:
    """Speakers whose names differ by case or width alone: most likely one person, whom two splits could have."""
    spellings: dict[str, dict[str, str]] = {}
    for corpus in corpora.values():
        for speaker in sorted({item.speaker for item in corpus.recordings}):
            spellings.setdefault(alike(speaker), {}).setdefault(speaker, corpus.name)
    return [
        f"speakers {' and '.join(f'{speaker!r} ({corpus})' for speaker, corpus in found.items())} differ by case or width alone, and one "
        "person must be in one split: write the name in one way; if they are two people, rename one, or give one corpus a speaker_prefix"
        for found in spellings.values()
        if len(found) > 1
    ]


@dataclass
class _Part:
    """What one entry of a corpus gives."""

    recordings: Sequence[Recording]
    location: Mapping[str, Path]
    refused: Sequence[Unlisted]
    notes: Sequence[str] = ()
    stamps: Mapping[str, str] = field(default_factory=dict)


def _part(path: Path, entry: FileEntry, attributions: Mapping[str, str], faults: list[str]) -> _Part:
    """The recordings of one entry, fetched and tabled."""
    try:
        return _tabled(path, entry, attributions, faults)
    except StoreFault as error:
        raise CorpusUnavailable(f"{entry.folder}: {error}") from error


def _tabled(path: Path, entry: FileEntry, attributions: Mapping[str, str], faults: list[str]) -> _Part:
    if entry.dataset is not None:
        kept = streamed.read(_wanted(path, entry))
        recordings = _recordings_of(kept.listing.found, entry, attributions)
        return _Part(recordings, kept.location(), kept.listing.refused, kept.listing.told())
    root = _root(path, entry)
    if entry.layout is not None:
        listing = layouts.read(root, entry.layout)
        found, over = _limited(listing.found, entry.limit, entry.max_per_speaker)
        part = _Part(_recordings_of(found, entry, attributions), {}, listing.refused + over, listing.told())
        return _placed(part, root, lambda member: listing.written.get(member, member))
    written = places.Written(root)
    listed = _recordings(root, entry, attributions, faults)
    inside, refused = _inside(root, listed, written)
    if entry.folder is not None:
        refused += layouts.unused(root, {item.member for item in listed})
    return _placed(_Part(inside, {}, refused), root, written)


def _placed(part: _Part, root: Path, written: Callable[[str], str]) -> _Part:
    """A part with where its members lie; of those in an object store, with what its listing says of them."""
    names = {item.member: written(item.member) for item in part.recordings}
    stamps = places.stamps(root) if places.is_remote(root) else {}
    part.location = {member: root / name for member, name in names.items()}
    part.stamps = {member: stamps[name] for member, name in names.items() if name in stamps}
    return part


def _wanted(path: Path, entry: FileEntry) -> streamed.Wanted:
    assert entry.columns is not None, "an entry with a dataset has columns"
    source = str(entry.dataset)
    if corpus_recipe.is_folder(source):
        folder = corpus_recipe.place(path, source).absolute()
        if places.is_remote(folder):
            raise CorpusUnavailable(f"{folder}: a dataset's columns are read from the Hub or a folder of this machine; copy it to one")
        if not folder.is_dir():
            raise CorpusUnavailable(f"{source}: no such folder {_where(path, source)}")
        source = str(folder)
    return streamed.Wanted(
        source=source,
        revision=corpus_recipe.commit(path, entry),
        config=entry.config,
        split=str(entry.split),
        columns=entry.columns,
        only=entry.only,
        limit=entry.limit,
        max_per_speaker=entry.max_per_speaker,
    )


def _recordings_of(found: Sequence[Listed], entry: FileEntry, attributions: Mapping[str, str]) -> list[Recording]:
    """Listed recordings with the entry's licence, of which only what it trusts is taken."""
    attribution = words(attributions[words(entry.attribution) or ""]) or ""
    trusted = set(entry.trust)
    return [
        Recording(
            member=item.member,
            speaker=named(entry.speaker_prefix + item.speaker) or item.speaker,
            sex=item.sex if "sex" in trusted else None,
            language=(item.language if "language" in trusted else None) or entry.language,
            text=item.text if "text" in trusted else None,
            licence=named(entry.licence) or "",
            attribution=attribution,
        )
        for item in found
    ]


def _limited(found: Sequence[Listed], limit: int | None, max_per_speaker: int | None) -> tuple[list[Listed], list[Unlisted]]:
    """A part of a corpus, spread over it by a hash of each path: the same whatever lies beside it, and however it's listed."""
    kept = sorted(found, key=lambda item: hashlib.sha256(item.member.encode()).digest()) if limit or max_per_speaker else list(found)
    refused = []
    for most, of_all in ((max_per_speaker, False), (limit, True)):
        seen: Counter[str] = Counter()
        taken = []
        for item in kept:
            group = "" if of_all else item.speaker
            seen[group] += 1
            if most is None or seen[group] <= most:
                taken.append(item)
        if len(taken) < len(kept):
            detail = f"{counted(len(kept) - len(taken), 'recording')} over the {'limit' if of_all else 'max_per_speaker'} of {most}"
            refused.append(Unlisted("limit" if of_all else "max_per_speaker", Reason.OVER_LIMIT, detail, len(kept) - len(taken)))
        kept = taken
    return kept, refused


def _inside(root: Path, recordings: Iterable[Recording], written: Callable[[str], str]) -> tuple[list[Recording], list[Unlisted]]:
    """Recordings whose file, links followed, lies in the corpus; the others are told. An object store has no links."""
    if places.is_remote(root):
        return list(recordings), []
    trees = places.trees(root)
    folders: dict[str, str] = {}
    kept, refused = [], []
    for item in recordings:
        folder, _, file = written(item.member).rpartition("/")
        if folder not in folders:
            folders[folder] = os.path.realpath(root / folder)
        target = Path(folders[folder]) / file
        if places.lies_in(str(target.resolve() if target.is_symlink() else target), trees):
            kept.append(item)
        else:
            refused.append(Unlisted(f"{item.member} ({item.speaker})", Reason.OUTSIDE, "a link that leads out of the corpus"))
    return kept, refused


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


def _licence_faults(where: Sequence[str], listed: Sequence[Sequence[Recording]], known: Mapping[str, Licence]) -> list[str]:
    """Licences whose terms nobody knows, each with the first recording of an entry that has it."""
    faults = []
    for place, items in zip(where, listed, strict=True):
        first = {item.licence: item for item in reversed(items)}
        faults += [
            f"{place}: {first[licence].member}: {licences.unknown(licence, known)}" for licence in sorted(first) if licence not in known
        ]
    return faults


def _where(path: Path, value: str) -> str:
    """Where a folder was looked for, for people: beside the recipe, there if it's a URL, or where the environment says."""
    if places.is_url(value):
        return "there"
    return f"as {corpus_recipe.place(path, value)}" if corpus_recipe.VARIABLE.match(value) else f"beside {path.name}"


def _root(path: Path, entry: FileEntry) -> Path:
    """The folder that an entry's members lie in; of an archive with a list, only what is listed is unpacked."""
    if entry.folder is not None:
        root = corpus_recipe.place(path, entry.folder)
        if str(root).startswith("hf://") and not HUB_FOLDER.match(str(root)):
            raise CorpusUnavailable(f"{root}: write hf://datasets/owner/name@commit/folder, with a commit of 40 hexadecimal digits")
        if not places.is_folder(root):
            raise CorpusUnavailable(f"{entry.folder}: no such folder {_where(path, entry.folder)}")
    elif entry.debian is not None:
        package = debian.fetch(entry.debian, str(entry.version), str(entry.sha256))
        root = _unpacked(str(entry.sha256))
        debian.unpack(package, root)
    else:
        archive, checksum = _archive(path, entry)
        root = _unpacked(checksum)
        if entry.layout is not None:
            fetch.extract_all(archive, root)
        else:
            fetch.extract(archive, _members(archive, root, entry), root)
    inside = root / places.Written(root)(entry.inside) if entry.inside else root
    if not places.is_folder(inside):
        raise CorpusUnavailable(f"{entry.inside}: no such folder in {entry.folder or entry.archive or entry.debian or entry.file}")
    return inside


def _unpacked(checksum: str) -> Path:
    root = fetch.cache_dir() / "unpacked" / checksum[:16]
    return root if root.is_dir() else fetch.folder_in_cache(root)


def _archive(path: Path, entry: FileEntry) -> tuple[Path, str]:
    """An archive with its SHA-256."""
    if entry.package is not None:
        return fetch.fetch(entry.package, str(entry.file), str(entry.sha256)), str(entry.sha256)
    archive = corpus_recipe.place(path, str(entry.archive))
    if places.is_remote(archive):
        raise CorpusUnavailable(f"{archive}: archives are read on this machine: copy it here, or unpack it there and name it as folder")
    if not archive.is_file():
        raise CorpusUnavailable(f"{entry.archive}: no such archive beside {path.name}")
    return archive, fetch.sha256_of(archive)


def _members(archive: Path, root: Path, entry: FileEntry) -> list[str]:
    """What an entry lists of an archive."""
    before = f"{entry.inside}/" if entry.inside else ""
    if entry.table is not None:
        fetch.extract(archive, [before + entry.table], root)
        faults: list[str] = []
        members = [item.member for item in _recordings(root / before, entry, {}, faults)]
        if faults:
            raise RecipeError(faults)
    else:
        members = [item.member for item in entry.recordings or ()]
    return sorted({before + member for member in members})


def _recordings(root: Path, entry: FileEntry, attributions: Mapping[str, str], faults: list[str]) -> list[Recording]:
    if entry.table is not None:
        return list(_from_table(root / places.Written(root)(entry.table), attributions, faults))
    return [
        Recording(
            member=composed(item.member),
            speaker=item.speaker,
            sex=item.sex,
            language=item.language,
            text=words(item.text),
            licence=named(item.licence) or "",
            attribution=words(attributions.get(words(item.attribution) or "")) or "",
            segments_s=item.segments_s,
            raw=item.raw.model_dump() if item.raw else None,
        )
        for item in entry.recordings or ()
    ]


def _from_table(path: Path, attributions: Mapping[str, str], faults: list[str]) -> Iterator[Recording]:
    """Recordings of a CSV table; faults are told with their line."""
    try:
        table = tables.read(path, NEEDED_COLUMNS)
    except FileNotFoundError as error:
        raise CorpusUnavailable(f"{path.name}: no such table in the corpus; {glance.told(path.parent)}") from error
    except CorpusUnavailable as error:
        faults.append(str(error))
        return
    faults += table.told(path)
    if not table.rows and not table.faults:
        faults.append(f"{path}: has no rows")
    for row in table.rows if not table.faults else ():
        if row.fault is None:
            wrong = list(_cell_faults(row.cells))
            faults += [f"{path}:{row.line}: {fault}" for fault in wrong]
            if not wrong:
                yield _recording_of(row.cells, attributions)


def _cell_faults(cells: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with the cells of a row."""
    for column in NEEDED_COLUMNS:
        if named(cells[column]) is None:
            said = words(cells[column])
            yield f"column {column} holds {said!r}, which stands for a missing value" if said else f"column {column} is empty"
    if cells["path"] and (outside := corpus_recipe.outside(cells["path"])):
        yield outside
    if named(cells.get("sex")) not in ("f", "m", None):
        yield f"sex is {cells['sex']!r}; f, m or nothing is needed"
    language = words(cells.get("language"))
    if language and not LANGUAGE.match(language):
        yield f"language is {language!r}; two or three small letters are needed"


def _recording_of(cells: Mapping[str, str], attributions: Mapping[str, str]) -> Recording:
    """The recording of a row without a fault."""
    speaker, licence = str(named(cells["speaker"])), str(named(cells["licence"]))
    line = words(cells.get("attribution")) or f"{speaker} ({licence}); the corpus gives no attribution"
    return Recording(
        member=composed(cells["path"]),
        speaker=speaker,
        sex=named(cells.get("sex")),
        language=words(cells.get("language")),
        text=words(cells.get("text")),
        licence=licence,
        attribution=words(attributions.get(line, line)) or "",
    )
