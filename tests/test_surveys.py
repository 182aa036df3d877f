"""Surveys: with any cache, whatever its state, and any number of workers, the same sources byte for byte."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from builder import cuts, fetch, pipeline, recipe, sources, stamps, surveys
from builder.corpora import Corpus, Recording
from builder.cuts import Survey, survey
from builder.errors import CorpusUnavailable, NotFound, Refused
from builder.recipe import SpeechRule
from builder.surveys import surveyed
from builder.workers import Crew, Local

RATE_HZ = 16_000
RULE = SpeechRule(corpus=None, min_snr_db=5.0)


def voice(seed: int) -> np.ndarray[Any, Any]:
    """Rows of voiced syllables with pauses: enough for cuts and syllables."""
    rng = np.random.default_rng(seed)
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    phase = 2.0 * np.pi * np.cumsum(120.0 + 15.0 * np.sin(2.0 * np.pi * 0.7 * time_s) + 5.0 * seed) / RATE_HZ
    harmonics = sum(np.sin(number * phase) / number for number in range(1, 25))
    envelope = np.clip(np.sin(2.0 * np.pi * 2.2 * time_s), 0.0, 1.0) ** 0.7
    return 0.1 * harmonics * envelope + 1e-4 * rng.standard_normal(time_s.size)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Good recordings, more than a worker's batch, one of silence, one that isn't sound, one that isn't there, one file twice."""
    folder = tmp_path_factory.mktemp("corpus")
    names = [f"{number:02d}.wav" for number in range(18)]
    for number, name in enumerate(names):
        soundfile.write(folder / name, voice(number % 6), RATE_HZ, subtype="PCM_16")
    soundfile.write(folder / "silent.wav", np.zeros(RATE_HZ), RATE_HZ, subtype="PCM_16")
    (folder / "text.wav").write_text("not sound")
    listed = [*names, "gone.wav", "silent.wav", "text.wav"]
    made = [Recording(name, f"s{number % 5}", "f", "en", f"text {number}", "CC0-1.0", "nobody") for number, name in enumerate(listed)]
    halves = [Recording("zz.wav", f"t{half}", "m", "en", None, "CC0-1.0", "nobody", ((1.5 * half, 1.5 * half + 1.5),)) for half in (0, 1)]
    soundfile.write(folder / "zz.wav", voice(7), RATE_HZ, subtype="PCM_16")
    recordings = tuple(sorted([*made, *halves], key=lambda item: (item.member, item.speaker)))
    return Corpus("made", recordings, {item.member: folder / item.member for item in recordings})


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of the test's own; where the file will lie. Files count as known from the moment that they're written."""
    monkeypatch.setenv("VOCALGRAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stamps, "SETTLED_S", 0.0)
    return tmp_path / "cache" / "surveys.sqlite"


@pytest.fixture(scope="module")
def plain(corpus: Corpus) -> Survey:
    """What a survey without cache or workers says."""
    return survey(corpus, RULE, RATE_HZ)


def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on, reading a recording or a file's bytes is a fault."""

    def fail(*_: Any) -> None:
        raise AssertionError("a recording was read again")

    monkeypatch.setattr(surveys, "survey_recording", fail)
    monkeypatch.setattr(surveys, "file_digest", fail)


def test_a_survey_is_the_same_with_and_without_a_cache(corpus: Corpus, plain: Survey, monkeypatch: pytest.MonkeyPatch) -> None:
    """First and second time: cuts, syllables, refusals with their lines, checksums; and nothing is read the second time."""
    assert plain.cuts
    assert plain.syllables
    assert set(plain.refused) >= {"silent", "unreadable"}
    assert surveyed(corpus, RULE, RATE_HZ) == plain
    unread(monkeypatch)
    there = Corpus(corpus.name, tuple(item for item in corpus.recordings if item.member != "gone.wav"), corpus.location)
    assert surveyed(there, RULE, RATE_HZ).cuts == plain.cuts


def test_a_survey_is_the_same_from_any_number_of_workers(corpus: Corpus, plain: Survey) -> None:
    """Two processes find what one finds, in the same order."""
    with Local(2).each() as each:
        assert surveyed(corpus, RULE, RATE_HZ, each) == plain


