"""Which real sources are used: how far up they reach, how many of a speaker, whose turn it is; by no order of files."""

from __future__ import annotations

import csv
import io
import itertools
import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from builder import corpora, pipeline, plan, sources
from builder.acoustics import audio, bandwidth
from builder.dimensions import BY_NAME, DIMENSIONS
from builder.errors import CellUnfilled
from builder.fill import Context, Filler
from builder.keys import digest
from builder.recipe import Recipe
from builder.recordings import tape
from builder.records import Cell, FloatArray, Margins, ShardPlan, Sound, SourceSpec
from builder.sources import Gathered

RATE_HZ = 16_000
NEEDING = [dimension.name for dimension in DIMENSIONS if dimension.band.needs_hz > 4300.0]
FIVE_PER_CENT = 0.05


@pytest.fixture(scope="module")
def voices(real: Gathered, default_recipe: Recipe) -> dict[str, FloatArray]:
    """Whole real recordings of four speakers: float64, 16 kHz."""
    wanted = {"arctic_a0007.wav": "awb", "arctic_a0009.wav": "slt", "61-70968-0000.flac": "ls61", "13697_11991_000000.opus": "mls"}
    corpus = real.corpora["embedded"]
    return {
        name: tape(corpus, recording, default_recipe.speech, RATE_HZ).read().samples
        for recording in corpus.recordings
        for suffix, name in wanted.items()
        if recording.member.endswith(suffix)
    }


def band_limited(samples: FloatArray, edge_hz: int) -> FloatArray:
    """As a recording at twice the edge would be, resampled to 16 kHz."""
    return audio.resampled(audio.resampled(samples, RATE_HZ, 2 * edge_hz), 2 * edge_hz, RATE_HZ)


def through_mp3(samples: FloatArray, compression: float) -> FloatArray:
    """Written as MP3 of constant bit rate and read back; compression 0 is the highest rate, 1 the lowest."""
    file = io.BytesIO()
    soundfile.write(file, samples, RATE_HZ, format="MP3", compression_level=compression, bitrate_mode="CONSTANT")
    file.seek(0)
    found: FloatArray = soundfile.read(file)[0]
    return found


def corpus_of(folder: Path, files: Mapping[str, tuple[FloatArray, str, str]], order: int = 0, **more: str) -> Path:
    """A corpus recipe over files -> samples, speaker, sex; the folder and the table in an order of their own."""
    root = folder / "audio"
    root.mkdir(parents=True)
    names = random.Random(order).sample(sorted(files), len(files))
    for name in names:
        soundfile.write(root / name, files[name][0], RATE_HZ, subtype="PCM_16")
    random.Random(order + 1).shuffle(names)
    with (root / "table.csv").open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, corpora.TABLE_COLUMNS, restval="")
        writer.writeheader()
        told = {"language": "en", "licence": "CC0-1.0", "attribution": "Test", **more}
        writer.writerows({"path": name, "speaker": files[name][1], "sex": files[name][2], **told} for name in names)
    (folder / "corpus.yaml").write_text("name: mine\nfiles:\n  - {folder: audio, table: table.csv}\n", encoding="utf-8")
    return folder / "corpus.yaml"


def with_corpus(default: Recipe, **speech: Any) -> Recipe:
    """The default recipe on `corpus.yaml`, one split that takes any corpus."""
    split = default.splits["train"].model_copy(update={"share": 1.0, "min_speakers": 1, "min_cuts": 1})
    rule = default.speech.model_copy(update={"corpus": "corpus.yaml", **speech})
    return default.model_copy(update={"speech": rule, "splits": {"train": split}})


# -- bandwidth --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edge_hz", [3000, 4000, 5000, 6500])
def test_a_recording_reaches_up_to_where_it_was_cut_off(voices: dict[str, FloatArray], edge_hz: int) -> None:
    """Whatever rate it's brought to afterwards: within 5 % of the edge, at full level and 20 dB lower, in samples of 16 bit."""
    for samples in voices.values():
        for gain in (1.0, 0.1):
            sound = audio.rounded_to_pcm16(Sound(gain * band_limited(samples, edge_hz), RATE_HZ))
            assert bandwidth.bandwidth_hz(sound) == pytest.approx(edge_hz, rel=FIVE_PER_CENT)


