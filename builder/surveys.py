"""A whole corpus surveyed: on all workers, and what was found in a file is never looked for again.

What a survey finds in a recording depends on the recording's entry in its corpus, the file's bytes, the rule, the rate and the
code; a digest of these is the key under which it's kept, in `surveys.sqlite` in the cache folder. A file's bytes are known by its
path and its stamp (see `stamps`), once they were read. An entry that isn't whole, or a cache that can't be used, is made again:
the cache only ever saves time.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from builder import fetch, places
from builder.corpora import Corpus, Recording
from builder.cuts import Cut, Heard, Survey, Syllable, survey_recording
from builder.engines import Map, warn
from builder.errors import CorpusUnavailable
from builder.factory import factory_digest
from builder.keys import digest
from builder.progress import Progress
from builder.recipe import SpeechRule
from builder.recordings import Stamp, check_seen, file_digest, is_settled, stamp_of
from builder.records import Carrier

BATCH = 16
"""Recordings that a worker is given at once, and after which what was found is safe."""


def surveyed(corpus: Corpus, rule: SpeechRule, sample_rate_hz: int, each: Map = map) -> Survey:
    """What is in a corpus: the same as `cuts.survey` says, with any cache and any number of workers.

    Parameters
    ----------
    each
        `map`, or that of an executor, for recordings that aren't in the cache.

    Returns
    -------
    Survey
        In the order of the corpus.
    """
    with closing(_Cache(_place())) as cache:
        checksum = _checksums(corpus, cache, each)
        rule_key = [factory_digest(), rule.model_dump(mode="json", exclude={"corpus"}), sample_rate_hz]
        keys = [digest([*rule_key, asdict(item), checksum[item.member]], 32) for item in corpus.recordings]
        there = {key: cache.get(key) for key in keys}
        unknown = [item for key, item in zip(keys, corpus.recordings, strict=True) if there[key] is None]
        look = partial(_survey_batch, rule=rule, sample_rate_hz=sample_rate_hz)
        made = _in_batches(look, corpus, unknown, each, cache, dict(zip(map(id, corpus.recordings), keys, strict=True)), checksum)
        found = Survey()
        for key, item in zip(keys, corpus.recordings, strict=True):
            kept = there[key]
            found.add(_from_json(kept if kept is not None else next(made), item))
        found.checksum = checksum
    return found


def _place() -> Path | None:
    """Where the cache lies; None if there's no folder to keep it in."""
    try:
        return fetch.folder_in_cache(fetch.cache_dir()) / "surveys.sqlite"
    except CorpusUnavailable:
        return None


# -- in the workers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Batch:
    """A part of a corpus, small enough to be sent to a worker, and the digests of its files, once they're known."""

    corpus: Corpus
    checksum: Mapping[str, str]


def _batches(corpus: Corpus, recordings: Sequence[Recording], checksum: Mapping[str, str]) -> Iterator[_Batch]:
    for start in range(0, len(recordings), BATCH):
        some = tuple(recordings[start : start + BATCH])
        location = {item.member: corpus.location[item.member] for item in some}
        stamps = {name: corpus.stamps[name] for name in location if name in corpus.stamps}
        known = {name: checksum[name] for name in location if name in checksum}
        yield _Batch(Corpus(corpus.name, some, location, stamps=stamps), known)


def _digest_batch(batch: _Batch) -> list[str]:
    for item in batch.corpus.recordings:
        check_seen(batch.corpus, item)
    return [file_digest(batch.corpus, item) for item in batch.corpus.recordings]


def _survey_batch(batch: _Batch, rule: SpeechRule, sample_rate_hz: int) -> list[dict[str, Any]]:
    for item in batch.corpus.recordings:
        if batch.checksum[item.member]:
            check_seen(batch.corpus, item)
    return [_as_json(_survey_unchanged(batch, item, rule, sample_rate_hz)) for item in batch.corpus.recordings]


def _survey_unchanged(batch: _Batch, item: Recording, rule: SpeechRule, sample_rate_hz: int) -> Survey:
    """What's in a recording, whose file must still be the one that was digested: it's kept under that digest."""
    found = survey_recording(batch.corpus, item, rule, sample_rate_hz)
    if file_digest(batch.corpus, item) != batch.checksum[item.member]:
        raise CorpusUnavailable(
            f"{item.member} of the corpus {batch.corpus.name} changed while the corpus was read: run again when nothing writes there"
        )
    return found


def _in_batches(
    work: Callable[[_Batch], list[Any]],
    corpus: Corpus,
    recordings: Sequence[Recording],
    each: Map,
    cache: _Cache,
    keys: dict[int, str],
    checksum: Mapping[str, str],
) -> Iterator[Any]:
    """What the work finds in each recording, in order, kept under its key batch by batch."""
    batches = list(_batches(corpus, recordings, checksum))
    use = each if len(batches) > 1 else map
    if not batches:
        return
    with Progress("sources", len(recordings), warn, "recording") as progress:
        for batch, results in zip(batches, use(work, batches), strict=True):
            of_batch = zip(batch.corpus.recordings, results, strict=True)
            cache.put({keys[id(item)]: result for item, result in of_batch if keys[id(item)]})
            progress.add(None, len(results))
            yield from results


