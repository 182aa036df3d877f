"""The audit's figures as pictures, for a card or a paper: difficulty, leakage, imposed labels."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder.dimensions import DIMENSIONS, MEASURES
from builder.layout import publish_file, temporary_for

PLAN, HEARD, QUIET = "#c0392b", "#00707f", "#8a8f96"
SHADES = ("#fadcae", "#efa055", "#b04f16", "#5a1c08")
"""Of tiers, in turn."""
COLUMNS = 5
DPI = 110
HIGHEST_JND = 4.0
"""Of the heat map's scale."""
Row = Mapping[str, Any]


def write(report: Row, folder: Path) -> list[Path]:
    """Write `difficulty.png`, `leakage.png` and, of running speech, `imposed.png`.

    Parameters
    ----------
    report
        What `audit.run` returned.
    folder
        Where; it's made.
    """
    made = {"difficulty": _difficulty(report["difficulty"]), "leakage": _leakage(report["leaks"])}
    measured = [row for row in report["imposed"] if row["n_clips"]]
    if measured:
        made["imposed"] = _imposed(measured)
    paths = []
    for name, figure in made.items():
        path = folder / f"{name}.png"
        with temporary_for(path) as temporary:
            figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})
            publish_file(temporary, path)
        paths.append(path)
    return paths


def _figure(width: float, height: float) -> Any:
    """An empty figure, in inches; drawing is loaded at the first one, for few commands draw."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _difficulty(cells: Sequence[Row]) -> Any:
    """A panel for each dimension: per tier and kind of source the plan, the effect, the weakest clip, what's asked, the residual."""
    names = [dimension.name for dimension in DIMENSIONS if any(cell["dimension"] == dimension.name for cell in cells)]
    n_rows = -(-len(names) // COLUMNS)
    figure = _figure(3.1 * COLUMNS, 2.7 * n_rows + 0.6)
    axes = figure.subplots(n_rows, COLUMNS, squeeze=False)
    for panel in axes.flat[len(names) :]:
        panel.axis("off")
    for panel, name in zip(axes.flat, names, strict=False):
        mine = [cell for cell in cells if cell["dimension"] == name]
        tiers = list(dict.fromkeys(cell["tier"] for cell in sorted(mine, key=lambda cell: cell["planned_jnd"])))
        kinds = list(dict.fromkeys(cell["source_kind"] for cell in mine))
        for cell in mine:
            at = tiers.index(cell["tier"]) + (kinds.index(cell["source_kind"]) + 0.5) / len(kinds) * 0.8 - 0.4
            panel.plot([at, at], [0.0, cell["residual_jnd"]], color=QUIET, linewidth=4, alpha=0.5, solid_capstyle="butt")
            panel.plot([at, at], [cell["effect_low_jnd"], cell["effect_high_jnd"]], color=HEARD, linewidth=1)
            panel.plot(at, cell["effect_median_jnd"], "o", color=HEARD, markersize=3)
            panel.plot(at, cell["asked_jnd"] + cell["margin_jnd"], "o", markerfacecolor="none", markeredgecolor=HEARD, markersize=4)
            panel.plot(at, cell["planned_jnd"], "_", color=PLAN, markersize=8, markeredgewidth=2)
            panel.plot(at, cell["asked_jnd"], "_", color="black", markersize=8)
        panel.set_xticks(range(len(tiers)), tiers)
        panel.set_xlim(-0.5, len(tiers) - 0.5)
        panel.set_title(f"{name}\n{textwrap.fill(', '.join(kinds), 38)}", fontsize=8)
        panel.tick_params(labelsize=8)
        panel.grid(axis="y", linewidth=0.4)
    figure.suptitle(
        "Reached, in J: planned (red), median with 10th to 90th percentile, weakest clip (ring), least asked (black), residual (grey)",
        fontsize=10,
    )
    return figure


def _leakage(leaks: Sequence[Row]) -> Any:
    """The matrix as a heat map: 95th percentile of |change|; linked ones in brackets, the swept dimension in bold."""
    measures = list(dict.fromkeys(leak["measured"] for leak in leaks))
    swept = list(dict.fromkeys(leak["swept"] for leak in leaks))
    value = np.full((len(swept), len(measures)), np.nan)
    figure = _figure(1.5 + 0.72 * len(measures), 1.9 + 0.42 * len(swept))
    panel = figure.subplots()
    for leak in leaks:
        if leak["p95_jnd"] is None:
            continue
        row, column = swept.index(leak["swept"]), measures.index(leak["measured"])
        own = leak["swept"] == MEASURES[leak["measured"]][0].name
        value[row, column] = leak["p95_jnd"]
        dark = leak["p95_jnd"] > 0.6 * HIGHEST_JND
        text = f"{leak['p95_jnd']:.1f}"
        panel.text(
            column,
            row,
            f"({text})" if leak["linked"] else text,
            ha="center",
            va="center",
            fontsize=8,
            color="white" if dark else "black",
            fontweight="bold" if own else "normal",
        )
    picture = panel.imshow(value, cmap="YlOrBr", vmin=0.0, vmax=HIGHEST_JND, aspect="auto")
    panel.set_xticks(range(len(measures)), [name.replace("_", " ") for name in measures], rotation=45, ha="right", fontsize=8)
    panel.set_yticks(range(len(swept)), swept, fontsize=8)
    panel.set_title("What a sweep (row) moves (column), in J: 95th percentile; (linked), bold: the swept dimension itself", fontsize=10)
    figure.colorbar(picture, ax=panel, label="J", extend="max")
    return figure


def _imposed(rows: Sequence[Row]) -> Any:
    """Share of raw recordings of running speech on which an imposed label is wrong, with intervals."""
    names = list(dict.fromkeys(row["dimension"] for row in rows))
    tiers = list(dict.fromkeys(row["tier"] for row in rows))
    figure = _figure(2.0 + 1.1 * len(names), 3.6)
    panel = figure.subplots()
    width = 0.8 / len(tiers)
    for number, tier in enumerate(tiers):
        mine = [row for row in rows if row["tier"] == tier]
        at = np.array([names.index(row["dimension"]) for row in mine]) + (number + 0.5) * width - 0.4
        share = 100.0 * np.array([row["slope_opposite"] for row in mine])
        low, high = (100.0 * np.array([row[f"slope_opposite_{end}"] for row in mine]) for end in ("low", "high"))
        panel.bar(at, share, width * 0.9, label=tier, color=SHADES[number % len(SHADES)])
        panel.errorbar(at, share, [share - low, high - share], fmt="none", ecolor="black", elinewidth=0.8, capsize=2)
    panel.axhline(50.0, color=QUIET, linewidth=0.8, linestyle="--")
    panel.set_xticks(range(len(names)), names, fontsize=8)
    panel.set_ylabel("slope goes the other way, %")
    panel.set_title("Had labels only been imposed on raw speech (95 % intervals over sources; 50 %: a coin)", fontsize=10)
    panel.set_ylim(0.0, 1.02 * max(50.0, *(100.0 * row["slope_opposite_high"] for row in rows)))
    figure.legend(title="tier", fontsize=8, loc="outside right upper")
    return figure