def test_a_whole_recording_reaches_nearly_up_to_half_its_rate(voices: dict[str, FloatArray]) -> None:
    """What no resampler cut reads the highest band there is, over 7.5 kHz at a rate of 16 kHz."""
    for samples in voices.values():
        assert bandwidth.bandwidth_hz(Sound(samples, RATE_HZ)) > 7500.0


def test_a_codec_does_not_hide_an_edge(voices: dict[str, FloatArray]) -> None:
    """6.5 kHz that went through an MP3 of good quality are 6.5 kHz; the least bit rate keeps half of what was there."""
    for samples in voices.values():
        kept = Sound(through_mp3(band_limited(samples, 6500), 0.0), RATE_HZ)
        assert bandwidth.bandwidth_hz(kept) == pytest.approx(6500.0, rel=FIVE_PER_CENT)
        assert bandwidth.bandwidth_hz(Sound(through_mp3(samples, 0.99), RATE_HZ)) < 4000.0


def test_hiss_above_a_voice_is_no_bandwidth(voices: dict[str, FloatArray]) -> None:
    """A recording of 4 kHz with steady hiss 45 dB under it reaches no further than 4 kHz."""
    for samples in voices.values():
        narrow = band_limited(samples, 4000)
        hiss = np.random.default_rng(5).normal(0.0, np.sqrt(np.mean(narrow**2)) * 10.0 ** (-45.0 / 20.0), len(narrow))
        assert bandwidth.bandwidth_hz(Sound(narrow + hiss, RATE_HZ)) < 4000.0 * (1.0 + FIVE_PER_CENT)


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros(500), np.zeros(RATE_HZ)], ids=["nothing", "too short", "silence"])
def test_what_holds_nothing_reaches_nowhere(samples: FloatArray) -> None:
    """0 Hz, so that whatever needs a band refuses it."""
    assert bandwidth.bandwidth_hz(Sound(samples, RATE_HZ)) == 0.0


def shard_of(dimension: str, kind: str, gathered: Gathered, count: int = 1) -> tuple[ShardPlan, Cell]:
    """One cell of a dimension on a corpus: linear, 4 J."""
    jnd = BY_NAME[dimension].jnd.on(kind)
    cell = Cell(dimension, "medium", "linear", kind, "train")
    spans = {("medium", "linear", kind): (round(6.0 * jnd, 6), round(4.0 * jnd, 6), round(jnd, 6))}
    return ShardPlan(dimension, "train", 0, 1, ((cell, count),), dict(gathered.by_kind), spans, {kind: 1.0}, Margins(), 1, RATE_HZ), cell


def filled(dimension: str, kind: str, gathered: Gathered, recipe: Recipe) -> tuple[int, Counter[str]]:
    """Published pairs and rejections of one cell."""
    shard, cell = shard_of(dimension, kind, gathered)
    filler = Filler(shard, Context(gathered.corpora, recipe.speech, gathered.bandwidth_hz))
    try:
        filler.run()
    except CellUnfilled:
        assert filler.reports[cell].published == 0
    return filler.reports[cell].published, filler.reports[cell].rejected


def kind_for(dimension: str) -> str:
    """A real kind that carries the dimension."""
    return next(kind for kind in ("speech", "syllables", "vowels") if kind in BY_NAME[dimension].max_span)


