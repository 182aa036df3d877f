"""Tables: every row is used or told with its line, whatever quotes, delimiters, line ends and characters a file holds."""

from __future__ import annotations

import csv
import io
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_corpora import SHAPES, corpus, put, recipe_of

from builder import corpora, layouts, tables
from builder.errors import CorpusUnavailable, RecipeError
from builder.layouts import LayoutRule
from builder.records import Reason
from builder.spelling import words

pytestmark = pytest.mark.filterwarnings("ignore:unclosed file.*metadata.csv:ResourceWarning")  # which `datasets` leaves open
HEADER = ("path", "speaker", "text", "licence")
ODD = st.text(st.sampled_from("abé\u0301,;\t|\"'\n\r \u00a0\u200b\u2028\x0b\x85声"), max_size=12)
LINES = st.text(st.sampled_from('ab\t"\n\r, \u2028é'), max_size=60)


def read(content: str | bytes, *columns: str, **how: Any) -> tables.Table:
    """A table of these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tables.read(path, columns, **how)


def csv_of(rows: list[tuple[str, ...]], **how: Any) -> str:
    """Rows under the header, as Python's writer writes them."""
    stream = io.StringIO(newline="")
    csv.writer(stream, **how).writerows([HEADER, *rows])
    return stream.getvalue()


def row(number: int, text: str = "hello") -> str:
    """A line of a table with the columns of `HEADER`."""
    return f"{number}.wav,s{number % 5},{text},MIT\n"


# -- with quotes ------------------------------------------------------------------------------------------------------


@given(
    rows=st.lists(st.tuples(st.sampled_from(["a.wav", "b.wav"]), ODD, ODD, ODD), max_size=6),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n", "\r\r\n"]),
    mark=st.sampled_from(["", "\ufeff"]),
)
def test_what_a_writer_writes_comes_back(rows: list[tuple[str, ...]], quoting: Any, end: str, mark: str) -> None:
    """Every row of a sound table is read with all of its cells, unless a cell looks like swallowed rows: then the table is refused."""
    found = read(mark + csv_of(rows, quoting=quoting, lineterminator=end), *HEADER)
    suspect = [cell for cells in rows for cell in cells if "," in cell and ("\n" in cell or "\r" in cell)]
    assert not found.faults or suspect
    if not found.faults:
        assert [[words(cell) for cell in item.cells.values()] for item in found.rows] == [[words(cell) for cell in cells] for cells in rows]
        assert not any(item.fault for item in found.rows)


@given(body=st.text(st.sampled_from('ab,;"\n\r \u2028'), max_size=80))
def test_nothing_of_any_text_is_lost(body: str) -> None:
    """Of whatever stands under a header, each letter is in a cell, or a fault is told; no other exception is raised."""
    found = read("path,speaker\n" + body, "path", "speaker")
    if not found.told(Path("t")):
        cells = "".join(cell for item in found.rows for cell in item.cells.values())
        assert Counter(ch for ch in cells if ch.isalnum()) == Counter(ch for ch in body if ch.isalnum())


@given(content=st.binary(max_size=80), quoted=st.booleans())
def test_any_bytes_are_a_table_or_told(content: bytes, quoted: bool) -> None:
    """Bytes that aren't a table give faults or `CorpusUnavailable`, never another exception."""
    with suppress(CorpusUnavailable):
        read(b"path\n" + content, "path", quoted=quoted)


@pytest.mark.parametrize("behind", [0, 1, 20, 4000])
@pytest.mark.parametrize("closed", ["", 'hello"', '"'])
def test_an_open_quote_is_told_with_its_line(behind: int, closed: str) -> None:
    """However many rows lie behind it, and whether or not a later quote closes it: the line that opens it is named."""
    content = ",".join(HEADER) + "\n" + row(1) + row(2, '"hello') + "".join(row(number) for number in range(3, 3 + behind))
    (fault,) = read(content + row(9999, closed) * bool(closed), *HEADER).faults
    assert fault.startswith("3: ")
    assert "quote" in fault


