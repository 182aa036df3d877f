"""The audit: what it measures on a whole dataset, and that each of its gates closes on a planted fault."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy import stats

from builder import audit, cues, dataset, examined, hypotheses, leakage, pipeline, shortcuts, silence, truth
from builder.__main__ import main
from builder.acoustics import audio, filters
from builder.dimensions import MEASURES
from builder.engines import heard_by
from builder.layout import read_manifest, read_rows
from builder.pipeline import Built
from builder.records import Sound
from builder.sample import Sample
from builder.workers import Local
from evaluation import oracle

RECIPES = Path(__file__).parent.parent / "recipes"
SMALL = """
include: base.yaml
dimensions: [pitch.yaml, brightness.yaml]
speech: {corpus: null}
kinds: [voice, noise]
tiers: {medium: 4.0}
curves: [linear]
pairs_per_cell: {test: 6}
splits: {test: {share: 1.0}}
controls_per_kind: {test: 1}
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pitch and brightness, six pairs of each kind."""
    folder = tmp_path_factory.mktemp("audit")
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, folder)
    (folder / "small.yaml").write_text(SMALL)
    pipeline.build(folder / "small.yaml", None, folder / "ds", Local(2), lambda line: None)
    return folder / "ds"


def altered(small: Path, tmp_path: Path, change: Callable[[Sound, dict[str, Any]], Sound], dimension: str = "brightness") -> dict[str, Any]:
    """The audit of a copy in which each labelled clip of a dimension went through `change`."""
    out = tmp_path / "ds"
    shutil.copytree(small, out)
    for item in read_manifest(out)["shards"]:
        if item["shard"].startswith(f"{dimension}/"):
            path = out / "data" / f"{item['shard']}.parquet"
            table = pq.read_table(path)
            rows = table.to_pylist()
            for row in rows:
                made = change(audio.from_flac(row["audio"]["bytes"]), row)
                row["audio"]["bytes"] = audio.flac_bytes(audio.rounded_to_pcm16(made))
            pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    return audit.run(out, read_manifest(out), 12)


def sign_of(row: dict[str, Any]) -> int:
    """+1 of a rising clip, -1 of a falling one."""
    return 1 if row["direction"] == 0 else -1


def test_a_sound_dataset_passes(small: Path) -> None:
    """Every pair is measured in every dimension that its kind carries, the swept one moves by its tier, and no gate closes."""
    report = audit.run(small, read_manifest(small), 12)
    assert report["failures"] == []
    leaks = {(leak["swept"], leak["measured"]): leak for leak in report["leaks"]}
    assert len(leaks) == 2 * len(MEASURES)
    for name, n_pairs in (("pitch", 6), ("brightness", 12)):
        assert leaks[name, name]["n_pairs"] == leaks[name, name]["n_measured"] == n_pairs
        assert leaks[name, name]["median_jnd"] == pytest.approx(4.0, abs=0.6)
    assert leaks["pitch", "brightness"]["linked"]
    held = leaks["brightness", "loudness"]
    assert held["equivalent"]
    assert held["ci90_low_jnd"] <= held["mean_jnd"] <= held["ci90_high_jnd"]
    assert report["duplicates"]["audio"] == report["duplicates"]["texts_shared"] == 0
    assert report["unbalanced"] == []
    assert json.loads((small / "audit" / "audit.json").read_text()) == report


def test_every_cue_is_judged(small: Path) -> None:
    """By both classifiers, in each dimension and in their mean; gated ones pass, and none is at an accuracy without an interval."""
    results = audit.run(small, read_manifest(small), 12)["shortcuts"]
    names = [*cues.GATED, *cues.REPORTED]
    for dimension in ("pitch", "brightness", "all"):
        for classifier in shortcuts.CLASSIFIERS:
            mine = {result["cue"]: result for result in results if (result["dimension"], result["classifier"]) == (dimension, classifier)}
            assert sorted(mine) == sorted(names)
            assert all(result["low"] <= result["accuracy"] <= result["high"] for result in mine.values())


def test_difficulty_is_what_was_planned(small: Path) -> None:
    """Each cell says how many clips it has, what was planned, what was reached, and that the weakest clip is above the least allowed."""
    cells = audit.run(small, read_manifest(small), 1)["difficulty"]
    assert {(cell["dimension"], cell["tier"], cell["curve"], cell["source_kind"], cell["n_clips"]) for cell in cells} == {
        ("pitch", "medium", "linear", "voice", 12), ("brightness", "medium", "linear", "voice", 12),
        ("brightness", "medium", "linear", "noise", 12),
    }  # fmt: skip
    for cell in cells:
        assert cell["planned_jnd"] == pytest.approx(4.0)
        assert 2.5 < cell["effect_low_jnd"] <= cell["effect_median_jnd"] <= cell["effect_high_jnd"] < 5.0
        assert 0.0 <= cell["margin_jnd"] < 2.5
        assert cell["salience_median"] > 1.0


def test_listeners_say_what_the_labels_say(small: Path) -> None:
    """Of every clip neither the labelling rule nor the oracle says the opposite of its label; groups and the weakest clip are told."""
    report = audit.run(small, read_manifest(small), 1, map, dataset.LISTENERS)
    whole = {row["dimension"]: row for row in report["truth"] if row["by"] == "all"}
    assert set(whole) == {"pitch", "brightness"}
    for name, n_clips in (("pitch", 12), ("brightness", 24)):
        row = whole[name]
        assert row["n_clips"] == n_clips
        assert (row["rule_agrees"], row["rule_contradicts"], row["oracle_contradicts"]) == (1.0, 0, 0)
        weakest = min(abs(clip["effect_jnd"]) for clip in read_rows(small, f"{name}/test-00000-of-00001"))
        assert row["rule_least_jnd"] == pytest.approx(weakest, abs=1e-3)
        assert 0.0 < row["rule_least_rank"] <= 1.0
        assert row["oracle_least_jnd"] is None
    assert {row["by"] for row in report["truth"]} == {"all", "tier", "curve", "source_kind", "speaker_sex"}
    assert {row["group"] for row in report["truth"] if row["by"] == "speaker_sex"} == {"nobody real"}


@pytest.mark.slow
def test_a_dimension_without_an_oracle_measure_is_not_asked_about(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle's figures of it are None, its clips count for no failure, and the table says why; the others' figures stay."""
    before = audit.run(small, read_manifest(small), 1, map, dataset.LISTENERS)
    monkeypatch.delitem(oracle.MEASURES, "brightness")
    report = audit.run(small, read_manifest(small), 1, map, dataset.LISTENERS)
    for row, other in zip(report["truth"], before["truth"], strict=True):
        unasked = {"oracle_agrees": None, "oracle_contradicts": None} if row["dimension"] == "brightness" else {}
        assert row == {**other, **unasked}
    assert report["failures"] == before["failures"]
    lines = [line for line in audit.text(report).splitlines() if "no oracle measure" in line]
    assert [line.split()[0] for line in lines] == ["brightness"]


