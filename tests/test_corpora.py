"""Corpora by layout, from datasets and Debian packages: what is found, what is refused and told, what stays the same."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile
from made_corpora import (
    DATASET,
    LICENCE,
    RATE_HZ,
    SEX,
    SHAPES,
    SPEAKERS,
    corpus,
    encoded,
    put,
    recipe_of,
    text_of,
    utterance,
    write_parquet,
)

from builder import corpora, corpus_recipe, debian, fetch, layouts, recipe, sources, streamed
from builder.cuts import survey
from builder.errors import CorpusUnavailable, RecipeError
from builder.recipe import SpeechRule
from builder.recordings import tape
from builder.records import Reason
from builder.surveys import surveyed

RECIPES = Path(__file__).parent.parent / "recipes"
RULE = SpeechRule(corpus=None)


pytestmark = pytest.mark.filterwarnings("ignore:unclosed file.*metadata.csv:ResourceWarning")  # which `datasets` leaves open


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test has an empty cache."""
    monkeypatch.setenv("VOCALGRAD_CACHE", str(tmp_path / "cache"))
    yield
    if "audio-folder" in request.node.name:
        gc.collect()


def reasons(found: corpora.Corpus) -> dict[str, str]:
    """What a corpus refuses by itself -> reason."""
    return {item.what: item.reason.value for item in found.refused}


# -- every shape ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_read_whole(tmp_path: Path, shape: str) -> None:
    """All twelve recordings of four speakers, with sound at the file's own rate, licence and attribution; nothing refused unasked."""
    found = corpora.load(corpus(tmp_path, shape))
    assert Counter(item.speaker[-3:] for item in found.recordings if not shape.startswith("common")) in (
        Counter(dict.fromkeys(SPEAKERS, 3)),
        Counter(),
    )
    assert len(found.recordings) == len({item.member for item in found.recordings}) == 12
    assert len({item.speaker for item in found.recordings}) == 4
    assert {(item.licence, item.attribution) for item in found.recordings} in ({("CC-BY-4.0", "Made in a test (nobody, now)")},)
    assert set(reasons(found).values()) <= {"left_out"}
    first = next(item for item in found.recordings if "225" in item.speaker)
    sound = tape(found, first, RULE, RATE_HZ).read()
    assert sound.duration_s == pytest.approx(len(utterance("225", 0)) / RATE_HZ, abs=0.2)
    assert list(found.recordings) == sorted(found.recordings, key=lambda item: item.member)


@pytest.mark.parametrize(
    ("shape", "sex", "language", "text"),
    [
        ("vctk-0.92", SEX, "en", text_of("225", 1)),
        ("vctk-0.80", SEX, "en", text_of("225", 1)),
        ("librispeech", SEX, "en", text_of("225", 1).upper()),
        ("libritts", SEX, "en", text_of("225", 1)),
        ("common-voice", {"225": "f", "226": "m", "227": None, "228": None}, "en", f'"{text_of("225", 1)}'),
        ("festvox", SEX, "ru", f"Пожалуйста, {text_of('225', 1)}"),
        ("files", dict.fromkeys(SPEAKERS), "en", text_of("225", 1)),
        ("table", SEX, "en", text_of("225", 1)),
        ("vctk-hub", SEX, "en", text_of("225", 1)),
        ("librispeech-hub", dict.fromkeys(SPEAKERS), "en", text_of("225", 1).upper()),
        ("class-labels", {"225": "f", "226": "m", "227": None, "228": None}, "pt", None),
        ("audio-folder", SEX, None, text_of("225", 1)),
    ],
)
def test_a_shape_tells_sex_language_and_text(tmp_path: Path, shape: str, sex: dict[str, str | None], language: str, text: str) -> None:
    """As the corpus's own files say; what none of them says is None, never guessed."""
    found = corpora.load(corpus(tmp_path, shape))
    told = {next(speaker for speaker in SPEAKERS if speaker in item.speaker): item.sex for item in found.recordings}
    assert told == sex
    assert {item.language for item in found.recordings} == {language}
    assert [item.text for item in found.recordings if "225" in item.speaker][1] == text


def test_a_speaker_without_texts_has_none(tmp_path: Path) -> None:
    """VCTK 0.92 has a speaker without transcripts: the recordings stay, their text is unknown."""
    found = corpora.load(corpus(tmp_path, "vctk-0.92"))
    assert {item.text for item in found.recordings if item.speaker == "vctk-p228"} == {None}
    assert all(item.text for item in found.recordings if item.speaker != "vctk-p228")


def test_the_microphone_is_chosen_and_a_missing_one_is_told(tmp_path: Path) -> None:
    """`mic2` reads the other files; a speaker who has none is refused by name, not replaced by the other microphone."""
    corpus(tmp_path, "vctk-0.92")
    entry = {"folder": "corpus", "layout": {"kind": "vctk", "mic": "mic2"}, **LICENCE}
    found = corpora.load(recipe_of(tmp_path, [entry]))
    assert {item.speaker for item in found.recordings} == {"p225", "p226", "p227"}
    assert all(item.member.endswith("_mic2.flac") for item in found.recordings)
    assert reasons(found) == {f"p228/p228_{number:03d}": "unreadable" for number in (1, 2, 3)} | {"*.flac": "left_out"}
    assert found.refusals()[0] == {"unreadable": 3, "left_out": 12}


