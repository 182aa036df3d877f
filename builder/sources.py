"""Where sound comes from: speech cuts, repeated syllables of real voices, and synthesis.

`gather` finds the real sources of a recipe; `realise` turns any `SourceSpec` into samples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from builder import corpora as corpora_files
from builder.acoustics import audio, filters, voice, vowel
from builder.corpora import Corpus, Recording
from builder.cuts import Cut, file_digest, read_recording, survey
from builder.errors import NotFound, Refused
from builder.keys import digest, seed_of, spoken_key
from builder.recipe import Recipe, SpeechRule
from builder.records import Reason, Sound, Source, SourceSpec
from builder.synthesis import syllable_parameters, vowel_parameters

SYLLABLE_FADE_S = 0.008
ROW_FADE_S, STEADY_FADE_S = 0.01, 0.04
LEVEL_ROVE_DB = (-4.0, 1.0)
"""Range of sources' levels about the reference level, even, drawn by the source's identifier."""


def realise(spec: SourceSpec, sample_rate_hz: int, corpora: Mapping[str, Corpus], rule: SpeechRule) -> Source:
    """A source as sound, at its level and with faded ends.

    Parameters
    ----------
    spec
        What to make.
    sample_rate_hz
        Working rate.
    corpora
        By name; needed for real kinds.
    rule
        How recordings are read.

    Raises
    ------
    Refused
        The recording can't be read or is silent.
    NotFound
        The corpus or recording isn't there.
    """
    seed = seed_of("resynthesis", spec.source_id) % 2**31
    if spec.kind in voice.MAKERS:
        make = partial(voice.MAKERS[spec.kind], spec.parameters, sample_rate_hz)
        return _synthesised(spec, make, voice.CONTROLS[spec.kind], seed)
    stretch = _recorded(spec, sample_rate_hz, corpora, rule)
    if spec.kind == "vowels":
        return _synthesised(spec, partial(vowel.Vowel(stretch).sustained, spec.parameters), vowel.CONTROLS, seed)
    if spec.kind == "syllables":
        stretch = _repeated(stretch, spec.parameters)
    sound = audio.faded(_roved(audio.at_reference_level(stretch), spec))
    return Source(spec, sound, *audio.active_region_s(sound), seed)


def _roved(sound: Sound, spec: SourceSpec) -> Sound:
    """A sound at its source's own level, the same for the sham and both clips of all its pairs.

    Were all sources equally loud, the trace of level that a sweep of timbre leaves would stand out over the whole dataset.
    """
    share = seed_of("level", spec.source_id) / 2.0**63
    return filters.scaled_by_db(sound, LEVEL_ROVE_DB[0] + share * (LEVEL_ROVE_DB[1] - LEVEL_ROVE_DB[0]))


def _synthesised(spec: SourceSpec, make: Callable[[voice.Controls], Sound], controls: frozenset[str], seed: int) -> Source:
    """A source that can be made again under controls, with one gain under all: a sweep's own effect on level isn't hidden."""
    fade_s = ROW_FADE_S if spec.kind in ("pulses", "voice_syllables") else STEADY_FADE_S
    raw = audio.faded(make({}), fade_s)
    level = _roved(audio.at_reference_level(raw), spec)
    gain = float(np.max(np.abs(level.samples)) / np.max(np.abs(raw.samples)))

    def synthesise(asked: voice.Controls) -> Sound:
        return audio.faded(make(asked).each(lambda samples: samples * gain), fade_s)

    sound = synthesise({})
    return Source(spec, sound, *audio.active_region_s(sound), seed, controls, synthesise)


def _recorded(spec: SourceSpec, sample_rate_hz: int, corpora: Mapping[str, Corpus], rule: SpeechRule) -> Sound:
    name, member = spec.parameters["corpus"], spec.parameters["member"]
    if name not in corpora:
        raise NotFound(f"corpus {name!r} isn't in the recipe; it holds the recording {member!r} that this clip is made from")
    recording = _recording(corpora[name], member, spec.speaker_id)
    checksum = file_digest(corpora[name], recording)
    if checksum and checksum != spec.parameters["sha256"]:
        raise Refused(Reason.UNREADABLE, f"{member} isn't the file that this source was planned from (its checksum differs)")
    sound = read_recording(corpora[name], recording, rule, sample_rate_hz)
    start, end = int(spec.parameters["start"]), int(spec.parameters["end"])
    if end > len(sound.samples):
        raise Refused(Reason.TOO_SHORT, f"{member} has {len(sound.samples)} samples, {end} are needed")
    return Sound(sound.samples[start:end], sample_rate_hz)


def _recording(corpus: Corpus, member: str, speaker: str | None) -> Recording:
    for recording in corpus.recordings:
        if recording.member == member and recording.speaker == speaker:
            return recording
    raise NotFound(f"corpus {corpus.name!r} has no recording {member!r} of speaker {speaker!r}")


def _repeated(syllable: Sound, parameters: Mapping[str, Any]) -> Sound:
    """A syllable repeated at a steady rate, each repetition the same samples; a row begins and ends in sound."""
    rate = syllable.sample_rate_hz
    once = audio.faded(syllable, SYLLABLE_FADE_S).samples
    period = round(rate / float(parameters["rate_hz"]))
    repeats = int(parameters["repeats"])
    if len(once) > period:
        raise Refused(Reason.NOT_REPEATABLE, f"a syllable of {len(once) / rate:.3f} s doesn't fit {period / rate:.3f} s")
    row = np.zeros(period)
    row[: len(once)] = once
    first, last = _loud_part(Sound(once, rate))
    return Sound(np.tile(row, repeats)[first : period * (repeats - 1) + last], rate)


def _loud_part(syllable: Sound) -> tuple[int, int]:
    """First and last sample within 12 dB of a syllable's loudest 5 ms: a row's ends rise and fall as fast at any rate."""
    width = round(0.005 * syllable.sample_rate_hz)
    power = np.convolve(syllable.samples**2, np.ones(width) / width, "same")
    loud = np.flatnonzero(power >= np.max(power) * 10.0 ** (-12.0 / 10.0))
    return int(loud[0]), int(loud[-1]) + 1


# -- gathering real sources -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gathered:
    """The real sources of a recipe.

    Parameters
    ----------
    corpora
        By name.
    by_kind
        Kind -> sources, sorted by identifier.
    sex
        speaker_id -> f, m or None.
    refused
        Reason -> count, of recordings and cuts.
    details
        One line per refusal.
    """

    corpora: Mapping[str, Corpus]
    by_kind: Mapping[str, tuple[SourceSpec, ...]]
    sex: Mapping[str, str | None]
    refused: Mapping[str, int]
    details: tuple[str, ...]


NOTHING = Gathered({}, {}, {}, {}, ())


def gather(recipe: Recipe, folder: Path) -> Gathered:
    """Fetch, check and cut the recipe's speech corpora.

    Parameters
    ----------
    recipe
        With `speech.corpus` relative to `folder`; without a corpus nothing is gathered.
    folder
        Where the recipe file lies.

    Raises
    ------
    CorpusUnavailable
        Files of the corpus can't be had.
    """
    corpora = corpora_files.load_all([folder / name for name in recipe.speech.corpora])
    if not corpora:
        return NOTHING
    real: dict[str, list[SourceSpec]] = {"speech": [], "syllables": [], "vowels": []}
    refused, details = Counter[str](), list[str]()
    sex: dict[str, str | None] = {}
    for corpus in corpora.values():
        found = survey(corpus, recipe.speech, recipe.sample_rate_hz)
        real["speech"] += [_speech_spec(corpus, cut) for cut in found.cuts]
        real["syllables"] += [_syllable_spec(corpus, cut, low, high, recipe.sample_rate_hz) for cut, low, high in found.syllables]
        real["vowels"] += [_vowel_spec(corpus, cut, low, high) for cut, low, high in found.syllables]
        for counts, lines in (corpus.refusals(), (found.refused, found.details)):
            refused.update(counts)
            details += lines
        sex.update({item.speaker: item.sex or sex.get(item.speaker) for item in corpus.recordings})
    in_order = {kind: tuple(sorted(specs, key=lambda spec: spec.source_id)) for kind, specs in real.items()}
    return Gathered(corpora, in_order, sex, dict(refused), tuple(details))


def _where(corpus: Corpus, recording: Recording, start: int, end: int) -> dict[str, Any]:
    """Where a stretch lies, the checksum of the file that it was found in, and a digest of what is said in all of it."""
    where: dict[str, Any] = {"corpus": corpus.name, "member": recording.member, "sha256": file_digest(corpus, recording)}
    if recording.text:
        where["said"] = digest(spoken_key(recording.text))
    return {**where, "start": start, "end": end}


def _speech_spec(corpus: Corpus, cut: Cut) -> SourceSpec:
    recording = cut.recording
    where = _where(corpus, recording, cut.start, cut.end)
    return SourceSpec(
        kind="speech",
        source_id="r" + digest([where, recording.speaker])[1:],
        parameters=where,
        speaker_id=recording.speaker,
        language=recording.language,
        text=recording.text if cut.whole else None,
        licence=recording.licence,
        attribution=recording.attribution,
    )


def _syllable_spec(corpus: Corpus, cut: Cut, low: int, high: int, sample_rate_hz: int) -> SourceSpec:
    where = _where(corpus, cut.recording, low, high)
    source_id = "y" + digest([where, cut.recording.speaker])[1:]
    return _part_spec("syllables", source_id, {**where, **syllable_parameters(source_id, (high - low) / sample_rate_hz)}, cut.recording)


def _vowel_spec(corpus: Corpus, cut: Cut, low: int, high: int) -> SourceSpec:
    where = _where(corpus, cut.recording, low, high)
    source_id = "v" + digest([where, cut.recording.speaker, "vowel"])[1:]
    return _part_spec("vowels", source_id, {**where, **vowel_parameters(source_id)}, cut.recording)


def _part_spec(kind: str, source_id: str, parameters: dict[str, Any], recording: Recording) -> SourceSpec:
    """A source made of a part of a recording, too short to say anything."""
    return SourceSpec(
        kind=kind,
        source_id=source_id,
        parameters=parameters,
        speaker_id=recording.speaker,
        language=recording.language,
        text=None,
        licence=recording.licence,
        attribution=recording.attribution,
    )
