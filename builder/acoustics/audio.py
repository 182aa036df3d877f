"""Audio as files and as samples: reading, resampling, trimming, 16-bit rounding, FLAC.

Samples are float64 with full scale 1 all the way; they're rounded once, to PCM16, and what is measured and published
is that rounded sound.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

import numpy as np
import soundfile
import soxr

from builder.acoustics import containers, meters, mpeg
from builder.errors import Refused
from builder.records import FloatArray, Reason, Sound
from builder.words import counted

PEAK_LIMIT_DBFS = -1.0
PCM16_SCALE = 32768.0
MAX_DURATION_S = 3600.0
RAW_SUBTYPES = tuple(sorted(soundfile.available_subtypes("RAW")))
RATES_HZ = (100, 768_000)
"""Sample rates that are believed."""
LOSSY_SUBTYPES = ("MPEG_LAYER_III", "OPUS", "VORBIS")
MISREAD = (("WAV", "GSM610"),)
"""Containers and encodings of which libsndfile 1.2.2 decodes a padding byte as one more block of noise."""
G722_RATE_HZ, G722_BITS_PER_S = 16_000, 64_000
LARGEST_SAMPLE = 1e4
REFERENCE_LUFS = -28.0
"""Level that sources are brought to: leaves 14 dB and more of headroom for speech, and is far above 16-bit noise."""


def length(path: Path, raw: dict[str, int | str] | None = None, content: bytes | None = None) -> tuple[int, int]:
    """Frames and sample rate of an audio file, as its header says; takes and raises what `read` does."""
    if _is_g722(path, raw):
        return len(_g722(path, content)), G722_RATE_HZ
    with _opened(path, raw, content) as opened:
        return opened.frames, opened.samplerate


def read(
    path: Path, raw: dict[str, int | str] | None = None, content: bytes | None = None, first: int = 0, most: int | None = None
) -> tuple[FloatArray, int]:
    """Samples of an audio file, whatever its format and width, with full scale 1.

    Parameters
    ----------
    path
        A file of a kind in `containers.CHECKS`, recognised by its content; `.g722` (64 kbit/s, mono, 16 kHz) through the optional
        package G722.
    raw
        For a file without a header: `sample_rate_hz`, `channels` and `subtype` (such as PCM_16, little-endian).
    content
        The file's bytes, where it lies in no folder; `path` then only names it.
    first, most
        The first frame to read, and how many at most; None for all.

    Returns
    -------
    samples
        float64, shape (n, channels). Float files keep their values, above full scale too.
    sample_rate_hz
        What the file says.

    Raises
    ------
    Refused
        `unreadable` where it can't be decoded, is cut short or damaged, can't be checked for that, or claims more than an hour.
    """
    if _is_g722(path, raw):
        return _g722(path, content)[first : None if most is None else first + most], G722_RATE_HZ
    with _opened(path, raw, content) as opened:
        expected = opened.frames - first if most is None else min(most, opened.frames - first)
        lossy = opened.subtype in LOSSY_SUBTYPES
        _skip(opened, first)
        samples = opened.read(expected, dtype="float64", always_2d=True)
    if len(samples) < expected - (mpeg.PADDING if lossy else 0):
        raise Refused(Reason.UNREADABLE, f"cut short: {len(samples)} of {counted(expected, 'frame')} could be decoded")
    return samples, int(opened.samplerate)


@contextmanager
def _opened(path: Path, raw: dict[str, int | str] | None, content: bytes | None) -> Iterator[soundfile.SoundFile]:
    """An audio file that's whole and as long as it says, to be decoded; what can't be done with it is a refusal."""
    begun = False
    try:
        with _as_file(path, content) as file, _headerless(file, raw) if raw else _whole(file) as opened:
            begun = True
            yield opened
    except Refused:
        raise
    except Exception as error:  # whatever a decoder raises for one file says something of that file
        raise Refused(Reason.UNREADABLE, ("cut short or damaged: " if begun else "") + _why(error)) from error


@contextmanager
def _as_file(path: Path, content: bytes | None) -> Iterator[Path]:
    """The file, or a temporary one of the bytes: libsndfile reads no MP3 from memory."""
    if content is None:
        yield path
        return
    with NamedTemporaryFile(suffix=path.suffix) as stream:
        stream.write(content)
        stream.flush()
        yield Path(stream.name)


def _headerless(path: Path, how: dict[str, int | str]) -> soundfile.SoundFile:
    rate_hz, channels, subtype = int(how["sample_rate_hz"]), int(how["channels"]), str(how["subtype"])
    return soundfile.SoundFile(os.fsencode(path), "r", rate_hz, channels, subtype, "LITTLE", "RAW")


@contextmanager
def _whole(path: Path) -> Iterator[soundfile.SoundFile]:
    """A file with a header, checked; MP3 behind a header that counts its frames, if need be one of ours."""
    with _known(path) as opened:
        content = _check(opened, path)
        if content is None:
            yield opened
            return
    with _as_file(Path("counted.mp3"), content) as file, _whole(file) as opened:
        yield opened


def _known(path: Path) -> soundfile.SoundFile:
    """A file with a header, as libsndfile knows it."""
    try:
        return soundfile.SoundFile(os.fsencode(path))
    except soundfile.LibsndfileError as error:
        with path.open("rb") as stream:
            is_sound = stream.read(len(max(containers.SIGNATURES, key=len))).startswith(containers.SIGNATURES)
        raise Refused(Reason.UNREADABLE, ("cut short or damaged: " if is_sound else "") + _why(error)) from error


def _check(opened: soundfile.SoundFile, path: Path) -> bytes | None:
    """Refuse a file that isn't whole or makes claims that can't be believed; an MP3 stream that lacks a header comes back with one."""
    kind = "MP3" if opened.subtype.startswith("MPEG") else opened.format
    if not RATES_HZ[0] <= opened.samplerate <= RATES_HZ[1]:
        told = f"the header claims {opened.samplerate} Hz; files of {RATES_HZ[0]} to {RATES_HZ[1]} Hz are read"
        raise Refused(Reason.UNREADABLE, told)
    if (opened.format, opened.subtype) in MISREAD:
        raise Refused(Reason.UNREADABLE, f"{opened.subtype} in {opened.format} can't be read faithfully; convert it to 16 bit or FLAC")
    with path.open("rb") as stream:
        missing = containers.missing(kind, stream, path.stat().st_size)
    if missing is not None:
        raise Refused(Reason.UNREADABLE, missing)
    content = mpeg.with_header(path.read_bytes(), opened.frames) if kind == "MP3" else None
    if content is None and opened.frames > MAX_DURATION_S * opened.samplerate:
        told = f"the header claims {counted(opened.frames, 'frame')}; recordings of up to {MAX_DURATION_S:.0f} s are read"
        raise Refused(Reason.UNREADABLE, told)
    return content


def _skip(opened: soundfile.SoundFile, n_frames: int) -> None:
    """Go on behind some frames, through them where a codec can't be sought in."""
    if n_frames and opened.seekable():
        opened.seek(n_frames)
    elif n_frames:
        opened.read(n_frames)


