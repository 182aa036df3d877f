"""What a card says of an audit: its figures, picked and put in words. A pure function of `audit.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from builder.cues import GATED
from builder.dimensions import MEASURES
from builder.shortcuts import ALL
from builder.words import counted

SAYS = {
    "identifiers": "names (`id`, `pair_id`)",
    "categories": "tier, curve, kind of source, order of choices",
    "region": "where the sound begins and ends",
    "text": "question and text",
    "size": "bytes, duration, peak and level",
    "silence": "silence before and after",
    "averages": "band levels averaged over the clip",
    "others": "the other dimensions, beyond one J",
    "first_half": "band levels of the first half",
    "second_half": "band levels of the second half",
    "others_fine": "the other dimensions, within one J too",
}
"""Cue -> what it is, for readers."""
Row = Mapping[str, Any]


def of(audit: Row) -> dict[str, Any]:
    """An audit's figures as a card shows them.

    Parameters
    ----------
    audit
        What `audit.run` returned, or read back from JSON.

    Returns
    -------
    dict
        `failures`, `n_gates`, `false_alarm`, `n_pairs` (that were measured in full of each dimension, at the least); `truth` (dimension ->
        its row), `n_clips`,
        `rule_contradicts`; `unasked` (dimensions that the oracle has no measure of), and of the others `oracle_clips`, `oracle_agrees`
        (share; None where there is none), `oracle_contradicts`; `blind` (see `_blind`, empty where there were too few sources);
        `leaks` (dimension -> `other` and `linked`, text, empty where nothing was measured) and `leak_most`, text.
    """
    truth = [row for row in audit["truth"] if row["by"] == "all"]
    asked = [row for row in truth if row["oracle_agrees"] is not None]
    n_asked = sum(row["n_clips"] for row in asked)
    unlinked = [leak for leak in audit["leaks"] if leak["p95_jnd"] is not None and not leak["linked"] and not _own(leak)]
    return {
        "failures": audit["failures"],
        "n_gates": len(audit["gates"]),
        "false_alarm": audit["false_alarm"],
        "n_pairs": audit["pairs_per_dimension"],
        "truth": {row["dimension"]: row for row in truth},
        "n_clips": sum(row["n_clips"] for row in truth),
        "rule_contradicts": sum(row["rule_contradicts"] for row in truth),
        "unasked": [row["dimension"] for row in truth if row["oracle_agrees"] is None],
        "oracle_clips": n_asked,
        "oracle_agrees": sum(row["oracle_agrees"] * row["n_clips"] for row in asked) / n_asked if asked else None,
        "oracle_contradicts": sum(row["oracle_contradicts"] for row in asked),
        "blind": _blind(audit["shortcuts"]),
        "leaks": _leaks(audit["leaks"]),
        "leak_most": _most(unlinked),
    }


def _blind(results: Sequence[Row]) -> list[dict[str, Any]]:
    """Of each cue what it `says` it is and whether it's `gated`; and the better classifier's `mean` and `highest`, text."""
    found = []
    for cue in dict.fromkeys(result["cue"] for result in results):
        mine = [result for result in results if result["cue"] == cue]
        mean = max((result for result in mine if result["dimension"] == ALL), key=_accuracy)
        each = [result for result in mine if result["dimension"] != ALL]
        highest = max(each, key=_accuracy)
        where = "everywhere" if len({_interval(result) for result in each}) == 1 else highest["dimension"]
        found.append({"says": SAYS[cue], "gated": cue in GATED, "mean": _interval(mean), "highest": f"{where} {_interval(highest)}"})
    return found


def _accuracy(result: Row) -> float:
    accuracy: float = result["accuracy"]
    return accuracy


def _interval(result: Row) -> str:
    return "{:.1f} % ({:.1f} to {:.1f})".format(*(100.0 * result[key] for key in ("accuracy", "low", "high")))


def _own(leak: Row) -> bool:
    """Whether what was measured is what was swept."""
    return bool(MEASURES[leak["measured"]][0].name == leak["swept"])


def _leaks(leaks: Sequence[Row]) -> dict[str, dict[str, str]]:
    """Of each swept dimension the largest change of what is neither swept nor linked, and the changes of what is linked."""
    measured = [leak for leak in leaks if leak["p95_jnd"] is not None and not _own(leak)]
    return {
        swept: {
            "other": _said([leak for leak in measured if leak["swept"] == swept and not leak["linked"]], 1),
            "linked": _said([leak for leak in measured if leak["swept"] == swept and leak["linked"]], None),
        }
        for swept in dict.fromkeys(leak["swept"] for leak in leaks)
    }


def _said(leaks: Sequence[Row], n_largest: int | None) -> str:
    order = np.argsort([-leak["p95_jnd"] for leak in leaks], kind="stable")[:n_largest]
    return ", ".join(f"{leaks[i]['measured']} {leaks[i]['p95_jnd']:.2f}" for i in order)


def _most(leaks: Sequence[Row]) -> str:
    """The largest 95th percentile of all, in words."""
    if not leaks:
        return "none was measured"
    most = max(leaks, key=lambda leak: float(leak["p95_jnd"]))
    what = f"{most['measured'].replace('_', ' ')} under a sweep of {most['swept']}"
    return f"{what}, {most['p95_jnd']:.2f} J (95th percentile of {counted(most['n_measured'], 'pair')})"