def test_agreement_is_told_by_sex() -> None:
    """Of real speakers whose sex the corpus tells, and apart of those of whom it doesn't."""
    row = {"id": "a", "dimension": "pitch", "direction": 1, "tier": "hard", "curve": "step", "source_kind": "speech", "speaker_id": "s"}
    down = {"ear": lambda sound, values: truth.Answer(-2.0, -1.5, -0.5)}
    silent = Sound(np.zeros(10), 16_000)
    rows = [{**row, "speaker_id": "anna"}, {**row, "speaker_id": "who"}, {**row, "source_kind": "tone", "speaker_id": None}]
    heard = [truth.of_clip(row, silent, down, {"anna": "f"}) for row in rows]
    assert [clip["speaker_sex"] for clip in heard] == ["f", "unknown", "nobody real"]
    table = {(line["by"], line["group"]): line for line in truth.table(truth.merged([truth.tallied(heard[:1]), truth.tallied(heard[1:])]))}
    assert table["speaker_sex", "f"]["n_clips"] == 1
    assert table["all", "all"] == {
        "dimension": "pitch", "by": "all", "group": "all", "n_clips": 3, "ear_agrees": 1.0, "ear_contradicts": 0,
        "ear_least_jnd": 1.5, "ear_least_rank": 0.5,
    }  # fmt: skip


