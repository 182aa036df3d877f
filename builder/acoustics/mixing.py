"""Mixes of a signal and something added to it, whose ratio is planned and then read exactly from the parts.

A mix is a `Sound` with two parts. Its ratio is the power of the added part over that of the signal, in windows, at the moments at
which the signal is heard: in a pause the signal's power says nothing about the balance of the two.

References
----------
Polack, J.-D. (1988). La transmission de l'energie sonore dans les salles. These, Universite du Maine (late reverberation as
exponentially decaying Gaussian noise).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import soxr
from scipy import fft as scipy_fft
from scipy import ndimage

from builder.acoustics import audio, filters, meters, praat, statistics
from builder.errors import Refused
from builder.records import Contour, FloatArray, Reason, Sound, Source

At = Callable[[FloatArray], FloatArray]

RATIO_WINDOW_S = 0.4
RATIO_HOP_S = 0.05
FRAME_S = 0.01
MIN_HEARD = 0.25
"""Smallest share of a window's frames with audible signal; a convention."""
ADDED_FADE_S = 0.04
LOUDNESS_SHARE = 0.55
"""Share that BS.1770 has in a change of loudness that is taken back, ISO 532-1 the rest: as their limits of 0.8 and 1 J ask."""
SILENT_POWER = 1e-12


# -- mixing by plan ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mix:
    """A dimension that is the ratio of two parts.

    Parameters
    ----------
    under, over
        Names of the signal and of what is added to it, in a sound's `parts`.
    base_db
        Level of the added part over the signal's that a plan of 0 means: the middle of every sweep, and all of the sham.
    """

    under: str
    over: str
    base_db: float

    def ratio_db(self, sound: Sound) -> Contour:
        """Level of the added part over the signal's in windows of 400 ms each 50 ms; as `ratio_db`."""
        return ratio_db(sound, self.over, self.under)

    def swept(
        self,
        source: Source,
        at: At,
        added: Callable[[Sound], Sound],
        signal: Callable[[Sound], Sound] | None = None,
        keep_trend: bool = False,
    ) -> Sound:
        """A source with something added to it at a planned ratio.

        Parameters
        ----------
        source
            What is mixed with.
        at
            Of time_s: the planned change of the ratio there, dB.
        added, signal
            Make the two parts out of the source's sound, once per source; the signal is the sound itself if nothing is given.
        keep_trend
            Leave in what the ratio of the two does by itself.

        Returns
        -------
        Sound
            With two parts, as loud over time as the mix at the base ratio.

        Raises
        ------
        Refused
            `too_short` under 400 ms; `unmeasurable` where the ratio of the two has no value.
        """
        if source.sound.duration_s < RATIO_WINDOW_S:
            raise Refused(Reason.TOO_SHORT, f"{source.sound.duration_s:.3f} s, at least {RATIO_WINDOW_S} s are needed for a ratio of parts")
        one = source.sound if signal is None else source.sound.once(f"{self.under} under {self.over}", signal)
        name = f"{self.over} with its trend" if keep_trend else self.over
        other = source.sound.once(name, lambda sound: self._levelled(one, audio.faded(added(sound), ADDED_FADE_S), source, keep_trend))
        flat = source.sound.once(f"flat {name}", lambda _: self._at(one, other, np.zeros_like))
        return loudness_held(self._at(one, other, at), flat, at, source.start_s, source.end_s)

    def _levelled(self, one: Sound, other: Sound, source: Source, keep_trend: bool) -> Sound:
        """The added part at the signal's level, the ratio's own trend taken out or kept."""
        ratio = self.ratio_db(Sound(one.samples, one.sample_rate_hz, {self.under: one.samples, self.over: other.samples}))
        inside = statistics.between(ratio, source.start_s, source.end_s)
        if not inside.valid.any():
            raise Refused(Reason.UNMEASURABLE, f"nowhere in {one.duration_s:.2f} s are {self.under} and {self.over} both heard")
        trend = 0.0 if keep_trend else statistics.drift_per_s(ratio, source.start_s, source.end_s)
        middle_s = (source.start_s + source.end_s) / 2.0
        level_db = float(np.nanmean(inside.value - trend * (inside.time_s - middle_s)))
        time_s = np.arange(len(one.samples)) / one.sample_rate_hz
        return filters.scaled_by_db(other, -level_db - trend * (time_s - middle_s))

    def _at(self, one: Sound, other: Sound, at: At) -> Sound:
        """The mix at a ratio over time; the gain that keeps its mean power follows the plan alone, so nothing pumps in pauses."""
        time_s = np.arange(len(one.samples)) / one.sample_rate_hz
        ratio_db = self.base_db + at(time_s)
        gain = 1.0 / np.sqrt(1.0 + 10.0 ** (ratio_db / 10.0))
        parts = {self.under: one.samples * gain, self.over: other.samples * gain * 10.0 ** (ratio_db / 20.0)}
        return Sound(parts[self.under] + parts[self.over], one.sample_rate_hz, parts)


