"""Shortcuts: each planted cue is caught by its gate, honest tables pass, and false alarms are as rare as promised."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from builder import cues, hypotheses, printout, shortcuts
from builder.acoustics import audio
from builder.keys import digest
from builder.records import FloatArray, Sound

RATE_HZ = 8000
N_PAIRS = 60
Row = dict[str, Any]


def honest(pair: int, direction: int) -> tuple[Row, Sound]:
    """A clip of a level sweep about the pair's own level: 0.4 s of noise, of two loudnesses and four curves."""
    rng = np.random.default_rng(pair)
    samples = rng.normal(0.0, 0.02 * 10.0 ** rng.uniform(-0.1, 0.1), round(0.4 * RATE_HZ))
    progress = np.linspace(0.0, 1.0, len(samples)) ** (1.0, 2.0, 0.5, 1.0)[pair % 4]
    gain_db = (1.0 if direction == 0 else -1.0) * 8.0 * (progress - 0.5)
    row = {
        "id": "vg" + digest([pair, direction], 20), "pair_id": "pr" + digest(pair, 20), "question": "Up or down?",
        "choices": [["up", "down"], ["down", "up"]][pair // 4 % 2], "text": None, "tier": ("hard", "easy")[pair % 2],
        "curve": ("linear", "ease_in", "ease_out", "step")[pair % 4], "source_kind": "noise", "active_start_s": 0.0, "active_end_s": 0.4,
    }  # fmt: skip
    return row, Sound(samples * 10.0 ** (gain_db / 20.0), RATE_HZ)


def judged(change: Callable[[Row, Sound, int], Sound]) -> list[shortcuts.Result]:
    """Every cue of sixty pairs whose clips went through `change` (row, sound, +1 or -1), with its gate."""
    direction, groups, features = [], [], []
    for pair in range(N_PAIRS):
        for side in (0, 1):
            row, sound = honest(pair, side)
            made = audio.rounded_to_pcm16(change(row, sound, 1 - 2 * side))
            row["audio"] = {"bytes": audio.flac_bytes(made)}
            direction.append(side)
            groups.append(f"source {pair}")
            features.append(cues.of_clip(row, made))
    tables = {cue: [clip[cue] for clip in features] for cue in features[0]}
    results = shortcuts.judge("loudness", direction, groups, tables)
    return [*results, *shortcuts.means(results)]


def failures(results: Sequence[shortcuts.Result]) -> list[str]:
    """Lines of the hypotheses that are rejected, were these all that an audit tests."""
    return [found.line for found in hypotheses.rejected(list(shortcuts.hypotheses_of(results, cues.GATED)))]


def closed(results: Sequence[shortcuts.Result]) -> set[str]:
    """Cues that the gate is closed by; each has a line that names it."""
    told = "loudness: the direction can be told from "
    return {line.removeprefix(told).split(":")[0] for line in failures(results) if line.startswith(told)}


def test_an_honest_sweep_tells_nothing_but_its_halves() -> None:
    """A level that rises or falls about the same middle is at chance in every gated cue, and is told by either half."""
    results = judged(lambda row, sound, sign: sound)
    assert closed(results) == set()
    assert failures(results) == []
    halves = [result["accuracy"] for result in results if result["cue"] in ("first_half", "second_half")]
    assert max(halves) > 0.8


def test_question_and_text_are_at_chance_by_construction() -> None:
    """Both clips of a pair have the same question, choices and text, so any classifier is right exactly half of the time."""
    results = judged(lambda row, sound, sign: sound)
    for result in results:
        if result["cue"] in ("text", "categories", "region"):
            assert (result["accuracy"], result["spread"]) == (0.5, 0.0)


def test_a_label_in_the_id_is_found() -> None:
    """One character that differs by direction."""

    def labelled(row: Row, sound: Sound, sign: int) -> Sound:
        row["id"] = row["id"][:-1] + ("u" if sign > 0 else "d")
        return sound

    assert closed(judged(labelled)) == {"identifiers"}


def test_a_column_that_tells_is_found() -> None:
    """A curve that rising clips alone have, an order of choices, a text, a region that shifts."""

    def told(row: Row, sound: Sound, sign: int) -> Sound:
        row["curve"] = "linear" if sign > 0 else "step"
        row["text"] = "going up" if sign > 0 else "going down"
        row["active_start_s"] = 0.02 if sign > 0 else 0.0
        return sound

    assert closed(judged(told)) == {"categories", "text", "region"}


def test_a_duration_that_tells_is_found() -> None:
    """Falling clips are 5 ms longer, by silence: duration and bytes tell."""

    def longer(row: Row, sound: Sound, sign: int) -> Sound:
        return sound if sign > 0 else Sound(np.concatenate([sound.samples, np.zeros(RATE_HZ // 200)]), RATE_HZ)

    assert "size" in closed(judged(longer))


def test_a_peak_that_tells_is_found() -> None:
    """Rising clips normalised by their peak."""

    def normalised(row: Row, sound: Sound, sign: int) -> Sound:
        return Sound(sound.samples * 0.5 / np.max(np.abs(sound.samples)), RATE_HZ) if sign > 0 else sound

    assert "size" in closed(judged(normalised))


def test_a_byte_size_that_tells_is_found() -> None:
    """Falling clips hold eight bits only: FLAC stores them in half of the bytes, and nothing else changes by more than its noise."""

    def coarser(row: Row, sound: Sound, sign: int) -> Sound:
        return sound if sign > 0 else Sound(np.rint(sound.samples * 2048.0) / 2048.0, RATE_HZ)

    assert closed(judged(coarser)) >= {"size"}


def test_a_silence_that_tells_is_found() -> None:
    """0.15 s of silence before rising clips and after falling ones."""

    def silenced(row: Row, sound: Sound, sign: int) -> Sound:
        pause = np.zeros(round(0.15 * RATE_HZ))
        return Sound(np.concatenate([pause, sound.samples] if sign > 0 else [sound.samples, pause]), RATE_HZ)

    assert "silence" in closed(judged(silenced))


def test_an_average_that_tells_is_found() -> None:
    """Rising clips are 12 dB louder throughout, beyond what sources rove: the average and the level tell, the ids don't."""

    def louder(row: Row, sound: Sound, sign: int) -> Sound:
        return Sound(sound.samples * 4.0, RATE_HZ) if sign > 0 else sound

    assert closed(judged(louder)) == {"averages", "size"}


@pytest.mark.parametrize(("classifier", "n_draws", "most"), [("logistic", 200, 20), ("trees", 60, 9)])
def test_false_alarms_are_as_rare_as_promised(classifier: str, n_draws: int, most: int) -> None:
    """Without a cue, accuracy over its spread is standard normal: 5 % of gates at 5 %, in groups of one to four pairs.

    At a rate of 0.05 more than `most` false alarms have a probability of 0.001. In ordinary cross-validation the same figure has a
    standard deviation of 1.2 to 1.3, and the rate is about 0.1.
    """
    pairs = np.repeat(np.arange(40), [4] * 10 + [1] * 30)
    y = np.repeat([0, 1], len(pairs))
    groups = [f"g{number}" for number in np.concatenate([pairs, pairs])]
    rng = np.random.default_rng(11)
    score = []
    for _ in range(n_draws):
        shared, own = rng.normal(size=(2, len(pairs), 2))
        result = shortcuts.told(np.concatenate([shared + own, shared - own]), y, groups, classifier)
        score.append((result["accuracy"] - 0.5) / max(result["spread"], 1e-9))
    assert np.sum(np.array(score) > 1.645) <= most
    assert abs(np.mean(score)) < 3.3 / np.sqrt(n_draws)
    assert np.std(score) < 1.0 + 3.3 / np.sqrt(2 * n_draws)


def test_a_weak_cue_shows_in_the_mean_over_dimensions() -> None:
    """Fifteen dimensions at 0.56 each pass; their mean doesn't, and the line says `all`."""
    results = [
        {"dimension": f"d{i}", "cue": "size", "classifier": "trees", "n_clips": 300, "n_groups": 80, "low": 0.5, "high": 0.62,
         "accuracy": 0.56, **shortcuts._chance(0.56, 0.03)}
        for i in range(15)
    ]  # fmt: skip
    (line,) = failures([*results, *shortcuts.means(results)])
    assert line.startswith("all: the direction can be told from size: balanced accuracy 0.56")


def test_results_repeat() -> None:
    """Two runs are equal, whatever the order of the clips."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 3)), np.tile([0, 1], 40)
    groups = [f"g{i // 2}" for i in range(80)]
    for classifier in shortcuts.CLASSIFIERS:
        first = shortcuts.told(x, y, groups, classifier)
        assert first == shortcuts.told(x, y, groups, classifier)


def test_no_group_is_on_both_sides() -> None:
    """Where each speaker alone has a mark that tells, and no two share one, nothing can be told."""
    marks = np.repeat(np.eye(30), 4, axis=0)
    y = np.tile([0, 1], 60)
    groups = [f"speaker {i // 4}" for i in range(120)]
    for classifier in shortcuts.CLASSIFIERS:
        assert shortcuts.told(marks * (2.0 * y[:, None] - 1.0), y, groups, classifier)["accuracy"] <= 0.6


def test_what_has_no_value_is_no_obstacle() -> None:
    """Columns without any value, or with some, are taken; a cue that few groups or one direction have is left out."""
    x = np.full((40, 3), np.nan)
    x[::2, 1] = 1.0
    x[:, 2] = np.tile([0.0, 1.0], 20)
    y, groups = np.tile([0, 1], 20), [f"g{i // 2}" for i in range(40)]
    for classifier in shortcuts.CLASSIFIERS:
        assert shortcuts.told(x, y, groups, classifier)["accuracy"] == 1.0
        assert shortcuts.told(np.full((40, 2), np.nan), y, groups, classifier)["accuracy"] == 0.5
    sparse: list[FloatArray | list[str] | None] = [x[i] if i < 6 else None for i in range(40)]
    assert shortcuts.judge("pitch", y.tolist(), groups, {"others": sparse}) == []
    assert shortcuts.judge("pitch", [0] * 40, groups, {"others": list(x)}) == []


def test_categories_become_columns() -> None:
    """One column per category that differs between clips; a table without any difference keeps one column of zeros."""
    assert shortcuts.table([["hard", "linear"], ["easy", "linear"]]).tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert shortcuts.table([np.array([3.0, np.nan]), np.array([3.0, np.nan])]).tolist() == [[0.0], [0.0]]


def test_only_what_is_heard_counts() -> None:
    """Contrasts within one J are none; beyond it they're counted from there."""
    assert cues.beyond_one_j(np.array([-2.5, -0.9, 0.0, 1.0, 3.0])).tolist() == [-1.5, 0.0, 0.0, 0.0, 2.0]
    assert np.isnan(cues.beyond_one_j(np.array([np.nan]))).all()


def test_the_table_names_the_worst_cue() -> None:
    """In print each dimension has one line with the cue that comes nearest to failing."""
    shown = printout._shortcuts(judged(lambda row, sound, sign: Sound(sound.samples * (2.5 + 1.5 * sign), RATE_HZ)))
    line = next(line for line in shown.splitlines() if line.startswith("loudness"))
    assert line.split()[1] in ("averages", "size")
    assert shown.splitlines()[-1].startswith("all")
