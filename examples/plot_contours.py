"""Draws the published contours of a pair: rising and falling, and their sham; measured values, nothing is computed anew.

python examples/plot_contours.py vocalgrad pitch --to pitch.png
"""

import argparse

import numpy as np
from datasets import load_dataset
from matplotlib.figure import Figure

NAMES = {0: "up", 1: "down"}


def values(contour: list) -> np.ndarray:
    """A contour as float64; `nan` where the property has no value."""
    return np.array(contour, dtype=np.float64)


def main() -> None:
    """Draw the first pair of a dimension."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="folder, or owner/name on the Hub")
    parser.add_argument("dimension", help="such as pitch")
    parser.add_argument("--split", default="test")
    parser.add_argument("--to", default="contours.png", help="picture to write (default: %(default)s)")
    given = parser.parse_args()

    rows = load_dataset(given.dataset, given.dimension, split=given.split).remove_columns("audio")
    first = rows[0]
    pair = sorted(rows.filter(lambda row: row["pair_id"] == first["pair_id"]), key=lambda row: row["direction"])
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    for panel, row in zip(figure.subplots(1, 2, sharey=True), pair, strict=True):
        panel.plot(row["contour_time_s"], values(row["contour_sham"]), ".", color="#9aa0a6", label="sham")
        panel.plot(row["contour_time_s"], values(row["contour_value"]), ".", color="#00798c", label="measured")
        panel.axvspan(row["active_start_s"], row["active_end_s"], color="#00798c", alpha=0.06)
        panel.set(xlabel="s", title=f"{NAMES[row['direction']]}: {row['effect']:+.3g} {row['unit']} = {row['effect_jnd']:+.1f} J")
    figure.axes[0].set_ylabel(f"{first['dimension']}, {first['unit']}")
    figure.axes[0].legend(frameon=False)
    figure.savefig(given.to, dpi=110)
    print(f"{given.to}: {first['pair_id']}, {first['source_kind']}, {first['tier']}")


if __name__ == "__main__":
    main()