def test_a_speaker_who_is_in_no_table_has_no_sex(tmp_path: Path) -> None:
    """A missing row, or a missing table, costs the sex and nothing else."""
    path = corpus(tmp_path, "vctk-0.80")
    info = tmp_path / "corpus" / "speaker-info.txt"
    info.write_text("".join(line for line in info.read_text().splitlines(keepends=True) if not line.startswith("226")))
    told = {item.speaker: item.sex for item in corpora.load(path).recordings}
    assert told == {"vctk-p225": "f", "vctk-p226": None, "vctk-p227": "f", "vctk-p228": "m"}
    info.unlink()
    assert {item.sex for item in corpora.load(path).recordings} == {None}


def test_parts_are_taken_as_listed(tmp_path: Path) -> None:
    """`parts` keeps to those folders; one that isn't there is named."""
    corpus(tmp_path, "librispeech")
    entry: dict[str, Any] = {"folder": "corpus", "layout": {"kind": "librispeech", "parts": ["test-clean"]}, **LICENCE}
    assert {item.speaker for item in corpora.load(recipe_of(tmp_path, [entry])).recordings} == {"227", "228"}
    entry["layout"]["parts"] = ["train-clean-360"]
    with pytest.raises(CorpusUnavailable, match=r"no folder train-clean-360 in it"):
        corpora.load(recipe_of(tmp_path, [entry]))


def test_clips_without_a_client_are_refused_or_one_speaker(tmp_path: Path) -> None:
    """Nobody knows who speaks: refused with a reason; `together` makes them one, so that no split can part them."""
    path = corpus(tmp_path, "common-voice")
    rows = (tmp_path / "corpus" / "validated.tsv").read_text().splitlines()
    rows = [row.replace("225" * 40, "") if "_en_225" in row else row for row in rows]
    rows += [rows[4], rows[5].replace("_en_2261", "_en_gone")]
    put(tmp_path / "corpus" / "validated.tsv", "\n".join(rows) + "\n")
    found = corpora.load(path)
    assert len(found.recordings) == 9
    assert Counter(item.reason for item in found.refused) == {Reason.NO_SPEAKER: 3, Reason.DUPLICATE: 1, Reason.UNREADABLE: 1}
    entry = {"folder": "corpus", "layout": {"kind": "common_voice", "unknown_speakers": "together"}, **LICENCE}
    together = corpora.load(recipe_of(tmp_path, [entry]))
    assert Counter(item.speaker for item in together.recordings)["unknown"] == 3


def test_left_out_files_are_counted(tmp_path: Path) -> None:
    """What a recipe leaves out by pattern is told with the pattern and how many."""
    corpus(tmp_path, "files")
    entry = {"folder": "corpus", "layout": {"kind": "files", "pattern": "*.ogg", "leave_out": ["226/*", "*/2.ogg"]}, **LICENCE}
    found = corpora.load(recipe_of(tmp_path, [entry]))
    assert len(found.recordings) == 6
    assert sum(item.count for item in found.refused) == 6
    assert sorted(item.detail for item in found.refused) == ["3 files match */2.ogg of leave_out", "3 files match 226/* of leave_out"]
    assert found.refusals()[0] == {"left_out": 6}


def test_half_a_corpus_in_another_format_is_counted(tmp_path: Path) -> None:
    """Files that look like sound and aren't used are refusals with a reason, by suffix, in every layout and beside every table."""
    corpus(tmp_path, "librispeech")
    flac = sorted((tmp_path / "corpus").rglob("*.flac"))
    for path in flac[:5]:
        path.rename(path.with_suffix(".wav"))
    for path in flac[5:8]:
        path.rename(path.with_suffix(".M4A"))
    (tmp_path / "corpus" / "elsewhere").mkdir()
    put(tmp_path / "corpus" / "elsewhere" / "a.webm", b"?")
    put(tmp_path / "corpus" / "elsewhere" / "notes.md", "no sound")
    found = corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "librispeech"}, **LICENCE}]))
    assert len(found.recordings) == len(flac) - 8
    assert found.refusals()[0] == {"left_out": 5, "unreadable": 4}
    assert {item.what: item.count for item in found.refused} == {"*.wav": 5, "*.m4a": 3, "*.webm": 1}
    (line,) = [line for line in found.refusals()[1] if line.startswith("*.webm")]
    assert line == "*.webm: unreadable: files of this kind aren't read; convert them to FLAC or WAV, such as elsewhere/a.webm"
    member = found.recordings[0].member
    put(tmp_path / "corpus" / "table.csv", f"path,speaker,licence\n{member},a,CC0-1.0\n")
    beside = corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "table": "table.csv"}]))
    assert (len(beside.recordings), beside.refusals()[0]) == (1, {"left_out": 5 + len(flac) - 9, "unreadable": 4})


@pytest.mark.parametrize("suffix", ["au", "caf", "w64", "rf64", "sph", "voc", "oga", "aifc"])
def test_every_suffix_that_can_be_read_is_listed(tmp_path: Path, suffix: str) -> None:
    """A corpus in any container that is checked is read, not skipped."""
    kind = {"sph": "NIST", "oga": "OGG", "aifc": "AIFF"}.get(suffix, suffix.upper())
    put(tmp_path / "corpus" / "a" / f"1.{suffix}", encoded(utterance("225", 0), kind))
    found = corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}]))
    assert [item.member for item in found.recordings] == [f"a/1.{suffix}"]
    assert survey(found, RULE, RATE_HZ).cuts


