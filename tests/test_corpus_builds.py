"""Whole builds of the real command from a small corpus of every shape, bad members among them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from made_corpora import DATASET, LICENCE, RATE_HZ, SHAPES, corpus, put, recipe_of, utterance

from builder import dataset, validate
from builder.__main__ import main

ROOT = Path(__file__).parent.parent
RECIPE = f"""
include: {ROOT / "recipes" / "base.yaml"}
dimension: loudness
sources: [{{kind: speech}}]
speech: {{corpus: made.yaml, min_snr_db: 10.0}}
splits: {{train: {{share: 0.5}}, test: {{share: 0.5}}}}
tiers: {{medium: 4.0}}
curves: [linear]
pairs_per_cell: {{train: 1, test: 1}}
controls_per_kind: {{train: 0, test: 1}}
"""


def vocalgrad(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command, as a user runs it in a folder, with a cache there."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "VOCALGRAD_CACHE": str(folder / "cache"), "HF_HUB_OFFLINE": "1", **environment}
    command = [sys.executable, "-m", "builder", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=env, check=False)


def build(folder: Path, out: str = "vocalgrad", workers: int = 1) -> subprocess.CompletedProcess[str]:
    """A build of the recipe above."""
    put(folder / "recipe.yaml", RECIPE)
    return vocalgrad(folder, "build", "--recipe", "recipe.yaml", "--out", out, "--workers", str(workers))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_can_be_built(tmp_path: Path, shape: str) -> None:
    """A valid dataset with the corpus's speakers, licence and attribution; a clip of it is made again from its row."""
    corpus(tmp_path, shape)
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "vocalgrad"
    assert validate.check(out, dataset.heard_again) == []
    rows = [row for path in sorted(out.rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    assert len(rows) >= 4
    assert {row["licence"] for row in rows} == {"CC-BY-4.0"}
    assert "Made in a test (nobody, now)" in (out / "ATTRIBUTION.md").read_text()
    speakers = {split: {row["speaker_id"] for path in out.rglob(f"{split}-*.parquet") for row in pq.read_table(path).to_pylist()}
                for split in ("train", "test")}  # fmt: skip
    assert all(speakers.values())
    assert not speakers["train"] & speakers["test"]
    again = vocalgrad(tmp_path, "render", rows[0]["id"], "--recipe", "recipe.yaml", "--to", "again.flac")
    assert "equals the published" in again.stdout, again.stdout + again.stderr
    assert (tmp_path / "again.flac").read_bytes() == rows[0]["audio"]["bytes"]


def add_bad_members(folder: Path) -> dict[str, str]:
    """Damage beside good files of a speaker per folder; returns member -> the reason that is due."""
    good = (folder / "225" / "0.ogg").read_bytes()
    nan = utterance("225", 1).copy()
    nan[100] = np.nan
    put(folder / "226" / "truncated.flac", utterance("226", 0))
    whole = (folder / "226" / "truncated.flac").read_bytes()
    put(folder / "226" / "truncated.flac", whole[: len(whole) // 2])
    put(folder / "226" / "wrong header.wav", utterance("226", 1))
    content = bytearray((folder / "226" / "wrong header.wav").read_bytes())
    content[40:44] = (10**8).to_bytes(4, "little")
    put(folder / "226" / "wrong header.wav", bytes(content))
    put(folder / "226" / "silent.wav", np.zeros(4 * RATE_HZ))
    put(folder / "226" / "nan.wav", nan, subtype="FLOAT")
    put(folder / "226" / "empty.wav", b"")
    put(folder / "226" / "8 kHz.wav", utterance("226", 2), 8000)
    put(folder / "226" / "garbage ñ 声.mp3", np.random.default_rng(1).bytes(9000))
    put(folder / "226" / "folder.wav" / "x", b"")
    put(folder.parent / "outside.ogg", good)
    (folder / "226" / "link.ogg").symlink_to(folder.parent / "outside.ogg")
    put(folder / "nobody.ogg", good)
    put(folder / "227" / "stéréo 声.wav", np.stack([utterance("227", 99)] * 2, axis=1))
    return {
        "226/truncated.flac": "unreadable",
        "226/wrong header.wav": "unreadable",
        "226/silent.wav": "silent",
        "226/nan.wav": "not_finite",
        "226/empty.wav": "unreadable",
        "226/8 kHz.wav": "rate_too_low",
        "226/garbage ñ 声.mp3": "unreadable",
        "226/folder.wav": "unreadable",
        "226/link.ogg": "outside",
        "nobody.ogg": "no_speaker",
    }


@pytest.mark.slow
def test_bad_members_are_counted_and_the_rest_is_built(tmp_path: Path) -> None:
    """Ten kinds of damage in one corpus: the build is whole and valid, and its manifest counts each under its reason, by name."""
    corpus(tmp_path, "files")
    due = add_bad_members(tmp_path / "corpus")
    recipe_of(tmp_path, [{"folder": "corpus", "layout": {"kind": "files"}, **LICENCE}])
    done = build(tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "vocalgrad" / "manifest.json").read_text()
    assert str(tmp_path) not in text
    told = json.loads(text)["sources"]
    for member, reason in due.items():
        (line,) = (line for line in told["details"] if line.startswith((f"{member} (", f"{member}:")))
        assert f": {reason}: " in line
    assert {reason: count for reason, count in told["refused"].items() if "other_split" not in reason} == Counter(due.values())
    listed = vocalgrad(tmp_path, "sources", "--recipe", "recipe.yaml").stdout
    assert "227/stéréo 声.wav" not in listed
    assert "226/garbage ñ 声.mp3 (226): unreadable" in listed


@pytest.mark.slow
def test_a_build_depends_on_neither_order_nor_place_nor_workers(tmp_path: Path) -> None:
    """The same files made in another order, elsewhere, on two workers: the same bytes."""
    digests = []
    for number, place in enumerate(("here", "there/ñ 声")):
        folder = tmp_path / place
        corpus(folder / "made", "librispeech")
        found = sorted(path for path in (folder / "made" / "corpus").rglob("*") if path.is_file())
        for path in found[:: (-1) ** number]:
            put(folder / "corpus" / path.relative_to(folder / "made" / "corpus"), path.read_bytes())
        recipe_of(folder, SHAPES["librispeech"][1])
        done = build(folder, workers=number + 1)
        assert done.returncode == 0, done.stderr
        out = folder / "vocalgrad"
        digests.append({path.name: path.read_bytes() for path in sorted(out.rglob("*.parquet"))})
    assert digests[0] == digests[1]
    assert digests[0]


@pytest.mark.slow
def test_two_corpora_are_built_into_one_dataset(tmp_path: Path) -> None:
    """Clips of both, and both corpora named in the manifest."""
    for name, shape in (("one", "vctk-0.92"), ("two", "vctk-hub")):
        SHAPES[shape][0](tmp_path / name)
        entry = {**SHAPES[shape][1][0], **({"dataset": "./two"} if shape == "vctk-hub" else {"folder": "one"})}
        entry["speaker_prefix"] = f"{name}-"
        recipe_of(tmp_path, [entry], name)
    put(tmp_path / "recipe.yaml", RECIPE.replace("corpus: made.yaml", "corpus: [one.yaml, two.yaml]").replace("1, test: 1", "3, test: 3"))
    done = vocalgrad(tmp_path, "build", "--recipe", "recipe.yaml", "--workers", "1")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "vocalgrad" / "manifest.json").read_text())
    assert manifest["recipe"]["speech"]["corpus"] == ["one", "two"]


def test_a_corpus_that_is_not_there_is_told_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unset variable, a wrong folder, a dataset without a commit: exit 1, and what to do."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VOCALGRAD_CACHE", str(tmp_path / "cache"))
    put(tmp_path / "recipe.yaml", RECIPE)
    hub = {**DATASET, "dataset": "me/made", "columns": {"speaker": "s"}}
    for entry, said in (
        ({"folder": "${MY_SPEECH}", "layout": {"kind": "vctk"}, **LICENCE}, "MY_SPEECH isn't set"),
        ({"folder": "nix", "layout": {"kind": "vctk"}, **LICENCE}, "nix: no such folder"),
        (hub, "a commit of 40 hexadecimal digits is needed"),
    ):
        recipe_of(tmp_path, [entry])
        assert main(["sources", "--recipe", "recipe.yaml"]) == 1
        assert said in capsys.readouterr().err
