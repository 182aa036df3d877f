"""Where sound comes from: speech cuts, repeated syllables of real voices, and synthesis.

`gather` finds the real sources of a recipe; `realise` turns any `SourceSpec` into samples.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from builder import corpora as corpora_files
from builder import duplicates
from builder.acoustics import audio, filters, voice, vowel
from builder.corpora import Corpus, Recording
from builder.cuts import Cut, Survey, Syllable
from builder.engines import Map
from builder.errors import NotFound, Refused
from builder.keys import digest, rank_of, seed_of, spoken_key
from builder.recipe import Recipe, SpeechRule
from builder.recordings import check_seen, file_digest, tape
from builder.records import Carrier, Reason, Sound, Source, SourceSpec
from builder.surveys import surveyed
from builder.synthesis import syllable_parameters, vowel_parameters
from builder.words import counted

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
        The corpus or recording isn't there, or its folder is gone.
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
    made = make({})
    raw = audio.faded(made, fade_s)
    level = _roved(audio.at_reference_level(raw), spec)
    gain = float(np.max(np.abs(level.samples)) / np.max(np.abs(raw.samples)))

    def finished(plain: Sound) -> Sound:
        return audio.faded(plain.each(lambda samples: samples * gain), fade_s)

    def synthesise(asked: voice.Controls) -> Sound:
        return finished(make(asked))

    sound = finished(made)
    return Source(spec, sound, *audio.active_region_s(sound), seed, controls, synthesise)


def _recorded(spec: SourceSpec, sample_rate_hz: int, corpora: Mapping[str, Corpus], rule: SpeechRule) -> Sound:
    """A stretch of a recording."""
    name, member = spec.parameters["corpus"], spec.parameters["member"]
    if name not in corpora:
        raise NotFound(f"corpus {name!r} isn't in the recipe; it holds the recording {member!r} that this clip is made from")
    recording = _recording(corpora[name], member, spec.speaker_id)
    check_seen(corpora[name], recording)
    checksum = file_digest(corpora[name], recording)
    if checksum and checksum != spec.parameters["sha256"]:
        raise Refused(Reason.UNREADABLE, f"{member} isn't the file that this source was planned from (its checksum differs)")
    start, end = int(spec.parameters["start"]), int(spec.parameters["end"])
    sound = tape(corpora[name], recording, rule, sample_rate_hz).read(start, end)
    if len(sound.samples) < end - start:
        raise Refused(Reason.TOO_SHORT, f"{member} has {counted(start + len(sound.samples), 'sample')}, {end} are needed")
    return sound


def _recording(corpus: Corpus, member: str, speaker: str | None) -> Recording:
    if (member, speaker) not in corpus.listed:
        raise NotFound(f"corpus {corpus.name!r} has no recording {member!r} of speaker {speaker!r}")
    return corpus.listed[member, speaker]


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
        speaker_id -> f or m; None where the corpus doesn't tell, or tells both.
    refused
        Reason -> count, of recordings and cuts.
    details
        One line per refusal; of cuts over a speaker's quota one per speaker.
    bandwidth_hz
        Member -> how far up a readable recording reaches.
    """

    corpora: Mapping[str, Corpus]
    by_kind: Mapping[str, tuple[SourceSpec, ...]]
    sex: Mapping[str, str | None]
    refused: Mapping[str, int]
    details: tuple[str, ...]
    bandwidth_hz: Mapping[str, float] = field(default_factory=dict)


NOTHING = Gathered({}, {}, {}, {}, ())


def gather(recipe: Recipe, folder: Path, each: Map = map) -> Gathered:
    """Fetch, check and cut the recipe's speech corpora.

    Parameters
    ----------
    recipe
        With `speech.corpus` relative to `folder`; without a corpus nothing is gathered.
    folder
        Where the recipe file lies.
    each
        `map`, or that of an executor, for recordings that were never surveyed.

    Raises
    ------
    CorpusUnavailable
        Files of the corpus can't be had.
    """
    corpora = corpora_files.load_all([folder / name for name in recipe.speech.corpora])
    if not corpora:
        return NOTHING
    by_kind: dict[str, list[SourceSpec]] = {"speech": [], "syllables": [], "vowels": []}
    refused, details = Counter[str](), list[str]()
    bandwidth_hz: dict[str, float] = {}
    surveys = [(corpus, surveyed(corpus, recipe.speech, recipe.sample_rate_hz, each)) for corpus in corpora.values()]
    duplicates.refuse(surveys, recipe.speech, recipe.sample_rate_hz)
    for corpus, found in surveys:
        _keep_quota(corpus.name, found, recipe)
        for kind, specs in specs_of(corpus.name, found, recipe.sample_rate_hz).items():
            by_kind[kind] += specs
        for counts, lines in (corpus.refusals(), (found.refused, found.details)):
            refused.update(counts)
            details += lines
        bandwidth_hz |= {f"{corpus.name}/{member}": found_hz for member, found_hz in found.bandwidth_hz.items()}
    in_order = {kind: tuple(sorted(specs, key=lambda spec: spec.source_id)) for kind, specs in by_kind.items()}
    sex = _sex_of_speakers([item for corpus in corpora.values() for item in corpus.recordings])
    return Gathered(corpora, in_order, sex, dict(refused), tuple(details), bandwidth_hz)