def loudness_held(sound: Sound, reference: Sound, at: At, start_s: float, end_s: float) -> Sound:
    """A sound whose loudness from first to last third moves as a reference's, by a gain in the sweep's own shape.

    A gain that follows momentary loudness would lift what was added wherever the signal pauses; this one only follows the plan.
    BS.1770 and ISO 532-1 weigh neither spectra nor pauses alike: what is left is shared out so that both stay within their limits.

    Parameters
    ----------
    reference
        As long as `sound`.
    at
        Of time_s: the planned change there.
    start_s, end_s
        The stretch that the sweep covers.

    Returns
    -------
    Sound
        As many samples, its parts along with it; unchanged where the plan doesn't move or loudness can't be measured.
    """
    gain = 0.0
    for meter, factor, share in (
        (meters.momentary_loudness_lufs, 10.0, LOUDNESS_SHARE),
        (meters.loudness_level_phon, 2.0, 1.0 - LOUDNESS_SHARE),
    ):
        gain -= share * _moved_per_plan(meter(sound), meter(reference), at, start_s, end_s, factor)
    return filters.scaled_by_db(sound, gain * at(np.arange(len(sound.samples)) / sound.sample_rate_hz))


def _moved_per_plan(now: Contour, before: Contour, at: At, start_s: float, end_s: float, factor_per_ten: float) -> float:
    """Change of a level against a reference from first to last third, over that of the plan, where both have a value; 0 if unknown."""
    both = now.valid & before.valid
    contrasts = [
        statistics.level_contrast(Contour(contour.time_s, np.where(both, contour.value, np.nan)), start_s, end_s, factor_per_ten)
        for contour in (now, before)
    ]
    planned = statistics.mean_contrast(Contour(now.time_s, at(now.time_s)), start_s, end_s)
    moved = (contrasts[0] - contrasts[1]) / planned if planned else 0.0
    return moved if np.isfinite(moved) else 0.0


def flattened(sound: Sound, start_s: float, end_s: float) -> Sound:
    """A sound with its own trend of momentary loudness between two moments taken out."""
    trend = statistics.drift_per_s(meters.momentary_loudness_lufs(sound), start_s, end_s)
    time_s = np.arange(len(sound.samples)) / sound.sample_rate_hz
    return filters.scaled_by_db(sound, -trend * (time_s - (start_s + end_s) / 2.0))


# -- the ratio of parts -----------------------------------------------------------------------------------------------


def ratio_db(sound: Sound, over: str, under: str) -> Contour:
    """Level of one part over another's, in windows of 400 ms each 50 ms.

    Parameters
    ----------
    sound
        With both parts.
    over, under
        Names of the part above the line and of the one below it, which is taken as the signal.

    Returns
    -------
    Contour
        dB: 10 log10 of the ratio of mean powers over the frames of 10 ms at which the signal is heard (within 20 dB of its loud
        frames); `nan` and not counted where those are under a quarter of the window. Empty without the parts and under 400 ms.
    """
    if over not in sound.parts or under not in sound.parts:
        return meters.EMPTY
    above, below = (_frame_power(sound.parts[name], sound.sample_rate_hz) for name in (over, under))
    width, hop = round(RATIO_WINDOW_S / FRAME_S), round(RATIO_HOP_S / FRAME_S)
    if len(below) < width:
        return meters.EMPTY
    level_db = 10.0 * np.log10(np.maximum(below, SILENT_POWER))
    heard = meters.audible(level_db).astype(np.float64)
    start = np.arange(0, len(below) - width + 1, hop)
    totals = [np.concatenate([[0.0], np.cumsum(power)]) for power in (heard, above * heard, below * heard)]
    n_heard, power_above, power_below = (total[start + width] - total[start] for total in totals)
    counted = (n_heard >= MIN_HEARD * width) & (power_above > 0.0) & (power_below > 0.0)
    value = 10.0 * np.log10(np.where(counted, power_above, 1.0) / np.where(counted, power_below, 1.0))
    frame_s = _frame_width(sound.sample_rate_hz) / sound.sample_rate_hz
    return Contour((start.astype(np.float64) + width / 2.0) * frame_s, np.where(counted, value, np.nan), counted)