def test_the_documented_suffixes_are_those_that_count() -> None:
    """docs/corpora.md lists the suffixes that are read, and those that are refused, as the code has them."""
    text = (RECIPES.parent / "docs" / "corpora.md").read_text(encoding="utf-8")
    listed = [tuple(part.split()) for part in text.split("`") if part.startswith(".wav ") or part.startswith(".m4a ")]
    assert listed == [layouts.AUDIO_SUFFIXES, layouts.OTHER_SUFFIXES]


def test_a_name_that_is_not_utf_8_is_a_counted_refusal(tmp_path: Path) -> None:
    """Of files and of folders; the others are read, and every word of it can be printed, hashed and kept as JSON."""
    names = [b"a/good.wav", b"a/caf\xe9.wav", b"\xff\xfe/b.flac", b"a/text\xe9.txt"]
    for name in names:
        path = Path(os.fsdecode(os.fsencode(tmp_path / "corpus") + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(os.fsencode(path), utterance("225", 0), RATE_HZ, format="WAV")
    found = corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE, "limit": 5}]))
    assert [item.member for item in found.recordings] == ["a/good.wav"]
    assert reasons(found) == {r"a/caf\xe9.wav": "unreadable", r"\xff\xfe/b.flac": "unreadable"}
    json.dumps(found.refusals()).encode()


def test_a_corpus_may_lie_under_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it lies is the user's affair: bytes that aren't UTF-8 too."""
    root = tmp_path / os.fsdecode(b"caf\xe9")
    put(root / "a" / "1.wav", encoded(utterance("225", 0), "WAV"))
    monkeypatch.setenv("MINE", str(root))
    found = corpora.load(recipe_of(tmp_path, [{"folder": "${MINE}", "layout": {"kind": "files"}, **LICENCE}]))
    assert surveyed(found, RULE, RATE_HZ).cuts


def test_what_is_not_trusted_is_unknown(tmp_path: Path) -> None:
    """`trust` keeps what it names; the language of the entry holds where the corpus's own isn't taken."""
    corpus(tmp_path, "common-voice")
    entry = {"folder": "corpus", "layout": {"kind": "common_voice"}, "trust": ["text"], "language": "cy", **LICENCE}
    found = corpora.load(recipe_of(tmp_path, [entry]))
    assert {(item.sex, item.language) for item in found.recordings} == {(None, "cy")}
    assert all(item.text for item in found.recordings)


# -- a part of a corpus -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["librispeech", "librispeech-hub"])
def test_a_part_is_the_same_part_each_time_and_the_rest_is_counted(tmp_path: Path, shape: str) -> None:
    """At most two of a speaker, at most five in all; the same ones again; what isn't taken is counted as over the limit."""
    corpus(tmp_path, shape)
    entry = {**SHAPES[shape][1][0], "max_per_speaker": 2, "limit": 5}
    path = recipe_of(tmp_path, [entry])
    found = corpora.load(path)
    assert max(Counter(item.speaker for item in found.recordings).values()) == 2
    assert len(found.recordings) == 5
    assert {item.reason for item in found.refused} == {Reason.OVER_LIMIT}
    assert corpora.load(path) == found


def test_a_part_does_not_depend_on_what_else_is_there(tmp_path: Path) -> None:
    """Other speakers beside them leave a speaker's own part as it was."""
    corpus(tmp_path, "vctk-0.80")
    entry = {"folder": "corpus", "layout": {"kind": "vctk"}, "max_per_speaker": 2, **LICENCE}
    path = recipe_of(tmp_path, [entry])
    before = {item.member for item in corpora.load(path).recordings if item.speaker == "p225"}
    shutil.rmtree(tmp_path / "corpus" / "wav48" / "p226")
    assert {item.member for item in corpora.load(path).recordings if item.speaker == "p225"} == before


# -- bad members ------------------------------------------------------------------------------------------------------


