"""One rate of false alarms for a whole audit: Holm's procedure, exact p-values, stages that only acquit, and leaks that are still found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from builder import hypotheses
from builder.hypotheses import Hypothesis
from builder.leakage import BEYOND_SHARE, MAX_MEAN_JND, METER_SD_JND
from builder.records import FloatArray

Draw = Callable[[np.random.Generator, tuple[int, ...]], FloatArray]
SHAPES: dict[str, Draw] = {
    "normal": lambda rng, size: rng.normal(0.0, 0.25, size),
    "uniform": lambda rng, size: rng.uniform(-0.4, 0.4, size),
    "long tails": lambda rng, size: 0.15 * rng.standard_t(3, size),
    "a tail above": lambda rng, size: 0.2 * (rng.exponential(1.0, size) - 1.0),
    "a tail below": lambda rng, size: 0.2 * (1.0 - rng.exponential(1.0, size)),
    "hardly any": lambda rng, size: rng.normal(0.0, 0.01, size),
}
"""How sources may lie about their mean, in J."""
N_CELLS = 100
"""Swept x measured dimensions, with two limits each."""


def named(*p_values: float) -> list[Hypothesis]:
    """Hypotheses with these p-values, whose lines are their numbers."""
    return [Hypothesis("gate", p, str(i)) for i, p in enumerate(p_values)]


@pytest.mark.parametrize(
    ("p_values", "lines"),
    [
        ((0.001, 0.0024, 0.004), "012"),
        ((0.0017, 0.0001, 0.9), "01"),
        ((0.0026, 0.0026, 0.0026), ""),
        ((0.9, 0.001), "1"),
        ((), ""),
    ],
)
def test_holm(p_values: tuple[float, ...], lines: str) -> None:
    """The smallest p-value at rate / n, the next at rate / (n - 1), until one is larger; in the family's order."""
    found = hypotheses.rejected(named(*p_values), 0.005)
    assert "".join(hypothesis.line for hypothesis in found) == lines


def test_the_t_test_is_students() -> None:
    """Against a limit of 0 it's the two-sided test; against another it's the one-sided one beyond it, and the other side's speck."""
    means = np.random.default_rng(1).normal(0.7, 0.3, 12)
    assert hypotheses.mean_p(means, 0.0, 0.0) == pytest.approx(stats.ttest_1samp(means, 0.0).pvalue)
    one_sided = stats.ttest_1samp(means, 0.5, alternative="greater").pvalue
    assert hypotheses.mean_p(means, 0.5, 0.0) == pytest.approx(one_sided, rel=1e-3)
    assert hypotheses.mean_p(-means, 0.5, 0.0) == hypotheses.mean_p(means, 0.5, 0.0)
    interval = stats.ttest_1samp(means, 0.0).confidence_interval(0.9)
    assert hypotheses.mean_interval(means, 0.9, 0.0) == pytest.approx((interval.low, interval.high))
    assert hypotheses.mean_p(means[:1], 0.5, 0.0) == 1.0


def test_sources_that_agree_by_chance_prove_little() -> None:
    """Eight sources at 0.53 J to the last digit are no proof of a mean beyond 0.5 J: no meter is so fine."""
    assert hypotheses.mean_p(np.full(8, 0.53), 0.5, 0.1) > 0.2
    assert hypotheses.mean_p(np.full(8, 0.53), 0.5, 0.0001) < 1e-6


def test_a_share_is_never_beyond_the_binomial() -> None:
    """With one pair a source the bound is above the exact binomial probability, and by no more than e times."""
    for n in (8, 40, 400):
        for k in range(1, n + 1):
            exact = stats.binom.sf(k - 1, n, 0.05)
            bound = hypotheses.share_p(np.repeat([1.0, 0.0], [k, n - k]), 0.05)
            assert exact * 0.999 <= bound
            assert bound == 1.0 or bound < max(2.719 * exact, 1e-300)
    assert hypotheses.share_p(np.ones(8), 0.05) == pytest.approx(0.05**8)
    assert hypotheses.share_p(np.full(40, 0.05), 0.05) == 1.0
    assert hypotheses.share_p(np.full(8, 0.06), 0.05) < 1.0


