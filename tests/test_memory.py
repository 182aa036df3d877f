"""A worker holds no more after many clips than after some; and what it holds is asked rightly."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from bench import memory
from bench.memory import Held

RECIPES = Path(__file__).parent.parent / "recipes"

STEADY = """\
include: base.yaml
dimensions: [loudness.yaml, brightness.yaml, pan.yaml]
kinds: [noise]
speech: {corpus: null}
splits:
  test: {share: 1.0, min_speakers: 1, min_cuts: 1}
curves: [linear]
pairs_per_cell: {test: 5}
controls_per_kind: {test: 0}
"""
"""About 90 clips a round, and another 90 under the next seed."""

N_CLIPS = 400
MAX_GROWTH_MB = 60.0
"""Over 300 clips: half of what would be kept if the samples of each published clip (0.4 MB) were."""


def test_what_is_held_follows_what_is_allocated() -> None:
    """64 MB more are held while an array of 64 MB is there, and the most that was held remembers it."""
    before_mb, _ = memory.now_and_peak_mb()
    array = np.ones(8 * 1024**2)
    with_array_mb, _ = memory.now_and_peak_mb()
    assert array.nbytes == 64 * 1024**2
    del array
    after_mb, peak_mb = memory.now_and_peak_mb()
    assert with_array_mb - before_mb > 60.0
    assert peak_mb >= with_array_mb - 1.0
    if memory.STATUS.is_file():
        assert with_array_mb - after_mb > 60.0


def test_growth_is_the_slope_behind_the_start() -> None:
    """2 MB in each hundred clips are 20 in a thousand, whatever the start was like; of too few shards nothing is told."""
    held = [Held(50, 10.0, 10.0), *(Held(clips, 300.0 + 0.02 * clips, 0.0) for clips in range(100, 1001, 100))]
    assert memory.growth_mb(held) == pytest.approx(20.0)
    assert np.isnan(memory.growth_mb(held[:2]))


@pytest.mark.slow
def test_a_worker_stays_as_large_as_it_is(tmp_path: Path) -> None:
    """Between the first hundred clips and the last of four hundred, new sources in every round, a worker hardly grows."""
    for path in RECIPES.glob("*.yaml"):
        shutil.copy(path, tmp_path)
    (tmp_path / "steady.yaml").write_text(STEADY)
    held = list(memory.through_one_worker(N_CLIPS, tmp_path / "steady.yaml", every=1))
    assert held[-1].n_clips >= N_CLIPS
    start = next(item for item in held if item.n_clips >= 100)
    assert held[-1].now_mb - start.now_mb < MAX_GROWTH_MB, [(item.n_clips, round(item.now_mb)) for item in held]
