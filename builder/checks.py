"""Validation and audit of a whole dataset on all workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from builder import audit, charts, dataset, frontpage, report, validate
from builder.layout import read_manifest
from builder.workers import processes

MADE_AGAIN = 24
"""Clips that a build makes again from their rows before it counts as valid."""
AUDITED_PAIRS = 48
"""Pairs per dimension of which every dimension is measured."""


def validated(root: Path, n_workers: int, remaker: dataset.Remaker | None = None, n_again: int = MADE_AGAIN) -> list[str]:
    """Every fault of a dataset's bytes, one line each.

    Parameters
    ----------
    root
        The dataset.
    n_workers
        Processes.
    remaker, n_again
        Makes clips again, where the sources lie, and how many; None makes none.
    """
    with processes(n_workers) as each:
        faults = validate.check(root, dataset.heard_again, each)
    if faults or remaker is None:
        return faults
    return validate.made_again_faults(root, lambda row: remaker.clip(row)[1], n_again)


def audited(root: Path, n_workers: int, n_pairs: int = AUDITED_PAIRS) -> dict[str, Any]:
    """Audit a dataset; writes `audit/` into it, and its card again with what was found.

    Parameters
    ----------
    root
        The dataset.
    n_workers
        Processes; the result doesn't depend on it.
    n_pairs
        Pairs per dimension of which every dimension is measured.

    Returns
    -------
    dict
        What `audit.run` found.
    """
    manifest = read_manifest(root)
    with processes(n_workers) as each:
        found = audit.run(root, manifest, n_pairs, each, dataset.LISTENERS)
    report.write(root, manifest, found, root / "audit" / "report.html")
    charts.write(found, root / "audit")
    frontpage.write(root, manifest)
    return found
