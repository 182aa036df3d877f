"""Distortion: level of the products of a bend over the signal's, in dB.

The products of a symmetric waveshaper, less their projection on the sound, are mixed in at a level that rises or falls: so the
ratio is planned exactly, and quiet stretches are as distorted as loud ones. The products are those of one bend throughout; what
moves is how much of them there is. The ratio is measured on the parts as they are in the final samples; the witness is blind: how
flat the tops of the waveform are.

Products lie above what they come from, so brightness and the spectral envelope (formants) follow by nature. They keep the
period: F0 doesn't move. Distorted noise is
noise again, so noise is no carrier. At some -5 dB all tops are flat, and beyond it they're dented, so sweeps reach to -2 dB and no
further. Few harmonics make few products: on tones the two loudness models part, and the largest tier doesn't exist.
"""

from __future__ import annotations

from builder.acoustics import blind, mixing
from builder.dimensions._contract import Band, Dimension, HeldBy, Planned
from builder.records import Jnd, Sound, Source

MIX = mixing.Mix("signal", "distortion", base_db=-20.0)
UNHEARD_DB = -9.0
"""Below, the blind meter follows the sound's own shape more than its distortion: it counts as none."""


def manipulate(source: Source, planned: Planned) -> Sound:
    """The source with products of a bend; raises as `mixing.Mix.swept`."""
    return MIX.swept(source, planned.at, mixing.distortion_products, keep_trend=planned.imposed)


DIMENSION = Dimension(
    name="distortion",
    noun="distortion",
    unit="dB",
    jnd=Jnd(steady=3.0, running=4.0, source="3 dB on steady sounds, 4 dB on running speech; conventions until listeners confirm them"),
    max_span={"speech": 36.0, "vowels": 36.0, "syllables": 36.0, "voice": 36.0, "voice_syllables": 36.0, "tone": 18.0},
    window_s=mixing.RATIO_WINDOW_S,
    holds=("loudness",),
    linked=("brightness", "formants"),
    restores=(),
    manipulate=manipulate,
    measure=MIX.ratio_db,
    witness=blind.flat_tops_db,
    band=Band(5000.0, "products go beyond any edge of the recording: above a low one they would stand alone, as a band that opens"),
    basis="parts",
    paper_category="audio_distortion",
    held_by=(HeldBy(blind.flat_tops_db, 0.8, floor=UNHEARD_DB),),
)