def test_imposed_labels_are_counted() -> None:
    """Each way of being wrong has its share and Wilson's interval over sources; what can't be made is counted apart."""
    says = [(1, 1), (0, 1), (0, -1), (-1, -1)]
    head = {"dimension": "pitch", "tier": "hard", "curve": "step"}
    outcomes = [
        {**head, "source_id": str(i), "clips": [{"rule": rule, "slope": slope}, {"refused": "x"}]} for i, (rule, slope) in enumerate(says)
    ]
    (row,) = truth.imposed(outcomes)
    assert (row["n_clips"], row["n_sources"], row["refused"]) == (4, 4, 4)
    assert (row["slope_opposite"], row["rule_opposite"], row["rule_silent"]) == (0.5, 0.25, 0.5)
    interval = stats.binomtest(1, 4).proportion_ci(method="wilson")
    assert (row["rule_opposite_low"], row["rule_opposite_high"]) == pytest.approx((interval.low, interval.high), abs=1e-4)
    (nothing,) = truth.imposed([{**outcomes[0], "clips": [{"refused": "x"}, {"refused": "x"}]}])
    assert (nothing["n_clips"], nothing["slope_opposite"], nothing["slope_opposite_low"]) == (0, None, None)


def test_a_flipped_label_is_heard(small: Path, tmp_path: Path) -> None:
    """Two clips of a pair that changed places say the opposite of their labels, and each is named."""
    out = tmp_path / "ds"
    shutil.copytree(small, out)
    path = next((out / "data" / "pitch").glob("*.parquet"))
    table = pq.read_table(path)
    rows = table.to_pylist()
    pair = [row for row in rows if row["pair_id"] == rows[0]["pair_id"]]
    pair[0]["audio"], pair[1]["audio"] = pair[1]["audio"], pair[0]["audio"]
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    failures = audit.run(out, read_manifest(out), 12, map, dataset.LISTENERS)["failures"]
    for row in pair:
        assert f"{row['id']} (pitch): the rule says the opposite of the label" in failures


def test_yields_are_the_manifests(small: Path) -> None:
    """Tried, published and rejected add up in every row, and every cell of the recipe is in one."""
    rows = audit.run(small, read_manifest(small), 1)["yields"]
    assert {(row["dimension"], row["kind"], row["tier"]) for row in rows if row["tier"] != "control"} == {
        ("pitch", "voice", "medium"), ("brightness", "voice", "medium"), ("brightness", "noise", "medium"),
    }  # fmt: skip
    for row in rows:
        assert row["tried"] == row["published"] + sum(row["rejected"].values())
        assert row["published"] == (1 if row["tier"] == "control" else 6)


def test_the_sample_is_spread_and_repeats(small: Path) -> None:
    """Half of the pairs of a dimension are taken from its kinds in turn, the same ones each time."""
    shards = [item["shard"] for item in read_manifest(small)["shards"] if not item["shard"].startswith("controls")]
    chosen = Sample(small, shards, 6).first
    assert chosen == Sample(small, shards[::-1], 6).first
    kinds = [row["source_kind"] for row in read_rows(small, shards[1]) if row["pair_id"] in chosen[shards[1]]]
    assert sorted(kinds) == ["noise"] * 6 + ["voice"] * 6


def test_the_sample_grows_in_stages_until_all_is_measured(small: Path) -> None:
    """Of twelve pairs one is measured at first, three more at the next stage, then the rest; never one twice, and of no other dimension."""
    shards = [item["shard"] for item in read_manifest(small)["shards"] if not item["shard"].startswith("controls")]
    sample = Sample(small, shards, 1)
    stages = [sample.first, *(sample.more(["brightness"]) for _ in range(3))]
    taken = [pair for stage in stages for name, pairs in stage.items() if name.startswith("brightness/") for pair in pairs]
    assert [sum(map(len, stage.values())) for stage in stages] == [2, 3, 8, 0]
    assert len(set(taken)) == len(taken) == 12


