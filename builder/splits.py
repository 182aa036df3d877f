"""Who and what goes to which split: no speaker, no recording and no text is in two of them.

A speaker's split is a keyed hash of (seed, corpus, speaker) and nothing else, so that a new speaker, text or dimension moves
nobody. Speakers are never joined because they read the same words: in corpora where everybody reads the same passage that
would make one group of them all. Instead a text that speakers of several splits read is given to one of those splits, and
its recordings by speakers of the others are refused and counted (`text_in_other_split`). A recording with several speakers, or
the same file under two names, is treated alike (`recording_in_other_split`).

Which of the splits gets it is a keyed hash of the text, weighted by the splits' shares. Each split draws its own number, so a
reader who joins can bring a text to his split, but never move it between two others.

Where a small corpus leaves a split short of the recipe's minimum, the speakers whose hash lies nearest are moved to it, and if
that isn't enough, texts; only then does a place depend on who else is there.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter

from builder.errors import CellUnfilled
from builder.keys import rank_of, spoken_key
from builder.recipe import SPLITS, Recipe, SplitRule
from builder.records import Reason, SourceSpec
from builder.words import counted

SHARED = {"text": Reason.TEXT_IN_OTHER_SPLIT, "recording": Reason.RECORDING_IN_OTHER_SPLIT}
"""What must not be in two splits beside speakers, and the reason that refuses it."""

Key = tuple[str, str]
"""("text", digest of what is said) or ("recording", digest of the file)."""


def owner(source: SourceSpec) -> str:
    """Who must stay in one split: the speaker; where a corpus doesn't tell speakers, the recording."""
    return source.speaker_id or f"{source.parameters.get('corpus')}/{source.parameters.get('member', source.source_id)}"


def keys_of(source: SourceSpec) -> tuple[Key, ...]:
    """The text and the recording that a source is of, as far as they're known."""
    said = source.parameters.get("said") or spoken_key(source.text or "")
    sha256 = source.parameters.get("sha256", "")
    if said and sha256:
        return ("text", said), ("recording", sha256)
    return (("text", said),) if said else (("recording", sha256),) if sha256 else ()


@dataclass(frozen=True)
class Splits:
    """Where everything belongs.

    Parameters
    ----------
    of_owner
        Speaker (or recording, where the corpus tells no speaker) -> split.
    of_shared
        Text or recording that owners of several splits have -> the split that it was given to.
    """

    of_owner: Mapping[str, str]
    of_shared: Mapping[Key, str]

    def of(self, source: SourceSpec) -> str | Reason:
        """The split that may use a source; the reason, if none may.

        Raises
        ------
        KeyError
            The source's owner wasn't among those that the splits were made from.
        """
        split = self.of_owner[owner(source)]
        for key in keys_of(source) if self.of_shared else ():
            if self.of_shared.get(key, split) != split:
                return SHARED[key[0]]
        return split


def assign(sources: Iterable[SourceSpec], recipe: Recipe) -> Splits:
    """Which split each speaker, and each text and recording that several splits would have, belongs to.

    Parameters
    ----------
    sources
        Real sources of every kind; cuts of speech count for the minimums.
    recipe
        Shares, minimum speakers and cuts per split, seed.

    Raises
    ------
    CellUnfilled
        The corpus can't give every split its minimum.
    """
    table = _Table(sources, recipe)
    if not table.place:
        return Splits({}, {})
    edges = _edges(recipe)
    return _with_minimums(_State({name: _split_at(at, edges) for name, at in table.place.items()}, {}), table, edges)


def _edges(recipe: Recipe) -> dict[str, tuple[float, float]]:
    """Stretch of [0, 1) of each split."""
    edges, edge = {}, 0.0
    for split in SPLITS:
        if split in recipe.splits:
            edges[split] = (edge, edge + recipe.splits[split].share)
            edge += recipe.splits[split].share
    return edges


def _split_at(at: float, edges: Mapping[str, tuple[float, float]]) -> str:
    return next((split for split, (_, high) in edges.items() if at < high), list(edges)[-1])


def _unit(*key: object) -> float:
    """A number inside (0, 1) that depends on a key alone."""
    return (int(rank_of(*key), 16) + 0.5) / 16.0**16


@dataclass(frozen=True)
class _State:
    """Splits in the making: each owner's, and texts and recordings that were given to a split in spite of the bids."""

    of_owner: Mapping[str, str]
    given: Mapping[Key, str]


