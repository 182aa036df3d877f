"""vocalgrad: a factory for directional acoustic-perception datasets.

The pipeline, one line per stage:

    recipe     read and check what to build: strict YAML, all faults at once
    sources    find sound: real speech fetched and cut, synthesis drawn
    plan       spend all the randomness: every pair fully determined, cut into shards
    render     one planned clip to samples, pure in the plan row
    measure    samples to contours; sees the sound, never the plan
    label      contours to up, down or abstain, with margin and reason
    shard      labelled rows to Parquet with FLAC, plus checksums
    card       README with configurations, from the build's numbers
    validate   reread the bytes as a stranger would
    audit      measure what else than the label's property moves or tells
    publish    one atomic, tagged commit on the Hub, compared by checksum
"""

import os

__version__ = "0.1.0"

PINNED_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


SENDS_NOTHING = {"ORT_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
"""What keeps libraries from sending reports of use; onnxruntime would also write an identifier of this machine under the home."""

os.environ.update(SENDS_NOTHING)  # they read it when they're imported, here and in child processes


def pin_threads() -> None:
    """One thread for every numerical library that is loaded after this, here and in child processes.

    Sums in another order differ in their last bits, and one bit can decide a rounding.
    """
    for name in PINNED_THREADS:
        os.environ[name] = "1"
