"""A dataset as files: read back by those who read such files, byte for byte."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from datasets import Audio, load_dataset

from builder import export
from builder.__main__ import main
from builder.errors import DatasetInvalid, NotFound, VocalgradError

SPLITS = ("train", "validation", "test")


def published(audited: Path, folder: str = "loudness") -> dict[str, dict[str, dict[str, Any]]]:
    """Rows of a folder of shards, by split and identifier."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for split in SPLITS:
        tables = [pq.read_table(path) for path in sorted((audited / "data" / folder).glob(f"{split}-*.parquet"))]
        found[split] = {row["id"]: row for table in tables for row in table.to_pylist()}
    return found


def told(row: dict[str, Any]) -> dict[str, Any]:
    """What an export keeps of a row."""
    return {key: value for key, value in row.items() if key not in export.LONG}


def content(tar: tarfile.TarFile, name: str) -> bytes:
    """Bytes of a member of a tar."""
    stream = tar.extractfile(name)
    assert stream is not None
    return stream.read()


def test_an_audiofolder_loads_as_one(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits, rows and FLAC bytes as published, through `datasets`; several folders when there are many clips."""
    monkeypatch.setattr(export, "FOLDER_CLIPS", 3)
    # it imports torch and torchcodec before it looks at a path, of which it then keeps the name only
    monkeypatch.setattr(Audio, "encode_example", lambda self, path: {"bytes": None, "path": path})
    assert export.export(audited, tmp_path / "out", "audiofolder", "all", None) == {"train": 2, "validation": 2, "test": 4}
    loaded = load_dataset("audiofolder", data_dir=str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    rows = published(audited)
    assert set(loaded) == set(SPLITS)
    for split in SPLITS:
        raw = loaded[split].cast_column("audio", Audio(decode=False))
        assert {row["id"] for row in raw} == set(rows[split])
        for row in raw:
            found = Path(row["audio"]["path"]).read_bytes() if row["audio"]["bytes"] is None else row["audio"]["bytes"]
            assert found == rows[split][row["id"]]["audio"]["bytes"]
            assert (row["question"], row["choices"], row["answer"]) == tuple(
                rows[split][row["id"]][key] for key in ("question", "choices", "answer")
            )
    assert sorted(path.name for path in (tmp_path / "out" / "test").iterdir()) == ["000", "001", "metadata.parquet"]


def test_lines_of_json_name_their_files(audited: Path, tmp_path: Path) -> None:
    """Each line is a row, with the path of its clip from where the lines are."""
    export.export(audited, tmp_path / "out", "jsonl", "loudness", "test")
    lines = [json.loads(line) for line in (tmp_path / "out" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = published(audited)["test"]
    assert [line["id"] for line in lines] == list(rows)
    for line in lines:
        assert (tmp_path / "out" / line.pop("audio")).read_bytes() == rows[line["id"]]["audio"]["bytes"]
        assert line == told(rows[line["id"]])
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["audio", "test.jsonl"]


def test_tars_hold_clips_beside_their_rows(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the limit of size each, without a time or an owner, so the same bytes each time."""
    monkeypatch.setattr(export, "TAR_BYTES", 150_000)
    export.export(audited, tmp_path / "one", "webdataset", "all", None)
    export.export(audited, tmp_path / "two", "webdataset", "all", None)
    tars = sorted((tmp_path / "one").iterdir())
    assert len(tars) > len(SPLITS)
    assert all(path.stat().st_size <= 150_000 for path in tars)
    rows, seen = published(audited), set()
    for path in tars:
        assert (tmp_path / "two" / path.name).read_bytes() == path.read_bytes()
        with tarfile.open(path) as tar:
            names = tar.getnames()
            assert names == [f"{name.split('.')[0]}.{kind}" for name in names[::2] for kind in ("flac", "json")]
            for flac, line in zip(names[::2], names[1::2], strict=True):
                row = rows[path.name.split("-")[0]][flac.removesuffix(".flac")]
                assert content(tar, flac) == row["audio"]["bytes"]
                assert json.loads(content(tar, line)) == told(row)
                seen.add(row["id"])
    assert seen == {name for split in rows.values() for name in split}


def test_controls_are_exported_by_their_name(audited: Path, tmp_path: Path) -> None:
    """They have no answer."""
    assert export.export(audited, tmp_path / "out", "jsonl", "controls", None) == {"test": 1}
    assert json.loads((tmp_path / "out" / "test.jsonl").read_text())["answer"] is None


@pytest.mark.slow
@pytest.mark.parametrize("form", list(export.FORMS))
def test_no_folder_is_larger_than_the_hub_takes(form: str, tmp_path: Path) -> None:
    """12,000 clips of one split: folders of at most 10,000 files, whose names tell no label."""
    rows = ({"id": f"vg{number:020x}", "audio": {"bytes": b"fLaC", "path": ""}, "answer": "increase"} for number in range(12_000))
    assert export.FORMS[form](rows, tmp_path, "test") == 12_000
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    assert all(sum(1 for _ in folder.iterdir()) <= 10_000 for folder in folders)
    assert not any("crease" in path.name for path in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("config", "split", "message"),
    [
        ("pitch", None, "unknown configuration 'pitch'; known: all, loudness, controls"),
        ("loudness", "dev", "unknown split 'dev'; known: train, validation, test"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(audited: Path, tmp_path: Path, config: str, split: str | None, message: str) -> None:
    """And no folder is made."""
    with pytest.raises(NotFound, match=message):
        export.export(audited, tmp_path / "out", "jsonl", config, split)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused(audited: Path, tmp_path: Path) -> None:
    """Also an empty one; nothing is touched."""
    with pytest.raises(VocalgradError, match=r"exists: give a folder that doesn't with --to"):
        export.export(audited, tmp_path, "jsonl", "all", None)
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_fails_leaves_nothing(audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the folder nor what was written for it."""
    rows = export.read_rows
    monkeypatch.setattr(export, "read_rows", lambda root, name: [{**row, "audio_sha256": "0" * 64} for row in rows(root, name)])
    with pytest.raises(DatasetInvalid, match="its bytes aren't what the row says"):
        export.export(audited, tmp_path / "out", "jsonl", "all", None)
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote(audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line: where, as what, how many clips of each split."""
    command = ["export", "--dataset", str(audited), "--as", "jsonl", "--to", str(tmp_path / "out"), "--split", "test"]
    assert main(command) == 0
    assert capsys.readouterr().out == f"{tmp_path}/out: jsonl of all: test 4 clips\n"
    assert main(command) == 1
    assert capsys.readouterr().err.startswith(f"vocalgrad export: {tmp_path}/out exists")
