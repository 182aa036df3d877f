"""Are the labels true? What several listeners say of every published clip, from the samples alone, beside the label.

And what imposed labels would have been worth: see `imposed`.

References
----------
Wilson, E. B. (1927). Probable inference, the law of succession, and statistical inference. JASA 22, 209-212 (interval of a share).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from builder.recipe import SPEECH_KINDS
from builder.records import FloatArray, Sound


@dataclass(frozen=True)
class Answer:
    """What a listener says of one clip.

    Parameters
    ----------
    change
        Above 0 it hears a rise, below 0 a fall, at 0 or `nan` nothing.
    size_jnd, rank
        Signed size of the change in J, and its rank correlation with time; `nan` of a listener that has no such figures.
    """

    change: float
    size_jnd: float = float("nan")
    rank: float = float("nan")


Listener = Callable[[Sound, Mapping[str, Any]], Answer | None]
"""(sound, row) -> answer; None where it isn't asked: it has no measure of the row's dimension."""
GROUPS = ("tier", "curve", "source_kind", "speaker_sex")
IMPOSED = {"slope_opposite": ("slope", -1), "rule_opposite": ("rule", -1), "rule_silent": ("rule", 0)}
"""In what ways an imposed label isn't true: the measured slope goes the other way, however little; the labelling rule hears the opposite,
by its margins; it hears nothing."""


def of_clip(row: Mapping[str, Any], sound: Sound, listeners: Mapping[str, Listener], sex: Mapping[str, str]) -> dict[str, Any]:
    """What each listener says of one labelled clip.

    Parameters
    ----------
    row, sound
        The published row and its decoded audio.
    listeners
        By name.
    sex
        Of speakers, where it's known.

    Returns
    -------
    dict
        `says`: 1 the label, -1 its opposite, 0 nothing, None not asked; `size_jnd` and `rank` of those that were asked, positive in the
        label's direction; and what the clip is.
    """
    sign = 1.0 if row["direction"] == 0 else -1.0
    kept = {key: row[key] for key in ("id", "dimension", "tier", "curve", "source_kind")}
    answers = {name: listener(sound, row) for name, listener in listeners.items()}
    return {
        **kept,
        "speaker_sex": sex.get(row["speaker_id"], "unknown") if row["source_kind"] in SPEECH_KINDS else "nobody real",
        "says": {name: None if answer is None else _sign(answer.change * sign) for name, answer in answers.items()},
        "size_jnd": {name: answer.size_jnd * sign for name, answer in answers.items() if answer is not None},
        "rank": {name: answer.rank * sign for name, answer in answers.items() if answer is not None},
    }


def _sign(change: float) -> int:
    return int(np.sign(change)) if np.isfinite(change) else 0


@dataclass
class Count:
    """What listeners say of a group of clips, by listener.

    Parameters
    ----------
    n_clips
        How many.
    asked, agrees, contradicts
        Clips of which they are asked, say the label, and say its opposite.
    least_jnd, least_rank
        The smallest figures in the label's direction; none of a listener that has no such figures.
    """

    n_clips: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    agrees: Counter[str] = field(default_factory=Counter)
    contradicts: Counter[str] = field(default_factory=Counter)
    least_jnd: dict[str, float] = field(default_factory=dict)
    least_rank: dict[str, float] = field(default_factory=dict)

    def add(self, other: Count) -> None:
        """Count other clips too."""
        self.n_clips += other.n_clips
        self.asked.update(other.asked)
        self.agrees.update(other.agrees)
        self.contradicts.update(other.contradicts)
        for mine, more in ((self.least_jnd, other.least_jnd), (self.least_rank, other.least_rank)):
            for name, value in more.items():
                mine[name] = min(value, mine.get(name, value))


Counts = dict[tuple[str, str, str], Count]
"""(dimension, by, group) -> what is said of it."""


def tallied(heard: Iterable[Mapping[str, Any]]) -> Counts:
    """What `of_clip` found, by dimension as a whole and by tier, curve, kind of source and the speaker's sex."""
    counts: Counts = {}
    for clip in heard:
        told = Count(
            1,
            Counter({name: said is not None for name, said in clip["says"].items()}),
            Counter({name: said == 1 for name, said in clip["says"].items()}),
            Counter({name: said == -1 for name, said in clip["says"].items()}),
            *({name: value for name, value in clip[key].items() if np.isfinite(value)} for key in ("size_jnd", "rank")),
        )
        for by, group in (("all", "all"), *((key, clip[key]) for key in GROUPS)):
            counts.setdefault((clip["dimension"], by, group), Count()).add(told)
    return counts