@pytest.fixture(scope="module")
def narrow(voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> tuple[Gathered, Recipe]:
    """A corpus of recordings of 8 kHz that were resampled to 16 kHz: the files' own rate is 16 kHz."""
    files = {f"{name}.wav": (band_limited(samples, 4000), name, "f") for name, samples in voices.items()}
    recipe = with_corpus(default_recipe)
    return sources.gather(recipe, corpus_of(tmp_path_factory.mktemp("narrow"), files).parent), recipe


@pytest.mark.parametrize("dimension", NEEDING)
def test_upsampled_speech_is_refused_for_what_needs_more(narrow: tuple[Gathered, Recipe], dimension: str) -> None:
    """8 kHz behind a header of 16 kHz: every candidate is refused as narrow_band before it's read, and counted in its cell."""
    published, rejected = filled(dimension, kind_for(dimension), *narrow)
    assert published == 0
    assert rejected == {"narrow_band": len(narrow[0].by_kind[kind_for(dimension)])}


@pytest.mark.parametrize("dimension", ["pitch", "loudness", "tempo"])
def test_upsampled_speech_carries_what_does_not_need_more(narrow: tuple[Gathered, Recipe], dimension: str) -> None:
    """A telephone voice rises and falls in pitch, loudness and tempo as well as any."""
    published, rejected = filled(dimension, kind_for(dimension), *narrow)
    assert published == 1
    assert "narrow_band" not in rejected


def test_six_and_a_half_kilohertz_are_too_few_for_clarity_alone(
    voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path: Path
) -> None:
    """An MP3 with an edge at 6.5 kHz: clarity's largest sweep ends at 7 kHz, all other dimensions are content."""
    files = {"a.wav": (through_mp3(band_limited(voices["mls"], 6500), 0.0), "a", "f")}
    recipe = with_corpus(default_recipe)
    gathered = sources.gather(recipe, corpus_of(tmp_path, files).parent)
    assert set(filled("clarity", "syllables", gathered, recipe)[1]) == {"narrow_band"}
    (found,) = gathered.bandwidth_hz.values()
    assert [dimension.name for dimension in DIMENSIONS if dimension.band.needs_hz > found] == ["clarity"]


def test_no_dimension_needs_more_than_a_rate_of_16_khz_holds() -> None:
    """Each says why it needs what it needs, and a good recording at the lowest working rate has it."""
    for dimension in DIMENSIONS:
        assert 0.0 <= dimension.band.needs_hz < 7500.0
        assert dimension.band.reason


# -- limits of a cut --------------------------------------------------------------------------------------------------


def test_a_faint_cut_is_too_quiet(voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path: Path) -> None:
    """Loud frames under min_level_dbfs: refused with both figures; used where the recipe allows it."""
    files = {"a.wav": (voices["ls61"] / np.max(np.abs(voices["ls61"])) * 10.0 ** (-45.0 / 20.0), "a", "f")}
    path = corpus_of(tmp_path, files)
    found = sources.gather(with_corpus(default_recipe), path.parent)
    assert set(found.refused) == {"too_quiet"}
    assert "too_quiet: loud frames at -5" in found.details[0]
    assert "at least -50 dBFS are needed" in found.details[0]
    assert sources.gather(with_corpus(default_recipe, min_level_dbfs=-65.0), path.parent).by_kind["speech"]


# -- quotas -----------------------------------------------------------------------------------------------------------


def test_a_quota_keeps_the_same_cuts_wherever_the_corpus_lies(
    voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path: Path
) -> None:
    """Files and table in three orders at three places: one plan; at most two cuts a speaker, all others counted as over_quota."""
    files = {f"{name}.wav": (samples, name, "f") for name, samples in voices.items()}
    free = with_corpus(default_recipe)
    bound = with_corpus(default_recipe, max_cuts_per_speaker=2)
    found = []
    for number, place in enumerate(("here", "there/far away", "ñ 日本語")):
        folder = corpus_of(tmp_path / place, files, order=number).parent
        gathered = sources.gather(bound, folder)
        found.append((plan.make(bound, gathered.by_kind, gathered.sex).digest, gathered.refused, gathered.details))
    assert found[0] == found[1] == found[2]
    everything = sources.gather(free, folder)
    before, after = (Counter(spec.speaker_id for spec in each.by_kind["speech"]) for each in (everything, gathered))
    assert max(before.values()) > 2
    assert after == {speaker: min(count, 2) for speaker, count in before.items()}
    assert gathered.refused["over_quota"] == sum(before.values()) - sum(after.values())
    assert all(spec in everything.by_kind["speech"] for spec in gathered.by_kind["speech"])
    spans = [(cut.parameters["member"], cut.parameters["start"], cut.parameters["end"]) for cut in gathered.by_kind["speech"]]
    for syllable in gathered.by_kind["syllables"]:
        at = syllable.parameters
        assert any(member == at["member"] and start <= at["start"] and at["end"] <= end for member, start, end in spans)


def test_another_speaker_moves_no_quota(voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path: Path) -> None:
    """A speaker's cuts are chosen by their own keys: the same ones when the corpus grows; another seed chooses others."""
    recipe = with_corpus(default_recipe, max_cuts_per_speaker=1)
    files = {"mls.wav": (voices["mls"], "mls", "f")}
    small = sources.gather(recipe, corpus_of(tmp_path / "small", files).parent)
    files["awb.wav"] = (voices["awb"], "awb", "m")
    large = sources.gather(recipe, corpus_of(tmp_path / "large", files).parent)
    of_mls = [spec for spec in large.by_kind["speech"] if spec.speaker_id == "mls"]
    assert list(small.by_kind["speech"]) == of_mls
    seeds = {
        sources.gather(recipe.model_copy(update={"seed": seed}), tmp_path / "small").by_kind["speech"][0].source_id for seed in range(6)
    }
    assert len(seeds) > 1


# -- turns ------------------------------------------------------------------------------------------------------------


def spoken(speaker: str, number: int) -> SourceSpec:
    """A made-up cut."""
    where = {"corpus": "c", "member": f"{speaker}/{number}.wav", "start": 0, "end": 32000}
    return SourceSpec("speech", "r" + digest([speaker, number])[1:], where, speaker, "en", None, "CC0-1.0", "nobody")


def candidates_of(cuts: Mapping[str, int], sex: Mapping[str, str | None], recipe: Recipe) -> list[str]:
    """Speakers of a cell's candidates, in order."""
    specs = tuple(spoken(speaker, number) for speaker, count in cuts.items() for number in range(count))
    shard = plan.make(with_corpus(recipe), {"speech": specs}, sex).shards[0]
    cell = next(cell for cell, _ in shard.wanted if cell.kind == "speech")
    return [str(pair.source.speaker_id) for pair in plan.candidates(shard, cell)]


@settings(max_examples=30, deadline=None)
@given(
    cuts=st.dictionaries(st.sampled_from([f"speaker {n}" for n in range(9)]), st.integers(1, 5), min_size=1),
    told=st.lists(st.sampled_from(["f", "m", None]), min_size=9, max_size=9),
)
def test_sexes_take_turns_as_long_as_they_last(default_recipe: Recipe, cuts: dict[str, int], told: list[str | None]) -> None:
    """In each prefix the sexes that have sources left differ by one at most; who isn't told is a group too; nobody is left out."""
    sex = {speaker: told[int(speaker.split()[1])] for speaker in cuts}
    order = candidates_of(cuts, sex, default_recipe)
    assert Counter(order) == cuts
    totals = Counter(sex[speaker] for speaker in order)
    so_far: Counter[str | None] = Counter()
    for speaker in order:
        so_far[sex[speaker]] += 1
        unspent = [so_far[group] for group in totals if so_far[group] < totals[group]]
        if unspent:
            assert max(so_far.values()) - min(unspent) <= 1


def test_within_a_sex_speakers_take_turns(default_recipe: Recipe) -> None:
    """Of three women and two men with four cuts each, the first six women's turns are each woman twice."""
    cuts = dict.fromkeys(("f1", "f2", "f3", "m1", "m2"), 4)
    order = candidates_of(cuts, {speaker: speaker[0] for speaker in cuts}, default_recipe)
    women = [speaker for speaker in order if speaker[0] == "f"]
    assert sorted(women[:6]) == ["f1", "f1", "f2", "f2", "f3", "f3"]
    assert all(pair[0][0] != pair[1][0] for pair in itertools.pairwise(order[:16]))


def test_sex_is_what_all_recordings_agree_on(voices: dict[str, FloatArray], default_recipe: Recipe, tmp_path: Path) -> None:
    """Told once is told; told both ways, or never, isn't known, and isn't in the manifest."""
    said = {"a": ("f", ""), "b": ("f", "m"), "c": ("", ""), "d": ("m", "m")}
    files = {
        f"{speaker}{number}.wav": (samples[:: 1 - 2 * number], speaker, sex)  # backwards it's another recording
        for (speaker, sexes), samples in zip(said.items(), voices.values(), strict=True)
        for number, sex in enumerate(sexes)
    }
    recipe = with_corpus(default_recipe)
    gathered = sources.gather(recipe, corpus_of(tmp_path, files).parent)
    assert gathered.sex == {"a": "f", "b": None, "c": None, "d": "m"}
    manifest = pipeline.manifest_of(plan.make(recipe, gathered.by_kind, gathered.sex), gathered, [])
    assert manifest["sources"]["sex"] == {"a": "f", "d": "m"}
    assert set(manifest["sources"]["speakers"]) == set(said)
