"""Re-measures every clip of a built dataset from its FLAC bytes, by meter and witness, and compares what is heard with the label.

A label from the parts of a mix can't be measured in the clip alone: there the witness speaks.

    python tests/remeasure.py vocalgrad

Reads the Parquet files with pyarrow and decodes with soundfile; of this package it uses the meters and the statistics only,
never a plan or a source. Prints one line per contradiction, then counts.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import soundfile

from builder import label, measure
from builder.dimensions import BY_NAME
from builder.records import Sound


@dataclass
class Found:
    """What re-measuring a dataset found."""

    clips: int
    controls: int
    contradictions: list[str]
    clipped_samples: int
    largest_effect_error: float


def remeasure(root: Path) -> Found:
    """Decode and measure every clip below `root`."""
    found = Found(0, 0, [], 0, 0.0)
    columns = ["id", "audio", "dimension", "direction", "active_start_s", "active_end_s", "effect", "witness", "witness_effect"]
    for path in sorted(root.glob("data/*/*.parquet")):
        for row in pq.read_table(path, columns=columns).to_pylist():
            steps, rate = soundfile.read(io.BytesIO(row["audio"]["bytes"]), dtype="int16")
            found.clips += 1
            found.clipped_samples += int(np.sum((steps == 32767) | (steps == -32768)))
            sound, dimension = Sound(steps / 32768.0, rate), BY_NAME[row["dimension"]]
            heard = label.hear(measure.measure(sound, dimension), row["active_start_s"], row["active_end_s"])
            second = label.witness_contrast(measure.witness(sound, dimension), row["active_start_s"], row["active_end_s"])
            blind = dimension.basis == "heard"
            for now, then in ((heard.contrast, row["effect"]),) * blind + ((second, row["witness_effect"]),):
                if then is not None or not np.isnan(now):
                    found.largest_effect_error = max(found.largest_effect_error, abs(now - then))
            if row["direction"] is None:
                found.controls += 1
                continue
            sign = 1 if row["direction"] == 0 else -1
            figures = (heard.contrast, heard.trend, heard.rank_correlation, heard.block_tau)
            if row["witness"] == "agrees" and not second * sign > 0:
                found.contradictions.append(f"{row['id']} ({row['dimension']}): label {sign:+d}, the witness hears {second:+g}")
            if blind and not all(figure * sign > 0 for figure in figures):
                found.contradictions.append(f"{row['id']} ({row['dimension']}): label {sign:+d}, heard {figures}")
    return found


if __name__ == "__main__":
    result = remeasure(Path(sys.argv[1]))
    print("\n".join(result.contradictions))
    print(
        f"{result.clips} clips ({result.controls} controls), {len(result.contradictions)} contradicted, "
        f"{result.clipped_samples} clipped samples, "
        f"largest difference from the published effect {result.largest_effect_error:g}"
    )
    sys.exit(1 if result.contradictions or result.clipped_samples or not result.clips else 0)