def test_workers_answers_are_taken_in_order(corpus: Corpus, plain: Survey) -> None:
    """A map that works from the end gives the same survey."""

    def backwards(work: Callable[..., Any], items: Iterable[Any]) -> list[Any]:
        return [work(item) for item in reversed(list(items))][::-1]

    assert surveyed(corpus, RULE, RATE_HZ, backwards) == plain


@pytest.mark.parametrize("stage", ["digest", "survey"])
def test_a_worker_that_does_not_see_a_corpus_says_so(tmp_path: Path, stage: str) -> None:
    """A folder that was there when the corpus was listed and isn't where a worker looks: an error with its path, not a refusal."""
    folder = tmp_path / "mounted"
    folder.mkdir()
    names = [f"{number:02d}.wav" for number in range(surveys.BATCH + 1)]
    for number, name in enumerate(names):
        soundfile.write(folder / name, voice(number), RATE_HZ, subtype="PCM_16")
    recordings = tuple(Recording(name, "s", "f", "en", None, "CC0-1.0", "nobody") for name in names)
    corpus = Corpus("made", recordings, {name: folder / name for name in names})
    rounds = []

    def elsewhere(work: Callable[..., Any], parts: Iterable[Any]) -> list[Any]:
        rounds.append(stage)
        if len(rounds) == (1 if stage == "digest" else 2):
            folder.rename(tmp_path / "elsewhere")
        return [work(part) for part in parts]

    with pytest.raises(NotFound, match=r"mounted isn't there or is empty, and it was when .* 'made': .*same path on every worker"):
        surveyed(corpus, RULE, RATE_HZ, elsewhere)


def test_a_source_whose_folder_is_gone_ends_the_build(corpus: Corpus, plain: Survey, tmp_path: Path) -> None:
    """It isn't counted as unreadable: a worker without the disk would take other candidates, and make other bytes."""
    spec = sources.specs_of("made", plain, RATE_HZ)["speech"][0]
    unseen = Corpus("made", corpus.recordings, {member: tmp_path / member for member in corpus.location})
    with pytest.raises(NotFound, match=r"isn't there or is empty, and it was when this build looked"):
        sources.realise(spec, RATE_HZ, {"made": unseen}, RULE)


@pytest.mark.parametrize("damage", ["not a database", "cut short", "zeros inside", "one value changed"])
def test_a_damaged_cache_is_made_again(corpus: Corpus, plain: Survey, cache: Path, damage: str) -> None:
    """Whatever happened to the file: the same survey, and afterwards a cache that serves."""
    surveyed(corpus, RULE, RATE_HZ)
    content = cache.read_bytes()
    if damage == "one value changed":
        base = sqlite3.connect(cache)
        with base:
            base.execute("UPDATE kept SET value = replace(value, '\"start\": ', '\"start\": 1')")
        base.close()
    else:
        middle = len(content) // 2
        changed = {"not a database": b"x" * 5000, "cut short": content[:middle], "zeros inside": content[:200] + bytes(len(content) - 200)}
        cache.write_bytes(changed[damage])
    assert surveyed(corpus, RULE, RATE_HZ) == plain
    assert surveyed(corpus, RULE, RATE_HZ) == plain