def test_a_leak_is_found(small: Path, tmp_path: Path) -> None:
    """3 dB of gain along the sweep's direction is more than a J of loudness, and brightness doesn't declare it."""

    def louder(sound: Sound, row: dict[str, Any]) -> Sound:
        return filters.scaled_by_db(sound, sign_of(row) * np.linspace(-2.0, 2.0, len(sound.samples)))

    failures = altered(small, tmp_path, louder)["failures"]
    assert [line for line in failures if line.startswith("brightness moves loudness: 95th percentile")], failures


def changes_of(moved: list[float], sources: list[str] | None = None) -> list[dict[str, Any]]:
    """Pairs of loudness that move pitch by so much, each of a source of its own by default, and nothing else."""
    held = dict.fromkeys(MEASURES)
    names = sources or [f"s{i}" for i in range(len(moved))]
    return [
        {"dimension": "loudness", "source_id": name, "change_jnd": {**held, "pitch": change}}
        for change, name in zip(moved, names, strict=True)
    ]


def failures_of(changes: list[dict[str, Any]]) -> list[str]:
    """What the audit says of them, were they all that it tests."""
    return [found.line for found in hypotheses.rejected(list(leakage.hypotheses_of(leakage.matrix(changes))))]


@pytest.mark.parametrize(("n_beyond", "closes"), [(0, False), (2, False), (7, False), (12, True), (20, True)])
def test_a_few_pairs_beyond_one_j_close_no_gate(n_beyond: int, closes: bool) -> None:
    """Of 40 pairs seven beyond 1 J may be chance, were they 5 %; twelve are more, at a rate of one in two hundred."""
    moved = [1.5 * (-1) ** i if i < n_beyond else 0.1 * (-1) ** i for i in range(40)]
    leak = next(leak for leak in leakage.matrix(changes_of(moved)) if leak["measured"] == "pitch")
    exact = stats.binomtest(n_beyond, 40, 0.05, alternative="greater").pvalue
    assert leak["n_beyond"] == n_beyond
    assert leak["share_p"] >= exact
    lines = failures_of(changes_of(moved))
    assert [line.startswith("loudness moves pitch: 95th percentile 1.50 J over 40 pairs of 40 sources, ") for line in lines] == [
        True
    ] * closes


def test_pairs_of_one_source_count_once() -> None:
    """Sixty pairs with a leak of 0.8 J close the gate if they come from as many sources, and not if they come from three."""
    moved = [0.8 + 0.05 * (-1) ** i for i in range(60)]
    assert [line.startswith("loudness moves pitch: mean +0.80 J") for line in failures_of(changes_of(moved))] == [True]
    assert failures_of(changes_of(moved, [f"s{i % 3}" for i in range(60)])) == []


def built(tmp_path: Path, text: str) -> Path:
    """The dataset of a recipe."""
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "small.yaml").write_text(text)
    pipeline.build(tmp_path / "small.yaml", None, tmp_path / "small", Local(2), lambda line: None)
    return tmp_path / "small"


@pytest.mark.slow
def test_a_steady_leak_is_found(tmp_path: Path) -> None:
    """0.75 LU of gain along the sweep stays under the limit of a single pair, and its mean over twenty noises is above that of a set."""
    text = SMALL.replace("pitch.yaml, brightness.yaml", "pan.yaml").replace("voice, noise", "noise").replace("test: 6", "test: 20")
    noises = built(tmp_path, text)
    assert audit.run(noises, read_manifest(noises), 20)["failures"] == []

    def louder(sound: Sound, row: dict[str, Any]) -> Sound:
        return filters.scaled_by_db(sound, sign_of(row) * np.linspace(-0.55, 0.55, len(sound.samples)))

    failures = altered(noises, tmp_path, louder, "pan")["failures"]
    assert any(line.startswith("pan moves loudness: mean +0.") for line in failures), failures
    assert not any(line.startswith("pan moves loudness: 95th percentile") for line in failures), failures


