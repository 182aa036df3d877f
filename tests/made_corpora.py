"""Small corpora in the shapes of well-known ones, made of synthetic voices, for tests: nothing here was recorded."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
import yaml
from datasets import Audio, ClassLabel, Features, Value

from builder import synthesis
from builder.acoustics import audio, voice
from builder.records import FloatArray

RATE_HZ = 16_000
SPEAKERS = ("225", "226", "227", "228")
SEX = {"225": "f", "226": "m", "227": "f", "228": "m"}
SAID = ("Please call Stella.", "Six spoons of fresh snow peas.", "Ask her to bring these things.")
LICENCE = {"licence": "CC-BY-4.0", "attribution": "made"}


@lru_cache(maxsize=64)
def utterance(speaker: str, number: int) -> FloatArray:
    """About four seconds of a synthetic voice with some room noise; float64, 16 kHz."""
    spec = synthesis.drawn("voice_syllables", "train", 100 * (int(speaker) - 220) + number, 1)
    samples = voice.MAKERS[spec.kind](spec.parameters, RATE_HZ, {}).samples
    pause = np.zeros(RATE_HZ // 4)
    placed = np.concatenate([pause, 0.3 * samples / np.max(np.abs(samples)), pause])
    return placed + np.random.default_rng(number).normal(0.0, 1e-4, len(placed))


def text_of(speaker: str, number: int) -> str:
    """What is said; the women read one sentence in common."""
    return SAID[0] if number == 0 and SEX[speaker] == "f" else f"{SAID[number]} Speaker {speaker}."


def put(path: Path, content: FloatArray | bytes | str, rate_hz: int = RATE_HZ, **how: Any) -> None:
    """A file with its folders: sound, bytes or text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        soundfile.write(path, content if rate_hz == RATE_HZ else audio.resampled(content, RATE_HZ, rate_hz), rate_hz, **how)


def encoded(samples: FloatArray, suffix: str, rate_hz: int = RATE_HZ) -> bytes:
    """Sound as the bytes of a file."""
    stream = io.BytesIO()
    soundfile.write(stream, samples if rate_hz == RATE_HZ else audio.resampled(samples, RATE_HZ, rate_hz), rate_hz, format=suffix)
    return stream.getvalue()


def each() -> list[tuple[str, int]]:
    """Speakers with the numbers of their utterances."""
    return [(speaker, number) for speaker in SPEAKERS for number in range(len(SAID))]


# -- shapes -----------------------------------------------------------------------------------------------------------


def vctk_092(root: Path) -> None:
    """VCTK 0.92 at 48 kHz: p228 has no second microphone and no texts, as p315 hasn't."""
    rows = ["ID  AGE  GENDER  ACCENTS  REGION COMMENTS"]
    rows += [f"p{speaker}  23  {SEX[speaker].upper()}    English    Southern  England (a comment)" for speaker in SPEAKERS]
    put(root / "speaker-info.txt", "\n".join(rows) + "\n")
    for speaker, number in each():
        name = f"p{speaker}_{number + 1:03d}"
        for mic in ("mic1",) if speaker == "228" else ("mic1", "mic2"):
            sound = utterance(speaker, number) * (1.0 if mic == "mic1" else 0.5)
            put(root / "wav48_silence_trimmed" / f"p{speaker}" / f"{name}_{mic}.flac", sound, 48_000)
        if speaker != "228":
            put(root / "txt" / f"p{speaker}" / f"{name}.txt", text_of(speaker, number) + "\n")


def vctk_080(root: Path) -> None:
    """VCTK 0.80: WAV, identifiers without their letter in the table."""
    rows = ["ID  AGE  GENDER  ACCENTS  REGION", *(f"{speaker}  23  {SEX[speaker].upper()}    English    Surrey" for speaker in SPEAKERS)]
    put(root / "speaker-info.txt", "\n".join(rows) + "\n")
    for speaker, number in each():
        name = f"p{speaker}_{number + 1:03d}"
        put(root / "wav48" / f"p{speaker}" / f"{name}.wav", utterance(speaker, number), 48_000)
        put(root / "txt" / f"p{speaker}" / f"{name}.txt", text_of(speaker, number) + "\n")


def librispeech(root: Path) -> None:
    """LibriSpeech: two parts, a transcript per chapter, in capitals."""
    rows = [";ID  |SEX| SUBSET           |MINUTES| NAME"]
    rows += [f"{speaker}  | {SEX[speaker].upper()} | train-clean-100  | 25.03 | A | Reader" for speaker in SPEAKERS]
    put(root / "SPEAKERS.TXT", "\n".join(rows) + "\n")
    for speaker in SPEAKERS:
        folder = root / ("train-clean-100" if speaker < "227" else "test-clean") / speaker / "77"
        names = [f"{speaker}-77-{number:04d}" for number in range(len(SAID))]
        put(folder / f"{speaker}-77.trans.txt", "".join(f"{name} {text_of(speaker, n).upper()}\n" for n, name in enumerate(names)))
        for number, name in enumerate(names):
            put(folder / f"{name}.flac", utterance(speaker, number))