def test_a_cache_that_cannot_be_written_is_done_without(
    corpus: Corpus, plain: Survey, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder in its place, or no folder for it at all: the survey doesn't need it."""
    cache.mkdir(parents=True)
    assert surveyed(corpus, RULE, RATE_HZ) == plain
    monkeypatch.setattr(fetch, "cache_dir", lambda: (_ for _ in ()).throw(CorpusUnavailable("no home")))
    assert surveyed(corpus, RULE, RATE_HZ) == plain


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Members of the recordings that are surveyed from here on."""
    seen: list[str] = []

    def look(part: Corpus, item: Recording, rule: SpeechRule, rate: int) -> Survey:
        seen.append(item.member)
        return cuts.survey_recording(part, item, rule, rate)

    monkeypatch.setattr(surveys, "survey_recording", look)
    return seen


def test_a_changed_file_is_surveyed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other bytes under the same name and of the same size are read anew, and only they; a file that was only touched isn't."""
    for name, seed in (("a.wav", 1), ("b.wav", 2)):
        soundfile.write(tmp_path / name, voice(seed), RATE_HZ, subtype="PCM_16")
    recordings = tuple(Recording(name, "s", "f", "en", None, "CC0-1.0", "nobody") for name in ("a.wav", "b.wav"))
    corpus = Corpus("two", recordings, {name: tmp_path / name for name in ("a.wav", "b.wav")})
    before = surveyed(corpus, RULE, RATE_HZ)
    seen = counted(monkeypatch)
    os.utime(tmp_path / "b.wav", (1, 1))
    assert surveyed(corpus, RULE, RATE_HZ) == before
    assert seen == []
    soundfile.write(tmp_path / "a.wav", voice(3), RATE_HZ, subtype="PCM_16")
    os.utime(tmp_path / "a.wav", (2, 2))
    after = surveyed(corpus, RULE, RATE_HZ)
    assert seen == ["a.wav"]
    assert after == survey(corpus, RULE, RATE_HZ) != before


def in_place(path: Path, other: Path) -> None:
    """Other bytes written over a file, its times set back."""
    before = path.stat()
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def copied(path: Path, other: Path) -> None:
    """As `cp -p` does."""
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    shutil.copy2(other, path)


def renamed(path: Path, other: Path) -> None:
    """As `mv` does, of a file that was there before and has the same times."""
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def one_file(folder: Path) -> Corpus:
    """A corpus of one recording, and beside it another of the same size."""
    for name, seed in (("a.wav", 1), ("other.wav", 3)):
        soundfile.write(folder / name, voice(seed), RATE_HZ, subtype="PCM_16")
    return Corpus("one", (Recording("a.wav", "s", "f", "en", None, "CC0-1.0", "nobody"),), {"a.wav": folder / "a.wav"})


@pytest.mark.parametrize("replace", [in_place, copied, renamed])
def test_a_file_of_the_same_size_and_time_is_another(tmp_path: Path, replace: Callable[[Path, Path], None]) -> None:
    """A recording replaced by one of equal size and time of change is seen: by this process, by a worker, and by what renders."""
    corpus = one_file(tmp_path)
    before = surveyed(corpus, RULE, RATE_HZ)
    spec = sources.specs_of("one", before, RATE_HZ)["speech"][0]
    sources.realise(spec, RATE_HZ, {"one": corpus}, RULE)
    known = (tmp_path / "a.wav").stat()
    replace(tmp_path / "a.wav", tmp_path / "other.wav")
    now = (tmp_path / "a.wav").stat()
    assert (now.st_size, now.st_mtime_ns) == (known.st_size, known.st_mtime_ns)
    with closing(Crew(1)) as crew:
        ((_, elsewhere),) = crew.run(surveyed, [(corpus, RULE, RATE_HZ)])
    assert surveyed(corpus, RULE, RATE_HZ) == elsewhere == survey(corpus, RULE, RATE_HZ) != before
    with pytest.raises(Refused, match="isn't the file that this source was planned from"):
        sources.realise(spec, RATE_HZ, {"one": corpus}, RULE)


def test_a_file_that_changed_just_now_is_read_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the tick of a file system's clock a second change leaves the stamp as it is: so young a stamp vouches for nothing."""
    corpus = one_file(tmp_path)
    young = (1, 2, 3, time.time_ns())
    monkeypatch.setattr(stamps, "SETTLED_S", 60.0)
    monkeypatch.setattr(stamps, "stamp", lambda _: young)
    before = surveyed(corpus, RULE, RATE_HZ)
    in_place(tmp_path / "a.wav", tmp_path / "other.wav")
    assert surveyed(corpus, RULE, RATE_HZ) != before


def test_a_file_that_changes_while_it_is_read_is_no_file(tmp_path: Path) -> None:
    """Between its digest and its survey: an error that names it, and nothing of the new is kept under the old."""
    corpus = one_file(tmp_path)
    names = [f"{number:02d}.wav" for number in range(surveys.BATCH)]
    for name in names:
        shutil.copy(tmp_path / "a.wav", tmp_path / name)
    more = tuple(Recording(name, "s", "f", "en", None, "CC0-1.0", "nobody") for name in names)
    corpus = Corpus("many", (*more, *corpus.recordings), {name: tmp_path / name for name in ("a.wav", *names)})
    before, rounds = survey(corpus, RULE, RATE_HZ), []

    def meanwhile(work: Callable[..., Any], batches: Iterable[Any]) -> list[Any]:
        rounds.append(work)
        if len(rounds) == 2:
            in_place(tmp_path / "00.wav", tmp_path / "other.wav")
        return [work(batch) for batch in batches]

    with pytest.raises(CorpusUnavailable, match=r"00\.wav of the corpus many changed while the corpus was read"):
        surveyed(corpus, RULE, RATE_HZ, meanwhile)
    shutil.copy(tmp_path / "a.wav", tmp_path / "00.wav")
    assert surveyed(corpus, RULE, RATE_HZ) == before


@pytest.mark.parametrize("what", ["rule", "rate", "code", "recording"])
def test_another_question_is_asked_anew(corpus: Corpus, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Another rule, rate, release of the code or entry in the corpus isn't answered from the cache."""
    small = Corpus("small", corpus.recordings[:1], corpus.location)
    surveyed(small, RULE, RATE_HZ)
    seen = counted(monkeypatch)
    if what == "rule":
        surveyed(small, RULE.model_copy(update={"max_s": 3.5}), RATE_HZ)
    elif what == "rate":
        surveyed(small, RULE, 22_050)
    elif what == "code":
        monkeypatch.setattr(surveys, "factory_digest", lambda: "another")
        surveyed(small, RULE, RATE_HZ)
    else:
        (item,) = small.recordings
        other = Recording(item.member, item.speaker, "f", "en", None, "CC0-1.0", "nobody", ((0.0, 2.5),))
        surveyed(Corpus("small", (other,), corpus.location), RULE, RATE_HZ)
    assert seen == [small.recordings[0].member]


def test_where_a_corpus_lies_is_not_asked_anew(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same corpus under a recipe in another folder is answered from the cache."""
    small = Corpus("small", corpus.recordings[:1], corpus.location)
    surveyed(small, RULE, RATE_HZ)
    unread(monkeypatch)
    surveyed(small, RULE.model_copy(update={"corpus": "elsewhere/corpus.yaml"}), RATE_HZ)


def test_all_of_a_survey_is_kept() -> None:
    """A field that a survey gains must be kept too: this fails until the cache knows it."""
    assert {field.name for field in fields(Survey)} == {"cuts", "syllables", "refused", "details", "checksum", "bandwidth_hz", "heard"}


def test_a_second_plan_reads_no_recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, corpus: Corpus) -> None:
    """A recipe is planned twice: the second time no file is opened as sound, and the plan is the same."""
    table = "\n".join(f"{item.member},{item.speaker},{item.text or ''},CC0-1.0" for item in corpus.recordings[:18])
    (tmp_path / "made.csv").write_text("path,speaker,text,licence\n" + table + "\n")
    for item in corpus.recordings[:18]:
        os.link(corpus.location[item.member], tmp_path / item.member)
    (tmp_path / "made.yaml").write_text("name: made\nfiles: [{folder: ., table: made.csv}]\n")
    base = Path(recipe.__file__).parent.parent / "recipes"
    splits = "splits: {train: {share: 0.4}, validation: {share: 0.3}, test: {share: 0.3}}"
    speech = "speech: {corpus: made.yaml, min_snr_db: 5.0}"
    (tmp_path / "release.yaml").write_text(f"include: {base / 'base.yaml'}\ndimensions: [{base / 'pitch.yaml'}]\n{speech}\n{splits}\n")
    first, _ = pipeline.load_plan(tmp_path / "release.yaml", None)
    unread(monkeypatch)
    second, _ = pipeline.load_plan(tmp_path / "release.yaml", None)
    assert first == second
    assert sum(len(shard.pool["speech"]) for shard in first.shards) > 0