def _keep_quota(corpus: str, found: Survey, recipe: Recipe) -> None:
    """Keep each speaker's cuts of lowest hash, as many as the recipe allows, and the syllables in them; count the others.

    The hash is of seed, corpus, file and stretch: neither the order of the listing nor another speaker decides.
    """
    most = recipe.speech.max_cuts_per_speaker
    if most is None:
        return
    where = _Where(corpus, found.checksum)
    by_speaker: dict[str, list[Cut]] = defaultdict(list)
    for cut in found.cuts:
        by_speaker[cut.recording.speaker].append(cut)
    kept = set()
    for speaker, cuts in sorted(by_speaker.items()):
        in_order = sorted(cuts, key=lambda cut: rank_of("quota", recipe.seed, _speech_spec(where, cut).source_id))
        kept |= {_place(cut) for cut in in_order[:most]}
        if len(cuts) > most:
            found.refuse(
                speaker, Refused(Reason.OVER_QUOTA, f"{counted(len(cuts), 'cut')}, at most {most} of a speaker are used"), len(cuts) - most
            )
    found.cuts = [cut for cut in found.cuts if _place(cut) in kept]
    found.syllables = [syllable for syllable in found.syllables if _place(syllable.cut) in kept]


def _place(cut: Cut) -> tuple[str, str, int]:
    """Where a cut lies in its corpus."""
    return cut.recording.member, cut.recording.speaker, cut.start


def _sex_of_speakers(recordings: Sequence[Recording]) -> dict[str, str | None]:
    """Speaker -> f or m; None where no recording tells, or where they disagree."""
    told: dict[str, set[str]] = defaultdict(set)
    for recording in recordings:
        told[recording.speaker] |= {recording.sex} if recording.sex else set()
    return {speaker: next(iter(sexes)) if len(sexes) == 1 else None for speaker, sexes in told.items()}


def specs_of(corpus: str, found: Survey, sample_rate_hz: int) -> dict[str, tuple[SourceSpec, ...]]:
    """Kind -> the sources in a corpus's cuts, sorted by identifier."""
    where = _Where(corpus, found.checksum)
    real = {
        "speech": [_speech_spec(where, cut) for cut in found.cuts],
        "syllables": [_syllable_spec(where, item, sample_rate_hz) for item in found.syllables],
        "vowels": [_vowel_spec(where, item) for item in found.syllables],
    }
    return {kind: tuple(sorted(specs, key=lambda spec: spec.source_id)) for kind, specs in real.items()}


class _Where:
    """Where a stretch lies, the checksum of the file that it was found in, and a digest of what is said in all of it."""

    def __init__(self, corpus: str, checksum: Mapping[str, str]) -> None:
        self._corpus = corpus
        self._checksum = checksum
        self._said: dict[str, str] = {}

    def __call__(self, recording: Recording, start: int, end: int) -> dict[str, Any]:
        where: dict[str, Any] = {"corpus": self._corpus, "member": recording.member, "sha256": self._checksum[recording.member]}
        text = recording.text or ""
        if text not in self._said:
            key = spoken_key(text)
            self._said[text] = digest(key) if key else ""
        if self._said[text]:
            where["said"] = self._said[text]
        return {**where, "start": start, "end": end}


def _speech_spec(where_is: _Where, cut: Cut) -> SourceSpec:
    recording = cut.recording
    where = where_is(recording, cut.start, cut.end)
    return SourceSpec(
        kind="speech",
        source_id="r" + digest([where, recording.speaker])[1:],
        parameters=where,
        speaker_id=recording.speaker,
        language=recording.language,
        text=recording.text if cut.whole else None,
        licence=recording.licence,
        attribution=recording.attribution,
        carrier=cut.carrier,
    )


def _syllable_spec(where_is: _Where, item: Syllable, sample_rate_hz: int) -> SourceSpec:
    recording = item.cut.recording
    where = where_is(recording, item.start, item.end)
    source_id = "y" + digest([where, recording.speaker])[1:]
    parameters = {**where, **syllable_parameters(source_id, (item.end - item.start) / sample_rate_hz)}
    return _part_spec("syllables", source_id, parameters, recording, item.carrier)


def _vowel_spec(where_is: _Where, item: Syllable) -> SourceSpec:
    recording = item.cut.recording
    where = where_is(recording, item.start, item.end)
    source_id = "v" + digest([where, recording.speaker, "vowel"])[1:]
    return _part_spec("vowels", source_id, {**where, **vowel_parameters(source_id)}, recording, item.carrier)


def _part_spec(kind: str, source_id: str, parameters: dict[str, Any], recording: Recording, carrier: Carrier | None) -> SourceSpec:
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
        carrier=carrier,
    )