def test_a_text_may_run_over_lines() -> None:
    """A quoted cell with line breaks and a few commas is a text; later rows keep their line numbers."""
    found = read(",".join(HEADER) + "\n" + row(1, '"one,\ntwo\nthree"') + row(2) + "3.wav,s\n", *HEADER)
    assert [item.cells["text"] for item in found.rows[:2]] == ["one,\ntwo\nthree", "hello"]
    assert found.told(Path("t.csv")) == ["t.csv:6: the header has 4 cells, this row 2"]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (";".join(HEADER) + "\n", "1: the cells are separated by semicolons; commas are needed"),
        ("\t".join(HEADER) + "\n", "1: the cells are separated by tabs; commas are needed"),
        ('"path";"speaker";"text";"licence"\n', "1: the cells are separated by semicolons; commas are needed"),
        ("\n\npath,speaker,licence\n", "3: column text is missing; columns that are there: path, speaker, licence"),
        ("path,speaker,text,text,licence\n", "1: column text is there twice"),
        ("", "1: column path is missing; columns that are there: none"),
    ],
)
def test_a_wrong_header_is_told(content: str, told: str) -> None:
    """Another delimiter is named; a column that is missing or there twice is named with the header's line."""
    assert read(content, *HEADER).faults[0] == told


@pytest.mark.parametrize(
    "content",
    [
        "path,speaker\r\na,b\r\nc,d\r\n",
        "path,speaker\ra,b\rc,d",
        "path,speaker\r\r\na,b\r\r\nc,d",
        "\ufeffpath,speaker\na,b\n\n  \nc,d\n\n",
        "path,speaker,,\na,b,,\nc,d,,\n,,,\n",
        " path ,speaker\na,b\nc,d",
    ],
    ids=["windows", "old mac", "doubled returns", "blank lines", "a spreadsheet's empty columns", "blanks in the header"],
)
def test_line_ends_and_empty_cells_change_nothing(content: str) -> None:
    """The same two rows, however lines end and whatever is empty around them."""
    found = read(content, "path", "speaker")
    assert [(item.cells["path"], item.cells["speaker"]) for item in found.rows] == [("a", "b"), ("c", "d")]
    assert not found.told(Path("t"))


def test_only_cells_after_the_last_name_must_be_empty() -> None:
    """The index that pandas writes first, without a name, is no fault; what a comma pushes behind the last column is."""
    found = read(",path,text,\n0,a.wav,hello,\n1,b.wav,well, then\n", "path")
    assert [(item.cells["path"], item.fault) for item in found.rows] == [
        ("a.wav", None),
        ("b.wav", "a cell after the last column that has a name"),
    ]


def test_a_stray_return_is_a_blank() -> None:
    """A return inside a line ends no row, with quotes or without."""
    for quoted in (True, False):
        (only,) = read("path,text\na.wav,one\rtwo\n", "path", quoted=quoted).rows
        assert words(only.cells["text"]) == "one two"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"path\na.wav\n\xf1.wav\n", ":3: not UTF-8 text; save the table as UTF-8"),
        ("path\na.wav\n".encode("utf-16"), ":1: not UTF-8 text"),
        ("path\na.wav\n".encode("utf-16-le"), ":1: holds a NUL character"),
        (b"path\na\0.wav\n", ":2: holds a NUL character"),
    ],
)
def test_what_is_no_text_is_told_with_its_line(content: bytes, told: str) -> None:
    """Another encoding, or a NUL."""
    with pytest.raises(CorpusUnavailable) as caught:
        read(content, "path")
    assert told in str(caught.value)


def test_a_corpus_table_is_refused_whole_with_every_line(tmp_path: Path) -> None:
    """All wrong rows of a corpus's own table are told at once; none of the others is used without them."""
    path = corpus(tmp_path, "table")
    table = tmp_path / "corpus" / "table.csv"
    rows = table.read_text().splitlines()
    rows[2] = rows[2].rpartition(",")[0]
    rows[4] = rows[4].replace(",s225,", ",nan,") if ",s225," in rows[4] else rows[4].replace(",s226,", ",nan,")
    rows[5] = rows[5].replace("CC-BY-4.0", " CC-BY-4.0\u200b")
    rows[6] = rows[6].replace(",en,", ",english,")
    put(table, "\n".join(rows) + "\n")
    with pytest.raises(RecipeError) as caught:
        corpora.load(path)
    assert [fault.rpartition("table.csv")[2] for fault in caught.value.faults] == [
        ":3: the header has 7 cells, this row 6",
        ":5: column speaker holds 'nan', which stands for a missing value",
        ":7: language is 'english'; two or three small letters are needed",
    ]