def test_bad_members_of_a_layout_are_counted_and_the_rest_is_cut(tmp_path: Path) -> None:
    """Each kind of damage in a VCTK folder has its reason; every good recording is still cut, stereo and 8 bit among them."""
    path = corpus(tmp_path, "vctk-0.80")
    folder = tmp_path / "corpus" / "wav48" / "p225"
    good = (folder / "p225_001.wav").read_bytes()
    nan = utterance("225", 1).copy()
    nan[4000:4010] = np.nan
    put(folder / "p225_101.wav", good[: len(good) // 2])
    put(folder / "p225_102.wav", good[:40] + (10**8).to_bytes(4, "little") + good[44:])
    put(folder / "p225_103.wav", np.zeros(4 * RATE_HZ))
    put(folder / "p225_104.wav", nan, subtype="FLOAT")
    put(folder / "p225_105.wav", b"")
    put(folder / "p225_106.wav", utterance("225", 2), 8000)
    put(folder / "p225_107.wav" / "inside.txt", "a folder with an audio file's name")
    put(tmp_path / "outside.wav", utterance("226", 0))
    (folder / "p225_108.wav").symlink_to(tmp_path / "outside.wav")
    (folder / "p225_109.wav").symlink_to(tmp_path / "nowhere.wav")
    put(folder / "p225_201.wav", np.stack([utterance("225", 1)] * 2, axis=1))
    put(folder / "p225_202.wav", utterance("225", 1) * 2.0, subtype="PCM_U8")
    put(folder / "p225_203.wav", utterance("225", 1), 22_050)
    found = corpora.load(path)
    surveyed = survey(found, RULE, RATE_HZ)
    assert {name.rpartition("_")[2].split(".")[0]: line for name, line in reasons(found).items()} == {
        "107": "unreadable",
        "108": "outside",
        "109": "outside",
    }
    told = {line.split("_")[1][:3]: line.split(": ")[1] for line in surveyed.details if "_1" in line}
    assert {number: told[number] for number in ("101", "102", "103", "104", "105", "106")} == {
        "101": "unreadable",
        "102": "unreadable",
        "103": "silent",
        "104": "not_finite",
        "105": "unreadable",
        "106": "rate_too_low",
    }
    cut = {item.recording.member.rpartition("_")[2][:3] for item in surveyed.cuts if item.recording.speaker == "vctk-p225"}
    assert cut >= {"001", "002", "003", "201", "203"}
    assert "202" in cut or any("p225_202" in line and "noisy" in line for line in surveyed.details), "8 bit has a floor of -48 dB"


def test_a_link_is_followed_inside_the_corpus_only(tmp_path: Path) -> None:
    """A folder that links out is refused as a whole; a file whose link stays inside is read."""
    path = corpus(tmp_path, "files")
    put(tmp_path / "elsewhere" / "1.ogg", utterance("225", 0))
    (tmp_path / "corpus" / "229").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "corpus" / "230").mkdir()
    (tmp_path / "corpus" / "store").mkdir()
    shutil.move(tmp_path / "corpus" / "225" / "0.ogg", tmp_path / "corpus" / "store" / "blob")
    (tmp_path / "corpus" / "230" / "0.ogg").symlink_to("../store/blob")
    found = corpora.load(path)
    assert reasons(found) == {"229": "outside"}
    assert "230/0.ogg" in {item.member for item in found.recordings}


def test_a_table_cannot_reach_out_through_a_link(tmp_path: Path) -> None:
    """A row whose file is a link out of the folder is refused and counted; the other rows are read."""
    path = corpus(tmp_path, "table")
    victim = tmp_path / "corpus" / "sonido ñ 声" / "225 0.wav"
    shutil.move(victim, tmp_path / "outside.wav")
    victim.symlink_to(tmp_path / "outside.wav")
    found = corpora.load(path)
    assert list(reasons(found).values()) == ["outside"]
    assert len(found.recordings) == 11


def test_order_of_creation_changes_nothing(tmp_path: Path) -> None:
    """The same files, made in reverse order elsewhere: the same recordings, in the same order."""
    found = []
    for place, step in (("a", 1), ("b", -1)):
        corpus(tmp_path / "made", "librispeech")
        for source in sorted((tmp_path / "made" / "corpus").rglob("*"))[::step]:
            if source.is_file():
                target = tmp_path / place / source.relative_to(tmp_path / "made")
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        found.append(corpora.load(recipe_of(tmp_path / place, SHAPES["librispeech"][1])))
    assert found[0].recordings == found[1].recordings


def test_no_folder_is_listed_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tabling a corpus lists each of its folders once, however many files lie there."""
    path = corpus(tmp_path, "vctk-0.92")
    listed: Counter[str] = Counter()
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda where: (listed.update([str(where)]), scan(where))[1])
    corpora.load(path)
    assert sum(listed.values()) == len(listed) >= 5


def test_the_wrong_folder_is_named_with_what_was_looked_for(tmp_path: Path) -> None:
    """A folder that isn't a corpus of that layout: its name and what it should hold."""
    (tmp_path / "corpus").mkdir()
    for kind, said in (
        ("vctk", "no folder wav48_silence_trimmed or wav48 in it"),
        ("librispeech", "no recordings of the layout librispeech"),
        ("common_voice", "validated.tsv: no such table"),
        ("files", "no recordings of the layout files"),
    ):
        with pytest.raises(CorpusUnavailable, match=said):
            corpora.load(recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": kind}, **LICENCE}]))


# -- datasets ---------------------------------------------------------------------------------------------------------


def on_the_hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[str]:
    """A folder served as the dataset `me/made`; returns what was asked for."""
    asked: list[str] = []
    load = datasets.load_dataset

    def served(source: str, *args: Any, revision: str | None, **more: Any) -> Any:
        asked.append(f"{source}@{revision}")
        return load(str(folder), *args, **more)

    monkeypatch.setattr(datasets, "load_dataset", served)
    return asked


HUB = {**DATASET, "dataset": "me/made", "columns": {"id": "id", "speaker": "speaker_id", "text": "text"}, "language": "en"}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_a_pinned_dataset_is_streamed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning streams it; what comes later reads the cache, also with the Hub away; another commit is another dataset."""
    corpus(tmp_path, "librispeech-hub")
    asked = on_the_hub(monkeypatch, tmp_path / "corpus")
    path = recipe_of(tmp_path, [{**HUB, "revision": COMMIT}])
    first = corpora.load(path)
    shutil.rmtree(tmp_path / "corpus")
    assert corpora.load(path) == first
    assert asked == [f"me/made@{COMMIT}"]
    assert len(first.recordings) == 12
    with pytest.raises(CorpusUnavailable, match="me/made"):
        corpora.load(recipe_of(tmp_path, [{**HUB, "revision": COMMIT[::-1]}]))


def test_a_damaged_cache_is_streamed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept audio counts while it has its checksum; damaged, it's fetched again under the same name."""
    corpus(tmp_path, "librispeech-hub")
    asked = on_the_hub(monkeypatch, tmp_path / "corpus")
    path = recipe_of(tmp_path, [{**HUB, "revision": COMMIT}])
    first = corpora.load(path)
    kept = first.location[first.recordings[3].member]
    content = kept.read_bytes()
    assert hashlib.sha256(content).hexdigest() == kept.name
    kept.write_bytes(content[:-10])
    assert corpora.load(path) == first
    assert kept.read_bytes() == content
    assert len(asked) == 2


@pytest.mark.parametrize("revision", [None, "main", "v1.0", COMMIT[:12]])
def test_a_dataset_of_the_hub_needs_a_commit(tmp_path: Path, revision: str | None) -> None:
    """A branch, a tag or a short digest could move or be ambiguous: the message says what is needed."""
    entry = HUB if revision is None else {**HUB, "revision": revision}
    with pytest.raises(CorpusUnavailable, match=r"me/made: revision is .*; a commit of 40 hexadecimal digits is needed"):
        corpora.load(recipe_of(tmp_path, [entry]))


def test_a_folder_that_changed_is_read_again(tmp_path: Path) -> None:
    """A dataset in a folder has no commit: other rows under the same name are seen, and no stale cache is."""
    path = corpus(tmp_path, "class-labels")
    before = corpora.load(path)
    features = datasets.Features({"audio": datasets.Audio(), "who": datasets.Value("string"), "gender": datasets.Value("string"),
                                  "locale": datasets.Value("string")})  # fmt: skip
    sound = {"bytes": encoded(utterance("225", 0), "WAV"), "path": None}
    rows = [{"audio": sound, "who": "new", "gender": "female", "locale": "de"}]
    write_parquet(tmp_path / "corpus" / "data" / "train-00000-of-00001.parquet", rows, features)
    after = corpora.load(path)
    assert len(before.recordings) == 12
    assert [(item.speaker, item.sex, item.language) for item in after.recordings] == [("new", "f", "de")]


def test_bad_rows_of_a_dataset_are_counted(tmp_path: Path) -> None:
    """No audio, no speaker, a damaged file: each has its reason, the rest is cut."""
    features = datasets.Features({"audio": datasets.Audio(), "id": datasets.Value("string"), "who": datasets.Value("string")})
    good = encoded(utterance("225", 0), "FLAC")
    rows: list[dict[str, Any]] = [
        {"audio": {"bytes": good, "path": "a.flac"}, "id": "good", "who": "a"},
        {"audio": None, "id": "no audio", "who": "a"},
        {"audio": {"bytes": b"", "path": "c.flac"}, "id": "empty", "who": "a"},
        {"audio": {"bytes": good, "path": None}, "id": "nobody", "who": None},
        {"audio": {"bytes": good[: len(good) // 2], "path": "e.flac"}, "id": "cut short", "who": "a"},
        {"audio": {"bytes": good, "path": "f.flac"}, "id": None, "who": "a"},
        {"audio": {"bytes": None, "path": "/etc/hostname"}, "id": "elsewhere", "who": "a"},
    ]
    write_parquet(tmp_path / "corpus" / "data" / "train-00000-of-00001.parquet", rows, features)
    found = corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": {"id": "id", "speaker": "who"}}]))
    assert reasons(found) == {
        "train/no audio": "unreadable",
        "train/empty": "unreadable",
        "train/nobody": "no_speaker",
        "train/0000005": "unreadable",
        "train/elsewhere": "outside",
    }
    surveyed = survey(found, RULE, RATE_HZ)
    assert {cut.recording.member for cut in surveyed.cuts} == {"train/good"}
    assert surveyed.refused == {"unreadable": 1}
    assert found.refusals()[0] == {"unreadable": 3, "no_speaker": 1, "outside": 1}


BYTES = {
    "struct": pa.struct([("bytes", pa.binary()), ("path", pa.string())]),
    "struct, large": pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]),
    "binary": pa.binary(),
    "large binary": pa.large_binary(),
}
"""Columns of encoded audio as pandas, polars and pyarrow write them, without what `datasets` adds."""


@pytest.mark.parametrize("kind", BYTES)
def test_plain_bytes_in_parquet_are_audio(tmp_path: Path, kind: str) -> None:
    """Each recording of a table that another library wrote is read as it is; a row without bytes is counted."""
    content = [encoded(utterance(speaker, 0), "FLAC") for speaker in SPEAKERS]
    rows: list[Any] = [*content, None, b""]
    audio = [{"bytes": item, "path": None} for item in rows] if kind.startswith("struct") else rows
    table = {"audio": pa.array(audio, BYTES[kind]), "who": pa.array([*SPEAKERS, "225", "225"])}
    (tmp_path / "corpus").mkdir()
    pq.write_table(pa.table(table), tmp_path / "corpus" / "train.parquet")
    found = corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": {"speaker": "who"}}]))
    assert [found.location[item.member].read_bytes() for item in found.recordings] == content
    assert [item.speaker for item in found.recordings] == list(SPEAKERS)
    assert reasons(found) == {"train/0000004": "unreadable", "train/0000005": "unreadable"}


def test_decoded_samples_in_parquet_are_told(tmp_path: Path) -> None:
    """A struct of samples and a rate isn't a file: what is needed is said, and nothing of the network, which has no part in it."""
    (tmp_path / "corpus").mkdir()
    kind = pa.struct([("array", pa.list_(pa.float32())), ("sampling_rate", pa.int64())])
    pq.write_table(
        pa.table({"audio": pa.array([{"array": [0.0], "sampling_rate": 16_000}], kind), "who": ["a"]}), tmp_path / "corpus" / "a.parquet"
    )
    with pytest.raises(CorpusUnavailable, match="holds no audio but a struct of array, sampling_rate; needed are the bytes") as caught:
        corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": {"speaker": "who"}}]))
    assert "network" not in str(caught.value)


def test_faults_of_a_dataset_are_told(tmp_path: Path) -> None:
    """A column that isn't there, one that holds no audio, two rows of one identifier, no such split: each by name."""
    corpus(tmp_path, "librispeech-hub")
    for columns, said in (
        ({"speaker": "reader"}, "no column reader; columns: file, audio, text, speaker_id, chapter_id, id"),
        ({"audio": "text", "speaker": "speaker_id"}, "the column text holds no audio"),
        ({"id": "chapter_id", "speaker": "speaker_id"}, "two rows are known by 'train/77'"),
    ):
        with pytest.raises(CorpusUnavailable, match=said):
            corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": columns}]))
    with pytest.raises(CorpusUnavailable, match="made: 1 of 1 file can't be had"):
        corpora.load(recipe_of(tmp_path, [{**DATASET, "split": "nix", "columns": {"speaker": "speaker_id"}}]))


def test_streaming_needs_no_torch(tmp_path: Path) -> None:
    """Nothing of torch or torchcodec is imported to read a dataset."""
    import sys

    corpora.load(corpus(tmp_path, "vctk-hub"))
    assert not {"torch", "torchcodec"} & set(sys.modules)


# -- Debian packages and archives -------------------------------------------------------------------------------------


def deb(path: Path, folder: Path, data: str = "data.tar.xz") -> str:
    """A Debian package of a folder's files; returns its SHA-256."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        archive.add(folder, "./usr/share/made")
    content = b"!<arch>\n"
    for name, member in (("debian-binary", b"2.0\n"), ("control.tar.xz", b"odd"), (data, packed.getvalue())):
        content += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(member):<10}`\n".encode() + member + b"\n" * (len(member) % 2)
    put(path, content)
    return fetch.sha256_of(path)


def offered(folder: Path, monkeypatch: pytest.MonkeyPatch, package: Path) -> None:
    """An `apt-get` on the path that gives one package, and fails for others."""
    script = folder / "bin" / "apt-get"
    put(
        script, f'#!/bin/sh\n[ "$4" = "" ] && [ "$3" = "made=1:2-3" ] || {{ echo "E: no such version" >&2; exit 100; }}\ncp "{package}" .\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")


def test_a_debian_package_is_fetched_checked_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same recordings as in its folder; asked for once; nothing of it is installed."""
    corpus(tmp_path, "files")
    checksum = deb(tmp_path / "made_1%3a2-3_all.deb", tmp_path / "corpus")
    offered(tmp_path, monkeypatch, tmp_path / "made_1%3a2-3_all.deb")
    entry = {**SHAPES["files"][1][0], "debian": "made", "version": "1:2-3", "sha256": checksum, "inside": "usr/share/made"}
    in_folder = corpora.load(recipe_of(tmp_path, SHAPES["files"][1]))
    del entry["folder"]
    path = recipe_of(tmp_path, [entry])
    found = corpora.load(path)
    assert found.recordings == in_folder.recordings
    monkeypatch.setattr(debian.subprocess, "run", lambda *args, **more: pytest.fail("asked apt again"))
    assert corpora.load(path) == found


def test_a_wrong_debian_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another checksum, a version that isn't offered, no apt, no package at all, one packed otherwise: each by name, no traceback."""
    put(tmp_path / "corpus" / "a.wav", utterance("225", 0))
    checksum = deb(tmp_path / "made.deb", tmp_path / "corpus")
    offered(tmp_path, monkeypatch, tmp_path / "made.deb")
    with pytest.raises(CorpusUnavailable, match=rf"made 1:2-3: sha256 is {checksum}, {'0' * 64} is needed"):
        debian.fetch("made", "1:2-3", "0" * 64)
    assert not list((fetch.cache_dir() / "files").glob("*.deb"))
    with pytest.raises(CorpusUnavailable, match="made 9: apt-get download: no such version"):
        debian.fetch("made", "9", checksum)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CorpusUnavailable, match="no apt-get on this machine; put the package there as"):
        debian.fetch("made", "1:2-3", checksum)
    put(tmp_path / "text.deb", "no package")
    with pytest.raises(CorpusUnavailable, match=r"text\.deb: isn't a Debian package"):
        debian.unpack(tmp_path / "text.deb", tmp_path / "into")
    deb(tmp_path / "zst.deb", tmp_path / "corpus", "data.tar.zst")
    with pytest.raises(CorpusUnavailable, match=r"data\.tar\.zst can't be unpacked here"):
        debian.unpack(tmp_path / "zst.deb", tmp_path / "into")
    whole = (tmp_path / "made.deb").read_bytes()
    put(tmp_path / "cut.deb", whole[: len(whole) // 2])
    with pytest.raises(CorpusUnavailable, match=r"cut\.deb"):
        debian.unpack(tmp_path / "cut.deb", tmp_path / "into")


@pytest.mark.parametrize("planted", ["../escaped.wav", "/escaped.wav"])
def test_an_archive_with_a_layout_writes_nothing_outside(tmp_path: Path, planted: str) -> None:
    """Unpacking a whole archive stops at a member that would leave the folder."""
    corpus(tmp_path, "files")
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "corpus", "corpus")
        archive.add(tmp_path / "corpus" / "225" / "0.ogg", filter=lambda info: info.replace(name=planted, deep=False))
    entry = {**SHAPES["files"][1][0], "archive": "made.tar.gz", "inside": "corpus"}
    del entry["folder"]
    with pytest.raises(CorpusUnavailable, match="would leave its folder"):
        corpora.load(recipe_of(tmp_path, [entry]))
    assert not list(tmp_path.rglob("escaped.wav"))


def test_an_archive_with_a_layout_is_its_folder(tmp_path: Path) -> None:
    """A zipped LibriSpeech gives what the folder gives."""
    path = corpus(tmp_path, "librispeech")
    in_folder = corpora.load(path)
    shutil.make_archive(str(tmp_path / "made"), "zip", tmp_path, "corpus")
    entry = {**SHAPES["librispeech"][1][0], "archive": "made.zip", "inside": "corpus"}
    del entry["folder"]
    assert corpora.load(recipe_of(tmp_path, [entry])).recordings == in_folder.recordings


# -- recipes ----------------------------------------------------------------------------------------------------------


def test_the_folder_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`${NAME}` is a folder that the user sets; unset or empty, the message names it."""
    corpus(tmp_path, "vctk-0.92")
    path = RECIPES / "corpora" / "vctk-0.92.yaml"
    monkeypatch.setenv("VCTK", str(tmp_path / "corpus"))
    assert len(corpora.load(path).recordings) == 12
    for value in (None, ""):
        monkeypatch.delenv("VCTK", raising=False)
        if value is not None:
            monkeypatch.setenv("VCTK", value)
        with pytest.raises(CorpusUnavailable, match=r"VCTK isn't set: vctk-0\.92\.yaml takes \$\{VCTK\} from the environment"):
            corpora.load(path)
    monkeypatch.setenv("VCTK", str(tmp_path / "nix"))
    with pytest.raises(CorpusUnavailable, match="no such folder"):
        corpora.load(path)


@pytest.mark.parametrize("name", sorted(path.stem for path in (RECIPES / "corpora").glob("*.yaml")))
def test_each_corpus_recipe_is_sound_and_cites(name: str) -> None:
    """Every shipped corpus recipe reads without a fault, and is named as its file."""
    found = corpus_recipe.read(RECIPES / "corpora" / f"{name}.yaml")
    assert found.name == name
    assert all(entry.table or found.attributions for entry in found.files)


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        ("vctk-0.80", "vctk-0.80"),
        ("librispeech", "librispeech"),
        ("libritts", "libritts"),
        ("common-voice", "common-voice"),
        ("table", "table"),
    ],
)
def test_each_folder_recipe_reads_its_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: str, name: str) -> None:
    """The shipped recipe reads a corpus of its shape; speakers carry the corpus's prefix."""
    corpus(tmp_path, shape)
    path = RECIPES / "corpora" / f"{name}.yaml"
    variable = corpus_recipe.VARIABLE.match(str(corpus_recipe.read(path).files[0].folder))
    assert variable
    monkeypatch.setenv(variable[1], str(tmp_path / "corpus"))
    assert len(corpora.load(path).recordings) == 12


@pytest.mark.parametrize("name", ["vctk-hub", "librispeech-hub"])
def test_each_hub_recipe_reads_rows_of_its_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The shipped recipe maps the columns of its dataset; only its identifier and its split are replaced by the folder's."""
    corpus(tmp_path, name)
    entry = corpus_recipe.read(RECIPES / "corpora" / f"{name}.yaml").files[0]
    wanted = streamed.Wanted(str(tmp_path / "corpus"), None, None, "train", entry.columns, entry.only, entry.limit, entry.max_per_speaker)  # type: ignore[arg-type]
    assert len(streamed.read(wanted).listing.found) == 12


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"folder": "corpus", "layout": {"kind": "vctk"}}, "layout needs licence and attribution"),
    ({"folder": "corpus", "layout": {"kind": "vtck"}, **LICENCE}, "did you mean 'vctk'?"),
    ({"folder": "corpus", "layout": {"kind": "vctk", "parts": ["a"]}, **LICENCE}, "parts is no option of the layout vctk"),
    ({"folder": "corpus", "layout": {"kind": "vctk", "mick": "mic1"}, **LICENCE}, "mick: unknown key (did you mean 'mic'?)"),
    ({"folder": "corpus", "layout": {"kind": "festvox"}, **LICENCE}, "speaker is needed"),
    ({"folder": "corpus", "layout": {"kind": "vctk"}, "licence": "MIT", "attribution": "nix"}, "'nix' isn't under attributions"),
    ({"folder": "corpus", "layout": {"kind": "vctk"}, "trust": ["speaker"], **LICENCE}, "trust"),
    ({"folder": "corpus", "layout": {"kind": "vctk"}, "limit": 0, **LICENCE}, "limit"),
    ({"folder": "corpus", "layout": {"kind": "vctk"}, "inside": "../up", **LICENCE}, "would leave the corpus"),
    ({"folder": "corpus", "table": "t.csv", "limit": 3}, "limit: goes with layout or columns only"),
    ({"folder": "corpus", "columns": {"speaker": "a"}, **LICENCE}, "columns needs dataset"),
    ({**DATASET, "layout": {"kind": "vctk"}}, "dataset needs split and columns"),
    ({**DATASET, "columns": {"speaker": "a"}, "only": {"file": "("}}, "isn't a regular expression"),
    ({"debian": "a", "layout": {"kind": "files"}, **LICENCE}, "debian needs version and sha256"),
    ({"debian": "-o", "version": "1", "sha256": "0" * 64, "layout": {"kind": "files"}, **LICENCE}, "files.0.debian"),
]