def merged(parts: Iterable[Counts]) -> Counts:
    """Counts of several parts of a dataset together."""
    counts: Counts = {}
    for part in parts:
        for key, count in part.items():
            counts.setdefault(key, Count()).add(count)
    return counts


def table(counts: Counts) -> list[dict[str, Any]]:
    """Shares per group of clips.

    Returns
    -------
    list
        `dimension`, `by`, `group`, `n_clips`, and for each listener `<name>_agrees` (share), `<name>_contradicts` (count),
        `<name>_least_jnd` (the smallest size in the label's direction) and `<name>_least_rank`; None where it has no such figure, or
        isn't asked.
    """
    return [
        {
            **dict(zip(("dimension", "by", "group"), key, strict=True)),
            "n_clips": count.n_clips,
            **{key: value for name in count.asked for key, value in _said_by(name, count).items()},
        }
        for key, count in counts.items()
    ]


def _said_by(name: str, count: Count) -> dict[str, float | int | None]:
    """A listener's figures of a group of clips."""
    n_asked = count.asked[name]
    return {
        f"{name}_agrees": round(count.agrees[name] / n_asked, 4) if n_asked else None,
        f"{name}_contradicts": count.contradicts[name] if n_asked else None,
        f"{name}_least_jnd": round(count.least_jnd[name], 4) if name in count.least_jnd else None,
        f"{name}_least_rank": round(count.least_rank[name], 4) if name in count.least_rank else None,
    }


def failures(heard: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """One line for every clip of which a listener says the opposite of its label."""
    return [
        f"{clip['id']} ({clip['dimension']}): the {name} says the opposite of the label" for clip in heard if clip["says"].get(name) == -1
    ]


def imposed(outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How often a label that is only imposed would have been wrong on raw recordings, by dimension and tier.

    Parameters
    ----------
    outcomes
        The manifest's: of each source `dimension`, `tier`, `source_id` and `clips`, with what the rule and the slope say.

    Returns
    -------
    list
        `dimension`, `tier`, `n_clips`, `n_sources`, `refused` (clips that can't be made so), and for each way of being wrong in `IMPOSED`
        its share with a 95 % interval over sources, `<way>`, `<way>_low`, `<way>_high`; None without clips.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome["dimension"], outcome["tier"]].append(outcome)
    found = []
    for (dimension, tier), mine in groups.items():
        told = [(outcome["source_id"], clip) for outcome in mine for clip in outcome["clips"] if "refused" not in clip]
        n_sources = len({source for source, _ in told})
        shares = {
            way: _share(np.array([clip[by] == said for _, clip in told], np.float64), n_sources) for way, (by, said) in IMPOSED.items()
        }
        refused = sum("refused" in clip for outcome in mine for clip in outcome["clips"])
        head = {"dimension": dimension, "tier": tier, "n_clips": len(told), "n_sources": n_sources, "refused": refused}
        found.append({**head, **{f"{way}{end}": share[i] for way, share in shares.items() for i, end in enumerate(("", "_low", "_high"))}})
    return found


def _share(wrong: FloatArray, n_sources: int) -> tuple[float | None, float | None, float | None]:
    """A share with Wilson's 95 % interval for as many trials as there are sources: the two clips of one tell less than two would."""
    if not wrong.size:
        return None, None, None
    share, z = float(wrong.mean()), float(stats.norm.isf(0.025))
    centre = (share + z**2 / (2.0 * n_sources)) / (1.0 + z**2 / n_sources)
    half = z * np.sqrt(share * (1.0 - share) / n_sources + z**2 / (4.0 * n_sources**2)) / (1.0 + z**2 / n_sources)
    return round(share, 4), round(max(centre - half, 0.0), 4), round(min(centre + half, 1.0), 4)