def _why(error: Exception) -> str:
    """What went wrong, without the place of the file, which is the user's own and differs between machines."""
    if isinstance(error, soundfile.LibsndfileError):
        return str(error.error_string).split("\n")[0]
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).split("\n")[0] or type(error).__name__


def _is_g722(path: Path, raw: dict[str, int | str] | None) -> bool:
    return raw is None and path.suffix.lower() == ".g722"


def _g722(path: Path, content: bytes | None) -> FloatArray:
    """Samples of ITU-T G.722 at 64 kbit/s; float64, shape (n, 1), full scale 1. The decoder is exact to the bit by its standard.

    Raises
    ------
    Refused
        `unreadable` where the optional decoder isn't installed or the file holds more than an hour.
    """
    try:
        content = path.read_bytes() if content is None else content
    except OSError as error:
        raise Refused(Reason.UNREADABLE, _why(error)) from error
    if len(content) * 2 > MAX_DURATION_S * G722_RATE_HZ:
        raise Refused(Reason.UNREADABLE, f"{counted(len(content), 'byte')}; recordings of up to {MAX_DURATION_S:.0f} s are read")
    try:
        from G722 import G722
    except ImportError as error:
        raise Refused(Reason.UNREADABLE, "the decoder of G.722 isn't installed: pip install 'vocalgrad[g722]'") from error
    steps = np.asarray(G722(G722_RATE_HZ, G722_BITS_PER_S).decode(content), dtype=np.float64)
    return steps[:, None] / PCM16_SCALE


def check_finite(samples: FloatArray) -> None:
    """Refuse samples that no sound has.

    Raises
    ------
    Refused
        `not_finite` where a sample isn't a finite number or is beyond 10,000 times full scale.
    """
    if not -LARGEST_SAMPLE < np.min(samples, initial=0.0) <= np.max(samples, initial=0.0) < LARGEST_SAMPLE:
        wild = counted(int(np.sum(~(np.abs(samples) < LARGEST_SAMPLE))), "sample isn't a finite number", "samples aren't finite numbers")
        raise Refused(Reason.NOT_FINITE, f"{wild}, or beyond {LARGEST_SAMPLE:g} times full scale")