@pytest.mark.slow
def test_normalised_peaks_are_found(tmp_path: Path) -> None:
    """Who brings each clip of a loudness sweep to the same peak shifts the two of a pair against each other.

    Twelve pairs leave a doubt, and all forty settle it.
    """
    text = SMALL.replace("pitch.yaml, brightness.yaml", "loudness.yaml").replace("medium: 4.0", "easy: 8.0").replace("test: 6", "test: 20")
    small = built(tmp_path, text.replace("voice, noise", "noise").replace("linear", "ease_in, ease_out"))
    before = audit.run(small, read_manifest(small), 12)
    assert before["failures"] == []
    assert before["middles"][0]["p95_jnd"] < 0.1

    def normalised(sound: Sound, row: dict[str, Any]) -> Sound:
        return Sound(0.89 * sound.samples / np.max(np.abs(sound.samples)), sound.sample_rate_hz)

    report = altered(small, tmp_path / "out", normalised, "loudness")
    failures = report["failures"]
    assert (before["middles"][0]["n_pairs"], report["middles"][0]["n_pairs"]) == (12, 40)
    assert report["middles"][0]["p95_jnd"] > 1.0
    assert any(line.startswith("loudness: the two clips of a pair lie off their common middle by ") for line in failures), failures


def test_a_label_in_the_id_is_found(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its gate; at a rate of false alarms that as few as twelve pairs can meet."""
    monkeypatch.setattr(hypotheses, "FALSE_ALARM", 0.2)

    def named(sound: Sound, row: dict[str, Any]) -> Sound:
        row["id"] = row["id"][:-8] + ("u" if row["direction"] == 0 else "d") * 8
        return sound

    failures = altered(small, tmp_path, named)["failures"]
    assert any(line.startswith("brightness: the direction can be told from identifiers: balanced accuracy") for line in failures), failures


def in_another_split(small: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None], kept: int = 1) -> dict[str, Any]:
    """The audit of a copy that also has a train split of pitch: the first `kept` test clips after `change`, noisier by 20 dB of SNR."""
    out = tmp_path / "ds"
    shutil.copytree(small, out)
    table = pq.read_table(out / "data" / "pitch" / "test-00000-of-00001.parquet")
    rows = table.to_pylist()[:kept]
    for row in rows:
        sound = audio.from_flac(row["audio"]["bytes"])
        noise = np.random.default_rng(1).normal(size=sound.samples.shape) * 0.1 * np.sqrt(np.mean(sound.samples**2))
        row["audio"]["bytes"] = audio.flac_bytes(audio.rounded_to_pcm16(Sound(sound.samples + noise, sound.sample_rate_hz)))
        row["id"] = f"copy{row['id']}"
        change(row)
    pq.write_table(table.from_pylist(rows, schema=table.schema), out / "data" / "pitch" / "train-00000-of-00001.parquet")
    manifest = read_manifest(out)
    manifest["shards"].append({"shard": "pitch/train-00000-of-00001", "n_rows": kept})
    return audit.run(out, manifest, 1)


def test_a_clip_in_two_splits_is_found(small: Path, tmp_path: Path) -> None:
    """Through noise at 20 dB, with both ids; and the lone clip puts its cell out of balance."""
    report = in_another_split(small, tmp_path, lambda row: None)
    pairs = [example["clips"] for example in report["duplicates"]["audio_examples"]]
    assert any(first[1] == f"copy{second[1]}" or second[1] == f"copy{first[1]}" for first, second in pairs)
    lines = [line for line in report["failures"] if line.startswith("audio that is alike in more than one split: ")]
    assert len(lines) == 1
    assert "(test)" in lines[0]
    assert "(train)" in lines[0]


def test_a_text_in_two_splits_is_found(small: Path, tmp_path: Path) -> None:
    """However it's written: the same letters are the same text."""
    source = tmp_path / "source"
    shutil.copytree(small, source)
    path = source / "data" / "pitch" / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0]["text"] = "The north wind, and the sun."
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)

    def said(row: dict[str, Any]) -> None:
        row["text"] = "the NORTH wind and the Sun"

    failures = in_another_split(source, tmp_path / "out", said)["failures"]
    assert any(line.startswith("the same text in more than one split: 1 time, must be 0; such as ") for line in failures), failures