def libritts(root: Path) -> None:
    """LibriTTS at 24 kHz: two texts beside each file."""
    put(
        root / "speakers.tsv", "READER\tGENDER\tSUBSET\tNAME\n" + "".join(f"{s}\t{SEX[s].upper()}\tdev-clean\tA Reader\n" for s in SPEAKERS)
    )
    for speaker, number in each():
        stem = root / "dev-clean" / speaker / "77" / f"{speaker}_77_{number:06d}_000000"
        put(stem.with_suffix(".wav"), utterance(speaker, number), 24_000)
        put(stem.with_name(stem.name + ".original.txt"), text_of(speaker, number))
        put(stem.with_name(stem.name + ".normalized.txt"), text_of(speaker, number).lower())


def common_voice(root: Path) -> None:
    """Common Voice at 32 kHz: MP3, quotes that quote nothing, and a gender that most don't tell."""
    words = {"225": "female_feminine", "226": "male", "227": "other", "228": ""}
    rows = ["client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\tsegment"]
    for speaker, number in each():
        name = f"common_voice_en_{speaker}{number}.mp3"
        put(root / "clips" / name, utterance(speaker, number), 32_000)
        rows.append(f'{speaker * 40}\t{name}\t"{text_of(speaker, number)}\t2\t0\ttwenties\t{words[speaker]}\t\ten\t')
    put(root / "validated.tsv", "\n".join(rows) + "\n")


def festvox(root: Path) -> None:
    """A festvox voice per speaker, in a folder of its own."""
    for speaker in SPEAKERS:
        names = [f"ru_{speaker}{number}" for number in range(len(SAID))]
        lines = [f'( {name} "Пож+алуйста, {text_of(speaker, number)}" )' for number, name in enumerate(names)]
        put(root / speaker / "etc" / "txt.done.data", "\n".join(lines) + "\n")
        for number, name in enumerate(names):
            put(root / speaker / "wav" / f"{name}.wav", utterance(speaker, number))


def files(root: Path) -> None:
    """A folder per speaker, with a text beside each file."""
    for speaker, number in each():
        put(root / speaker / f"{number}.ogg", utterance(speaker, number))
        put(root / speaker / f"{number}.txt", text_of(speaker, number))


def table(root: Path) -> None:
    """A folder with a CSV table."""
    rows = ["path,speaker,sex,language,text,licence,attribution"]
    for speaker, number in each():
        put(root / "sonido ñ 声" / f"{speaker} {number}.wav", utterance(speaker, number))
        rows.append(f"sonido ñ 声/{speaker} {number}.wav,s{speaker},{SEX[speaker]},en,{text_of(speaker, number)},CC-BY-4.0,made")
    put(root / "table.csv", "\n".join(rows) + "\n")


def vctk_parquet(root: Path) -> None:
    """The rows and columns of VCTK on the Hub: both microphones, each a row."""
    rows = []
    for speaker, number in each():
        for mic in ("mic1", "mic2"):
            name = f"p{speaker}_{number + 1:03d}_{mic}.flac"
            sound = {"bytes": encoded(utterance(speaker, number), "FLAC", 48_000), "path": name}
            rows.append(
                {
                    "speaker_id": f"p{speaker}", "audio": sound, "file": f"/far/away/p{speaker}/{name}", "text": text_of(speaker, number),
                    "text_id": f"{number + 1:03d}", "age": "23", "gender": SEX[speaker].upper(), "accent": "English", "region": "",
                    "comment": "",
                }
            )  # fmt: skip
    names = ("file", "text", "text_id", "age", "gender", "accent", "region", "comment")
    kinds: dict[str, Any] = {"speaker_id": Value("string"), "audio": Audio(sampling_rate=48_000)}
    write_parquet(root / "main" / "train" / "0000.parquet", rows, Features(kinds | {name: Value("string") for name in names}))


def librispeech_parquet(root: Path) -> None:
    """The rows and columns of LibriSpeech on the Hub, in two files."""
    kinds = {
        "file": Value("string"), "audio": Audio(sampling_rate=RATE_HZ), "text": Value("string"), "speaker_id": Value("int64"),
        "chapter_id": Value("int64"), "id": Value("string"),
    }  # fmt: skip
    for part, speakers in enumerate((SPEAKERS[:2], SPEAKERS[2:])):
        rows: list[dict[str, Any]] = []
        for speaker in speakers:
            for number in range(len(SAID)):
                name = f"{speaker}-77-{number:04d}"
                sound = {"bytes": encoded(utterance(speaker, number), "FLAC"), "path": f"{name}.flac"}
                text = text_of(speaker, number).upper()
                rows.append(
                    {"file": f"{name}.flac", "audio": sound, "text": text, "speaker_id": int(speaker), "chapter_id": 77, "id": name}
                )
        write_parquet(root / "data" / f"train-{part:05d}-of-00002.parquet", rows, Features(kinds))


