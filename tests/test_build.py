"""Whole runs of the real command on the smoke recipe, and what comes out of them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from make_goldens import pair_of
from remeasure import remeasure

from builder import dataset, folder, pipeline, render, sources, synthesis, validate
from builder.acoustics import audio
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.errors import CellUnfilled, VocalgradError
from builder.layout import read_manifest, split_of
from builder.pipeline import Built
from builder.recipe import SPEECH_KINDS
from builder.records import Sound
from builder.workers import Local

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes"


def rows_of(root: Path, *columns: str, controls: bool = False) -> list[dict[str, Any]]:
    """Rows of all labelled shards (or of all controls) with their split."""
    found = []
    for path in sorted(root.glob("data/*/*.parquet")):
        if (path.parent.name == "controls") != controls:
            continue
        split = split_of(f"{path.parent.name}/{path.stem}")
        found += [{**row, "split": split} for row in pq.read_table(path, columns=list(columns)).to_pylist()]
    return found


def wanted(built: Built, names: set[str] | None = None, split: str | None = None, *, controls: bool = False) -> int:
    """Pairs (or controls) that a build's plan asks for, of some dimensions and a split."""
    return sum(
        shard.n_wanted
        for shard in built.plan.shards
        if shard.controls == controls and (names is None or shard.dimension in names) and split in (None, shard.split)
    )


def digests(root: Path) -> dict[str, str]:
    """Checksum of every shard, from the manifest."""
    return {item["shard"]: item["parquet_sha256"] for item in read_manifest(root)["shards"]}