def test_imbalance_of_a_cell_is_found(small: Path, tmp_path: Path) -> None:
    """A falling clip that is gone is named by its cell."""
    out = tmp_path / "ds"
    shutil.copytree(small, out)
    path = out / "data" / "pitch" / "test-00000-of-00001.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows.remove(next(row for row in rows if row["direction"] == 1))
    pq.write_table(table.from_pylist(rows, schema=table.schema), path)
    failures = audit.run(out, read_manifest(out), 12)["failures"]
    assert "pitch x medium x linear x voice x test: 6 rising and 5 falling clips, must be as many" in failures


def test_silence_that_tells_is_found(small: Path, tmp_path: Path) -> None:
    """A fifth of a second of silence before rising clips and after falling ones."""

    def silenced(sound: Sound, row: dict[str, Any]) -> Sound:
        samples = sound.samples.copy()
        samples[slice(0, 3200) if sign_of(row) > 0 else slice(-3200, None)] = 0.0
        return Sound(samples, sound.sample_rate_hz)

    failures = altered(small, tmp_path, silenced, "pitch")["failures"]
    line = next(line for line in failures if line.startswith("pitch: silence at the ends tells the direction: AUC 1.00"))
    assert re.search(r"lead-in minus lead-out \+[34]\d\d ms longer in rising clips \(mean of 6 sources, p = ", line)


def test_full_scale_and_length_are_found(small: Path, tmp_path: Path) -> None:
    """A clipped sample and a pair of unequal length are counted, and must be 0."""

    def broken(sound: Sound, row: dict[str, Any]) -> Sound:
        samples = sound.samples[: len(sound.samples) - (row["direction"] == 0)].copy()
        samples[100] = -1.0
        return Sound(samples, sound.sample_rate_hz)

    failures = altered(small, tmp_path, broken)["failures"]
    assert "pairs of unequal length: 12, must be 0" in failures
    assert "samples at full scale: 24, must be 0" in failures


def test_silence_is_judged_over_sources() -> None:
    """Silence drawn at random isn't told, silence that follows the direction is; a clip without its other direction says nothing."""
    rng = np.random.default_rng(3)
    sources = [str(source) for source in range(40) for _ in (0, 1)]
    direction = [0, 1] * 40
    lead_s = rng.normal(0.0, 0.1, 80)
    chance = silence.row("pitch", lead_s, direction, sources)
    up, down = lead_s[::2], lead_s[1::2]
    assert chance["auc"] == pytest.approx(np.mean(up[:, None] > down), abs=1e-4)
    assert chance["p"] == pytest.approx(stats.ttest_rel(up, down).pvalue, abs=0.01)
    told = silence.row("pitch", lead_s - 0.2 * np.array(direction), direction, sources)
    assert told["auc"] > 0.8
    assert told["p"] < 1e-6
    alone = silence.row("pitch", lead_s, [0] * 80, [str(i) for i in range(80)])
    assert (alone["auc"], alone["mean_s"], alone["p"]) == (0.5, None, 1.0)
    assert list(silence.hypotheses_of([alone])) == []