def _checksums(corpus: Corpus, cache: _Cache, each: Map) -> dict[str, str]:
    """Member -> digest of its file; empty if there's no such file. Files that didn't change since they were read aren't read."""
    first = {item.member: item for item in reversed(corpus.recordings)}
    stamps = {member: stamp_of(corpus, member) for member in first}
    keys = {member: _stamp_key(corpus.location[member], stamp) for member, stamp in stamps.items()}
    known = {member: cache.get(keys[member]) if stamp else "" for member, stamp in stamps.items()}
    unread = [first[member] for member in sorted(first) if known[member] is None]
    found = _in_batches(_digest_batch, corpus, unread, each, cache, {id(item): keys[item.member] for item in unread}, {})
    return {**known, **{item.member: value for item, value in zip(unread, found, strict=True)}}


def _stamp_key(path: Path, stamp: Stamp | None) -> str:
    """Path and stamp as one key; empty where nothing may be kept under it."""
    return digest(["file", str(path if places.is_remote(path) else path.absolute()), stamp], 32) if stamp and is_settled(stamp) else ""


# -- what is kept -----------------------------------------------------------------------------------------------------


def _as_json(found: Survey) -> dict[str, Any]:
    """What was found in one recording, as plain values."""
    place = {id(cut): index for index, cut in enumerate(found.cuts)}
    return {
        "cuts": [[cut.start, cut.end, cut.whole, _facts(cut)] for cut in found.cuts],
        "syllables": [[place[id(item.cut)], item.start, item.end, _facts(item)] for item in found.syllables],
        "refused": dict(found.refused),
        "details": found.details,
        "bandwidth_hz": next(iter(found.bandwidth_hz.values()), None),
        "heard": next(iter(found.heard.values()), None),
    }


def _facts(part: Cut | Syllable) -> list[float] | None:
    return None if part.carrier is None else list(astuple(part.carrier))


def _carrier(facts: list[float] | None) -> Carrier | None:
    return None if facts is None else Carrier(*facts)


def _from_json(values: dict[str, Any], recording: Recording) -> Survey:
    cuts = [Cut(recording, start, end, whole, _carrier(facts)) for start, end, whole, facts in values["cuts"]]
    syllables = [Syllable(cuts[index], start, end, _carrier(facts)) for index, start, end, facts in values["syllables"]]
    known_hz = values["bandwidth_hz"]
    bandwidth_hz = {} if known_hz is None else {recording.member: known_hz}
    heard = {recording.member: Heard(*values["heard"])} if values["heard"] else {}
    return Survey(cuts, syllables, Counter(values["refused"]), list(values["details"]), bandwidth_hz, heard)


class _Cache:
    """A table of JSON values by key, each with a checksum. What can't be read isn't there; what can't be written isn't kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._base = self._opened(":memory:" if path is None else str(path))

    def _opened(self, name: str) -> sqlite3.Connection:
        try:
            return self._made(name)
        except sqlite3.OperationalError:
            return self._made(":memory:")  # locked for long, or no place to write: go on without
        except sqlite3.DatabaseError:
            Path(name).unlink(missing_ok=True)
            return self._made(name)

    @staticmethod
    def _made(name: str) -> sqlite3.Connection:
        base = sqlite3.connect(name, timeout=30.0)
        try:
            base.execute("PRAGMA synchronous = OFF")  # what a power cut leaves is told by the checksums
            base.execute("CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, value TEXT, checksum TEXT) WITHOUT ROWID")
            base.commit()
        except sqlite3.Error:
            base.close()
            raise
        return base

    def get(self, key: str) -> Any:
        """The value under a key; None if there's none, or it isn't whole."""
        try:
            found = self._base.execute("SELECT value, checksum FROM kept WHERE key = ?", (key,)).fetchone()
        except sqlite3.DatabaseError as error:
            self._start_anew(error)
            return None
        return json.loads(found[0]) if found and found[1] == digest([key, found[0]]) else None

    def put(self, values: dict[str, Any]) -> None:
        """Keep values by key."""
        texts = {key: json.dumps(value, ensure_ascii=False) for key, value in values.items()}
        try:
            with self._base:
                rows = [(key, text, digest([key, text])) for key, text in texts.items()]
                self._base.executemany("INSERT OR REPLACE INTO kept VALUES (?, ?, ?)", rows)
        except sqlite3.DatabaseError as error:
            self._start_anew(error)

    def _start_anew(self, error: sqlite3.DatabaseError) -> None:
        """A damaged file gives way to an empty one; one that's locked or has no space stays, and is done without."""
        self._base.close()
        if self._path is None or isinstance(error, sqlite3.OperationalError):
            self._base = self._made(":memory:")
        else:
            self._path.unlink(missing_ok=True)
            self._base = self._opened(str(self._path))

    def close(self) -> None:
        """Close the file."""
        self._base.close()