def test_values_are_averaged_by_source() -> None:
    """Whatever their order."""
    assert hypotheses.by_source(np.array([1.0, 5.0, 3.0]), ["b", "a", "b"]).tolist() == [5.0, 2.0]
    assert hypotheses.by_source(np.array([]), []).tolist() == []


def audited(rng: np.random.Generator, n_sources: int, draw: Draw, leak_jnd: float = MAX_MEAN_JND) -> bool:
    """Whether an audit closes a gate of which every mean lies at its limit (one at `leak_jnd`), and every share beyond one J at its own."""
    moved = draw(rng, (N_CELLS, n_sources)) + MAX_MEAN_JND
    moved[0] += leak_jnd - MAX_MEAN_JND
    beyond = (rng.random((N_CELLS, n_sources)) < BEYOND_SHARE).astype(np.float64)
    p_values = [hypotheses.mean_p(means, MAX_MEAN_JND, METER_SD_JND) for means in moved]
    p_values += [hypotheses.share_p(shares, BEYOND_SHARE) for shares in beyond]
    return bool(hypotheses.rejected(named(*p_values)))


@pytest.mark.parametrize("n_sources", [8, 48])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_whole_audit_closes_by_chance_in_one_of_two_hundred(shape: str, n_sources: int) -> None:
    """Of 200 audits in which all of 200 limits are only just kept; at 0.005 more than six have a probability below 0.0001."""
    rng = np.random.default_rng(7)
    assert sum(audited(rng, n_sources, SHAPES[shape]) for _ in range(200)) <= 6


@pytest.mark.parametrize(("leak_jnd", "n_sources"), [(0.8, 48), (1.0, 48)])
def test_a_planted_leak_is_found(leak_jnd: float, n_sources: int) -> None:
    """A mean of 0.8 or 1 J in one of 100 measures, sources scattering by a quarter of a J: in 49 of 50 audits and more."""
    rng = np.random.default_rng(8)
    assert sum(audited(rng, n_sources, SHAPES["normal"], leak_jnd) for _ in range(50)) >= 49


def in_stages(rng: np.random.Generator, mean_jnd: float, n_first: int) -> tuple[bool, int]:
    """Whether one dimension with 20 measures at a mean closes the gate, and of how many sources it was measured."""
    moved = rng.normal(mean_jnd, 0.25, (20, 16 * n_first))
    stage = [0]

    def family() -> list[Hypothesis]:
        seen = moved[:, : hypotheses.STAGES[stage[0]] * n_first]
        return [Hypothesis("gate", hypotheses.mean_p(means, 0.5, 0.1), "line", frozenset({"pitch"})) for means in seen]

    def enlarge(doubtful: set[str]) -> bool:
        more = bool(doubtful) and stage[0] + 1 < len(hypotheses.STAGES)
        stage[0] += more
        return more

    closed = bool(hypotheses.rejected(hypotheses.settled(family, enlarge), 0.05))
    return closed, hypotheses.STAGES[stage[0]] * n_first


def test_looking_early_spends_nothing() -> None:
    """With a rate of 0.05 to see more of it: no more than that of audits at the limit close, however often they looked."""
    rng = np.random.default_rng(9)
    found = [in_stages(rng, 0.5, 8) for _ in range(400)]
    assert sum(closed for closed, _ in found) <= 35  # more have a probability of 0.001
    assert all(n_sources == 128 for closed, n_sources in found if closed)
    assert {n_sources for _, n_sources in found} == {8, 32, 128}


def test_a_small_leak_is_confirmed_and_no_leak_is_cheap() -> None:
    """0.6 J is beyond what eight sources can prove, and is proven by 128; at 0.3 J nothing but the first sample is measured."""
    rng = np.random.default_rng(10)
    assert sum(in_stages(rng, 0.6, 8)[0] for _ in range(50)) >= 45
    assert {in_stages(rng, 0.2, 8) for _ in range(50)} == {(False, 8)}