def test_a_licence_that_nobody_knows_is_told_before_anything_is_read(tmp_path: Path) -> None:
    """In a table and in an entry, with the nearest that is known."""
    path = corpus(tmp_path, "table")
    table = tmp_path / "corpus" / "table.csv"
    put(table, table.read_text().replace("CC-BY-4.0", "cc-by-4.0"))
    for recipe_file in (path, recipe_of(tmp_path, [{**SHAPES["table"][1][0]}])):
        with pytest.raises(
            RecipeError, match=r"225 0\.wav: 'cc-by-4\.0' isn't a licence whose terms are known \(did you mean 'CC-BY-4\.0'"
        ):
            corpora.load(recipe_file)
    corpus(tmp_path / "b", "files")
    with pytest.raises(RecipeError, match="'CC-BY' isn't a licence whose terms are known"):
        corpora.load(recipe_of(tmp_path / "b", [{**SHAPES["files"][1][0], "licence": "CC-BY"}]))


# -- without quotes ---------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(body=LINES)
def test_every_line_of_common_voice_is_used_or_counted(body: str) -> None:
    """A row for each line that isn't blank: found, or refused with its reason."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in ("a.mp3", "b.mp3", "keep.mp3"):
            put(root / "clips" / name, b"")
        put(root / "validated.tsv", b"client_id\tpath\tsentence\nme\tkeep.mp3\thello\n" + body.encode())
        found = layouts.read(root, LayoutRule(kind="common_voice"))
    text = body.replace("\r\n", "\n")
    rows = sum(any(cell.strip() for cell in line.split("\t")) for line in text.replace("\r", " ").split("\n"))
    by_row = [item for item in found.refused if not item.what.startswith("*")]  # clips in no row are counted by suffix
    assert len(found.found) + sum(item.count for item in by_row) == 1 + rows


def test_a_wrong_row_of_common_voice_costs_itself_alone(tmp_path: Path) -> None:
    """A row of another width is refused with its line, a lone quote is a character; the process's own limit for cells stays."""
    path = corpus(tmp_path, "common-voice")
    table = tmp_path / "corpus" / "validated.tsv"
    rows = table.read_text().split("\n")
    rows[3] = rows[3].replace("\t", "\textra\t", 1)
    rows[5] = rows[5].rpartition("\t")[0]
    rows[7] = rows[7].replace(" ", "\r", 1)
    put(table, "\n".join(rows))
    limit = csv.field_size_limit()
    found = corpora.load(path)
    assert csv.field_size_limit() == limit
    assert {item.what: (item.reason, item.detail) for item in found.refused} == {
        "validated.tsv:4": (Reason.UNREADABLE, "the header has 10 cells, this row 11"),
        "validated.tsv:6": (Reason.UNREADABLE, "the header has 10 cells, this row 9"),
        "*.mp3": (Reason.LEFT_OUT, "the layout common_voice doesn't take them, such as clips/common_voice_en_2252.mp3"),
    }
    assert len(found.recordings) == 10
    assert sum((item.text or "").startswith('"') for item in found.recordings) == 10


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("\t", ","), "validated.tsv:1: the cells are separated by commas; tabs are needed"),
        (lambda text: text.replace("sentence", "said", 1), "validated.tsv:1: column sentence is missing"),
        (lambda text: text.replace("_en_225", "_\0n_225", 1), "validated.tsv:2: holds a NUL"),
    ],
)
def test_a_wrong_table_of_common_voice_is_told(tmp_path: Path, change: Any, told: str) -> None:
    """Another delimiter, a missing column, a NUL: with the table's name and line."""
    path = corpus(tmp_path, "common-voice")
    table = tmp_path / "corpus" / "validated.tsv"
    put(table, change(table.read_text()))
    with pytest.raises(CorpusUnavailable, match=told):
        corpora.load(path)


