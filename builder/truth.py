"""Are the labels true? What several listeners say of published clips, from the samples alone, beside the label.

A listener takes a sound and its row and returns a signed change: above 0 it hears a rise, below 0 a fall, at 0 or `nan` nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from builder.records import Sound

Listener = Callable[[Sound, Mapping[str, Any]], float]
GROUPS = ("tier", "curve", "source_kind")


def of_clip(row: Mapping[str, Any], sound: Sound, listeners: Mapping[str, Listener]) -> dict[str, Any]:
    """What each listener says of one labelled clip: 1 the label, -1 its opposite, 0 nothing."""
    sign = 1.0 if row["direction"] == 0 else -1.0
    kept = {key: row[key] for key in ("id", "dimension", *GROUPS)}
    return {**kept, "says": {name: _sign(listener(sound, row) * sign) for name, listener in listeners.items()}}


def _sign(change: float) -> int:
    return int(np.sign(change)) if np.isfinite(change) else 0


def table(heard: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Shares per dimension, as a whole and by tier, curve and kind of source.

    Returns
    -------
    list
        `dimension`, `by`, `group`, `n_clips`, and for each listener `<name>_agrees` (share) and `<name>_contradicts` (count).
    """
    groups: dict[tuple[str, str, str], list[Mapping[str, int]]] = defaultdict(list)
    for clip in heard:
        for by, group in (("all", "all"), *((key, clip[key]) for key in GROUPS)):
            groups[clip["dimension"], by, group].append(clip["says"])
    return [
        {
            **dict(zip(("dimension", "by", "group"), key, strict=True)),
            "n_clips": len(says),
            **{f"{name}_agrees": round(float(np.mean([one[name] == 1 for one in says])), 4) for name in says[0]},
            **{f"{name}_contradicts": sum(one[name] == -1 for one in says) for name in says[0]},
        }
        for key, says in groups.items()
    ]


def failures(heard: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """One line for every clip of which a listener says the opposite of its label."""
    return [
        f"{clip['id']} ({clip['dimension']}): the {name} says the opposite of the label" for clip in heard if clip["says"].get(name) == -1
    ]
