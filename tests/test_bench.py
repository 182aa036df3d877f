"""The bench's made-up tables are what they say, its clocks count the real path whole, and its commands run."""

from __future__ import annotations

import os
import re
import shutil
from collections import defaultdict
from pathlib import Path

import pytest

from bench import floor, plan_scale, scaling, seeds, stages, tables, work
from bench.stages import Published, Spent
from builder import measure, render
from builder.records import Sound

RECIPES = Path(__file__).parent.parent / "recipes"
SMALL = """\
include: base.yaml
dimensions: [pan.yaml, clarity.yaml]
kinds: [noise]
speech: {corpus: null}
splits:
  test: {share: 1.0, min_speakers: 1, min_cuts: 1}
tiers: {medium: 4.0}
curves: [linear, step]
pairs_per_cell: {test: 2}
controls_per_kind: {test: 0}
"""


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Spent, list[Published], floor.Floor]]:
    """Two small shards, timed, and their floors."""
    folder = tmp_path_factory.mktemp("bench")
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, folder)
    (folder / "small.yaml").write_text(SMALL)
    shards, context = work.load(folder / "small.yaml")
    found = {}
    for shard in shards:
        spent, published, rows = stages.run(shard, context, folder)
        found[shard.dimension] = spent, published, floor.of(published, rows, folder / "floor.parquet")
    return found


def test_the_vctk_table_has_its_passage() -> None:
    """The first 24 sentences are everybody's, the others have about three readers in the whole table."""
    found = plan_scale.table("vctk", 44_000, 109)
    readers: dict[str, set[str]] = defaultdict(set)
    for cut in found.cuts:
        readers[cut.recording.text or ""].add(cut.recording.speaker)
    assert sum(len(names) == 109 for names in readers.values()) == 24
    others = [len(names) for names in readers.values() if len(names) < 109]
    assert 2.5 < sum(others) / len(others) < 3.7
    assert 2.6 < len(found.syllables) / len(found.cuts) < 2.7


@pytest.mark.parametrize("shape", ["read", "vctk"])
def test_the_bench_prints_what_it_took(shape: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each step, each dimension and split, refusals, and the sum; on a table small enough for a test."""
    plan_scale.main(["--shape", shape, "--cuts", "3000", "--speakers", "60"])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("pitch          test ") for line in lines)
    assert any(line.startswith("refused by the splits: text_in_other_split ") for line in lines)
    n_pairs = int(next(line for line in lines if " pairs in " in line).split()[0])
    assert n_pairs > {"read": 1_000_000, "vctk": 117_000}[shape]
    assert lines[-1].endswith("MB at most")


def test_every_moment_has_a_stage(timed: dict[str, tuple[Spent, list[Published], floor.Floor]]) -> None:
    """Stages add up to all that a shard took, none is unknown, and those that a clip can't do without took some."""
    for spent, published, _ in timed.values():
        assert set(spent.stage_s) <= set(stages.STAGES)
        assert sum(spent.stage_s.values()) == pytest.approx(spent.cpu_s)
        assert all(spent.stage_s[name] > 0.0 for name in stages.STAGES if name != "source")
        assert len(published) == spent.n_published == 8
        assert spent.n_tried >= 8
        assert 0.0 < tables.overhead(spent) < 1.0


def test_the_clocks_are_taken_off_again(timed: dict[str, tuple[Spent, list[Published], floor.Floor]]) -> None:
    """After a run the stages' functions are their own again."""
    assert timed
    for function in (render.sham, render.clip, measure.measure, measure.held, Sound.once):
        assert not hasattr(function, "__wrapped__"), function


def test_the_floor_counts_each_analysis_of_a_label_once(timed: dict[str, tuple[Spent, list[Published], floor.Floor]]) -> None:
    """Its own measure, its witness and what is held, with what they share; no sweep's restoring, and no analysis of another label."""
    _, published, least = timed["clarity"]
    asked = {"measure clarity", "witness clarity", "held loudness", "held pitch"}
    assert {name for name in least.analysis_s if name.split()[0] in ("measure", "witness", "held", "sham")} == asked
    assert {"spectrogram", "f0_semitones"} <= set(least.analysis_s)
    assert least.n_clips == len(published)
    assert 1 <= least.n_shams <= least.n_clips // 2
    share = least.n_shams / least.n_clips
    assert least.sham_s == pytest.approx(share * (least.resynthesis_s + least.analyses_s))
    assert least.clip_s == pytest.approx(least.resynthesis_s + least.analyses_s + least.flac_s + least.parquet_s)


def test_tables_have_a_line_for_each_dimension_and_for_all(timed: dict[str, tuple[Spent, list[Published], floor.Floor]]) -> None:
    """And their sums are those of the dimensions."""
    spent, found = [item[0] for item in timed.values()], [item[2] for item in timed.values()]
    for made in (tables.stages(spent), tables.floors(spent, found)):
        heads = [line.split()[0] for line in made]
        assert [head for head in heads if head in (*timed, "all")] == [*timed, "all"]
    whole = tables.total(spent)
    assert whole.cpu_s == pytest.approx(sum(item.cpu_s for item in spent))
    assert tables.summed(found).clip_s == pytest.approx(sum(item.clip_s for item in found))
    assert f"all-in / floor {whole.cpu_s / tables.summed(found).clip_s:.2f}" in "\n".join(tables.summary(spent, found))


def test_each_worker_takes_a_core_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first core that nobody has; one worker more than there are cores is left where it is."""
    taken: list[set[int]] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: taken.append(cores), raising=False)
    for _ in range(3):
        scaling.take_core([4, 7], tmp_path)
    assert taken == [{4}, {7}]


@pytest.mark.slow
def test_the_same_tasks_are_done_by_one_worker_and_by_all(tmp_path: Path) -> None:
    """Both make the same clips, each run is timed, and each worker tells its memory."""
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "small.yaml").write_text(SMALL.replace("pan.yaml, clarity.yaml", "pan.yaml"))
    shards, context = work.load(tmp_path / "small.yaml")
    one, every = scaling.compared(scaling.cells(shards), context, 2)
    assert (one.n_tried, one.n_published) == (every.n_tried, every.n_published)
    assert one.n_published == 8
    assert len(one.wall_s) == len(every.wall_s) == 2
    assert len(one.peak_mb) == 1
    assert every.n_workers == len(scaling.cores())
    assert 1 <= len(every.peak_mb) <= every.n_workers
    assert min(every.peak_mb.values()) > 50.0
    assert any(line.startswith(f"{every.n_workers} workers against 1: ") for line in tables.scaling(one, every))


def test_a_seed_that_does_not_build_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the build's last message, and at the end the exit status."""
    assert seeds.main(["--recipe", str(tmp_path / "none.yaml"), "--last", "1"]) == 1
    assert re.match(r"seed 1: exit 1: .*none\.yaml", capsys.readouterr().out)