@pytest.mark.parametrize(("entry", "said"), WRONG, ids=[said for _, said in WRONG])
def test_a_wrong_entry_is_a_fault(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    """Keys that lack others, that would be ignored, or hold what they can't: told with file and key, never a traceback."""
    (tmp_path / "corpus").mkdir()
    with pytest.raises(RecipeError) as caught:
        corpora.load(recipe_of(tmp_path, [entry]))
    assert said in str(caught.value)


def test_several_corpora_are_gathered_together(tmp_path: Path) -> None:
    """Sources of both, each with its corpus's name; the order in the recipe changes nothing."""
    gathered = []
    for order in (("one", "two"), ("two", "one")):
        for name, shape in (("one", "librispeech"), ("two", "vctk-0.80")):
            SHAPES[shape][0](tmp_path / name)
            recipe_of(tmp_path, [{**SHAPES[shape][1][0], "folder": name, "limit": 4}], name)
        put(tmp_path / "r.yaml", f"include: {RECIPES / 'base.yaml'}\ndimension: loudness\nsources: [{{kind: speech}}]\n"
            f"speech: {{corpus: [{', '.join(f'{name}.yaml' for name in order)}]}}\n")  # fmt: skip
        gathered.append(sources.gather(recipe.load(tmp_path / "r.yaml"), tmp_path))
    assert gathered[0].by_kind == gathered[1].by_kind
    assert {spec.parameters["corpus"] for spec in gathered[0].by_kind["speech"]} == {"one", "two"}
    assert gathered[0].refused == gathered[1].refused


def test_corpora_of_one_name_or_at_odds_about_a_speaker_are_faults(tmp_path: Path) -> None:
    """Two corpora of one name would mix their sources; one speaker can't be a woman in one and a man in the other."""
    corpus(tmp_path, "files")
    for name, sex in (("one", "f"), ("two", "m")):
        entry = {**SHAPES["files"][1][0], "layout": {"kind": "files", "speaker": "x", "sex": sex}}
        recipe_of(tmp_path, [entry], name)
    with pytest.raises(RecipeError, match=r"two\.yaml: speaker x is m here and f in one: give one corpus another speaker_prefix"):
        corpora.load_all([tmp_path / "one.yaml", tmp_path / "two.yaml"])
    with pytest.raises(RecipeError, match="is named one too"):
        corpora.load_all([tmp_path / "one.yaml", tmp_path / "one.yaml"])


def test_a_missing_one_of_several_corpora_is_named(tmp_path: Path) -> None:
    """The recipe names the file that isn't there; a corpus listed twice is a fault."""
    put(tmp_path / "a.yaml", "name: a\n")
    head = f"include: {RECIPES / 'base.yaml'}\ndimension: loudness\nsources: [{{kind: speech}}]\n"
    for listed, said in (
        ("[a.yaml, b.yaml]", "no file b.yaml beside r.yaml"),
        ("[a.yaml, a.yaml]", "'a.yaml' is listed twice"),
        ("[]", "corpus"),
    ):
        put(tmp_path / "r.yaml", f"{head}speech: {{corpus: {listed}}}\n")
        with pytest.raises(RecipeError) as caught:
            recipe.load(tmp_path / "r.yaml")
        assert said in str(caught.value)


def test_a_recording_keeps_its_bytes(tmp_path: Path) -> None:
    """What lies in the cache for a row of a dataset is what the row holds, to the byte."""
    found = corpora.load(corpus(tmp_path, "librispeech-hub"))
    content = found.location["train/226-77-0001"].read_bytes()
    assert content == encoded(utterance("226", 1), "FLAC")
    assert soundfile.info(io.BytesIO(content)).samplerate == RATE_HZ


def test_telephone_speech_is_taken_where_the_recipe_says_so(tmp_path: Path) -> None:
    """`min_rate_hz: 8000` in the recipe itself lets files of 8 kHz in; inherited beside a higher rate, it's a fault."""
    for number, speaker in enumerate(SPEAKERS):
        put(tmp_path / "corpus" / speaker / "a.wav", utterance(speaker, number), 8000)
    recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}])
    head = f"include: {RECIPES / 'base.yaml'}\ndimension: loudness\nsources: [{{kind: speech}}]\n"
    put(tmp_path / "r.yaml", head + "speech: {corpus: made.yaml, min_rate_hz: 8000}\n")
    found = sources.gather(recipe.load(tmp_path / "r.yaml"), tmp_path)
    assert {spec.speaker_id for spec in found.by_kind["speech"]} == set(SPEAKERS)
    put(tmp_path / "r.yaml", head + "speech: {corpus: made.yaml}\n")
    assert sources.gather(recipe.load(tmp_path / "r.yaml"), tmp_path).refused == {"rate_too_low": 4}
    put(tmp_path / "r.yaml", head + "speech: {corpus: made.yaml}\nsample_rate_hz: 48000\n")
    with pytest.raises(RecipeError, match="or speech would be published upsampled; if that is wanted, write it in this recipe itself"):
        recipe.load(tmp_path / "r.yaml")
