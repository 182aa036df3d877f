"""Can a classifier tell the direction from what should not tell it? Pure functions of feature tables.

Two classifiers try: logistic regression on standardised features, and small gradient-boosted trees. Groups (a speaker, or a source
without one) are shuffled into eight blocks, and each block from the third on is judged by what the blocks before it taught: no group
is ever in both. Accuracy is balanced.

Why forward and not in a circle: in ordinary cross-validation each clip teaches the model that judges the others, and is judged by a
model that these taught. Chance agreements count twice, and without any cue the accuracy scatters up to sqrt(2) times wider than its
interval says (Bengio & Grandvalet 2004 prove that no unbiased estimate of that variance exists). Forward, each group's score is, given
the past, as likely to be its negative: both clips of a pair have one source, and without a cue they could be swapped. The scores are a
martingale, and their sum over the root of the sum of their squares is standard normal in the limit, and beyond x with a
probability of at most exp(-x^2 / 2) in any number of groups (de la Pena 1999).

That an accuracy is at chance is a hypothesis of the audit's family (see `hypotheses`). A cue that is weak in each dimension shows in
`ALL`, the mean over dimensions.

Measured on a default build with the directions within each pair drawn by a coin, 15 times: of 3,046 accuracies 4.5 % lay above their
5 % point and 0.7 % above their 1 % point.

References
----------
Bengio, Y. & Grandvalet, Y. (2004). No unbiased estimator of the variance of K-fold cross-validation. JMLR 5, 1089-1105.
de la Pena, V. H. (1999). A general class of exponential inequalities for martingales and ratios. Annals of Probability 27, 537-564.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from builder.cues import Features
from builder.engines import tell
from builder.hypotheses import Hypothesis
from builder.keys import rank_of
from builder.records import FloatArray
from builder.words import counted

GATE = "no classifier tells the direction from what shouldn't tell it"
N_BLOCKS = 8
N_TEACHING = 2
"""Blocks that are only learned from."""
MIN_GROUPS = 4
N_BOOTSTRAP = 1000
ALL = "all"
"""The dimension of the means over dimensions."""

IntArray = NDArray[np.int64]
Result = dict[str, Any]


def judge(dimension: str, direction: Sequence[int], groups: Sequence[str], cues: Mapping[str, Sequence[Features | None]]) -> list[Result]:
    """How well each cue tells the direction in one dimension.

    Parameters
    ----------
    dimension
        Its name.
    direction
        0 or 1 of each clip.
    groups
        Speaker or source of each clip.
    cues
        Cue -> features of each clip: numbers or categories; a clip with None isn't judged by the cue.

    Returns
    -------
    list of dict
        One per cue and classifier: `dimension`, `cue`, `classifier`, `n_clips`, `n_groups`, `accuracy`, its 95 % interval by a
        bootstrap over groups `low` and `high`, `spread`, its standard deviation without a cue, and `p`, the probability of such an
        accuracy, or a higher one, without a cue. Cues with fewer than four groups or one direction only are left out.

    Notes
    -----
    It tells the engine of each cue.
    """
    results = []
    for cue, features in cues.items():
        results += _told_by(dimension, cue, direction, groups, features)
        tell((1,))
    return results


def _told_by(
    dimension: str, cue: str, direction: Sequence[int], groups: Sequence[str], features: Sequence[Features | None]
) -> list[Result]:
    """What both classifiers tell from one cue; nothing with too few groups, or one direction only."""
    there = [i for i, values in enumerate(features) if values is not None]
    y = np.array([direction[i] for i in there], dtype=np.int64)
    mine = [groups[i] for i in there]
    if len(set(mine)) < MIN_GROUPS or len(set(y.tolist())) < 2:
        return []
    x = table([values for values in features if values is not None])
    return [{"dimension": dimension, "cue": cue, "classifier": name, **told(x, y, mine, name)} for name in CLASSIFIERS]


def table(features: Sequence[Features]) -> FloatArray:
    """Features as numbers: each category is a column of its own, constant columns are left out.

    Returns
    -------
    ndarray
        float64, shape (n_clips, n_columns), n_columns at least 1; `nan` where there is no value.
    """
    values = np.array(features)
    if values.dtype.kind == "U":
        values = np.stack([column == name for column in values.T for name in np.unique(column)], axis=1)
    values = values.astype(np.float64)
    same = (values == values[:1]) | (np.isnan(values) & np.isnan(values[:1]))
    kept: FloatArray = values[:, ~same.all(axis=0)]
    return kept if kept.shape[1] else np.zeros((len(features), 1))


def told(x: FloatArray, y: IntArray, groups: Sequence[str], classifier: str) -> dict[str, float]:
    """Balanced accuracy of a classifier that is always taught by other groups than it's judged on.

    Parameters
    ----------
    x
        float64, shape (n_clips, n_columns).
    y
        int64, shape (n_clips,): 0 or 1.
    groups
        Of each clip.
    classifier
        One of `CLASSIFIERS`.

    Returns
    -------
    dict
        `n_clips` and `n_groups` that were judged, `accuracy`, `low`, `high`, `spread`, `p`: see `judge`.
    """
    names = sorted(set(groups), key=lambda name: rank_of("shortcuts", name))
    number = {name: i for i, name in enumerate(names)}
    group = np.array([number[name] for name in groups])
    n_blocks = min(N_BLOCKS, len(names))
    block = group * n_blocks // len(names)
    right = np.zeros(len(y), dtype=np.bool_)
    with threadpool_limits(1):
        for judged in range(N_TEACHING, n_blocks):
            past, now = block < judged, block == judged
            if len(np.unique(y[past])) == 2:
                right[now] = CLASSIFIERS[classifier](x[past], y[past], x[now]) == y[now]
            else:
                right[now] = y[now] == 0  # nothing was learned: one answer for all
    return _scored(right, y, group, block >= N_TEACHING)


def _scored(right: NDArray[np.bool_], y: IntArray, group: IntArray, judged: NDArray[np.bool_]) -> dict[str, float]:
    """Balanced accuracy with its interval and its spread, from which judged clips were right."""
    _, member = np.unique(group[judged], return_inverse=True)
    counts = np.stack([np.bincount(member, (y[judged] == side) & hit) for side in (0, 1) for hit in (right[judged], True)], axis=1)
    if not counts[:, [1, 3]].sum(axis=0).all():
        return {"n_clips": int(judged.sum()), "n_groups": len(counts), "accuracy": 0.5, "low": 0.5, "high": 0.5, "spread": 0.0, "p": 1.0}
    share = 1.0 / (2.0 * counts[:, [1, 3]].sum(axis=0))
    score = (counts[:, [0, 2]] - counts[:, [1, 3]] / 2.0) @ share
    drawn = np.random.default_rng(1).multinomial(len(counts), np.full(len(counts), 1.0 / len(counts)), N_BOOTSTRAP) @ counts
    drawn = drawn[(drawn[:, 1] > 0) & (drawn[:, 3] > 0)]
    low, high = np.percentile((drawn[:, 0] / drawn[:, 1] + drawn[:, 2] / drawn[:, 3]) / 2.0, [2.5, 97.5])
    return {
        "n_clips": int(judged.sum()),
        "n_groups": len(counts),
        "accuracy": round(0.5 + float(score.sum()), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
        **_chance(0.5 + float(score.sum()), float(np.sqrt(np.sum(score**2)))),
    }


def _chance(accuracy: float, spread: float) -> dict[str, float]:
    """An accuracy's spread and p-value without a cue: the martingale's normal limit, one-sided."""
    return {"spread": round(spread, 6), "p": float(special.ndtr((0.5 - accuracy) / spread)) if spread > 0.0 else 1.0}


# -- classifiers: (past features, past directions, features) -> directions ----------------------------------------------


def _by_logistic(x: FloatArray, y: IntArray, asked: FloatArray) -> IntArray:
    """Logistic regression on standardised features; what has no value counts as the mean."""
    known = np.isfinite(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / count
    deviation = np.sqrt(np.where(known, (x - mean) ** 2, 0.0).sum(axis=0) / count)
    scale = np.where(deviation > 0.0, deviation, 1.0)
    taught, put = (np.where(np.isfinite(values), (values - mean) / scale, 0.0) for values in (x, asked))
    model = LogisticRegression(C=0.1, max_iter=2000, class_weight="balanced")
    found: IntArray = model.fit(taught, y).predict(np.clip(put, -10.0, 10.0))
    return found


def _by_trees(x: FloatArray, y: IntArray, asked: FloatArray) -> IntArray:
    """Gradient-boosted trees of at most six leaves, as small as a few hundred clips bear."""
    model = HistGradientBoostingClassifier(
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=6,
        min_samples_leaf=max(2, min(10, len(y) // 8)),
        max_bins=63,
        early_stopping=False,
        random_state=0,
    )
    some = np.isfinite(x).any(axis=0)
    if not some.any():
        return np.zeros(len(asked), dtype=np.int64)
    found: IntArray = model.fit(x[:, some], y).predict(asked[:, some])
    return found


CLASSIFIERS = {"logistic": _by_logistic, "trees": _by_trees}


# -- over dimensions ----------------------------------------------------------------------------------------------------


def means(results: Sequence[Result]) -> list[Result]:
    """The mean accuracy of each cue and classifier over dimensions; pairs of different dimensions get their directions apart."""
    found = []
    for cue, classifier in dict.fromkeys((result["cue"], result["classifier"]) for result in results):
        mine = [result for result in results if (result["cue"], result["classifier"]) == (cue, classifier)]
        accuracy = float(np.mean([result["accuracy"] for result in mine]))
        spread = float(np.sqrt(np.sum([result["spread"] ** 2 for result in mine]))) / len(mine)
        counts = {key: sum(result[key] for result in mine) for key in ("n_clips", "n_groups")}
        found.append(
            {
                "dimension": ALL,
                "cue": cue,
                "classifier": classifier,
                **counts,
                "accuracy": round(accuracy, 4),
                "low": round(accuracy - 1.96 * spread, 4),
                "high": round(accuracy + 1.96 * spread, 4),
                **_chance(accuracy, spread),
            }
        )
    return found


def hypotheses_of(results: Sequence[Result], gated: Sequence[str]) -> Iterator[Hypothesis]:
    """One for each result, means included, of a cue that must be at chance.

    What the other dimensions do is judged on the first sample of pairs alone: a limit in J has a meaning in samples of any size, but
    mere chance is a limit that the faintest trace breaks, if only the sample is large enough.
    """
    for result in results:
        if result["cue"] in gated:
            line = (
                f"{result['dimension']}: the direction can be told from {result['cue'].replace('_', ' ')}: balanced accuracy "
                f"{result['accuracy']:.2f} ({result['low']:.2f} to {result['high']:.2f}) by {result['classifier']} over "
                f"{counted(result['n_clips'], 'clip')} (p = {result['p']:.1g}), must be at chance"
            )
            yield Hypothesis(GATE, result["p"], line)
