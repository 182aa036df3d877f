"""Names: one person, identifier or file is one, in whatever way a corpus's files spell it; a missing value names nothing."""

from __future__ import annotations

import gc
import math
import shutil
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_corpora import DATASET, LICENCE, SHAPES, encoded, put, recipe_of, utterance, write_parquet
from made_up import spoken, with_splits

from builder import corpora, layouts, places, recipe, splits
from builder.errors import CorpusUnavailable, RecipeError
from builder.layouts import LayoutRule
from builder.records import Reason
from builder.spelling import alike, named, words

ROOT = Path(__file__).parent.parent
DEFAULT = recipe.load(ROOT / "recipes" / "default.yaml")
WORDS = ("José", "Zoë Müller", "Åsa", "Nguyễn Thị", "각하", "ÅΩ", "ação")
FORMS: tuple[Callable[[str], str], ...] = (
    lambda text: text,
    lambda text: unicodedata.normalize("NFC", text),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: f"{text} ",
    lambda text: f"\u00a0{text}\u00a0",
    lambda text: text.replace(" ", "\u00a0 ") + "\u200b",
    lambda text: f"\ufeff{text}\u2060",
)
MISSING: tuple[Any, ...] = (None, math.nan, np.float32("nan"), pd.NA, pd.NaT, "", "  ", "\u00a0", "\u200b", "nan", "NaN ", "<NA>", "None")


pytestmark = pytest.mark.filterwarnings("ignore:unclosed file.*metadata.csv:ResourceWarning")  # which `datasets` leaves open


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test has an empty cache."""
    monkeypatch.setenv("VOCALGRAD_CACHE", str(tmp_path / "cache"))
    yield
    if "audio" in request.node.name:
        gc.collect()


# -- values -----------------------------------------------------------------------------------------------------------


@given(word=st.sampled_from(WORDS), one=st.sampled_from(FORMS), other=st.sampled_from(FORMS))
def test_spellings_of_one_name_are_one(word: str, one: Callable[[str], str], other: Callable[[str], str]) -> None:
    """Unicode forms, blanks and what can't be seen make no second person."""
    assert named(one(word)) == named(other(word)) == unicodedata.normalize("NFC", word)


@given(text=st.text())
def test_a_name_has_one_spelling(text: str) -> None:
    """Naming is idempotent, never leaves blanks at an end, and gives None for nothing."""
    found = named(text)
    assert named(found) == found
    assert found is None or (found == found.strip() and found)
    assert named(unicodedata.normalize("NFD", text)) == found


@pytest.mark.parametrize("value", MISSING, ids=repr)
def test_a_missing_value_names_nothing(value: Any) -> None:
    """Whatever way it's written."""
    assert named(value) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (12.0, "12"),
        (np.float64(12.0), "12"),
        (12, "12"),
        (np.int64(12), "12"),
        (12.5, "12.5"),
        (b"Jose\xcc\x81", "José"),
        ("007", "007"),
        (0, "0"),
    ],
)
def test_a_number_is_named_as_it_is_written(value: Any, said: str) -> None:
    """Pandas turns whole numbers into floats where one is missing; they are the same names."""
    assert named(value) == said


def test_words_of_a_text_stay() -> None:
    """A text may be "None" or "nan": only values that aren't text are missing there."""
    assert words("None ") == "None"
    assert words("nan") == "nan"
    assert words(math.nan) is None


@pytest.mark.parametrize(
    ("locale", "language"),
    [
        ("nan", "nan"),
        ("nan-TW", "nan"),
        ("NaN", None),
        (math.nan, None),
        (None, None),
        ("None", None),
        (" en\u00a0", "en"),
        ("zh-TW", "zh"),
        ("english", None),
    ],
)
def test_min_nan_is_a_language_and_a_missing_value_is_none(locale: Any, language: str | None) -> None:
    """`nan` as a text is the code of Min Nan; NaN in any other way is unknown."""
    assert layouts.language_of(locale) == language


# -- corpora ----------------------------------------------------------------------------------------------------------

PEOPLE = ("José", "Zoë", "Müller", "Åsa", "Ana", "각하")


