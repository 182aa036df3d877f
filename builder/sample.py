"""Which pairs are measured in full: first some of each dimension, then more of those that leave a doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from builder.hypotheses import STAGES
from builder.keys import rank_of
from builder.layout import read_rows


class Sample:
    """Pairs to measure: each dimension's cells take turns, in an order that the identifiers decide.

    Parameters
    ----------
    root, shards
        The dataset, and its shards of swept clips.
    n_pairs
        Of each dimension, at first.

    Attributes
    ----------
    first
        Shard -> pairs to measure at first.
    """

    def __init__(self, root: Path, shards: Sequence[str], n_pairs: int) -> None:
        cells: dict[str, dict[tuple[str, ...], list[tuple[str, str]]]] = defaultdict(lambda: defaultdict(list))
        for name in shards:
            rows = read_rows(root, name, ["dimension", "direction", "tier", "curve", "pair_id", "source_kind"])
            falling = {row["pair_id"] for row in rows if row["direction"] == 1}
            for row in rows:
                if row["direction"] == 0 and row["pair_id"] in falling:
                    key = (row["source_kind"], row["tier"], row["curve"])
                    cells[row["dimension"]][key].append((row["pair_id"], name))
        self._sizes = [n_pairs * size for size in STAGES]
        self._order = {dimension: _in_turn(dimension, mine)[: self._sizes[-1]] for dimension, mine in cells.items()}
        self._stage = dict.fromkeys(self._order, 0)
        self.first: dict[str, list[str]] = {name: [] for name in shards} | _by_shard(
            pair for order in self._order.values() for pair in order[:n_pairs]
        )

    def more(self, dimensions: Iterable[str]) -> dict[str, list[str]]:
        """The next stage of these dimensions: shard -> pairs; empty if all were measured."""
        found: list[tuple[str, str]] = []
        for name in sorted(dimensions):
            if (stage := self._stage[name]) + 1 < len(self._sizes):
                found += self._order[name][self._sizes[stage] : self._sizes[stage + 1]]
                self._stage[name] += 1
        return _by_shard(found)


def _in_turn(dimension: str, cells: Mapping[tuple[str, ...], Sequence[tuple[str, str]]]) -> list[tuple[str, str]]:
    order = sorted(cells, key=lambda key: rank_of("audit", dimension, *key))
    queues = [sorted(cells[key], key=lambda item: rank_of("audit", item[0])) for key in order]
    return [queue[turn] for turn in range(max(map(len, queues))) for queue in queues if turn < len(queue)]


def _by_shard(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for pair_id, name in pairs:
        found[name].append(pair_id)
    return dict(found)
