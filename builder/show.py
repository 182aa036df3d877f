"""Pictures: one clip with its planned, heard and sham contours, or a sheet of a dimension's pairs, rising beside falling."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from builder import label, measure, render
from builder.acoustics import audio, curves, meters, statistics
from builder.dimensions import BY_NAME, Dimension
from builder.records import Contour, FloatArray, Sound, Source
from builder.rows import from_json

INK, PLAN, HEARD, SHAM = "#1b1f24", "#d1495b", "#00798c", "#9aa0a6"
PLANNED, OF_CLIP, OF_SHAM = "planned, at the clip's own level", "heard in the clip", "heard in its sham (flat curve)"
SHOWN_DB = 70.0
"""Range of the spectrogram's colours below its strongest bin."""
COLOURS = f"spectrogram: brightest is loudest, black {SHOWN_DB:.0f} dB below"


def write(values: Mapping[str, Any], source: Source, target: Path) -> None:
    """Draw a published row.

    Parameters
    ----------
    values
        The row; its published bytes are what's drawn.
    source
        Realised from the row's plan, for the sham and the planned contour.
    target
        PNG to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pair, sign = from_json(json.loads(values["plan"]))
    dimension = BY_NAME[pair.dimension]
    sound = audio.from_flac(values["audio"]["bytes"])
    flat = render.sham(pair, source)
    figure, (wave, spectrum, contours) = pyplot.subplots(
        3, 1, figsize=(9, 7.6), sharex=True, height_ratios=(1, 2.2, 2.2), constrained_layout=True
    )
    _draw_wave(wave, sound)
    _draw_spectrum(spectrum, sound)
    spectrum.set_title(COLOURS, fontsize=8, color=SHAM, loc="right")
    planned = render.planned(pair, source, sign).at
    _draw_contours(contours, dimension, measure.measure(sound, dimension), measure.measure(flat, dimension), planned, source)
    figure.suptitle(_title(values), fontsize=9.5, color=INK, x=0.02, ha="left")
    figure.savefig(target, dpi=130)
    pyplot.close(figure)


def sheet(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], target: Path) -> None:
    """Draw pairs below each other, rising beside falling: spectrogram, and the published contour with what was asked.

    Parameters
    ----------
    pairs
        (rising row, falling row), all of one dimension; nothing but the rows is used.
    target
        PNG to write.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import patches, pyplot

    figure, grid = pyplot.subplots(2 * len(pairs), 2, figsize=(13, 3.9 * len(pairs) + 0.4), squeeze=False, constrained_layout=True)
    for number, pair in enumerate(pairs):
        spectra, contours = grid[2 * number], grid[2 * number + 1]
        for axes, values in zip(spectra, pair, strict=True):
            _draw_spectrum(axes, audio.from_flac(values["audio"]["bytes"]))
            who = f", {values['speaker_id']}" if values["speaker_id"] else ""
            axes.set_title(f"{values['source_kind']}{who}: {values['answer']}, {values['tier']}, {values['curve']}", fontsize=9, loc="left")
            axes.set_xlim(0.0, values["duration_s"])
        for axes, values in zip(contours, pair, strict=True):
            _draw_published(axes, values)
        low, high = min(axes.get_ylim()[0] for axes in contours), max(axes.get_ylim()[1] for axes in contours)
        for axes in contours:
            axes.set(ylim=(low, high))
    lines, labels = grid[1][0].get_legend_handles_labels()
    colour = patches.Patch(color="black", label=COLOURS)
    figure.legend(
        [*lines, colour],
        [*labels, COLOURS],
        loc="outside upper center",
        ncols=4,
        frameon=False,
        fontsize=9,
        markerscale=2,
        handlelength=1.5,
    )
    figure.savefig(target, format="png", dpi=75, metadata={"Software": None})
    pyplot.close(figure)


def _draw_published(axes: Any, values: Mapping[str, Any]) -> None:
    start_s, end_s = values["active_start_s"], values["active_end_s"]
    time_s = np.array(values["contour_time_s"], dtype=np.float64)
    value = np.array([np.nan if item is None else item for item in values["contour_value"]], dtype=np.float64)
    asked = curves.planned(values["curve"], values["span"], time_s, start_s, end_s)
    centre = float(np.nanmedian(value - asked))
    flat = [np.nan if item is None else item for item in values["contour_sham"]]
    axes.plot(time_s, centre + asked, color=PLAN, linewidth=1.5, zorder=3, label=PLANNED)
    axes.plot(time_s, flat, ".", color=SHAM, markersize=3, label=OF_SHAM)
    axes.plot(time_s, value, ".", color=HEARD, markersize=4, label=OF_CLIP)
    axes.set(xlim=(0.0, values["duration_s"]), xlabel="s", ylabel=f"{values['dimension']}, {values['unit']}")
    axes.set_title(f"{values['effect']:+.3g} {values['unit']} = {values['effect_jnd']:+.1f} J", fontsize=9, color=HEARD, loc="right")
    axes.grid(alpha=0.25)


