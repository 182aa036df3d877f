"""Batches of clips for torch, padded to the longest of each batch.

    python examples/torch_dataloader.py vocalgrad --config pitch --split train

Needs torch; `soundfile` decodes, so torchcodec and FFmpeg aren't needed.
"""

import argparse
import io
import sys

import soundfile
from datasets import Audio, load_dataset

try:
    import torch
    from torch.utils.data import DataLoader
except ImportError:
    sys.exit("torch isn't installed: pip install torch")


def collate(clips: list[dict]) -> dict:
    """A batch of labelled clips.

    Parameters
    ----------
    clips
        Rows with FLAC bytes, all mono.

    Returns
    -------
    dict
        `samples`, float32, shape (n_clips, n_samples), 0 after the end of a clip; `n_samples` and `direction` (0 up, 1 down), int64, shape
        (n_clips,); `id`, a list.
    """
    sounds = [torch.from_numpy(soundfile.read(io.BytesIO(clip["audio"]["bytes"]), dtype="float32")[0]) for clip in clips]
    return {
        "samples": torch.nn.utils.rnn.pad_sequence(sounds, batch_first=True),
        "n_samples": torch.tensor([len(sound) for sound in sounds]),
        "direction": torch.tensor([clip["direction"] for clip in clips]),
        "id": [clip["id"] for clip in clips],
    }


def main() -> None:
    """Print the shapes of every batch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="folder, or owner/name on the Hub")
    parser.add_argument("--config", default="all")
    parser.add_argument("--split", default="train")
    parser.add_argument("--batch", type=int, default=8)
    given = parser.parse_args()

    clips = load_dataset(given.dataset, given.config, split=given.split).cast_column("audio", Audio(decode=False))
    # Both clips of a pair have one source: to hold some out, split by `source_id` or use the dataset's own splits, never by rows.
    loader = DataLoader(clips, batch_size=given.batch, shuffle=True, collate_fn=collate, generator=torch.Generator().manual_seed(1))
    for batch in loader:
        print(tuple(batch["samples"].shape), batch["n_samples"].tolist(), batch["direction"].tolist())


if __name__ == "__main__":
    main()
