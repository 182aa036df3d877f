"""Asks a zero-shot audio classifier, such as CLAP, which of the two answers fits better; prints its accuracy by dimension.

    python examples/transformers_pipeline.py vocalgrad laion/clap-htsat-unfused --config pitch

Needs torch and transformers; the model is a name on the Hub or a folder. Clips of one source aren't independent: take intervals over
`source_id`, as `evaluation/oracle.py` does.
"""

import argparse
import io
import sys
from collections import defaultdict

import soundfile
import soxr
from datasets import Audio, load_dataset

try:
    from transformers import pipeline
except ImportError:
    sys.exit("transformers isn't installed: pip install torch transformers")


def asked(clip: dict) -> list[str]:
    """The question with each of its two answers, in the order of the choices."""
    return [f"{clip['question']} {choice}" for choice in clip["choices"]]


def main() -> None:
    """Answer every clip of a split and print the share of right answers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help="folder, or owner/name on the Hub")
    parser.add_argument("model", help="folder, or owner/name on the Hub")
    parser.add_argument("--config", default="all")
    parser.add_argument("--split", default="test")
    given = parser.parse_args()

    classify = pipeline("zero-shot-audio-classification", model=given.model)
    model_rate_hz = classify.feature_extractor.sampling_rate
    right = defaultdict(list)
    for clip in load_dataset(given.dataset, given.config, split=given.split).cast_column("audio", Audio(decode=False)):
        samples, rate_hz = soundfile.read(io.BytesIO(clip["audio"]["bytes"]), dtype="float32", always_2d=True)
        heard = soxr.resample(samples.mean(axis=1), rate_hz, model_rate_hz)
        sentences = asked(clip)
        scores = {item["label"]: item["score"] for item in classify(heard, candidate_labels=sentences, hypothesis_template="{}")}
        best = max(range(len(sentences)), key=lambda number: scores[sentences[number]])
        right[clip["dimension"]].append(best == clip["answer_index"])
    for dimension, hits in right.items():
        print(f"{dimension}: {sum(hits)} of {len(hits)} right ({sum(hits) / len(hits):.0%})")


if __name__ == "__main__":
    main()