def files(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """A folder per speaker, texts beside the sound in another form."""
    for number, person in enumerate(PEOPLE):
        put(root / form(person) / form("é.wav"), b"x")
        put(root / in_text(person) / in_text("é.txt"), in_text(f"Être {number}"))
    return {"folder": root.name, "layout": {"kind": "files"}, **LICENCE}


def vctk(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """VCTK's shape, with names in its table and texts in another form."""
    for number, person in enumerate(PEOPLE):
        put(root / "wav48" / form(person) / form(f"{person}_001.wav"), b"x")
        put(root / "txt" / in_text(person) / in_text(f"{person}_001.txt"), in_text(f"Être {number}"))
    put(root / "speaker-info.txt", "".join(in_text(f"{person} 23 F\n") for person in PEOPLE))
    return {"folder": root.name, "layout": {"kind": "vctk"}, **LICENCE}


def librispeech(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """LibriSpeech's shape."""
    for number, person in enumerate(PEOPLE):
        put(root / "part" / form(person) / "7" / form(f"{person}-7-0.flac"), b"x")
        put(root / "part" / in_text(person) / "7" / in_text(f"{person}-7.trans.txt"), in_text(f"{person}-7-0 Être {number}\n"))
    put(root / "SPEAKERS.TXT", "".join(in_text(f"{person} | F | part | 1 | A\n") for person in PEOPLE))
    return {"folder": root.name, "layout": {"kind": "librispeech"}, **LICENCE}


def libritts(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """LibriTTS's shape."""
    for number, person in enumerate(PEOPLE):
        put(root / "part" / form(person) / "7" / form(f"{person}_7.wav"), b"x")
        put(root / "part" / in_text(person) / "7" / in_text(f"{person}_7.original.txt"), in_text(f"Être {number}"))
    put(root / "speakers.tsv", "".join(in_text(f"{person}\tF\tpart\n") for person in PEOPLE))
    return {"folder": root.name, "layout": {"kind": "libritts"}, **LICENCE}


def common_voice(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """Common Voice's shape, with clients that are names."""
    rows = "client_id\tpath\tsentence\tgender\n"
    for number, person in enumerate(PEOPLE):
        put(root / "clips" / form(f"{person}.mp3"), b"x")
        rows += in_text(f"{person}\t{person}.mp3\tÊtre {number}\tfemale\n")
    put(root / "validated.tsv", rows)
    return {"folder": root.name, "layout": {"kind": "common_voice"}, **LICENCE}


def table(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """A corpus's own table, under a name that has two forms too."""
    rows = "path,speaker,text,licence\n"
    for number, person in enumerate(PEOPLE):
        put(root / form(person) / form("é.wav"), b"x")
        rows += in_text(f"{person}/é.wav,{person},Être {number},CC-BY-4.0\n")
    put(root / form("tablé.csv"), rows)
    return {"folder": root.name, "table": in_text("tablé.csv")}


def festvox(root: Path, form: Callable[[str], str], in_text: Callable[[str], str]) -> dict[str, Any]:
    """A festvox voice."""
    for person in PEOPLE:
        put(root / "wav" / form(f"{person}.wav"), b"x")
    put(root / "etc" / "txt.done.data", "".join(in_text(f'( {person} "Être {n}" )\n') for n, person in enumerate(PEOPLE)))
    return {"folder": root.name, "layout": {"kind": "festvox", "speaker": in_text("José")}, **LICENCE}


MAKERS = {maker.__name__: maker for maker in (files, vctk, librispeech, libritts, common_voice, table, festvox)}
TWO_FORMS = st.sampled_from(FORMS[1:3])


def splits_of(found: corpora.Corpus) -> dict[str, str]:
    """Speaker -> split of a corpus whose recordings were never heard."""
    sources = [spoken(item.speaker, number, item.text) for number, item in enumerate(found.recordings)]
    return dict(splits.assign(sources, with_splits(DEFAULT)).of_owner)


@settings(deadline=None, max_examples=8)
@given(form=TWO_FORMS, in_text=TWO_FORMS)
@pytest.mark.parametrize("kind", MAKERS)
def test_a_corpus_is_the_same_in_every_unicode_form(kind: str, form: Callable[[str], str], in_text: Callable[[str], str]) -> None:
    """Names on the disk and in its tables, each composed or decomposed: the same recordings, texts and splits, and each is found."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, forms in (("a", (FORMS[1], FORMS[1])), ("b", (form, in_text))):
            entry = MAKERS[kind](Path(folder) / name / "c", *forms)
            found.append(corpora.load(recipe_of(Path(folder) / name, [entry])))
            assert all(place.is_file() for place in found[-1].location.values())
            assert not found[-1].refused
    assert found[0].recordings == found[1].recordings
    assert Counter(item.text for item in found[1].recordings) == Counter(f"Être {number}" for number in range(len(PEOPLE)))
    if kind != "festvox":
        assert {item.speaker for item in found[1].recordings} == set(PEOPLE)
        assert splits_of(found[0]) == splits_of(found[1])
        assert {item.sex for item in found[1].recordings} == ({None} if kind in ("files", "table") else {"f"})


@pytest.mark.parametrize("listed", ["table", "inline", "columns", "files"])
def test_one_person_in_several_spellings_is_one_speaker(tmp_path: Path, listed: str) -> None:
    """José, composed, decomposed, with blanks and with what can't be seen, is one; with a speaker_prefix too."""
    spellings = [form("José") for form in FORMS]
    root = tmp_path / "c"
    for number, spelling in enumerate(spellings):
        put(root / (spelling if listed == "files" else "all") / f"{number}.wav", utterance("225", 0))
    rows = [{"path": f"all/{number}.wav", "speaker": spelling} for number, spelling in enumerate(spellings)]
    entry: dict[str, Any] = {"folder": "c"}
    if listed == "table":
        put(root / "t.csv", "path,speaker,licence\n" + "".join(f"{row['path']},{row['speaker']},MIT\n" for row in rows))
        entry |= {"table": "t.csv"}
    elif listed == "inline":
        entry |= {"recordings": [{"member": row["path"], "speaker": row["speaker"], **LICENCE} for row in rows]}
    elif listed == "columns":
        shutil.rmtree(root)
        sound = {"bytes": encoded(utterance("225", 0), "WAV"), "path": None}
        kinds = datasets.Features({"audio": datasets.Audio(), "speaker": datasets.Value("string")})
        write_parquet(root / "train-00000-of-00001.parquet", [{"audio": sound, "speaker": row["speaker"]} for row in rows], kinds)
        entry = {**DATASET, "dataset": "./c", "columns": {"speaker": "speaker"}, "speaker_prefix": "p-"}
    else:
        entry |= {"layout": {"kind": "files"}, **LICENCE}
    found = corpora.load(recipe_of(tmp_path, [entry]))
    assert len(found.recordings) == len(spellings)
    assert {item.speaker.removeprefix("p-") for item in found.recordings} == {"José"}


def test_missing_values_of_columns_are_unknown(tmp_path: Path) -> None:
    """NaN and None in Parquet, floats that are whole numbers, a text that is "nan": unknown, the number, Min Nan for a language."""
    sound = {"bytes": encoded(utterance("225", 0), "WAV"), "path": None}
    kinds = datasets.Features(
        {"audio": datasets.Audio(), "who": datasets.Value("float64"), "text": datasets.Value("float64"), "locale": datasets.Value("string")}
    )
    rows = [
        {"audio": sound, "who": 12.0, "text": math.nan, "locale": "nan"},
        {"audio": sound, "who": math.nan, "text": None, "locale": "en"},
        {"audio": sound, "who": 13.0, "text": 7.0, "locale": None},
        {"audio": sound, "who": None, "text": None, "locale": "en"},
    ]
    write_parquet(tmp_path / "corpus" / "train-00000-of-00001.parquet", rows, kinds)
    columns = {"speaker": "who", "text": "text", "language": "locale"}
    found = corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": columns}]))
    assert [(item.speaker, item.text, item.language) for item in found.recordings] == [("12", None, "nan"), ("13", "7", None)]
    assert [(item.what, item.reason) for item in found.refused] == [
        ("train/0000001", Reason.NO_SPEAKER),
        ("train/0000003", Reason.NO_SPEAKER),
    ]


def test_a_pattern_never_meets_the_word_for_a_missing_value(tmp_path: Path) -> None:
    """`only` compares what a row says; a value that isn't there is empty, not "None" or "nan"."""
    sound = {"bytes": encoded(utterance("225", 0), "WAV"), "path": None}
    kinds = datasets.Features({"audio": datasets.Audio(), "who": datasets.Value("string"), "part": datasets.Value("float64")})
    rows = [{"audio": sound, "who": who, "part": part} for who, part in (("a", None), ("b", math.nan), ("c", 3.0))]
    write_parquet(tmp_path / "corpus" / "train-00000-of-00001.parquet", rows, kinds)
    for pattern, speakers in (("n", set()), ("^3$", {"c"}), ("^$", {"a", "b"})):
        entry = {**DATASET, "columns": {"speaker": "who"}, "only": {"part": pattern}}
        found = corpora.load(recipe_of(tmp_path, [entry]))
        assert {item.speaker for item in found.recordings} == speakers
        assert len(found.recordings) + sum(item.count for item in found.refused) == 3


def test_a_file_under_two_forms_of_its_name_is_taken_once(tmp_path: Path) -> None:
    """The other is refused and told."""
    for form in FORMS[1:3]:
        put(tmp_path / "c" / "s" / form("é.wav"), b"x")
    found = corpora.load(recipe_of(tmp_path, [{"folder": "c", "layout": {"kind": "files"}, **LICENCE}]))
    assert [item.member for item in found.recordings] == ["s/é.wav"]
    (refused,) = found.refused
    assert (refused.reason, refused.detail) == (Reason.DUPLICATE, "another file has this name in another Unicode form: rename one")


@pytest.mark.parametrize("packed", ["zip", "tar"])
def test_an_archive_holds_names_in_any_form(tmp_path: Path, packed: str) -> None:
    """Archives from macOS have decomposed names: rows of a composed table are found in them, and again in the cache."""
    entry = table(tmp_path / "c", FORMS[2], FORMS[1])
    shutil.make_archive(str(tmp_path / "made"), packed, tmp_path, "c")
    entry = {"archive": f"made.{packed}", "inside": "c", "table": entry["table"]}
    if packed == "tar":  # names in it begin with ./ there
        shutil.rmtree(tmp_path / "c")
    first = corpora.load(recipe_of(tmp_path, [entry]))
    assert {item.speaker for item in first.recordings} == set(PEOPLE)
    assert all(place.is_file() for place in first.location.values())
    assert corpora.load(recipe_of(tmp_path, [entry])) == first


def test_rows_of_an_audio_folder_find_their_files_in_any_form(tmp_path: Path) -> None:
    """metadata.csv composed, the disk decomposed."""
    rows = "file_name,who\n"
    for person in PEOPLE:
        put(tmp_path / "corpus" / "train" / FORMS[2](f"{person}.wav"), utterance("225", 0))
        rows += FORMS[1](f"{person}.wav,{person}\n")
    put(tmp_path / "corpus" / "train" / "metadata.csv", rows)
    found = corpora.load(recipe_of(tmp_path, [{**DATASET, "columns": {"speaker": "who"}}]))
    assert {item.speaker for item in found.recordings} == set(PEOPLE)
    assert not found.refused


def test_speakers_who_differ_by_case_alone_are_a_fault(tmp_path: Path) -> None:
    """Within a corpus and between two: both spellings are named with what to do; with another prefix they're two people."""
    for name, people in (("one", ("Ana", "ana")), ("two", ("ANA", "Bob"))):
        for person in people:
            put(tmp_path / name / person / "1.wav", b"x")
        recipe_of(tmp_path, [{"folder": name, "layout": {"kind": "files"}, **LICENCE}], name)
    with pytest.raises(RecipeError) as caught:
        corpora.load_all([tmp_path / "one.yaml", tmp_path / "two.yaml"])
    (fault,) = caught.value.faults
    assert fault.startswith("speakers 'Ana' (one) and 'ana' (one) and 'ANA' (two) differ by case or width alone")
    shutil.rmtree(tmp_path / "one" / "ana")
    recipe_of(tmp_path, [{"folder": "two", "layout": {"kind": "files"}, "speaker_prefix": "b-", **LICENCE}], "two")
    both = corpora.load_all([tmp_path / "one.yaml", tmp_path / "two.yaml"])
    assert {item.speaker for item in chain.from_iterable(found.recordings for found in both.values())} == {"Ana", "b-ANA", "b-Bob"}
    assert alike("ｐ１") == alike("P1")


def test_a_recipe_cannot_name_nobody(tmp_path: Path) -> None:
    """A recording in the recipe whose speaker is a missing value's word is a fault."""
    put(tmp_path / "c" / "a.wav", b"x")
    for nobody in ("nan", "\u200b"):
        entry = {"folder": "c", "recordings": [{"member": "a.wav", "speaker": nobody, **LICENCE}]}
        with pytest.raises(RecipeError, match="names nobody"):
            corpora.load(recipe_of(tmp_path, [entry]))


@given(name=st.sampled_from(["é/ü.wav", "plain/a.wav", "é/gone.wav", "é"]), form=TWO_FORMS)
def test_a_name_is_found_as_it_is_written(name: str, form: Callable[[str], str]) -> None:
    """In any form, step by step; a name of nothing stays as it is."""
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder) / FORMS[2]("é") / FORMS[2]("ü.wav"), b"x")
        put(Path(folder) / "plain" / "a.wav", b"x")
        found = places.Written(Path(folder))(form(name))
        assert (Path(folder) / found).exists() == ("gone" not in name)
        assert unicodedata.normalize("NFC", found) == name


# -- what is there instead --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kind", "told"),
    [
        (
            "vctk-0.92",
            "librispeech",
            "in it: speaker-info.txt, txt/, wav48_silence_trimmed/ (files: 21 .flac, 10 .txt); it looks like layout: {kind: vctk}",
        ),
        ("librispeech", "vctk", "it looks like layout: {kind: librispeech}"),
        ("libritts", "librispeech", "it looks like layout: {kind: libritts}"),
        ("common-voice", "festvox", "in it: clips/, validated.tsv (files: 12 .mp3, 1 .tsv); it looks like layout: {kind: common_voice}"),
        ("festvox", "vctk", "it looks like layout: {kind: festvox} with inside: 225"),
        ("table", "vctk", "it looks like table: table.csv"),
        ("vctk-hub", "vctk", "it could be read by columns: of a dataset"),
        ("audio-folder", "vctk", "it could be read by columns: of a dataset"),
        ("files", "common_voice", "it could be read by layout: {kind: files}"),
    ],
)
def test_a_layout_that_finds_nothing_tells_what_is_there(tmp_path: Path, shape: str, kind: str, told: str) -> None:
    """What was looked for, what lies there, and which layout would fit."""
    SHAPES[shape][0](tmp_path / "corpus")
    with pytest.raises(CorpusUnavailable) as caught:
        layouts.read(tmp_path / "corpus", LayoutRule.model_validate({"kind": kind, **({"speaker": "s"} if kind == "festvox" else {})}))
    assert told in str(caught.value)
    assert " no " in str(caught.value)


def test_a_corpus_one_folder_down_is_seen(tmp_path: Path) -> None:
    """An archive that was unpacked into a folder of its own: `inside` is named; of an empty folder, that it's empty."""
    SHAPES["librispeech"][0](tmp_path / "corpus" / "LibriSpeech")
    with pytest.raises(CorpusUnavailable, match=r"it looks like layout: \{kind: librispeech\} with inside: LibriSpeech"):
        layouts.read(tmp_path / "corpus", LayoutRule(kind="vctk"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusUnavailable, match="nothing lies in it"):
        layouts.read(tmp_path / "empty", LayoutRule(kind="files"))


def test_where_all_is_refused_the_reasons_are_told(tmp_path: Path) -> None:
    """A corpus of which nothing can be taken isn't an empty one."""
    put(tmp_path / "corpus" / "a.wav", b"x")
    with pytest.raises(CorpusUnavailable, match=r"1 refused; a\.wav: no_speaker: in no folder that could name a speaker"):
        layouts.read(tmp_path / "corpus", LayoutRule(kind="files"))


@pytest.mark.parametrize("shape", ["librispeech", "table", "vctk-hub", "audio-folder"])
def test_the_hubs_cache_of_links_is_read(tmp_path: Path, shape: str) -> None:
    """A snapshot's files are links into the same repository's blobs: read as any folder; a link that leaves the repository isn't."""
    SHAPES[shape][0](tmp_path / "plain")
    repository = tmp_path / "hub" / "datasets--me--made"
    snapshot = repository / "snapshots" / ("0" * 40)
    blobs = repository / "blobs"
    blobs.mkdir(parents=True)
    for number, source in enumerate(sorted(path for path in (tmp_path / "plain").rglob("*") if path.is_file())):
        link = snapshot / source.relative_to(tmp_path / "plain")
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, blobs / f"{number:040d}")
        link.symlink_to(
            Path("../" * len(link.relative_to(repository).parents)).joinpath("blobs", f"{number:040d}").as_posix().removeprefix("../")
        )
    (entry,) = SHAPES[shape][1]
    where = {"folder": str(snapshot)} if "folder" in entry else {"dataset": str(snapshot)}
    found = corpora.load(recipe_of(tmp_path, [{**entry, **where}]))
    assert len(found.recordings) == 12
    assert all(place.is_file() for place in found.location.values())
    assert {item.reason for item in found.refused} <= {Reason.LEFT_OUT}
    if shape == "librispeech":
        put(tmp_path / "hub" / "other", b"x")
        (snapshot / "test-clean" / "227" / "77" / "227-77-0009.flac").symlink_to(tmp_path / "hub" / "other")
        assert [item.reason for item in corpora.load(recipe_of(tmp_path, [{**entry, **where}])).refused] == [Reason.OUTSIDE]
