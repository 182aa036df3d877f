"""What a worker holds has a bound, whatever the shard and however long a recording; and what it holds is asked rightly."""

from __future__ import annotations

import gc
import itertools
import re
import shutil
import subprocess
import sys
import weakref
from collections import Counter
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from bench import memory
from bench.memory import Held
from builder import pipeline, recordings, render
from builder.acoustics import audio
from builder.corpora import Corpus, Recording
from builder.cuts import survey
from builder.errors import Refused
from builder.fill import Context
from builder.kept import Kept, held_bytes
from builder.recipe import SpeechRule
from builder.recordings import tape
from builder.records import PairPlan, Reason, Sound, Source, SourceSpec
from builder.workers import Crew

RATE_HZ = 16_000
RULE = SpeechRule(corpus=None, min_snr_db=5.0)
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
    held = list(memory.through_one_worker(tmp_path / "steady.yaml", N_CLIPS))
    assert held[-1].n_clips >= N_CLIPS
    start = next(item for item in held if item.n_clips >= 100)
    assert held[-1].now_mb - start.now_mb < MAX_GROWTH_MB, [(item.n_clips, round(item.now_mb)) for item in held]


@pytest.mark.slow
def test_a_worker_of_the_default_recipe_keeps_its_bound() -> None:
    """The largest shards of the default recipe as they are, through one worker; `python -m bench.memory` goes through all of them."""
    with closing(memory.through_one_worker()) as shards:
        held = list(itertools.takewhile(lambda item: item.n_clips < 3000, shards))
    assert len(held) > 5
    assert held[-1].peak_mb < memory.MOST_MB, [(item.shard, round(item.now_mb)) for item in held]


@pytest.mark.slow
def test_a_worker_keeps_its_bound_over_a_real_shard() -> None:
    """A whole shard of the default recipe whose sources, with analyses and shams, are more than is kept: larger ones leave no more."""
    planned, gathered = pipeline.load_plan(memory.RECIPE, 1)
    context = Context(gathered.corpora, planned.recipe.speech, gathered.bandwidth_hz)
    (shard,) = (shard for shard in planned.shards if shard.name.startswith("distortion/validation"))
    with closing(Crew(1)) as crew:
        ((_, (_, _, peak_mb)),) = crew.run(memory.held_after, [(shard, context)])
    assert peak_mb < 0.85 * memory.MOST_MB


def surveyed_mb(corpus: Corpus) -> tuple[int, float]:
    """Cuts of a corpus, and what this process held at most."""
    found = survey(corpus, RULE, RATE_HZ)
    return len(found.cuts), memory.now_and_peak_mb()[1]


@pytest.mark.parametrize("minutes", [15, pytest.param(60, marks=pytest.mark.slow)])
def test_a_long_recording_is_surveyed_within_the_bound(tmp_path: Path, minutes: int) -> None:
    """Of up to an hour at 48 kHz, whose samples alone are 1.4 GB: some speech, and pauses."""
    spoken = audio.resampled(voice(), RATE_HZ, 48_000)
    with soundfile.SoundFile(tmp_path / "long.flac", "w", 48_000, 1) as stream:
        for minute in range(minutes):
            block = 1e-4 * np.random.default_rng(minute).standard_normal(60 * 48_000)
            if minute % 5 == 2:
                block[: len(spoken)] += spoken
            stream.write(block)
    recording = Recording("long.flac", "s", "f", "en", None, "CC0-1.0", "nobody")
    corpus = Corpus("long", (recording,), {"long.flac": tmp_path / "long.flac"})
    with closing(Crew(1)) as crew:
        ((_, (n_cuts, peak_mb)),) = crew.run(surveyed_mb, [(corpus,)])
    assert n_cuts == minutes // 5
    assert peak_mb < 1200.0


def voice() -> np.ndarray[Any, Any]:
    """Three seconds of voiced syllables."""
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    phase = 2.0 * np.pi * np.cumsum(120.0 + 15.0 * np.sin(2.0 * np.pi * 0.7 * time_s)) / RATE_HZ
    harmonics = sum(np.sin(number * phase) / number for number in range(1, 25))
    return 0.1 * harmonics * np.clip(np.sin(2.0 * np.pi * 2.2 * time_s), 0.0, 1.0) ** 0.7