def resampled(samples: FloatArray, from_hz: int, to_hz: int) -> FloatArray:
    """Samples at another rate (soxr, very high quality); float64, shape (n,)."""
    if from_hz == to_hz:
        return samples
    return np.asarray(soxr.resample(samples, from_hz, to_hz, "VHQ"), dtype=np.float64)


def at_reference_level(sound: Sound) -> Sound:
    """A sound scaled so that the energy mean of its audible momentary windows is -28 LUFS.

    Raises
    ------
    Refused
        `silent` where no window of 400 ms is above -70 LUFS.
    """
    loudness = meters.momentary_loudness_lufs(sound)
    heard = loudness.value[loudness.valid]
    if heard.size == 0:
        raise Refused(Reason.SILENT, f"no 400 ms above -70 LUFS in {sound.duration_s:.2f} s")
    heard = heard[heard >= heard.max() - 20.0]
    level_lufs = 10.0 * np.log10(np.mean(10.0 ** (heard / 10.0)))
    return Sound(sound.samples * 10.0 ** ((REFERENCE_LUFS - level_lufs) / 20.0), sound.sample_rate_hz)


def faded(sound: Sound, fade_s: float = 0.01) -> Sound:
    """A sound with raised-cosine ends of `fade_s`, so that a cut doesn't click."""
    width = min(round(fade_s * sound.sample_rate_hz), len(sound.samples) // 2)
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(width) + 0.5) / max(width, 1))
    samples = sound.samples.copy()
    samples[:width] *= ramp
    samples[len(samples) - width :] *= ramp[::-1]
    return Sound(samples, sound.sample_rate_hz)


def active_region_s(sound: Sound) -> tuple[float, float]:
    """First and last moment within 25 dB of the loud frames, seconds; (0, duration) where nothing can be told."""
    level = meters.frame_level_db(sound)
    heard = np.flatnonzero(meters.audible(level.value, below_db=25.0))
    if heard.size == 0:
        return 0.0, sound.duration_s
    half = meters.SPECTRUM_WINDOW_S / 2.0
    start_s = 0.0 if heard[0] == 0 else level.time_s[heard[0]] - half
    end_s = sound.duration_s if heard[-1] == len(level.time_s) - 1 else level.time_s[heard[-1]] + half
    return float(max(start_s, 0.0)), float(min(end_s, sound.duration_s))


def peak_dbfs(sound: Sound) -> float:
    """Largest absolute sample, dB re full scale; -inf for silence."""
    peak = float(np.max(np.abs(sound.samples), initial=0.0))
    return 20.0 * float(np.log10(peak)) if peak > 0.0 else float("-inf")


def rounded_to_pcm16(sound: Sound) -> Sound:
    """The sound as 16-bit PCM holds it, as float64 again; its parts, of which the rounding is no part, stay as they are.

    Raises
    ------
    ValueError
        A sample isn't finite, or is beyond full scale: nothing is ever clipped here.
    """
    if not np.all(np.isfinite(sound.samples)):
        raise ValueError("samples must be finite before they're rounded to 16 bit")
    steps = np.rint(sound.samples * PCM16_SCALE)
    if steps.size and (steps.max() > PCM16_SCALE - 1 or steps.min() < -PCM16_SCALE):
        raise ValueError(f"peak {peak_dbfs(sound):+.2f} dBFS is beyond full scale; scale the sound by plan, not by clipping")
    return Sound(steps / PCM16_SCALE, sound.sample_rate_hz, sound.parts)


def flac_bytes(sound: Sound) -> bytes:
    """A sound as 16-bit FLAC. The sound must already be rounded to 16 bit: nothing is lost here.

    Raises
    ------
    ValueError
        As `rounded_to_pcm16`.
    """
    steps = (rounded_to_pcm16(sound).samples * PCM16_SCALE).astype(np.int16)
    stream = io.BytesIO()
    soundfile.write(stream, steps, sound.sample_rate_hz, format="FLAC", subtype="PCM_16", compression_level=0.625)
    return stream.getvalue()


def from_flac(content: bytes) -> Sound:
    """The sound in FLAC bytes; mono as shape (n,), stereo as (n, 2)."""
    samples, rate = soundfile.read(io.BytesIO(content), dtype="float64")
    return Sound(samples, int(rate))