def _frame_width(sample_rate_hz: int) -> int:
    return max(round(FRAME_S * sample_rate_hz), 1)


def _frame_power(samples: FloatArray, sample_rate_hz: int) -> FloatArray:
    """Mean square in neighbouring frames of 10 ms, summed over channels; float64, shape (n_frames,)."""
    width = _frame_width(sample_rate_hz)
    square = samples**2 if samples.ndim == 1 else np.sum(samples**2, axis=1)
    power: FloatArray = square[: len(square) // width * width].reshape(-1, width).mean(axis=1)
    return power


# -- what is added: noise ---------------------------------------------------------------------------------------------

NOISE_FROM_HZ = 60.0
NOISE_BAND_OCTAVES = 1.0 / 6.0
NOISE_BAND_HZ = 150.0
"""Least width of the band that a long-term spectrum is averaged over; with F0, just as wide as it, so that no harmonic shows."""
STEEPER_PER_PHON = 0.08
MAX_STEEPNESS = 1.6
"""At equal BS.1770 loudness, steady noise is louder by ISO 532-1 than a sound that pauses; the more so, the wider its spectrum. So
the exponent on its power spectrum grows with that excess, and both models can be held. Found by trial on speech."""


def shaped_noise(sound: Sound, seed: int) -> Sound:
    """Gaussian noise with about the long-term spectrum of a mono sound, as long as it.

    Parameters
    ----------
    seed
        Of the noise.

    Returns
    -------
    Sound
        Mono, steady over time, nothing under 60 Hz, at the sound's RMS; a little steeper than the sound's spectrum where the sound
        pauses. Silent where the sound is shorter than a spectral window.
    """
    _, power = meters.spectrogram(sound)
    if power.shape[1] == 0:
        return Sound(np.zeros(len(sound.samples)), sound.sample_rate_hz)
    f0_hz = praat.median_f0_hz(sound)
    least_hz = f0_hz if np.isfinite(f0_hz) else NOISE_BAND_HZ
    bins_hz = np.linspace(0.0, sound.sample_rate_hz / 2.0, power.shape[0])
    smooth = _averaged(_averaged(power.mean(axis=1), bins_hz, least_hz), bins_hz, least_hz)
    plain = _noise_like(sound, bins_hz, smooth, seed)
    excess_phon = _phon_over_lufs(plain) - _phon_over_lufs(sound)
    return _noise_like(sound, bins_hz, smooth ** np.clip(1.0 + STEEPER_PER_PHON * excess_phon, 1.0, MAX_STEEPNESS), seed)


def _averaged(power: FloatArray, bins_hz: FloatArray, least_hz: float) -> FloatArray:
    """A spectrum averaged over a band about each bin: a sixth of an octave, and `least_hz` at least."""
    half_hz = np.maximum(bins_hz * NOISE_BAND_OCTAVES * np.log(2.0), least_hz) / 2.0
    total = np.concatenate([[0.0], np.cumsum(power)])
    low = np.searchsorted(bins_hz, bins_hz - half_hz)
    high = np.searchsorted(bins_hz, bins_hz + half_hz, side="right")
    mean: FloatArray = (total[high] - total[low]) / (high - low)
    return mean


def _noise_like(sound: Sound, bins_hz: FloatArray, power: FloatArray, seed: int) -> Sound:
    """Noise as long and as strong as a sound, with a power spectrum that is given at some frequencies."""
    n_samples = len(sound.samples)
    size = scipy_fft.next_fast_len(n_samples, real=True)
    frequency_hz = scipy_fft.rfftfreq(size, 1.0 / sound.sample_rate_hz)
    gain = np.sqrt(np.interp(frequency_hz, bins_hz, power / max(float(power.max()), SILENT_POWER))) * (frequency_hz >= NOISE_FROM_HZ)
    samples = scipy_fft.irfft(scipy_fft.rfft(np.random.default_rng(seed).standard_normal(size)) * gain, n=size)[:n_samples]
    return Sound(samples * (np.std(sound.samples) / max(float(np.std(samples)), SILENT_POWER)), sound.sample_rate_hz)


def _phon_over_lufs(sound: Sound) -> float:
    """ISO 532-1 loudness level less BS.1770 loudness, both of the mean over the sound; 0 where either has no value."""
    lufs, phon = (contour.value[contour.valid] for contour in (meters.momentary_loudness_lufs(sound), meters.loudness_level_phon(sound)))
    if not lufs.size or not phon.size:
        return 0.0
    return float(10.0 * np.log2(np.mean(2.0 ** (phon / 10.0))) - 10.0 * np.log10(np.mean(10.0 ** (lufs / 10.0))))


# -- what is added: a room --------------------------------------------------------------------------------------------

REVERBERATION_TIME_S = (0.5, 0.7)
"""Range that a room's time of decay by 60 dB is drawn from: a living room to a lecture room; a convention."""


def reverberant_field(sound: Sound, seed: int) -> Sound:
    """What a room adds to a mono sound: it convolved with exponentially decaying Gaussian noise (Polack 1988).

    The convolution is circular: the room rings from the start as if the sound had gone on before, so that the ratio of field to
    direct sound doesn't rise from nothing over the first half second.

    Parameters
    ----------
    seed
        Of the impulse response and of its time of decay, 0.5 to 0.7 s for 60 dB.

    Returns
    -------
    Sound
        Mono, as long as the sound, without the direct path.
    """
    rng = np.random.default_rng(seed)
    decay_s = rng.uniform(*REVERBERATION_TIME_S)
    n_samples = len(sound.samples)
    time_s = np.arange(min(round(decay_s * sound.sample_rate_hz), n_samples)) / sound.sample_rate_hz
    response = rng.standard_normal(len(time_s)) * 10.0 ** (-3.0 * time_s / decay_s)
    spectrum = scipy_fft.rfft(sound.samples) * scipy_fft.rfft(response, n=n_samples)
    return Sound(scipy_fft.irfft(spectrum, n=n_samples), sound.sample_rate_hz)


# -- what is added: distortion ----------------------------------------------------------------------------------------

OVERSAMPLING = 4
DRIVE = 2.0
"""Gain into the bend of a sound at unit RMS, which takes the tops of speech and vowels well into it; a convention."""
LEVEL_WINDOW_S = 0.05
PRODUCTS_UP_TO_HZ = 1500.0
"""Corner of a zero-phase low-pass of 6 dB/octave on the products: without it synthetic voices grow brighter by up to 9 dB/octave."""


def distortion_products(sound: Sound) -> Sound:
    """What a symmetric waveshaper adds to a mono sound: tanh of the sound at unit level, less its projection on the sound.

    The level (RMS over some 100 ms) is taken out before the bend and put back behind it, so that quiet stretches are as distorted
    as loud ones. The bend works at four times the rate: products above the sound's band are gone before they fold.

    Returns
    -------
    Sound
        Mono, as long as the sound.
    """
    rate = sound.sample_rate_hz * OVERSAMPLING
    fine = np.asarray(soxr.resample(sound.samples, sound.sample_rate_hz, rate, "VHQ"), dtype=np.float64)
    level = np.sqrt(_slow(fine**2, rate) + SILENT_POWER)
    even = fine / level
    bent = np.tanh(DRIVE * even)
    products = bent - even * (_slow(bent * even, rate) / (_slow(even**2, rate) + SILENT_POWER))
    made = np.asarray(soxr.resample(products * level, rate, sound.sample_rate_hz, "VHQ"), dtype=np.float64)[: len(sound.samples)]
    frequency_hz = scipy_fft.rfftfreq(len(made), 1.0 / sound.sample_rate_hz)
    softened = scipy_fft.rfft(made) / np.sqrt(1.0 + (frequency_hz / PRODUCTS_UP_TO_HZ) ** 2)
    return Sound(scipy_fft.irfft(softened, n=len(made)), sound.sample_rate_hz)


def _slow(samples: FloatArray, rate: int) -> FloatArray:
    """Mean over a triangular window of 100 ms."""
    width = max(round(LEVEL_WINDOW_S * rate), 1)
    mean = ndimage.uniform_filter1d(ndimage.uniform_filter1d(samples, width, mode="nearest"), width, mode="nearest")
    return np.maximum(mean, 0.0)