def labelled_parquet(root: Path) -> None:
    """A dataset whose sex and language are class labels, one of them unset (-1)."""
    sexes = ClassLabel(names=["male", "female", "other"])
    kinds = Features({"audio": Audio(), "who": Value("string"), "gender": sexes, "locale": Value("string")})
    numbers = {"225": 1, "226": 0, "227": 2, "228": -1}
    rows = [
        {"audio": {"bytes": encoded(utterance(s, n), "WAV"), "path": None}, "who": s, "gender": numbers[s], "locale": "pt-BR"}
        for s, n in each()
    ]
    write_parquet(root / "data" / "train-00000-of-00001.parquet", rows, kinds)


def audio_folder(root: Path) -> None:
    """An AudioFolder with metadata.csv."""
    rows = ["file_name,speaker,sentence,gender"]
    for speaker, number in each():
        put(root / "train" / f"{speaker}_{number}.wav", utterance(speaker, number))
        rows.append(f"{speaker}_{number}.wav,s{speaker},{text_of(speaker, number)},{SEX[speaker]}")
    put(root / "train" / "metadata.csv", "\n".join(rows) + "\n")


def write_parquet(path: Path, rows: list[dict[str, Any]], features: Features) -> None:
    """Rows with undecoded audio as the `datasets` library reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=features.arrow_schema), path)


DATASET = {"dataset": "./corpus", "split": "train", **LICENCE}
SHAPES: Mapping[str, tuple[Callable[[Path], None], list[dict[str, Any]]]] = {
    "vctk-0.92": (vctk_092, [{"folder": "corpus", "layout": {"kind": "vctk"}, "speaker_prefix": "vctk-", **LICENCE}]),
    "vctk-0.80": (vctk_080, [{"folder": "corpus", "layout": {"kind": "vctk"}, "speaker_prefix": "vctk-", **LICENCE}]),
    "librispeech": (librispeech, [{"folder": "corpus", "layout": {"kind": "librispeech"}, **LICENCE}]),
    "libritts": (libritts, [{"folder": "corpus", "layout": {"kind": "libritts"}, **LICENCE}]),
    "common-voice": (common_voice, [{"folder": "corpus", "layout": {"kind": "common_voice"}, "speaker_prefix": "cv-", **LICENCE}]),
    "festvox": (
        festvox,
        [
            {
                "folder": "corpus", "inside": speaker, "language": "ru", **LICENCE,
                "layout": {"kind": "festvox", "speaker": speaker, "sex": SEX[speaker], "text_marks": "+"},
            }
            for speaker in SPEAKERS
        ],
    ),
    "files": (files, [{"folder": "corpus", "layout": {"kind": "files", "pattern": "*.ogg"}, "language": "en", **LICENCE}]),
    "table": (table, [{"folder": "corpus", "table": "table.csv"}]),
    "vctk-hub": (
        vctk_parquet,
        [
            {
                **DATASET, "language": "en", "only": {"file": r"_mic1\.flac$"}, "speaker_prefix": "vctk-",
                "columns": {"id": ["speaker_id", "text_id"], "speaker": "speaker_id", "text": "text", "sex": "gender"},
            }
        ],
    ),
    "librispeech-hub": (
        librispeech_parquet, [{**DATASET, "language": "en", "columns": {"id": "id", "speaker": "speaker_id", "text": "text"}}],
    ),
    "class-labels": (labelled_parquet, [{**DATASET, "columns": {"speaker": "who", "sex": "gender", "language": "locale"}}]),
    "audio-folder": (audio_folder, [{**DATASET, "columns": {"speaker": "speaker", "text": "sentence", "sex": "gender"}}]),
}  # fmt: skip
"""Shape -> what makes the folder `corpus`, and the entries of its recipe."""


def recipe_of(folder: Path, entries: list[dict[str, Any]], name: str = "made") -> Path:
    """A corpus recipe in a folder."""
    path = folder / f"{name}.yaml"
    values = {"name": name, "files": entries, "attributions": {"made": "Made in a test (nobody, now)"}}
    path.write_text(yaml.safe_dump(values, allow_unicode=True, sort_keys=False), encoding="utf-8")
    return path


def corpus(folder: Path, shape: str) -> Path:
    """A corpus of a shape in `folder/corpus`; returns its recipe."""
    make, entries = SHAPES[shape]
    make(folder / "corpus")
    return recipe_of(folder, entries)
