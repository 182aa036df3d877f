"""Validation and audit of a whole dataset on all workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builder import audit, charts, dataset, frontpage, places, report, sight, validate
from builder.engines import Engine, heard_by, tell
from builder.errors import VocalgradError
from builder.layout import clear_temporary, read_manifest
from builder.progress import Progress
from builder.records import Sound

MADE_AGAIN = 24
"""Clips that a build makes again from their rows before it counts as valid."""
AUDITED_PAIRS = 48
"""Pairs per dimension of which every dimension is measured."""


Say = Callable[[str], None]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _heard_again(sound: Sound, row: Mapping[str, Any]) -> Mapping[str, float]:
    tell((1,))
    return dataset.heard_again(sound, row)


_worker: dict[str, dataset.Remaker] = {}


def _start_worker(root: Path, seen: str, remaker: dataset.Remaker | None) -> None:
    sight.check_same(root, seen)
    if remaker is not None:
        _worker["remaker"] = remaker


def _made_again(row: Mapping[str, Any]) -> bytes:
    tell((1,))
    return _worker["remaker"].clip(row)[1]


def validated(root: Path, engine: Engine, remaker: dataset.Remaker | None = None, n_again: int = MADE_AGAIN, say: Say = _say) -> list[str]:
    """Every fault of a dataset's bytes, one line each.

    Parameters
    ----------
    root
        The dataset.
    engine
        Where the work is done.
    remaker, n_again
        Makes clips again, where the sources lie, and how many; None makes none.
    say
        Takes lines on how far it is.
    """
    root = places.whole(root)
    n_rows = _n_rows(root)
    if remaker is not None:
        remaker.prepare(_kinds(root))
    shown: list[Progress] = []
    with engine.each(lambda task, value: shown[-1].told(task, value), _start_worker, (root, sight.stamp(root), remaker)) as each:
        with Progress("validate", n_rows, say) as progress:
            shown.append(progress)
            faults = validate.check(root, _heard_again, each)
        if faults or remaker is None:
            return faults
        with Progress("again", min(n_again, n_rows), say) as progress:
            shown.append(progress)
            return validate.made_again_faults(root, _made_again, n_again, each)


def _n_rows(root: Path) -> int:
    """Clips that the manifest counts; 0 if it can't be read."""
    try:
        listed = read_manifest(root)["shards"]
    except VocalgradError:
        return 0
    return sum(item["n_rows"] for item in listed)


def _kinds(root: Path) -> set[str]:
    """Kinds of source that the manifest counts; none if it can't be read."""
    try:
        return {cell["kind"] for cell in read_manifest(root)["cells"]}
    except VocalgradError:
        return set()


def audited(root: Path, engine: Engine, n_pairs: int = AUDITED_PAIRS, say: Say = _say) -> dict[str, Any]:
    """Audit a dataset; writes `audit/` into it, and its card again with what was found.

    Parameters
    ----------
    root
        The dataset.
    engine
        Where the work is done; the result doesn't depend on it.
    n_pairs
        Pairs per dimension of which every dimension is measured.
    say
        Takes lines on how far it is.

    Returns
    -------
    dict
        What `audit.run` found.
    """
    manifest = read_manifest(root)
    clear_temporary(root / "audit")
    shown: list[Progress] = []

    @contextmanager
    def step(what: str, total: int, unit: str) -> Iterator[None]:
        with Progress(what, total, say, unit) as progress, heard_by(lambda value: progress.told("here", value)):
            shown.append(progress)
            yield

    start = (places.whole(root), sight.stamp(root), None)
    with engine.each(lambda task, value: shown[-1].told(task, value), _start_worker, start) as each:
        found = audit.run(places.whole(root), manifest, n_pairs, each, dataset.LISTENERS, step)
    with step("show", 3, "part"):
        report.write(root, manifest, found, root / "audit" / "report.html")
        tell((1,))
        charts.write(found, root / "audit")
        tell((1,))
        frontpage.write(root, manifest)
        tell((1,))
    return found
