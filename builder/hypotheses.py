"""What the audit tests by statistics: one family of hypotheses, with one rate of false alarms for the whole audit.

Wherever a gate compares an estimate with a limit, "the limit is kept" is a hypothesis, and its p-value is how often chance alone would
show as much, or more, if it only just held. All hypotheses of an audit are one family, and Holm's procedure says which of them are
rejected: an audit of a dataset that keeps every limit fails with a probability of at most `FALSE_ALARM`, whatever the hypotheses have
in common. Facts, such as the number of clips at full scale, are counted and not tested.

What a sweep moves, by how many J, rests on a sample of pairs and is decided in stages: a dimension in doubt (any p below `DOUBT`) is
measured on more pairs, and what still is on more again. Early stages only acquit. A gate closes on the largest sample alone, so no part
of the rate is spent on looking early: whatever the first stages say, the last p-value is below its bound no more often than if it had
been the only one.

The p-values count sources, for clips of one source aren't independent:

- `mean_p` is Student's t test on the means of sources, whose scatter is taken to be what they show plus the meter's own. The test is exact
  where they are normal, and where their tails are long it rejects more rarely than it says, in small samples too (Benjamini 1983). Where
  they are short, or one is long and was missed, a few sources may agree by chance: the meter's share keeps that from looking like proof.
  Simulated with 250 means and as many shares at their limits, in samples of 8, 12, 48 and 192 sources that are normal, uniform,
  exponential either way, of three degrees of freedom or drawn from what a default build measures, 0.1 to 0.5 % of audits fail.
- `share_p` is the smaller of two bounds on a mean of independent figures between 0 and 1, Hoeffding's (1963, theorem 1) and Bentkus's
  (2004): they hold in samples of any size, however many pairs a source has and whatever these have in common. With one pair a source
  it's at most e times what the binomial test says.

References
----------
Benjamini, Y. (1983). Is the t test really conservative when the parent distribution is long-tailed? JASA 78, 645-654.
Bentkus, V. (2004). On Hoeffding's inequalities. Annals of Probability 32, 1650-1673.
Hoeffding, W. (1963). Probability inequalities for sums of bounded random variables. JASA 58, 13-30.
Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6, 65-70.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from builder.records import BoolArray, FloatArray

FALSE_ALARM = 0.005
"""Probability that an audit closes any gate on a dataset that keeps every limit: 1 in 200."""
DOUBT = 0.05
"""A p-value below this is looked at again, on more pairs."""
STAGES = (1, 4, 16)
"""Sizes of the sample of pairs, as multiples of the first one; a dimension that has fewer pairs gives all it has."""


@dataclass(frozen=True)
class Hypothesis:
    """That a limit is kept.

    Parameters
    ----------
    gate
        Which gate closes if it's rejected.
    p
        Probability of what was measured, or more, if the limit is only just kept.
    line
        What is said if it's rejected.
    rests_on
        Dimensions of which more pairs can be measured for it; none if its sample is what it is.
    """

    gate: str
    p: float
    line: str
    rests_on: frozenset[str] = frozenset()


def rejected(family: Sequence[Hypothesis], rate: float | None = None) -> list[Hypothesis]:
    """What Holm's procedure rejects: the smallest p-value at rate / n, the next at rate / (n - 1), until one is larger.

    Parameters
    ----------
    family
        All that was tested.
    rate
        Probability of any false rejection; `FALSE_ALARM` by default.

    Returns
    -------
    list
        In the family's order.
    """
    rate = FALSE_ALARM if rate is None else rate
    order = sorted(range(len(family)), key=lambda i: family[i].p)
    n_rejected = 0
    while n_rejected < len(order) and family[order[n_rejected]].p <= rate / (len(order) - n_rejected):
        n_rejected += 1
    return [family[i] for i in sorted(order[:n_rejected])]


def settled(family: Callable[[], list[Hypothesis]], enlarge: Callable[[set[str]], bool]) -> list[Hypothesis]:
    """The family once no more pairs can decide what is in doubt.

    Parameters
    ----------
    family
        The hypotheses with what has been measured so far.
    enlarge
        Measures more pairs of some dimensions; False if there are no more.
    """
    while True:
        found = family()
        if not enlarge({name for hypothesis in found if hypothesis.p < DOUBT for name in hypothesis.rests_on}):
            return found


def by_source(values: FloatArray | BoolArray, sources: Sequence[str]) -> FloatArray:
    """Mean of each source's values, shape (n_sources,)."""
    _, member = np.unique(np.array(sources, dtype=str), return_inverse=True)
    means: FloatArray = np.bincount(member, np.asarray(values, np.float64)) / np.maximum(np.bincount(member), 1)
    return means


def mean_p(means: FloatArray, limit: float, meter_sd: float) -> float:
    """Student's t test that the mean over sources lies within a limit either way.

    Parameters
    ----------
    means
        Of sources, shape (n_sources,).
    limit
        Largest |mean| that is allowed; with 0 this is the usual two-sided test.
    meter_sd
        Standard deviation of the meter itself, which is added to that of the sources.

    Returns
    -------
    float
        1 with fewer than two sources.
    """
    if len(means) < 2:
        return 1.0
    error = _standard_error(means, meter_sd)
    beyond = abs(float(np.mean(means)))
    return min(1.0, float(np.sum(special.stdtr(len(means) - 1, -np.array([beyond - limit, beyond + limit]) / error))))


def mean_interval(means: FloatArray, level: float, meter_sd: float) -> tuple[float, float]:
    """Student's interval of the mean over sources; `nan` with fewer than two."""
    if len(means) < 2:
        return float("nan"), float("nan")
    half = float(special.stdtrit(len(means) - 1, (1.0 + level) / 2.0)) * _standard_error(means, meter_sd)
    return float(np.mean(means)) - half, float(np.mean(means)) + half


def _standard_error(means: FloatArray, meter_sd: float) -> float:
    return float(np.sqrt((np.var(means, ddof=1) + meter_sd**2) / len(means)))


def share_p(shares: FloatArray, limit: float) -> float:
    """A bound on the probability of so large a mean over sources, were it expected to be `limit`: Hoeffding's or Bentkus's.

    Parameters
    ----------
    shares
        Of each source, the share of its pairs that are beyond something; shape (n_sources,), 0 to 1.
    limit
        Largest mean that is allowed, between 0 and 1.

    Returns
    -------
    float
        1 where the mean is within the limit.
    """
    share = float(np.mean(shares)) if len(shares) else 0.0
    if share <= limit:
        return 1.0
    divergence = special.rel_entr(share, limit) + special.rel_entr(1.0 - share, 1.0 - limit)
    n_whole = np.floor(len(shares) * share + 1e-9)
    binomial = special.bdtrc(n_whole - 1, len(shares), limit) if n_whole else 1.0
    return float(min(np.exp(-len(shares) * divergence), np.e * binomial, 1.0))
