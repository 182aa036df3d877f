"""Every command on what it can't work with: a message on stderr that names it, exit status 1, no traceback, nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builder.__main__ import main

RECIPES = Path(__file__).parent.parent / "recipes"
SHARD = "data/loudness/test-00000-of-00001.parquet"
Harm = Callable[[Path], Any]


def manifest(change: Callable[[dict[str, Any]], Any]) -> Harm:
    """Changes a dataset's manifest."""

    def harm(dataset: Path) -> None:
        path = dataset / "manifest.json"
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return harm


def emptied(dataset: Path) -> None:
    """A folder with nothing in it."""
    shutil.rmtree(dataset)
    dataset.mkdir()


def a_file(dataset: Path) -> None:
    """A file where the folder should be."""
    shutil.rmtree(dataset)
    dataset.write_text("no dataset")


HARMS: dict[str, Harm] = {
    "missing": shutil.rmtree,
    "empty": emptied,
    "a file": a_file,
    "a manifest cut short": lambda dataset: (dataset / "manifest.json").write_text("{"),
    "a manifest that isn't text": lambda dataset: (dataset / "manifest.json").write_bytes(b"\xff\xfe{"),
    "a manifest that is a list": lambda dataset: (dataset / "manifest.json").write_text("[]"),
    "a manifest of shards without names": manifest(lambda values: values.update(shards=[{}])),
    "a manifest of shards that are none": manifest(lambda values: values.update(shards=[1])),
    "a manifest of odd names": manifest(lambda values: values["shards"][0].update(shard="x")),
    "a manifest without a recipe": manifest(lambda values: values.update(recipe={})),
    "no shards": lambda dataset: shutil.rmtree(dataset / "data"),
    "a shard of no bytes": lambda dataset: (dataset / SHARD).write_bytes(b""),
    "a shard cut short": lambda dataset: (dataset / SHARD).write_bytes((dataset / SHARD).read_bytes()[:5000]),
    "a shard that is a folder": lambda dataset: ((dataset / SHARD).unlink(), (dataset / SHARD).mkdir()),
}
COMMANDS = {
    "render": ["vg", "--to", "{tmp}/new"],
    "label": ["vg"],
    "show": ["vg", "--to", "{tmp}/new"],
    "show loudness": ["--to", "{tmp}/new"],
    "card": [],
    "validate": ["--workers", "1"],
    "audit": ["--workers", "1"],
    "release-check": ["--recipe", "{recipe}"],
    "publish": ["acme/vocalgrad", "--dry-run", "--workers", "1"],
    "export": ["--as", "jsonl", "--to", "{tmp}/new"],
    "commit-split": ["--out", "{tmp}/new"],
    "reveal-split": ["--commitment", "{tmp}/c.json", "--secret", "{tmp}/c.json.secret"],
    "plan": ["--recipe", "{recipe}", "--workers", "1", "--diff", "{dataset}"],
}

UNAFFECTED = {
    *(("release-check", harm) for harm in ("missing", "empty", "a file", "a shard of no bytes", "a shard cut short")),
    ("plan", "no shards"),
}
"""What isn't built yet is no fault of a version, and its rows are checked when it's published; a plan is compared with a manifest."""
CASES = [(command, harm) for command in COMMANDS for harm in HARMS if (command, harm) not in UNAFFECTED]


@pytest.mark.parametrize(("command", "harm"), CASES)
def test_a_dataset_that_cannot_be_used_is_told(
    command: str, harm: str, audited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says which, and what isn't right; what a command would have written isn't there."""
    monkeypatch.setenv("HF_TOKEN", "")
    dataset = tmp_path / "ds"
    shutil.copytree(audited, dataset)
    if command == "reveal-split":
        assert main(["commit-split", "--dataset", str(dataset), "--out", str(tmp_path / "c.json")]) == 0
    capsys.readouterr()
    HARMS[harm](dataset)
    values = {"tmp": tmp_path, "recipe": audited.parent / "noise.yaml", "dataset": dataset}
    arguments = [*command.split(), *(text.format(**values) for text in COMMANDS[command])]
    if command != "plan":
        arguments += ["--dataset", str(dataset)]
    status = main(arguments)
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert status == 1, said
    assert str(dataset) in said.err + said.out or "loudness" in said.err + said.out, said
    assert not (tmp_path / "new").exists()


NO_RECIPES: dict[str, Callable[[Path], Any]] = {
    "missing": lambda path: None,
    "empty": lambda path: path.write_text(""),
    "a folder": lambda path: path.mkdir(),
    "a list": lambda path: path.write_text("- dimension: pitch\n"),
    "not YAML": lambda path: path.write_text("dimension: [pitch\n"),
    "not text": lambda path: path.write_bytes(b"\x00\xff\xfe\x00"),
    "itself again": lambda path: path.write_text("include: no.yaml\n"),
    "a link to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("kind", NO_RECIPES)
@pytest.mark.parametrize("command", ["recipe", "sources", "plan", "build", "shard", "release-check", "validate"])
def test_a_recipe_that_is_none_is_told(command: str, kind: str, audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its path, and nothing is made."""
    path = tmp_path / "no.yaml"
    NO_RECIPES[kind](path)
    more = {
        "build": ["--out", str(tmp_path / "ds")],
        "shard": ["loudness/test-00000-of-00001", "--out", str(tmp_path / "ds")],
        "validate": ["--dataset", str(audited), "--again", "1", "--workers", "1"],
    }
    capsys.readouterr()
    assert main([command, *more.get(command, []), "--recipe", str(path)]) == 1
    said = capsys.readouterr()
    assert str(path) in said.err + said.out
    assert "Traceback" not in said.err
    assert [item.name for item in tmp_path.iterdir()] == ([] if kind == "missing" else ["no.yaml"])


@pytest.mark.parametrize("content", [None, b"", b"{}", b"[]", b"\xff", b'{"format": 1, "sha256": 2, "split": 3}'])
@pytest.mark.parametrize("which", ["--commitment", "--secret"])
def test_a_commitment_that_is_none_is_told(
    which: str, content: bytes | None, audited: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Missing, empty, damaged, of other types: its file is named, or the two don't fit."""
    files = {"--commitment": tmp_path / "c.json", "--secret": tmp_path / "c.json.secret"}
    assert main(["commit-split", "--dataset", str(audited), "--out", str(files["--commitment"])]) == 0
    files[which].unlink()
    if content is not None:
        files[which].write_bytes(content)
    capsys.readouterr()
    given = [text for option, path in files.items() for text in (option, str(path))]
    assert main(["reveal-split", "--dataset", str(audited), *given]) == 1
    said = capsys.readouterr()
    assert "c.json" in said.err + said.out
    assert "Traceback" not in said.err