def test_a_leak_that_chance_made_is_acquitted_by_more_pairs(monkeypatch: pytest.MonkeyPatch, small: Path) -> None:
    """Loud changes in the pairs that are measured first only: the dimension in doubt is measured on all of its pairs, and passes."""
    measured: list[str] = []

    def made_up(row: dict[str, Any], up: Sound, down: Sound) -> dict[str, Any]:
        measured.append(row["pair_id"])
        first = row["pair_id"] in early and row["dimension"] == "brightness"
        change = {**dict.fromkeys(MEASURES, 0.0), "loudness": 1.2 if first else 0.0}
        contrast = dict.fromkeys(MEASURES, (0.0, 0.0))
        return {"dimension": row["dimension"], "source_id": row["pair_id"], "change_jnd": change, "contrast_jnd": contrast}

    monkeypatch.setattr(leakage, "of_pair", made_up)
    monkeypatch.setattr(leakage, "MIN_SOURCES", 3)
    manifest = read_manifest(small)
    shards = [item["shard"] for item in manifest["shards"] if not item["shard"].startswith("controls")]
    early = {pair for pairs in Sample(small, shards, 3).first.values() for pair in pairs}
    report = audit.run(small, manifest, 3)
    assert report["failures"] == []
    assert {leak["swept"]: leak["n_pairs"] for leak in report["leaks"]} == {"pitch": 3, "brightness": 12}
    assert len(set(measured)) == len(measured) == 15


def test_what_is_kept_of_a_clip_is_small(small: Path) -> None:
    """Less than 1.5 KB of packed columns, fingerprint and every cue included; features come back as they were measured."""
    shard = next(item["shard"] for item in read_manifest(small)["shards"] if item["shard"].startswith("brightness/"))
    found = examined.together([examined.shard(small, shard, [])] * 40)
    table = found.clips["brightness"]
    assert table.nbytes / len(table) < 1500
    row = read_rows(small, shard)[0]
    sound = audio.from_flac(row["audio"]["bytes"])
    for name, values in cues.of_clip(row, sound).items():
        kept = examined.features(table, name)[0]
        assert kept == values if isinstance(values, list) else np.allclose(kept, values, rtol=1e-6, equal_nan=True)


def test_every_step_is_shown(small: Path) -> None:
    """Clips, classifiers, and the search for what is alike: each step is told of as many items as it has."""
    steps: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def step(what: str, total: int, unit: str) -> Iterator[None]:
        steps.append((what, total, []))
        with heard_by(lambda value: steps[-1][2].append(value[0])):
            yield

    audit.run(small, read_manifest(small), 2, map, dataset.LISTENERS, step)
    assert [what for what, _, _ in steps] == ["audit", "cues", "alike"]
    assert all(sum(told) == total > 0 for _, total, told in steps)


def test_gates_have_names_of_their_own(small: Path) -> None:
    """No two are alike in all but a word, and each hypothesis is counted under its gate."""
    report = audit.run(small, read_manifest(small), 12)
    names = list(report["gates"])
    alike = [max(SequenceMatcher(None, a, b).ratio() for b in names if b != a) for a in names]
    assert max(alike) < 0.75, dict(zip(names, alike, strict=True))
    tests = {row["gate"]: row["hypotheses"] for row in report["tests"]}
    assert set(tests) < set(names)
    assert tests[leakage.GATE] == sum(leak["mean_p"] is not None for leak in report["leaks"]) * 2 > 0
    assert tests[shortcuts.GATE] == sum(result["cue"] in cues.GATED for result in report["shortcuts"])
    assert tests[silence.GATE] == 2


def test_the_command_prints_and_ends_by_the_gates(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`vocalgrad audit` prints the tables, the verdict, and ends with 0 when it passes."""
    assert main(["audit", "--dataset", str(small), "--pairs", "4", "--workers", "1"]) == 0
    out = capsys.readouterr().out
    assert "audit passes" in out
    assert re.search(r"\n\d+ comparisons with a limit; where all limits are kept, chance closes a gate in 0.5% of audits at most\n", out)
    assert "what a sweep moves, in J" in out
    assert "what a classifier tells of the direction" in out
    assert "across splits: audio alike 0 times" in out
    assert "reached in J" in out
    assert all(f"{name[:10]:>12}" in out for name in MEASURES)


@pytest.mark.slow
def test_the_smoke_build_passes(smoke: Built) -> None:
    """Every dimension, on every kind of source."""
    report = audit.run(smoke.out, read_manifest(smoke.out), 24)
    assert report["failures"] == []
    assert all(row["published"] > 0 for row in report["yields"])