# -- other files of a corpus ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "name", "line", "told"),
    [
        ("vctk-0.92", "speaker-info.txt", "p229  23", "speaker-info.txt:6: fewer than 3 cells"),
        ("librispeech", "SPEAKERS.TXT", "229", "SPEAKERS.TXT:6: fewer than 2 cells"),
        ("libritts", "speakers.tsv", "229 F", "speakers.tsv:6: fewer than 2 cells"),
    ],
)
def test_a_short_row_about_a_speaker_is_noted(tmp_path: Path, shape: str, name: str, line: str, told: str) -> None:
    """It costs that speaker's sex, is told with its line, and counts no recording as refused."""
    path = corpus(tmp_path, shape)
    table = tmp_path / "corpus" / name
    put(table, table.read_text() + line + "\n")
    found = corpora.load(path)
    assert len(found.recordings) == 12
    assert [note for note in found.notes if told in note] == list(found.notes)
    counts, lines = found.refusals()
    assert set(counts) <= {"left_out"}  # VCTK's other microphone
    assert set(found.notes) <= set(lines)
    assert len(found.notes) == 1


def test_a_speaker_whose_name_holds_the_delimiter_is_read(tmp_path: Path) -> None:
    """LibriSpeech has a reader with bars in the name, the last column."""
    path = corpus(tmp_path, "librispeech")
    table = tmp_path / "corpus" / "SPEAKERS.TXT"
    put(table, table.read_text().replace("A | Reader", "|CBW|Simon"))
    found = corpora.load(path)
    assert {item.sex for item in found.recordings} == {"f", "m"}
    assert not found.notes


@pytest.mark.parametrize(("shape", "text"), [("files", "225/1.txt"), ("vctk-0.80", "txt/p225/p225_002.txt")])
def test_a_text_that_is_not_utf8_is_noted(tmp_path: Path, shape: str, text: str) -> None:
    """What is said is unknown, and it's told."""
    path = corpus(tmp_path, shape)
    put(tmp_path / "corpus" / text, b"caf\xe9")
    found = corpora.load(path)
    assert len(found.recordings) == 12
    assert found.notes == (f"{text}: not UTF-8 text: what is said is unknown",)


def test_a_line_of_a_festvox_voice_that_is_no_text_is_noted(tmp_path: Path) -> None:
    """With its file and line."""
    path = corpus(tmp_path, "festvox")
    table = tmp_path / "corpus" / "225" / "etc" / "txt.done.data"
    put(table, table.read_text().replace('" )', "", 1))
    found = corpora.load(path)
    assert found.notes == ('etc/txt.done.data:1: isn\'t ( NAME "text" ): what is said is unknown',)
    assert sum(item.text is None for item in found.recordings) == 1


def test_a_locale_that_is_no_code_is_noted(tmp_path: Path) -> None:
    """The language is unknown, then, and the word is told with how many recordings have it; an empty one is just unknown."""
    path = corpus(tmp_path, "common-voice")
    table = tmp_path / "corpus" / "validated.tsv"
    rows = [line.replace("\ten\t", "\tEnglish\t" if "_en_225" in line else "\t \t") for line in table.read_text().split("\n")]
    put(table, "\n".join(rows))
    found = corpora.load(path)
    assert {item.language for item in found.recordings} == {None}
    assert found.notes == ("language 'English' isn't a code of two or three letters, so it's unknown (recordings: 3)",)


def test_metadata_of_an_audio_folder_is_read_strictly(tmp_path: Path) -> None:
    """An open quote or a short row, which pandas would take, is told with its line."""
    path = corpus(tmp_path, "audio-folder")
    table = tmp_path / "corpus" / "train" / "metadata.csv"
    sound = table.read_text().splitlines()
    for number, change, told in (
        (3, lambda line: line.replace(",s225,", ',s225,"'), r"metadata\.csv:4: .*quote"),
        (5, lambda line: line.rpartition(",")[0], r"metadata\.csv:6: the header has 4 cells, this row 3"),
    ):
        rows = list(sound)
        rows[number] = change(rows[number])
        put(table, "\n".join(rows) + "\n")
        with pytest.raises(CorpusUnavailable, match=told):
            corpora.load(path)


def test_a_table_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A folder in place of a table: its path and why."""
    path = corpus(tmp_path, "librispeech")
    table = tmp_path / "corpus" / "SPEAKERS.TXT"
    table.unlink()
    table.mkdir()
    with pytest.raises(CorpusUnavailable, match=r"SPEAKERS\.TXT: can't be read: Is a directory"):
        corpora.load(path)