def _title(values: Mapping[str, Any]) -> str:
    leaks = ", ".join(f"{name} {leak:+.2f}" for name, leak in values["leak_jnd"].items() if leak is not None)
    direction = {0: "up", 1: "down", None: "none"}[values["direction"]]
    return (
        f"{values['id']}   {values['dimension']}: {direction}   ({values['tier']}, {values['curve']}, {values['source_kind']}"
        + (f", {values['speaker_id']}" if values["speaker_id"] else "")
        + f")\nheard {values['effect']:+.3g} {values['unit']} = {values['effect_jnd']:+.1f} J, asked span {values['span']:+.3g};  "
        f"rank {values['rank_correlation']:+.2f}{_against_sham(values)}\nleak in J: {leaks or 'none measured'}"
    )


def _against_sham(values: Mapping[str, Any]) -> str:
    if values["difference_gain"] is None:
        return ";  a control: this is the sham"
    gain, r_squared = values["difference_gain"], values["difference_r_squared"]
    return f";  against sham: gain {gain:.2f}, R² {r_squared:.2f};  witness {values['witness']}"


def _draw_wave(axes: Any, sound: Sound) -> None:
    time_s = np.arange(len(sound.samples)) / sound.sample_rate_hz
    limit = max(float(np.max(np.abs(sound.samples))), 1e-3)
    height = 2.1 * limit
    for number, channel in enumerate(sound.channels):
        axes.plot(time_s, channel - number * height, color=INK, linewidth=0.4)
    axes.set(ylabel="full scale", xlim=(0, sound.duration_s), ylim=(height / 2.0 - len(sound.channels) * height, height / 2.0))
    if len(sound.channels) == 2:
        axes.set_yticks([0.0, -height], ["left", "right"])


def _draw_spectrum(axes: Any, sound: Sound) -> None:
    time_s, power = meters.spectrogram(sound)
    level = 10.0 * np.log10(power + 1e-12)
    top = float(level.max())
    half = sound.sample_rate_hz / 2000.0
    axes.imshow(
        level, origin="lower", aspect="auto", cmap="magma", vmin=top - SHOWN_DB, vmax=top,
        extent=(time_s[0], time_s[-1], 0.0, half), interpolation="nearest",
    )  # fmt: skip
    axes.set(ylabel="kHz", ylim=(0.0, half))


def _draw_contours(axes: Any, dimension: Dimension, heard: Contour, flat: Contour, planned: Any, source: Source) -> None:
    start_s, end_s = source.start_s, source.end_s
    dense: FloatArray = np.linspace(start_s, end_s, 400)
    known = heard.value[heard.valid] - planned(heard.time_s[heard.valid])
    centre = float(np.median(known)) if known.size else 0.0
    axes.plot(dense, centre + planned(dense), color=PLAN, linewidth=1.8, zorder=3, label=PLANNED)
    axes.plot(flat.time_s, statistics.smooth(flat).value, ".", color=SHAM, markersize=3, label=OF_SHAM)
    axes.plot(heard.time_s, statistics.smooth(heard).value, ".", color=HEARD, markersize=4, label=OF_CLIP)
    figures = label.hear(heard, start_s, end_s)
    third = (end_s - start_s) / 3.0
    for low_s in (start_s, end_s - third):
        inside = heard.valid & (heard.time_s >= low_s) & (heard.time_s <= low_s + third)
        if inside.any():
            axes.hlines(np.median(heard.value[inside]), low_s, low_s + third, color=HEARD, linewidth=2, alpha=0.5)
    axes.set(xlabel="s", ylabel=f"{dimension.name}, {dimension.unit}")
    axes.set_title(f"first and last third: {figures.contrast:+.3g} {dimension.unit}", fontsize=9, color=HEARD, loc="right")
    axes.legend(fontsize=8, frameon=False, loc="best")
    axes.grid(alpha=0.25)
