"""One recording under several names and codecs, told before anything is made of it.

Files of the same bytes are known by their digest (see `splits`). A copy as FLAC, MP3 or Opus, at another rate or level, or with silence
before it, is known by its sound: the fingerprint of what's heard finds candidates, the waveforms decide. On recordings of the embedded
corpus, copies by six codecs and rates differ in at most 30.1 % of the bits (median at most 4.5 %) and their waveforms correlate by 0.97
and more; those of other recordings differ in 40 % and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from builder import fingerprints, recordings
from builder.corpora import Corpus, Recording
from builder.cuts import Heard, Survey
from builder.errors import Refused
from builder.recipe import SpeechRule
from builder.records import Reason, Sound

MAX_DIFFERING = 0.33
MAX_APART_S = 0.3
"""By how much what's heard of a copy may be longer, or begin later: a codec moves the faint ends of speech."""


class _File(NamedTuple):
    corpus: Corpus
    recording: Recording
    survey: Survey
    heard: Heard

    def read(self, rule: SpeechRule, sample_rate_hz: int) -> Sound:
        """What's heard of it, as it was taken for the fingerprint."""
        return recordings.tape(self.corpus, self.recording, rule, sample_rate_hz).read(self.heard.start, self.heard.end)


def refuse(surveys: Sequence[tuple[Corpus, Survey]], rule: SpeechRule, sample_rate_hz: int) -> None:
    """Refuse, in surveys, the files that hold the sound of another, which comes first by the names of corpus and file.

    Parameters
    ----------
    surveys
        All corpora of a recipe, with what was found in them; cuts of what is refused are taken out.
    rule, sample_rate_hz
        How recordings are read.
    """
    files = _files(surveys)
    if not files:
        return
    bits = np.array([np.frombuffer(bytes.fromhex(file.heard.fingerprint), dtype=np.uint64) for file in files])
    duration_s = np.array([(file.heard.end - file.heard.start) / sample_rate_hz for file in files])
    alone = [str(number) for number in range(len(files))]
    near = fingerprints.candidates(bits, duration_s, alone, MAX_DIFFERING, MAX_APART_S)
    gone: set[int] = set()
    for first, second in sorted(near):
        if not {first, second} & gone and _is_one(files[first], files[second], rule, sample_rate_hz):
            gone.add(second)
            _take_out(files[second], files[first])


def _files(surveys: Sequence[tuple[Corpus, Survey]]) -> list[_File]:
    """Files that something was cut from, in the order in which they're kept."""
    found: dict[tuple[str, str], _File] = {}
    for corpus, survey in surveys:
        for recording in (cut.recording for cut in survey.cuts):
            if recording.member in survey.heard:
                found[corpus.name, recording.member] = _File(corpus, recording, survey, survey.heard[recording.member])
    return [found[place] for place in sorted(found)]


def _is_one(first: _File, second: _File, rule: SpeechRule, sample_rate_hz: int) -> bool:
    """Whether two files of other bytes hold one sound."""
    if first.survey.checksum[first.recording.member] == second.survey.checksum[second.recording.member]:
        return False
    one, other = (file.read(rule, sample_rate_hz) for file in (first, second))
    return fingerprints.correlation(one, other, MAX_APART_S) >= fingerprints.MIN_CORRELATION


def _take_out(file: _File, kept: _File) -> None:
    survey, member = file.survey, file.recording.member
    refusal = Refused(Reason.DUPLICATE, f"the same sound as {kept.recording.member} of the corpus {kept.corpus.name}")
    for speaker in sorted({cut.recording.speaker for cut in survey.cuts if cut.recording.member == member}):
        survey.refuse(f"{member} ({speaker})", refusal)
    survey.cuts = [cut for cut in survey.cuts if cut.recording.member != member]
    survey.syllables = [syllable for syllable in survey.syllables if syllable.cut.recording.member != member]