class _Table:
    """Who has which texts and recordings, and with how many cuts of speech."""

    def __init__(self, sources: Iterable[SourceSpec], recipe: Recipe) -> None:
        self.rules: Mapping[str, SplitRule] = {str(split): rule for split, rule in recipe.splits.items()}
        self._seed = recipe.seed
        corpora: dict[str, str] = {}
        self._cuts: Counter[tuple[str, tuple[Key, ...]]] = Counter()
        for source in sources:
            name, corpus = owner(source), str(source.parameters.get("corpus"))
            corpora[name] = min(corpora.get(name, corpus), corpus)
            self._cuts[name, keys_of(source)] += source.kind == "speech"
        self.place = {name: _unit("split", recipe.seed, corpora[name], name) for name in sorted(corpora)}
        self._readers: dict[Key, set[str]] = defaultdict(set)
        for name, keys in self._cuts:
            for key in keys:
                self._readers[key].add(name)
        self._readers = {key: names for key, names in self._readers.items() if len(names) > 1}
        self._draws: dict[tuple[Key, str], float] = {}

    def shared(self, state: _State) -> dict[Key, str]:
        """Split of each text and recording that owners of several splits have."""
        there = {key: {state.of_owner[name] for name in names} for key, names in self._readers.items()}
        return {
            key: given if (given := state.given.get(key)) in splits else max(splits, key=lambda split: (self.draw(key, split), split))
            for key, splits in there.items()
            if len(splits) > 1
        }

    def draw(self, key: Key, split: str) -> float:
        """The number that a split bids for a text or recording: the largest wins, in proportion to the shares."""
        if (key, split) not in self._draws:
            self._draws[key, split] = math.log(_unit("shared", self._seed, *key, split)) / self.rules[split].share
        return self._draws[key, split]

    def has(self, of_owner: Mapping[str, str], of_shared: Mapping[Key, str]) -> dict[str, tuple[int, int]]:
        """Split -> speakers that can be used in it, and their cuts."""
        speakers: dict[str, set[str]] = {split: set() for split in self.rules}
        cuts: Counter[str] = Counter()
        for (name, keys), count in self._cuts.items():
            split = of_owner[name]
            if count and all(of_shared.get(key, split) == split for key in keys):
                speakers[split].add(name)
                cuts[split] += count
        return {split: (len(speakers[split]), cuts[split]) for split in self.rules}

    def all(self) -> tuple[int, int]:
        """Speakers and cuts of the whole corpus."""
        return len({name for (name, _), count in self._cuts.items() if count}), self._cuts.total()


def _with_minimums(state: _State, table: _Table, edges: Mapping[str, tuple[float, float]]) -> Splits:
    """The splits, after what lies nearest was moved to splits that are short, from splits that can spare it.

    Every move makes the sum of what is missing smaller, so it ends.
    """
    of_shared = table.shared(state)
    missing = _missing(table, state.of_owner, of_shared)
    while any(missing.values()):
        split = next(name for name in edges if missing[name])
        for moved, other in _moves(state, of_shared, table, split, edges[split]):
            now_shared = table.shared(moved)
            now_missing = _missing(table, moved.of_owner, now_shared)
            if not now_missing[other] and sum(now_missing.values()) < sum(missing.values()):
                state, of_shared, missing = moved, now_shared, now_missing
                break
        else:
            raise CellUnfilled(_too_few(table, state.of_owner, of_shared))
    return Splits(state.of_owner, of_shared)


def _missing(table: _Table, of_owner: Mapping[str, str], of_shared: Mapping[Key, str]) -> dict[str, int]:
    """Speakers and cuts that each split is short of, together."""
    found = table.has(of_owner, of_shared)
    return {
        split: max(0, rule.min_speakers - found[split][0]) + max(0, rule.min_cuts - found[split][1]) for split, rule in table.rules.items()
    }


def _moves(
    state: _State, of_shared: Mapping[Key, str], table: _Table, split: str, edge: tuple[float, float]
) -> Iterator[tuple[_State, str]]:
    """What can be moved to a split, each with the split that it's taken from.

    Speakers of other splits, the one whose hash lies nearest first; then texts and recordings that the split's own speakers
    have and another split was given, the highest bid first.
    """
    distance = {name: min(abs(at - edge[0]), abs(at - edge[1])) for name, at in table.place.items() if state.of_owner[name] != split}
    for name, _ in sorted(distance.items(), key=itemgetter(1, 0)):
        yield _State({**state.of_owner, name: split}, state.given), state.of_owner[name]
    for key in sorted((key for key, has in of_shared.items() if has != split), key=lambda key: (-table.draw(key, split), key)):
        yield _State(state.of_owner, {**state.given, key: split}), of_shared[key]


def _too_few(table: _Table, of_owner: Mapping[str, str], of_shared: Mapping[Key, str]) -> str:
    """What there is, what is needed, and what to do."""
    needs = ", ".join(
        f"{split}: {counted(rule.min_speakers, 'speaker')} and {counted(rule.min_cuts, 'cut')}" for split, rule in table.rules.items()
    )
    speakers, cuts = table.all()
    left = sum(count for _, count in table.has(of_owner, of_shared).values())
    lost = f", {cuts - left} of them of texts or recordings that another split has" if left < cuts else ""
    return (
        f"the corpus has {counted(speakers, 'speaker')} with {counted(cuts, 'cut')} of speech{lost}, too few for the splits ({needs}); "
        "lower min_speakers or min_cuts, or use a larger corpus"
    )