def run_python(code: str, folder: Path, home: Path) -> str:
    """Output of a fresh interpreter in `folder`, offline, with an empty Hugging Face cache."""
    environment = {**os.environ, "HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_build(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`vocalgrad build` as a user runs it, in `folder`."""
    command = [sys.executable, "-m", "builder", "build", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


# -- what is published ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_smoke_build_is_valid_and_counted(smoke: Built) -> None:
    """Planned pairs are all published, tried = published + rejected in every cell, and the bytes validate."""
    assert validate.check(smoke.out, dataset.heard_again) == []
    cells = read_manifest(smoke.out)["cells"]
    assert sum(cell["published"] for cell in cells if cell["curve"] != "flat") == wanted(smoke)
    assert sum(cell["published"] for cell in cells if cell["curve"] == "flat") == wanted(smoke, controls=True)
    for cell in cells:
        assert cell["published"] == cell["wanted"] == (2 if cell["split"] == "test" and cell["curve"] != "flat" else 1)
        assert cell["tried"] == cell["published"] + sum(cell["rejected"].values())


@pytest.mark.slow
def test_every_clip_remeasured_from_its_bytes_says_its_label(smoke: Built) -> None:
    """Decoded from FLAC and measured again, every clip is heard as labelled; nothing is clipped; the effect is the published one."""
    found = remeasure(smoke.out)
    assert (found.clips, found.controls) == (2 * wanted(smoke) + wanted(smoke, controls=True), wanted(smoke, controls=True))
    assert found.contradictions == []
    assert found.clipped_samples == 0
    assert found.largest_effect_error == 0.0


def test_real_speech_and_synthesis_in_each_dimension(smoke: Built) -> None:
    """Every dimension has real voices and synthesis in every split, as far as it can be carried by both."""
    kinds = defaultdict(set)
    for row in rows_of(smoke.out, "dimension", "source_kind"):
        kinds[row["dimension"], row["split"]].add(row["source_kind"] in SPEECH_KINDS)
    assert len(kinds) == 3 * len(DIMENSIONS)
    carriers = {dimension.name: {kind in SPEECH_KINDS for kind in dimension.max_span} for dimension in DIMENSIONS}
    assert all(found == carriers[name] for (name, _), found in kinds.items())


def test_directions_and_answer_order_are_balanced(smoke: Built) -> None:
    """Up and down are equal in each cell; each order of the choices and each answer index is as frequent as the other."""
    rows = rows_of(smoke.out, "dimension", "tier", "curve", "source_kind", "direction", "choices", "answer", "answer_index")
    cells: dict[tuple[str, ...], Counter[int]] = defaultdict(Counter)
    for row in rows:
        cells[row["dimension"], row["tier"], row["curve"], row["source_kind"], row["split"]][row["direction"]] += 1
        assert row["answer"] == row["choices"][row["answer_index"]]
        assert sorted(row["choices"]) == sorted(BY_NAME[row["dimension"]].answers)
    assert all(count[0] == count[1] > 0 for count in cells.values())
    orders: dict[tuple[str, ...], Counter[tuple[bool, int]]] = defaultdict(Counter)
    for row in rows:
        orders[row["dimension"], row["split"]][row["choices"][0] == BY_NAME[row["dimension"]].answers[0], row["direction"]] += 1
    for count in orders.values():
        assert (count[True, 0], count[False, 0]) == (count[True, 1], count[False, 1])
        assert abs(count[True, 0] - count[False, 0]) <= 1


def test_splits_share_no_speaker_source_or_text(smoke: Built) -> None:
    """Speakers, sources and texts stand in one split only, over all dimensions."""
    for key in ("speaker_id", "source_id", "text"):
        where = defaultdict(set)
        for row in rows_of(smoke.out, key):
            if row[key] is not None:
                where[row[key]].add(row["split"])
        assert where
        assert all(len(splits) == 1 for splits in where.values())


def test_no_two_clips_are_alike_and_no_identifier_tells(smoke: Built) -> None:
    """Audio, ids and plans are unique; ids are opaque hashes; file names are ids."""
    rows = rows_of(smoke.out, "id", "pair_id", "audio_sha256", "plan", "audio", "direction")
    for key in ("id", "audio_sha256", "plan"):
        assert len({row[key] for row in rows}) == len(rows)
    for row in rows:
        assert row["audio"]["path"] == f"{row['id']}.flac"
        assert set(row["id"][2:]) <= set("0123456789abcdef")
    last_digit = Counter((row["id"][-1] in "01234567", row["direction"]) for row in rows)
    assert len(last_digit) == 4


@pytest.mark.slow
def test_any_clip_is_made_again_from_its_row(smoke: Built) -> None:
    """Rendering a row's plan gives the published bytes, for every dimension and kind of source."""
    remaker = dataset.Remaker(RECIPES / "smoke.yaml")
    seen = set()
    for row in rows_of(smoke.out, "id", "dimension", "source_kind"):
        if (row["dimension"], row["source_kind"]) not in seen:
            seen.add((row["dimension"], row["source_kind"]))
            values = dataset.row(smoke.out, row["id"])
            _, content = remaker.clip(values)
            assert dataset.same_bytes(values, content), row
    assert seen == {(cell.dimension, cell.kind) for shard in smoke.plan.shards for cell, _ in shard.wanted if not cell.is_control}


def test_controls_have_no_direction_and_no_answer(smoke: Built) -> None:
    """Flat clips are heard to change by at most half a J, carry no label, and are in no other configuration."""
    rows = rows_of(smoke.out, "id", "direction", "answer", "answer_index", "span", "effect_jnd", "curve", "audio_sha256", controls=True)
    assert len(rows) == wanted(smoke, controls=True)
    for row in rows:
        assert row["direction"] is row["answer"] is row["answer_index"] is None
        assert row["curve"] == "flat"
        assert row["span"] == 0.0
        assert abs(row["effect_jnd"]) <= 0.5
    assert not {row["audio_sha256"] for row in rows} & {row["audio_sha256"] for row in rows_of(smoke.out, "audio_sha256")}


def test_show_draws_a_clip(smoke: Built, tmp_path: Path) -> None:
    """`vocalgrad show` writes a PNG of a clip named by the beginning of its id."""
    row = rows_of(smoke.out, "id")[0]
    target = tmp_path / "clip.png"
    arguments = ["show", row["id"], "--dataset", str(smoke.out), "--recipe", str(RECIPES / "smoke.yaml"), "--to", str(target)]
    done = subprocess.run([sys.executable, "-m", "builder", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert target.read_bytes().startswith(b"\x89PNG")


# -- as users load it -------------------------------------------------------------------------------------------------

LOAD = """
from datasets import Audio, get_dataset_config_names, load_dataset
print(get_dataset_config_names("vocalgrad"))
print({name: len(split) for name, split in load_dataset("vocalgrad").items()})
print({name: len(split) for name, split in load_dataset("vocalgrad", "pitch").items()})
stream = load_dataset("vocalgrad", "pitch", split="test", streaming=True).cast_column("audio", Audio(decode=False))
row = list(stream.take(1))[0]
print(row["dimension"], row["audio"]["bytes"][:4])
"""


def test_load_dataset_by_its_bare_name_offline(smoke: Built, tmp_path: Path) -> None:
    """From the folder that holds it, the dataset loads whole, by configuration, and streaming; torch is not needed."""
    shown = run_python(LOAD, smoke.out.parent, tmp_path).splitlines()
    assert shown[0] == str(["all", *(dimension.name for dimension in DIMENSIONS), "controls"])
    mono = {dimension.name for dimension in DIMENSIONS if not dimension.stereo}
    for line, names in ((shown[1], mono), (shown[2], {"pitch"})):
        assert line == str({split: 2 * wanted(smoke, names, split) for split in ("train", "validation", "test")})
    assert shown[3] == "pitch b'fLaC'"


IDS = "from datasets import load_dataset; print(sorted(load_dataset('vocalgrad', 'tempo', split='test')['id']))"


@pytest.mark.slow
def test_a_rebuild_with_another_seed_is_seen_by_a_new_process(tmp_path: Path) -> None:
    """In the same place, with the same cache: new rows, another test split, no old rows out of a stale cache."""
    recipe = tmp_path / "tempo.yaml"
    values = yaml.safe_load((RECIPES / "smoke.yaml").read_text())
    values |= {
        "include": str(RECIPES / "base.yaml"),
        "dimensions": [str(RECIPES / "tempo.yaml")],
        "kinds": ["pulses"],
        "speech": {"corpus": None},
    }
    recipe.write_text(yaml.safe_dump(values))
    shown = []
    for seed in (1, 2):
        pipeline.build(recipe, seed, tmp_path / "vocalgrad", Local(1), lambda line: None)
        shown.append(run_python(IDS, tmp_path, tmp_path / "hf"))
        assert json.loads((tmp_path / "vocalgrad" / "manifest.json").read_text())["seed"] == seed
    assert shown[0] != shown[1]
    assert not (tmp_path / "vocalgrad.partial").exists()
    assert not (tmp_path / "vocalgrad.old").exists()


@pytest.mark.slow
def test_a_dimension_in_several_shards_is_whole(tmp_path: Path) -> None:
    """Three shards for one split: every cell is full over all of them, no clip stands twice, the dataset validates."""
    recipe = tmp_path / "tempo.yaml"
    values = {
        "include": str(RECIPES / "base.yaml"),
        "dimension": "tempo",
        "sources": [{"kind": "pulses"}, {"kind": "voice_syllables"}],
        "speech": {"corpus": None},
        "splits": {"train": {"share": 0.5}, "test": {"share": 0.5}},
        "tiers": {"medium": 4.0},
        "curves": ["linear", "step"],
        "pairs_per_cell": {"train": 4, "test": 1},
        "controls_per_kind": {"train": 1, "test": 1},
        "max_pairs_per_shard": 6,
    }
    recipe.write_text(yaml.safe_dump(values))
    built = pipeline.build(recipe, None, tmp_path / "vocalgrad", Local(2), lambda line: None)
    assert [item.count for item in built.plan.shards if not item.controls] == [3, 3, 3, 1]
    assert validate.check(built.out, dataset.heard_again) == []
    assert len(rows_of(built.out, "id")) == 2 * 4 * (4 + 1)


# -- leaks that no label should have ------------------------------------------------------------------------------------


def silence_s(sound: Any, at_end: bool) -> float:
    """Time before the first (or after the last) sample within 40 dB of the peak."""
    loud = np.flatnonzero(np.abs(sound.samples) > np.max(np.abs(sound.samples)) * 10.0 ** (-40.0 / 20.0))
    return float((len(sound.samples) - 1 - loud[-1] if at_end else loud[0]) / sound.sample_rate_hz)


@pytest.mark.parametrize("kind", ["pulses", "voice_syllables", "syllables"])
def test_silence_at_the_ends_does_not_tell_the_tempo(real: sources.Gathered, default_recipe: Any, kind: str) -> None:
    """Rows of events begin and end in sound: lead-in less lead-out differs by under 4 ms between rising and falling."""
    for number in range(6):
        spec = real.by_kind["syllables"][7 * number] if kind == "syllables" else synthesis.drawn(kind, "test", number, 1)
        source = sources.realise(spec, 16_000, real.corpora, default_recipe.speech)
        ends = []
        for sign in (1, -1):
            sound = render.clip(pair_of("tempo", BY_NAME["tempo"].jnd.on(kind), spec, "linear"), source, sign)
            ends.append(silence_s(sound, at_end=False) - silence_s(sound, at_end=True))
        assert abs(ends[0] - ends[1]) < 0.004


# -- resuming and refusing --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_only_what_is_broken_is_made_again(smoke: Built, tmp_path: Path) -> None:
    """A shard cut short and one whose report is gone are made again, the rest is kept, and the bytes are the same."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    before = digests(out)
    names = sorted(before)
    broken = out / "data" / f"{names[0]}.parquet"
    broken.write_bytes(broken.read_bytes()[:-100])
    (out / "reports" / f"{names[5]}.json").unlink()
    said: list[str] = []
    built = pipeline.build(RECIPES / "smoke.yaml", None, out, Local(2), said.append)
    assert built.n_reused == len(before) - 2
    assert any(f"{len(before) - 2} of {len(before)} shards are already there and whole" in line for line in said)
    assert digests(out) == before


def test_a_folder_that_is_not_ours_is_never_replaced(tmp_path: Path) -> None:
    """An output folder without a manifest is refused, untouched."""
    (tmp_path / "vocalgrad").mkdir()
    (tmp_path / "vocalgrad" / "thesis.txt").write_text("years of work")
    with pytest.raises(VocalgradError, match="isn't a dataset built by vocalgrad"):
        pipeline.build(RECIPES / "smoke.yaml", None, tmp_path / "vocalgrad", Local(1), lambda line: None)
    assert (tmp_path / "vocalgrad" / "thesis.txt").read_text() == "years of work"


def test_a_cell_that_cannot_be_filled_is_named_with_its_reasons(tmp_path: Path) -> None:
    """Noise can't carry the largest tilt at held loudness: the error names cell, count, reasons and what to do; exit 1, no traceback."""
    recipe = tmp_path / "impossible.yaml"
    values = {
        "include": str(RECIPES / "base.yaml"),
        "dimension": "brightness",
        "sources": [{"kind": "noise"}],
        "tiers": {"extreme": 5.0},
        "curves": ["ease_in"],
        "speech": {"corpus": None},
        "pairs_per_cell": {"train": 2, "validation": 2, "test": 2},
        "isolation": {"max_leak_jnd": 0.05},
    }
    recipe.write_text(yaml.safe_dump(values))
    done = run_build(ROOT, "--recipe", str(recipe), "--out", str(tmp_path / "out"), "--workers", "1")
    assert done.returncode == 1
    assert "cell brightness x extreme x ease_in x noise x " in done.stderr
    assert "leak_loudness" in done.stderr
    assert "take another seed" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
    assert issubclass(CellUnfilled, VocalgradError)


# -- planted faults ---------------------------------------------------------------------------------------------------


def pitch_again(sound: Any, row: dict[str, Any]) -> dict[str, float]:
    """What is measured in a clip again, if it's one of pitch, where the faults are planted."""
    return dataset.heard_again(sound, row) if row["dimension"] == "pitch" else {}


def altered(smoke: Built, tmp_path: Path, change: Any, *, seal: bool = True) -> list[str]:
    """Faults of a copy of the smoke dataset, pitch's test rows having gone through `change`; `seal` renews the checksum."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    manifest = json.loads((out / "manifest.json").read_text())
    item = next(item for item in manifest["shards"] if item["shard"].startswith("pitch/test-"))
    path = out / "data" / f"{item['shard']}.parquet"
    table = pq.read_table(path)
    pq.write_table(change(table), path)
    if seal:
        from builder.fetch import sha256_of

        item["parquet_sha256"] = sha256_of(path)
        (out / "manifest.json").write_text(json.dumps(manifest))
    return validate.check(out, pitch_again)


def with_rows(change: Any) -> Any:
    """A table change out of a change of its rows."""

    def run(table: Any) -> Any:
        rows = table.to_pylist()
        change(rows)
        return type(table).from_pylist(rows, schema=table.schema)

    return run


def _flip(rows: list[dict[str, Any]]) -> None:
    rows[0]["direction"] = 1 - rows[0]["direction"]


def _truncate(rows: list[dict[str, Any]]) -> None:
    rows[0]["audio"]["bytes"] = rows[0]["audio"]["bytes"][:2000]


def _twice(rows: list[dict[str, Any]]) -> None:
    rows[1]["audio"] = rows[0]["audio"]
    rows[1]["audio_sha256"] = rows[0]["audio_sha256"]


def _not_among(rows: list[dict[str, Any]]) -> None:
    rows[0]["answer"] = "up"


def _same_choices(rows: list[dict[str, Any]]) -> None:
    rows[0]["choices"] = ["increase", "increase"]


def _swapped(rows: list[dict[str, Any]]) -> None:
    by_pair: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_pair[row["pair_id"]].append(row)
    for first, second in by_pair.values():
        for key in ("bytes",):
            first["audio"][key], second["audio"][key] = second["audio"][key], first["audio"][key]
        first["audio_sha256"], second["audio_sha256"] = second["audio_sha256"], first["audio_sha256"]


def _one_order(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["choices"] = ["increase", "decrease"]
        row["answer_index"] = row["choices"].index(row["answer"])


def _other_split(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["speaker_id"] = "one-voice"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (with_rows(_flip), "direction, answer, span and effect disagree"),
        (with_rows(_truncate), "the audio's checksum isn't the row's"),
        (with_rows(_twice), "stands in 2 rows"),
        (with_rows(_not_among), "answer 'up', choices"),
        (with_rows(_swapped), "measured again, the effect is"),
        (with_rows(_one_order), "the choices stand in one order in"),
        (with_rows(_same_choices), "choices ['increase', 'increase']"),
        (with_rows(lambda rows: rows.pop()), "rows, the manifest says"),
        (lambda table: table.append_column("extra", [list(range(len(table)))]), "columns differ: ['extra']"),
    ],
)
def test_a_planted_fault_is_found(smoke: Built, tmp_path: Path, change: Any, said: str) -> None:
    """Each fault in the bytes gives a line that says it."""
    faults = altered(smoke, tmp_path, change)
    assert any(said in fault for fault in faults), faults


def test_an_altered_shard_fails_its_checksum(smoke: Built, tmp_path: Path) -> None:
    """Bytes that aren't those of the manifest are found, whatever they hold."""
    faults = altered(smoke, tmp_path, lambda table: table, seal=False)
    assert any("the checksum isn't the manifest's" in fault for fault in faults)


def test_missing_and_stray_files_are_found(smoke: Built, tmp_path: Path) -> None:
    """A shard that's gone, and a file that no manifest lists."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    first = sorted(digests(out))[0]
    (out / "data" / f"{first}.parquet").rename(out / "data" / "stray.parquet")
    faults = validate.check(out, pitch_again)
    assert f"data/{first}.parquet: listed in the manifest and not there" in faults
    assert "data/stray.parquet: there and not listed in the manifest" in faults


def test_a_local_path_in_the_card_is_found(smoke: Built, tmp_path: Path) -> None:
    """No path of the builder's machine may travel with the data."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    with (out / "README.md").open("a") as stream:
        stream.write("\nmade in /home/someone/data\n")
    assert any("README.md: holds a local path" in fault for fault in validate.check(out, pitch_again))


def copied(smoke: Built, tmp_path: Path) -> Path:
    """A copy of the smoke dataset to plant a fault in."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    return out


def test_the_builders_name_is_found(smoke: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is named in the dataset is told, unless its name is a word that stands anywhere."""
    out = copied(smoke, tmp_path)
    for name, found in (("gauss-lab.example", True), ("localhost", False), ("x1", False)):
        with (out / "ATTRIBUTION.md").open("a") as stream:
            stream.write(f"\nmade on {name}\n")
        monkeypatch.setattr(folder.platform, "node", lambda name=name: name)
        assert ("ATTRIBUTION.md: holds the machine's name (gauss-lab)" in list(folder.local_faults(out))) is found


def test_a_local_path_in_a_row_is_found(smoke: Built, tmp_path: Path) -> None:
    """In a shard's text as well as in the folder's files, with the clip."""

    def change(rows: list[dict[str, Any]]) -> None:
        rows[0]["attribution"] += " from /home/someone/corpus"

    faults = altered(smoke, tmp_path, with_rows(change))
    assert any(re.fullmatch(r"vg[0-9a-f]+: holds a local path \(/home/\.\.\.\)", fault) for fault in faults), faults


def test_a_shard_without_page_index_is_found(smoke: Built, tmp_path: Path) -> None:
    """As any other writer leaves it: no page index, and audio compressed once more."""
    faults = altered(smoke, tmp_path, lambda table: table)
    assert any("row group 0 has no page index for " in fault for fault in faults), faults
    assert any("row group 0: audio.bytes is compressed once more" in fault for fault in faults), faults


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            r"num_examples: \d+",
            "num_examples: 7",
            r"README.md: configuration all, train: 7 rows, its shards have \d+: AGAIN",
        ),
        (r"    - data/pan/test-\*.parquet\n", "", r"README.md: no configuration holds pan/test-00000-of-00001: AGAIN"),
        (r"dtype: float64", "dtype: float32", r"README.md: configuration all has other columns than the shards: AGAIN"),
        (r"configs:", "config:", r"README.md: its front matter isn't a card of `vocalgrad` \(KeyError: 'configs'\): AGAIN"),
        (r"- config_name: pan\n  features", "- config_name: pam\n  features", r"README.md: configs and dataset_info name different .*"),
    ],
)
def test_a_card_that_does_not_fit_its_shards_is_found(smoke: Built, tmp_path: Path, old: str, new: str, said: str) -> None:
    """Other counts, other columns, a shard in no configuration, a configuration without its twin."""
    out = copied(smoke, tmp_path)
    card = (out / "README.md").read_text()
    changed = re.sub(old, new, card, count=1)
    assert changed != card
    (out / "README.md").write_text(changed)
    faults = list(folder.card_faults(out, json.loads((out / "manifest.json").read_text())))
    again = f"run `vocalgrad card --dataset {out}`"
    assert any(re.fullmatch(said.replace("AGAIN", re.escape(again)), fault) for fault in faults), faults


def test_clips_made_again_are_compared(smoke: Built, tmp_path: Path) -> None:
    """A bit that no measure can hear is found where the clip is made again; kinds and dimensions take turns."""
    out = copied(smoke, tmp_path)
    path = out / "data" / "pan" / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    for row in rows:
        sound = audio.from_flac(row["audio"]["bytes"])
        samples = sound.samples.copy()
        samples[1000] += 1.0 / audio.PCM16_SCALE
        row["audio"]["bytes"] = audio.flac_bytes(Sound(samples, sound.sample_rate_hz))
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    tried: list[dict[str, Any]] = []
    remaker = dataset.Remaker(RECIPES / "smoke.yaml")

    def made_again(row: Any) -> bytes:
        tried.append(row)
        if row["source_kind"] in SPEECH_KINDS and row["dimension"] != "pan":
            raise VocalgradError("no corpus here")
        return remaker.clip(row)[1]

    faults = validate.made_again_faults(out, made_again, 12)
    assert len(tried) == 12
    assert len({(row["source_kind"], row["dimension"]) for row in tried}) == 12
    for row in tried:
        mine = [fault for fault in faults if fault.startswith(row["id"])]
        if row["dimension"] == "pan" and row["curve"] != "flat":
            assert "made again from its row, its bytes differ" in mine[0]
        elif row["source_kind"] in SPEECH_KINDS and row["dimension"] != "pan":
            assert mine == [f"{row['id']}: can't be made again: no corpus here"]
        else:
            assert mine == []


def test_one_speaker_in_two_splits_is_found(smoke: Built, tmp_path: Path) -> None:
    """A speaker who stands in train and test is named."""
    out = tmp_path / "vocalgrad"
    shutil.copytree(smoke.out, out)
    for split in ("train", "test"):
        path = out / "data" / "pitch" / f"{split}-00000-of-00001.parquet"
        pq.write_table(with_rows(_other_split)(pq.read_table(path)), path)
    assert any("speaker_id 'one-voice' is in test and train" in fault for fault in validate.check(out, pitch_again))


# -- the same bytes, however it's built -------------------------------------------------------------------------------


@pytest.mark.slow
def test_same_bytes_with_one_worker_elsewhere(smoke: Built, tmp_path: Path) -> None:
    """A copied clone with one worker and another hash seed gives the same shard digests; builds that are killed below have other ones."""
    clone = tmp_path / "elsewhere"
    for part in ("builder", "recipes", "data_cards"):
        shutil.copytree(ROOT / part, clone / part, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_build(clone, "--recipe", "recipes/smoke.yaml", "--workers", "1", PYTHONHASHSEED="0")
    assert done.returncode == 0, done.stderr
    assert digests(clone / "vocalgrad") == digests(smoke.out)


@pytest.mark.slow
def test_another_seed_gives_another_test_split(smoke: Built, tmp_path: Path) -> None:
    """Nothing of one seed's test split is in another's, but clips of real voices that both happen to draw: few, of 22 speakers.

    Seed 4 passes its audit: its twelve pairs of formants, which lie near a limit, were once taken for a leak.
    """
    done = run_build(ROOT, "--recipe", "recipes/smoke.yaml", "--seed", "4", "--out", str(tmp_path / "two"))
    assert done.returncode == 0, done.stderr
    one = {row["id"]: row for row in rows_of(smoke.out, "id", "source_id", "source_kind", "audio_sha256")}
    two = {row["id"]: row for row in rows_of(tmp_path / "two", "id", "source_id", "source_kind", "audio_sha256")}
    test_one, test_two = ({row["audio_sha256"]: row for row in rows.values() if row["split"] == "test"} for rows in (one, two))
    both = test_one.keys() & test_two.keys()
    assert {test_one[checksum]["source_kind"] for checksum in both} <= set(SPEECH_KINDS)
    assert len(both) < 0.15 * len(test_one)
    synthetic = [{row["source_id"] for row in rows.values() if row["source_id"].startswith("s")} for rows in (one, two)]
    assert not synthetic[0] & synthetic[1]


def is_worker(pid: str) -> bool:
    """Whether a process is (still) one of the build's workers."""
    try:
        return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


@pytest.mark.slow
def test_a_killed_worker_costs_its_shard_only(smoke: Built, tmp_path: Path) -> None:
    """One of eight workers killed with signal 9: its shard is named and made again, and the build ends whole, with the same bytes."""
    out = tmp_path / "vocalgrad"
    command = [sys.executable, "-m", "builder", "build", "--recipe", "recipes/smoke.yaml", "--out", str(out), "--workers", "8"]
    environment = {**os.environ, "PYTHONHASHSEED": "random"}
    running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    reports = out.with_name("vocalgrad.partial") / "reports"
    while running.poll() is None and not list(reports.glob("*/*.json")):
        time.sleep(0.05)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    workers = [pid for pid in children if is_worker(pid)]
    os.kill(int(workers[0]), signal.SIGKILL)
    _, errors = running.communicate()
    assert running.returncode == 0, errors
    assert "its worker process ended, killed, most often for want of memory" in errors
    assert "Traceback" not in errors
    assert digests(out) == digests(smoke.out)


@pytest.mark.slow
def test_workers_end_with_their_parent_and_the_build_resumes(smoke: Built, tmp_path: Path) -> None:
    """The parent killed with signal 9: no worker writes beside the next build, of four workers, which ends with the same bytes."""
    out = tmp_path / "vocalgrad"
    command = [sys.executable, "-m", "builder", "build", "--recipe", "recipes/smoke.yaml", "--out", str(out), "--workers", "2"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reports = out.with_name("vocalgrad.partial") / "reports"
    while running.poll() is None and not list(reports.glob("*/*.json")):
        time.sleep(0.05)
    children = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    assert children
    running.kill()
    running.wait()
    for _ in range(300):
        alive = [pid for pid in children if is_worker(pid)]
        if not alive:
            break
        time.sleep(0.1)
    assert not alive
    again = run_build(ROOT, "--recipe", "recipes/smoke.yaml", "--out", str(out), "--workers", "4", PYTHONHASHSEED="1")
    assert again.returncode == 0, again.stderr
    assert digests(out) == digests(smoke.out)
