"""Background noise: level of the noise over the signal's, in dB.

Noise with the source's own long-term spectrum is mixed in at a level that rises or falls; sham and both clips of a pair hold the
same noise, and about 12 dB of it in the middle. The signal's own trend of loudness is taken out first, or the balance would drift
by itself. The ratio is measured on the parts as they are in the final samples; the witness is blind: the floor of the spectrum in
pauses and between harmonics.

Steady noise and a sound that pauses can't both be held equally loud by BS.1770 and ISO 532-1: rows of syllables reach the smallest
tier only, and bursts with silence between them carry none. Noise itself has no background to tell from it.

Noise fills the valleys of a spectrum and of an envelope, so brightness, harmonicity, decay and what a meter of tempo sees of dips
follow by nature. It moves no F0,
but hides it: at its strongest Praat tracks other things, so pitch, vibrato and jitter are linked too.

References
----------
McShefferty, D., Whitmer, W. M. & Akeroyd, M. A. (2015). The just-noticeable difference in speech-to-noise ratio. Trends in
Hearing 19 (3 dB).
"""

from __future__ import annotations

from builder.acoustics import blind, mixing
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source

MIX = mixing.Mix("signal", "noise", base_db=-12.0)
UNHEARD_DB = -20.0
"""Below, the blind meter reads a recording's own floor: it counts as no noise."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source, its trend of loudness taken out, with noise of its own colour; raises as `mixing.Mix.swept`."""
    return MIX.swept(
        source,
        planned.at,
        added=lambda sound: mixing.shaped_noise(sound, source.seed),
        signal=None if planned.imposed else lambda sound: mixing.flattened(sound, source.start_s, source.end_s),
        keep_trend=planned.imposed,
    )


DIMENSION = Dimension(
    name="noise",
    noun="background noise",
    unit="dB",
    jnd=Jnd(
        steady=3.0, running=3.0, source="McShefferty et al. (2015): 3 dB of speech-to-noise ratio; the same on steady sounds by convention"
    ),
    max_span={"speech": 36.0, "vowels": 36.0, "syllables": 9.0, "voice": 36.0, "voice_syllables": 9.0, "tone": 36.0},
    window_s=mixing.RATIO_WINDOW_S,
    holds=("loudness",),
    linked=("brightness", "breathiness", "pitch", "vibrato", "hoarseness", "reverberation", "tempo"),
    restores=(),
    manipulate=manipulate,
    measure=MIX.ratio_db,
    witness=blind.noise_floor_db,
    band=Band(
        5000.0, "noise has the recording's own colour: below an edge it would be a line's, with nothing of the hiss that tells a room"
    ),
    basis="parts",
    paper_category="background_noise",
    held_by=(HeldBy(blind.noise_floor_db, 0.8, floor=UNHEARD_DB),),
)
