"""Reads clips as numpy arrays with `datasets` and `soundfile` alone; torch isn't needed.

    python examples/decode_without_torch.py vocalgrad --config pitch --split test

The dataset is a folder that was built, or owner/name on the Hugging Face Hub.
"""

import argparse
import io

import numpy as np
import soundfile
from datasets import Audio, load_dataset


def decode(content: bytes) -> tuple[np.ndarray, int]:
    """Samples, float64, shape (n_samples,) or (n_samples, 2), full scale 1.0; and their rate in Hz."""
    return soundfile.read(io.BytesIO(content))


def main() -> None:
    """Print question, answer and level of the first clips."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="folder, or owner/name on the Hub")
    parser.add_argument("--config", default="all")
    parser.add_argument("--split", default="test")
    parser.add_argument("--revision", default=None, help="tag of a version on the Hub, such as v0.1.0-seed.1")
    given = parser.parse_args()

    clips = load_dataset(given.dataset, given.config, split=given.split, revision=given.revision)
    for clip in clips.cast_column("audio", Audio(decode=False)).take(5):
        samples, rate_hz = decode(clip["audio"]["bytes"])
        level_dbfs = 10.0 * np.log10(np.mean(samples**2))
        print(f"{clip['id']}  {len(samples) / rate_hz:.2f} s  {level_dbfs:.1f} dBFS  {clip['question']} {clip['answer']}")


if __name__ == "__main__":
    main()