@pytest.mark.parametrize("rate_hz", [16_000, 44_100])
def test_in_stretches_a_survey_finds_what_it_finds_in_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate_hz: int) -> None:
    """The same cuts, syllables and bandwidth, and the same samples but for rounding, of a recording that's read in stretches."""
    noise = 1e-4 * np.random.default_rng(1).standard_normal(30 * RATE_HZ)
    for start_s in (1.0, 7.5, 14.1, 22.2):
        noise[round(start_s * RATE_HZ) :][: 3 * RATE_HZ] += voice()
    soundfile.write(tmp_path / "a.wav", audio.resampled(noise, RATE_HZ, rate_hz), rate_hz, subtype="PCM_24")
    recording = Recording("a.wav", "s", "f", "en", None, "CC0-1.0", "nobody")
    corpus = Corpus("long", (recording,), {"a.wav": tmp_path / "a.wav"})
    whole, samples = survey(corpus, RULE, RATE_HZ), tape(corpus, recording, RULE, RATE_HZ).read().samples
    assert len(whole.cuts) == 4
    monkeypatch.setattr(recordings, "STRETCH_S", 4.0)
    parts = survey(corpus, RULE, RATE_HZ)
    assert [(cut.start, cut.end, cut.whole) for cut in parts.cuts] == [(cut.start, cut.end, cut.whole) for cut in whole.cuts]
    assert [(part.start, part.end) for part in parts.syllables] == [(part.start, part.end) for part in whole.syllables]
    assert parts.refused == whole.refused
    assert parts.bandwidth_hz == pytest.approx(whole.bandwidth_hz)
    read = tape(corpus, recording, RULE, RATE_HZ)
    for start, end in ((0, 5000), (77_777, 140_001), (400_000, 10**6)):
        np.testing.assert_allclose(read.read(start, end).samples, samples[start:end], rtol=0.0, atol=1e-12)
    assert read.read(10**6, 10**6 + 5).samples.size == 0


def test_what_is_kept_has_a_bound_in_bytes() -> None:
    """However many values, and also where they grow after they were made; what was used last is there without being made again."""
    kept, made = Kept[list[Any]](1000), Counter[int]()

    def make(number: int) -> list[Any]:
        made[number] += 1
        return [np.zeros(10)]

    for number in range(100):
        kept.get(number, partial(make, number)).append(np.zeros(20))
        kept.get(number, partial(make, number))
    assert held_bytes(kept) <= 1000 + 2 * 240
    kept.get(98, partial(make, 98))
    kept.get(0, partial(make, 0))
    assert made[98] == 1
    assert made[0] == 2


def test_a_value_weighs_what_it_holds() -> None:
    """Arrays through objects, views, closures and partials, each once; not what is shared by all."""
    base = np.zeros(1000)
    sound = Sound(base[10:20], RATE_HZ, {"part": base[500:]})
    sound.once("more", lambda _: (np.zeros(50), {"deep": [np.zeros(7)]}))
    assert held_bytes(sound) == 8 * 1057
    assert held_bytes(lambda: sound) == held_bytes(partial(len, sound)) == 8 * 1057
    assert held_bytes(np) == 0


def test_a_refusal_that_is_kept_holds_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused sham is refused again without being tried again, and what it was tried with is free."""
    gone: list[weakref.ref[Any]] = []

    def refuse(*_: Any) -> Sound:
        large = np.zeros(1000)
        gone.append(weakref.ref(large))
        raise Refused(Reason.OUT_OF_RANGE, "too far")

    monkeypatch.setitem(render.BY_NAME, "loudness", replace(render.BY_NAME["loudness"], manipulate=refuse))
    spec = SourceSpec("tone", "t", {}, None, None, None, "CC0-1.0", "nobody")
    pair = PairPlan("loudness", "easy", "linear", "train", 8.0, 4.0, 1.0, spec, 0.0, RATE_HZ)
    source = Source(spec, Sound(np.zeros(RATE_HZ), RATE_HZ), 0.0, 1.0, 0)
    for _ in range(2):
        with pytest.raises(Refused, match="too far"):
            render.sham(pair, source)
    gc.collect()
    assert [ref() for ref in gone] == [None]


@pytest.mark.slow
def test_the_audits_own_process_is_small() -> None:
    """60,000 clips take less than 200 MB beyond what the process starts with: 3.3 KB a clip, where each as a dict would take 9."""
    command = [sys.executable, "-m", "bench.audit_memory", "--clips", "60000"]
    said = subprocess.run(command, cwd=RECIPES.parent, capture_output=True, text=True, check=True).stdout
    n_clips, before_mb, _, most_mb = map(int, re.findall(r"\d+", said.replace(",", "")))
    assert n_clips == 60_000
    assert most_mb - before_mb < 200, said
