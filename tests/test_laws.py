"""Laws that every dimension keeps on every kind of source that it says can carry it.

They run over `DIMENSIONS` by themselves: a new dimension is held to them by its line there. A law that a broken dimension
would pass is no law, so broken ones are planted here too, and must fail.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import FunctionType

import numpy as np
import pyloudnorm
import pytest

from builder import fill, label, measure, plan, recipe, render, sources
from builder.acoustics import audio, curves, filters, meters, statistics, voice
from builder.corpora import Corpus
from builder.dimensions import BY_NAME, DIMENSIONS, MEASURES, Dimension, Planned
from builder.errors import Refused
from builder.records import Cell, Contour, Margins, PairPlan, Reason, ShardPlan, Sound, Source, SourceSpec
from builder.synthesis import drawn

RATE_HZ = 16_000
SEED = 7
TIERS = {"quarter": 1.0, "half": 2.0, "medium": 4.0, "small": 2.0, "easy": 8.0}
"""In J. The laws take medium, or small where a carrier can't span that; monotony also takes its half and its quarter."""

REAL = recipe.SPEECH_KINDS


def _cases() -> Iterator[typing.Any]:
    """Each dimension on each of its kinds; beyond its first real and its first synthetic one they're slow tests."""
    for dimension in DIMENSIONS:
        firsts = {next(iter(kinds), "") for kinds in ([k for k in dimension.max_span if (k in REAL) is real] for real in (True, False))}
        for kind in dimension.max_span:
            marks = () if kind in firsts else (pytest.mark.slow,)
            yield pytest.param((dimension, kind), marks=marks, id=f"{dimension.name}-{kind}")


CASES = list(_cases())


@pytest.fixture(scope="module")
def rule(default_recipe: recipe.Recipe) -> recipe.SpeechRule:
    """How recordings are read."""
    return default_recipe.speech


@dataclass(frozen=True, eq=False)
class Case:
    """A dimension on a carrier: a pair that it doesn't refuse, its source, and clips made of them so far."""

    dimension: Dimension
    pair: PairPlan
    source: Source
    corpora: Mapping[str, Corpus]
    rule: recipe.SpeechRule
    made: dict[tuple[float, int], Sound] = field(default_factory=dict)

    def at(self, share: float) -> PairPlan:
        """The pair with a share of its span."""
        return with_span(self.pair, share * self.pair.span)

    def clip(self, sign: int, share: float = 1.0) -> Sound:
        """One clip, made once."""
        if (share, sign) not in self.made:
            self.made[share, sign] = render.clip(self.at(share), self.source, sign)
        return self.made[share, sign]

    def fresh(self) -> Source:
        """The source made anew: no analysis, no sham, no clip of before hangs on it."""
        return sources.realise(self.pair.source, self.pair.sample_rate_hz, self.corpora, self.rule)


def with_span(pair: PairPlan, span: float) -> PairPlan:
    """A pair with another span on the same curve."""
    return replace(pair, span=span, planned_contrast=span * curves.end_to_start(pair.curve))


def candidates(
    dimension: Dimension, kind: str, tier: str, curve: str, real: sources.Gathered | None, movement: float = 1.0
) -> Iterator[PairPlan]:
    """Pairs of a cell as the plan makes them."""
    jnd = dimension.jnd.on(kind)
    span = TIERS[tier] * jnd / curves.end_to_start(curve)
    shard = ShardPlan(
        dimension=dimension.name,
        split="test",
        index=0,
        count=1,
        wanted=(),
        pool={} if real is None else real.by_kind,
        spans={(tier, curve, kind): (round(span, 6), round(TIERS[tier] * jnd, 6), round(jnd, 6))},
        movement={kind: movement},
        margins=Margins(),
        seed=SEED,
        sample_rate_hz=RATE_HZ,
    )
    return plan.candidates(shard, Cell(dimension.name, tier, curve, kind, "test"))


def reaches(dimension: Dimension, kind: str, tier: str, curve: str) -> bool:
    """Whether a kind can span a tier."""
    return TIERS[tier] * dimension.jnd.on(kind) / curves.end_to_start(curve) <= dimension.max_span[kind]


def movement_of(default_recipe: recipe.Recipe, dimension: Dimension, kind: str) -> float:
    """Share of the carrier's own movement that the default recipe keeps."""
    kept = {(part.dimension, rule.kind): rule.movement for part in default_recipe.dimensions for rule in part.sources}
    return kept.get((dimension.name, kind), 1.0)


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest, default_recipe: recipe.Recipe, rule: recipe.SpeechRule) -> Case:
    """Each dimension on each kind: the first of a dozen sources that isn't refused, and that the meter hears as it is."""
    dimension, kind = request.param
    real: sources.Gathered | None = request.getfixturevalue("real") if kind in REAL else None
    corpora = {} if real is None else real.corpora
    tier = next(tier for tier in ("medium", "small") if reaches(dimension, kind, tier, "linear"))
    refused = []
    for pair in islice(candidates(dimension, kind, tier, "linear", real, movement_of(default_recipe, dimension, kind)), 12):
        try:
            source = sources.realise(pair.source, RATE_HZ, corpora, rule)
            found = Case(dimension, pair, source, corpora, rule)
            for sign in (1, -1):
                found.clip(sign)
        except Refused as refusal:
            refused.append(str(refusal))
            continue
        heard = label.hear(measure.measure(render.sham(pair, source), dimension), source.start_s, source.end_s)
        if heard.valid >= Margins().min_valid and heard.valid_third >= Margins().min_valid_third:
            return found
        refused.append("the sham can't be measured")
    pytest.fail(f"{dimension.name} refuses a dozen sources of kind {kind}: {refused}")


def moved(dimension: Dimension, pair: PairPlan, source: Source, clip: Sound, sign: int) -> float:
    """By how much a clip's contour moves from first to last third against the sham, in the dimension's unit."""
    to_sham_s: statistics.ToReference | None = None
    if dimension.warps_time:
        clip_s, sham_s = voice.warp(render.planned(pair, source, sign).at, clip.duration_s)

        def to_sham_s(time_s: np.ndarray) -> np.ndarray:
            return np.interp(time_s, clip_s, sham_s)

    flat = render.sham(pair, source)
    change = statistics.difference(measure.measure(clip, dimension), measure.measure(flat, dimension), to_sham_s)
    return statistics.mean_contrast(change, source.start_s, source.end_s)


def check_both_signs_move(dimension: Dimension, pair: PairPlan, source: Source) -> None:
    """The law that a knob does something, and heeds its sign: +a raises the measure and -a lowers it, by at least a J."""
    for sign in (1, -1):
        found = moved(dimension, pair, source, render.clip(pair, source, sign), sign)
        assert sign * found >= pair.jnd, f"{dimension.name}: asked {sign * pair.planned_contrast:+.2f}, moved {found:+.2f}"


# -- what every sweep keeps -------------------------------------------------------------------------------------------


def test_a_span_of_nothing_is_the_sham(case: Case) -> None:
    """Sign 0 is the sham to the sample, and its plan is 0 at every moment."""
    flat = render.sham(case.pair, case.source)
    np.testing.assert_array_equal(render.clip(case.pair, case.source, 0).samples, flat.samples)
    planned = render.planned(case.pair, case.source, 0)
    time_s = np.linspace(0.0, case.source.sound.duration_s, 50)
    np.testing.assert_array_equal(planned.at(time_s), np.zeros(50))


def test_both_signs_move_the_measure(case: Case) -> None:
    """+a raises the measure against the sham and -a lowers it: no knob does nothing or ignores its sign."""
    check_both_signs_move(case.dimension, case.pair, case.source)


def test_up_and_down_move_alike(case: Case) -> None:
    """The falling clip falls by what the rising one rises, to a quarter of the two."""
    up, down = (moved(case.dimension, case.pair, case.source, case.clip(sign), sign) for sign in (1, -1))
    assert abs(up + down) <= 0.25 * (up - down)


@pytest.mark.parametrize("sign", [1, -1])
def test_more_span_moves_more(case: Case, sign: int) -> None:
    """The change against the sham grows with the span: from a quarter to a half to the whole."""
    found = [sign * moved(case.dimension, case.at(share), case.source, case.clip(sign, share), sign) for share in (0.25, 0.5, 1.0)]
    assert found[0] > 0.0
    assert np.all(np.diff(found) > 0.0), found


def test_length_in_is_length_out(case: Case) -> None:
    """Sham and both clips are as long as the source, to the sample, in the dimension's one or two channels."""
    wanted = (*case.source.sound.samples.shape, *([2] if case.dimension.stereo else []))
    assert render.sham(case.pair, case.source).samples.shape == wanted
    for sign in (1, -1):
        assert case.clip(sign).samples.shape == wanted


def test_no_sample_is_clipped(case: Case) -> None:
    """What is rendered lies on the 16-bit grid and peaks at -1 dBFS at most, so that no sample can be clipped."""
    for sound in (render.sham(case.pair, case.source), case.clip(1), case.clip(-1)):
        steps = sound.samples * 32768.0
        np.testing.assert_array_equal(steps, np.round(steps))
        assert np.max(np.abs(sound.samples)) <= 10.0 ** (-1.0 / 20.0)
        assert sound.sample_rate_hz == RATE_HZ


def test_the_same_plan_makes_the_same_samples(case: Case) -> None:
    """A plan rendered from a source made anew gives the same samples, whatever the global generators hold."""
    for seed in (0, 12345):
        random.seed(seed)
        np.random.seed(seed)
        source = case.fresh()
        assert source.seed == case.source.seed
        for sign in (-1, 1):
            np.testing.assert_array_equal(render.clip(case.pair, source, sign).samples, case.clip(sign).samples)


def test_what_was_made_before_does_not_matter(case: Case) -> None:
    """After other sweeps of other sizes and dimensions on the same source, a clip is still the same to the sample."""
    source = case.fresh()
    first = DIMENSIONS.index(case.dimension)
    able = [other for other in (*DIMENSIONS[first:], *DIMENSIONS[:first]) if case.pair.source.kind in other.max_span]
    for other in able[:4]:
        pair = with_span(replace(case.pair, dimension=other.name), 2.0 * other.jnd.on(case.pair.source.kind))
        with contextlib.suppress(Refused):
            measure.measure_all(render.clip(pair, source, -1))
    render.clip(case.at(0.5), source, 1)
    np.testing.assert_array_equal(render.clip(case.pair, source, 1).samples, case.clip(1).samples)


def test_rendering_changes_no_source(case: Case) -> None:
    """A source's own samples are the same before and after everything that is made from it."""
    np.testing.assert_array_equal(case.source.sound.samples, case.fresh().sound.samples)


def test_a_pair_mirrors_about_its_middle(case: Case) -> None:
    """Rising and falling clips are asked the same stretch and opposite values: they share active region and source."""
    up, down = (render.planned(case.pair, case.source, sign) for sign in (1, -1))
    assert (up.start_s, up.end_s) == (down.start_s, down.end_s) == (case.source.start_s, case.source.end_s)
    assert 0.0 <= up.start_s < up.end_s <= case.source.sound.duration_s
    time_s = np.linspace(0.0, case.source.sound.duration_s, 200)
    np.testing.assert_array_equal(up.at(time_s), -down.at(time_s))
    assert up.at(np.array([(up.start_s + up.end_s) / 2.0]))[0] == pytest.approx(0.0, abs=1e-9)


def test_loudness_shares_its_headroom() -> None:
    """A click near the end leaves no headroom for a rise of 24 LU: both clips are turned down alike, and meet at their middle."""
    dimension, samples = BY_NAME["loudness"], noise_samples()
    samples[round(2.9 * RATE_HZ)] = 1.5
    source = recording(samples)
    shapes = [Planned("linear", sign * 24.0, source.start_s, source.end_s) for sign in (1.0, -1.0, 0.0)]
    up, down, flat = (dimension.manipulate(source, planned).samples for planned in shapes)
    middle = round((source.start_s + source.end_s) / 2.0 * RATE_HZ)
    gains_db = [20.0 * np.log10(made[middle] / flat[middle]) for made in (up, down)]
    assert gains_db[0] < -3.0
    assert gains_db[0] == pytest.approx(gains_db[1], abs=0.01)
    loud = np.abs(flat) > 1e-4
    np.testing.assert_allclose((up * down / flat**2)[loud], 10.0 ** (2.0 * gains_db[0] / 20.0), rtol=1e-3)
    for made in (up, down):
        assert audio.peak_dbfs(Sound(made, RATE_HZ)) <= -1.0


# -- knobs that must fail the laws ------------------------------------------------------------------------------------


def tone_source(duration_s: float = 3.0) -> Source:
    """A complex tone with syllables' worth of harmonics, as a recording: no synthesis knob."""
    parameters = {"f0_hz": 180.0, "n_harmonics": 10, "rolloff_db_per_octave": 6.0, "duration_s": duration_s, "seed": 3}
    return recording(voice.tone(parameters, RATE_HZ, {}).samples)


def recording(samples: np.ndarray, kind: str = "speech") -> Source:
    """Samples as a recording."""
    spec = SourceSpec(kind, "planted", {}, "nobody", None, None, "CC0-1.0", "made in a test")
    sound = Sound(samples, RATE_HZ)
    if len(samples) > RATE_HZ // 2:
        sound = audio.faded(audio.at_reference_level(sound))
    return Source(spec, sound, *audio.active_region_s(sound), 1)


def noise_samples(duration_s: float = 3.0, seed: int = 2) -> np.ndarray:
    """White noise."""
    return 0.05 * np.random.default_rng(seed).standard_normal(round(duration_s * RATE_HZ))


def pair_on(dimension: Dimension, source: Source, jnds: float, curve: str = "linear") -> PairPlan:
    """A pair that asks for so many J on a source."""
    jnd = dimension.jnd.on(source.spec.kind)
    contrast = jnds * jnd
    span = contrast / curves.end_to_start(curve)
    return PairPlan(dimension.name, "planted", curve, "test", span, contrast, jnd, source.spec, 1.0, RATE_HZ)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Dimension]:
    """Plants a dimension that is like another but for what is given."""

    def plant(like: str, **changes: typing.Any) -> Dimension:
        made = replace(BY_NAME[like], name="planted", **changes)
        monkeypatch.setitem(BY_NAME, "planted", made)
        return made

    return plant


def _ignores_its_sign(source: Source, planned: Planned) -> Sound:
    return BY_NAME["loudness"].manipulate(source, replace(planned, span=abs(planned.span)))


def _turns_its_sign_round(source: Source, planned: Planned) -> Sound:
    return BY_NAME["loudness"].manipulate(source, replace(planned, span=-planned.span))


def _peak_normalises(source: Source, planned: Planned) -> Sound:
    louder = filters.scaled_by_db(source.sound, planned.span)
    return filters.scaled_by_db(louder, -6.0 - audio.peak_dbfs(louder))


def _only_dithers(source: Source, planned: Planned) -> Sound:
    dither = np.random.default_rng(round(1000 * planned.span) % 2**32).uniform(-1.0, 1.0, len(source.sound.samples)) / 32768.0
    return Sound(source.sound.samples + dither, RATE_HZ)


def _sweeps_a_tenth(source: Source, planned: Planned) -> Sound:
    return BY_NAME["loudness"].manipulate(source, replace(planned, span=planned.span / 10.0))


def test_the_law_of_both_signs_passes_a_knob_that_works(planted: Callable[..., Dimension]) -> None:
    """The planted copy of a sound dimension passes: what fails below fails for its fault."""
    dimension, source = planted("loudness"), recording(noise_samples())
    check_both_signs_move(dimension, pair_on(dimension, source, 4.0), source)


@pytest.mark.parametrize("knob", [_ignores_its_sign, _turns_its_sign_round, _only_dithers, _sweeps_a_tenth], ids=lambda knob: knob.__name__)
def test_a_broken_knob_fails_the_law_of_both_signs(planted: Callable[..., Dimension], knob: Callable[[Source, Planned], Sound]) -> None:
    """A knob that ignores or inverts its sign, only dithers, or sweeps a tenth of what it's asked: the law finds each."""
    dimension, source = planted("loudness", manipulate=knob), recording(noise_samples())
    with pytest.raises(AssertionError, match="planted: asked"):
        check_both_signs_move(dimension, pair_on(dimension, source, 4.0), source)


def test_a_knob_that_is_normalised_away_is_refused(planted: Callable[..., Dimension]) -> None:
    """A gain that is peak-normalised afterwards leaves every sample as it was, and is refused by name."""
    dimension, source = planted("loudness", manipulate=_peak_normalises), recording(noise_samples())
    with pytest.raises(Refused, match="does_nothing: a span of 12 LU leaves every sample as it was"):
        check_both_signs_move(dimension, pair_on(dimension, source, 4.0), source)


# -- refusals of a sweep ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("pitch", "noise", "does_nothing: a noise has no pitch to sweep"),
        ("pitch", "pulses", "does_nothing: a pulses has no pitch to sweep"),
        ("tempo", "tone", "does_nothing: a tone has no tempo to sweep"),
        ("tempo", "voice", "does_nothing: a voice has no tempo to sweep"),
    ],
)
def test_a_carrier_without_the_property_is_refused(name: str, kind: str, message: str) -> None:
    """Pitch of noise and tempo of a tone are refused as doing nothing, sham and all."""
    source = sources.realise(drawn(kind, "test", 0, SEED), RATE_HZ, {}, recipe.SpeechRule(corpus=None))
    pair = pair_on(BY_NAME[name], source, 4.0)
    for _ in range(2):
        with pytest.raises(Refused, match=message):
            render.sham(pair, source)
    with pytest.raises(Refused, match=message):
        render.clip(pair, source, 1)


def test_unvoiced_recordings_have_no_pitch_to_sweep() -> None:
    """A recording with under half a second of F0 is refused as unvoiced, with both figures."""
    source = recording(noise_samples())
    with pytest.raises(Refused, match=r"unvoiced: 0\.\d\d s of F0, at least 0\.5 s are needed"):
        render.clip(pair_on(BY_NAME["pitch"], source, 4.0), source, 1)


@pytest.mark.parametrize(("name", "jnds", "message"), [("pitch", 20.0, "a shift of"), ("tempo", 20.0, "local durations of")])
def test_sweeps_beyond_the_method_are_refused(name: str, jnds: float, message: str) -> None:
    """More than overlap-add can do without sounding broken is out of range, with what was found and the limit."""
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    source = recording(tone_source().sound.samples * (0.55 - 0.45 * np.cos(2.0 * np.pi * 4.0 * time_s)))
    with pytest.raises(Refused, match=f"out_of_range: {message} .*(at most|allowed is)"):
        render.clip(pair_on(BY_NAME[name], source, jnds), source, 1)


def test_f0_outside_of_the_tracker_is_refused() -> None:
    """A falling sweep that would take F0 under 60 Hz is out of range."""
    parameters = {"f0_hz": 75.0, "n_harmonics": 20, "rolloff_db_per_octave": 3.0, "duration_s": 3.0, "seed": 3}
    source = recording(voice.tone(parameters, RATE_HZ, {}).samples)
    with pytest.raises(Refused, match=r"out_of_range: F0 from .* allowed is 60 to 700 Hz"):
        render.clip(pair_on(BY_NAME["pitch"], source, 8.0), source, -1)


def test_what_would_clip_is_refused(planted: Callable[..., Dimension]) -> None:
    """A clip over -1 dBFS is refused with its peak: never clipped, never turned down in secret."""
    dimension = planted("loudness", manipulate=lambda source, planned: filters.scaled_by_db(source.sound, 30.0))
    source = recording(noise_samples())
    with pytest.raises(Refused, match=r"no_headroom: peak \+\d+\.\d\d dBFS, at most -1 is allowed"):
        render.clip(pair_on(dimension, source, 4.0), source, 1)


def test_the_peak_limit_is_minus_1_dbfs(planted: Callable[..., Dimension]) -> None:
    """A peak of -1.01 dBFS is rendered as it is; one of -0.99 is refused."""

    def up_to(peak_dbfs: float) -> Callable[[Source, Planned], Sound]:
        return lambda source, planned: filters.scaled_by_db(source.sound, peak_dbfs - audio.peak_dbfs(source.sound) - (planned.span == 0.0))

    pair = pair_on(planted("loudness", manipulate=up_to(-1.01)), source := recording(noise_samples()), 4.0)
    assert audio.peak_dbfs(render.clip(pair, source, 1)) == pytest.approx(-1.01, abs=1e-3)
    pair = pair_on(planted("loudness", manipulate=up_to(-0.99)), source := recording(noise_samples()), 4.0)
    with pytest.raises(Refused, match=r"no_headroom: peak -0\.99 dBFS, at most -1 is allowed"):
        render.clip(pair, source, 1)


@pytest.mark.parametrize("change", [-1, 1])
def test_a_length_that_is_off_by_one_is_refused(planted: Callable[..., Dimension], change: int) -> None:
    """A sweep that gives back one sample more or less than it got is refused: the length is exact, or there's no clip."""

    def off_by_one(source: Source, planned: Planned) -> Sound:
        return Sound(np.resize(source.sound.samples, len(source.sound.samples) + change), RATE_HZ)

    dimension, source = planted("loudness", manipulate=off_by_one), recording(noise_samples())
    with pytest.raises(Refused, match=f"out_of_range: {48_000 + change} samples came back, 48000 went in"):
        render.clip(pair_on(dimension, source, 4.0), source, 1)


@pytest.mark.parametrize("duration_s", [2.0, 2.00006, 2.3333, 2.99995])
@pytest.mark.parametrize("name", ["pitch", "tempo"])
def test_overlap_add_keeps_any_length(name: str, duration_s: float) -> None:
    """Praat's resynthesis gives back exactly the number of samples, also where that is odd or prime to every hop."""
    n = round(duration_s * RATE_HZ)
    time_s = np.arange(n) / RATE_HZ
    source = recording(tone_source(4.0).sound.samples[:n] * (0.55 - 0.45 * np.cos(2.0 * np.pi * 4.0 * time_s)), "syllables")
    pair = replace(pair_on(BY_NAME[name], source, 4.0), movement=0.5)
    for sign in (0, 1, -1):
        assert len(render.clip(pair, source, sign).samples) == n


@pytest.mark.parametrize(
    ("name", "n_samples"),
    [(dimension.name, n) for dimension in DIMENSIONS for n in (1, 160, 300, 800)],
)
def test_a_few_hundred_samples_are_exact_or_refused(name: str, n_samples: int) -> None:
    """A recording of a few hundred samples comes back at its length or is refused with a reason: nothing else is raised."""
    dimension, source = BY_NAME[name], recording(noise_samples()[:n_samples])
    pair = replace(pair_on(dimension, source, 1.0), span=0.05)
    try:
        made = render.clip(pair, source, 1)
    except Refused:
        return
    assert len(made.samples) == n_samples


# -- what is published ------------------------------------------------------------------------------------------------


def third_levels_lufs(sound: Sound, start_s: float, end_s: float) -> tuple[float, float]:
    """Loudness of the first and last third of a region by pyloudnorm's own meter."""
    meter = pyloudnorm.Meter(sound.sample_rate_hz)
    third = (end_s - start_s) / 3.0
    edges = ((start_s, start_s + third), (end_s - third, end_s))
    first, last = (sound.samples[round(low * RATE_HZ) : round(high * RATE_HZ)] for low, high in edges)
    return meter.integrated_loudness(first), meter.integrated_loudness(last)


def check_clip(pair: PairPlan, clip: fill.Clip, flat: Sound, margins: Margins) -> None:
    """What is true of every accepted clip, measured here again on its samples (and parts) where that can be done another way."""
    dimension = BY_NAME[pair.dimension]
    assert set(clip.leaks) == {name for name, (other, _) in MEASURES.items() if other.name in dimension.holds} - set(dimension.linked)
    for name in dimension.holds:
        leak = clip.leaks.get(name)
        assert leak is None or abs(leak) <= margins.max_leak_jnd, f"{name} moved by {leak} J"
    contour = measure.measure(Sound(clip.sound.samples.copy(), RATE_HZ, clip.sound.parts), dimension)
    heard = label.hear(contour, clip.start_s, clip.end_s)
    assert heard == clip.heard
    assert label.direction_of(heard, pair.jnd, margins) == clip.sign
    inside = contour.valid & (contour.time_s >= clip.start_s) & (contour.time_s <= clip.end_s)
    assert clip.sign * np.polyfit(contour.time_s[inside], contour.value[inside], 1)[0] > 0.0
    assert margins.difference_gain[0] <= clip.gain <= margins.difference_gain[1]
    assert clip.r_squared >= margins.min_r_squared
    assert clip.witness in ("agrees", "undecided")
    if "loudness" in dimension.holds:
        first, last = third_levels_lufs(clip.sound, clip.start_s, clip.end_s)
        flat_first, flat_last = third_levels_lufs(flat, clip.start_s, clip.end_s)
        limit = margins.max_leak_jnd * BY_NAME["loudness"].jnd.on(pair.source.kind)
        assert abs((last - first) - (flat_last - flat_first)) <= limit + 0.5


@pytest.mark.parametrize("name", [dimension.name for dimension in DIMENSIONS])
def test_pairs_are_accepted_and_hold_still_what_they_must(
    name: str, default_recipe: recipe.Recipe, rule: recipe.SpeechRule, request: pytest.FixtureRequest
) -> None:
    """On each kind of source of the default recipe a pair is soon accepted; what its clips hold stays within the margin."""
    part = next(part for part in default_recipe.dimensions if part.dimension == name)
    margins = part.as_margins("train")
    for source_rule in part.sources:
        real: sources.Gathered | None = request.getfixturevalue("real") if source_rule.kind in REAL else None
        tier = "medium" if reaches(part.spec, source_rule.kind, "medium", "linear") else "small"
        rejected = []
        for pair in islice(candidates(part.spec, source_rule.kind, tier, "linear", real, source_rule.movement), 20):
            try:
                source = sources.realise(pair.source, RATE_HZ, {} if real is None else real.corpora, rule)
                up, down = fill.judge(pair, source, margins)
            except (Refused, fill._Rejected) as refusal:
                rejected.append(str(refusal))
                continue
            assert (up.sign, down.sign) == (1, -1)
            assert (up.start_s, up.end_s) == (down.start_s, down.end_s)
            for clip in (up, down):
                check_clip(pair, clip, render.sham(pair, source), margins)
            break
        else:
            pytest.fail(f"{name} on {source_rule.kind}: none of 20 pairs accepted: {rejected}")


# -- a carrier's own trend is taken out first ---------------------------------------------------------------------------


def own_loudness(time_s: np.ndarray) -> np.ndarray:
    """Noise that fades by 9 dB."""
    return noise_samples() * 10.0 ** (-3.0 * time_s / 20.0)


def own_brightness(time_s: np.ndarray) -> np.ndarray:
    """Noise that grows duller by 4 dB/octave."""
    return filters.tilted(Sound(noise_samples(), RATE_HZ), lambda at_s: -2.0 - 4.0 / 3.0 * at_s).samples


def own_pitch(time_s: np.ndarray) -> np.ndarray:
    """A complex tone that falls by 6 semitones."""
    cycles = np.cumsum(200.0 * 2.0 ** (-2.0 * time_s / 12.0)) / RATE_HZ
    return np.sum([np.sin(2.0 * np.pi * number * cycles) / number for number in range(1, 16)], axis=0)


OWN_TREND: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float]] = {
    "pitch": (own_pitch, -6.0),
    "loudness": (own_loudness, -9.0),
    "brightness": (own_brightness, -4.0),
}


@pytest.mark.parametrize("name", OWN_TREND)
def test_a_carriers_own_trend_is_taken_out(name: str) -> None:
    """Of a recording that falls by itself a tenth of the fall is left in its sham, and a sweep up is heard to rise."""
    make, fall = OWN_TREND[name]
    dimension = BY_NAME[name]
    source = recording(make(np.arange(3 * RATE_HZ) / RATE_HZ))
    pair = pair_on(dimension, source, min(4.0, 0.5 * dimension.max_span["speech"] / dimension.jnd.on("speech")))
    before = label.hear(measure.measure(source.sound, dimension), source.start_s, source.end_s)
    after = label.hear(measure.measure(render.sham(pair, source), dimension), source.start_s, source.end_s)
    risen = label.hear(measure.measure(render.clip(pair, source, 1), dimension), source.start_s, source.end_s)
    assert before.trend == pytest.approx(fall, rel=0.15)
    assert abs(after.trend) <= 0.1 * abs(fall)
    assert abs(after.contrast) <= 0.1 * abs(fall)
    assert label.judge_heard(risen, pair.planned_contrast, pair.jnd, Margins()) is None


@pytest.mark.parametrize("movement", [0.0, 0.5, 1.0])
def test_movement_is_the_share_that_is_kept(movement: float) -> None:
    """Of a voice that moves by +-2 semitones about its trend, the sham keeps just the share that the plan says."""
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    cycles = np.cumsum(180.0 * 2.0 ** (2.0 * np.sin(2.0 * np.pi * time_s) / 12.0)) / RATE_HZ
    source = recording(np.sum([np.sin(2.0 * np.pi * number * cycles) / number for number in range(1, 16)], axis=0))
    pair = replace(pair_on(BY_NAME["pitch"], source, 4.0), movement=movement)
    found = measure.measure(render.sham(pair, source), BY_NAME["pitch"])
    spread = np.percentile(found.value[found.valid], [2, 98])
    assert np.diff(spread)[0] == pytest.approx(4.0 * movement, abs=0.3)


# -- true rejections of whole pairs -----------------------------------------------------------------------------------


def reason_of(pair: PairPlan, source: Source, margins: Margins = Margins()) -> str:  # noqa: B008
    """Under which reason a pair is rejected; `published` if it isn't."""
    try:
        fill.judge(pair, source, margins)
    except fill._Rejected as rejection:
        return rejection.reason
    except Refused as refusal:
        return refusal.reason.value
    return "published"


def test_a_pair_of_a_good_knob_is_published(planted: Callable[..., Dimension]) -> None:
    """The planted copy of loudness is published on noise: what is rejected below is rejected for its fault."""
    dimension, source = planted("loudness"), recording(noise_samples())
    assert reason_of(pair_on(dimension, source, 4.0), source) == "published"


@pytest.mark.parametrize(
    ("knob", "reason"),
    [
        (_turns_its_sign_round, "contradicted"),
        (_only_dithers, "too_small"),
        (_sweeps_a_tenth, "too_small"),
        (_ignores_its_sign, "contradicted"),
        (_peak_normalises, "does_nothing"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_pair_of_a_broken_knob_is_never_published(
    planted: Callable[..., Dimension], knob: Callable[[Source, Planned], Sound], reason: str
) -> None:
    """The label is what is measured: whatever the knob says, the pair is rejected under the reason that fits."""
    dimension, source = planted("loudness", manipulate=knob), recording(noise_samples())
    assert reason_of(pair_on(dimension, source, 4.0), source) == reason


def _ignores_a_fall(source: Source, planned: Planned) -> Sound:
    return BY_NAME["loudness"].manipulate(source, replace(planned, span=max(planned.span, -0.1)))


def test_what_fails_early_is_measured_no_further(planted: Callable[..., Dimension], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the falling clip fails by ear, neither clip is asked of what it holds, nor its witness: cheap rules come first for both."""
    asked: list[str] = []
    for name in ("held", "witness"):
        real = getattr(measure, name)
        monkeypatch.setattr(measure, name, lambda *of, name=name, real=real: asked.append(name) or real(*of))
    dimension, source = planted("loudness", manipulate=_ignores_a_fall), recording(noise_samples())
    pair = pair_on(dimension, source, 4.0)
    assert reason_of(pair, source) == "too_small"
    assert asked == []
    fill.judge(pair, source, Margins(), (1,))
    assert set(asked) == {"held", "witness"}


def test_a_sham_is_made_and_measured_once(planted: Callable[..., Dimension]) -> None:
    """Over all pairs of a source: its flat version is rendered once, and nothing is measured of it twice."""
    flats: list[Planned] = []
    measured: list[int] = []

    def manipulate(source: Source, planned: Planned) -> Sound:
        flats.extend([planned] if planned.span == 0.0 else [])
        return BY_NAME["loudness"].manipulate(source, planned)

    def heard(sound: Sound) -> Contour:
        measured.append(id(sound))
        return meters.momentary_loudness_lufs(sound)

    dimension, source = planted("loudness", manipulate=manipulate, measure=heard), recording(noise_samples())
    for jnds in (3.0, 4.0, 5.0):
        fill.judge(pair_on(dimension, source, jnds), source, Margins())
    assert len(flats) == 1
    assert len(measured) == 2 * 3 + 1


def test_the_wrong_sign_is_contradicted_with_both_figures(planted: Callable[..., Dimension]) -> None:
    """A rejection says what was planned and what was heard, with the unit."""
    dimension, source = planted("loudness", manipulate=_turns_its_sign_round), recording(noise_samples())
    with pytest.raises(fill._Rejected, match=r"contradicted: planned \+8\.000, heard -\d\.\d+ LU"):
        fill.judge(pair_on(dimension, source, 4.0), source, Margins(), (1,))


def test_a_carrier_that_moves_more_than_the_sweep_is_rejected() -> None:
    """A level that bends by 16 dB over a sweep of 2 LU: a trend can be taken out of it, not the bend; too small as heard."""
    n = 3 * RATE_HZ
    bend_db = np.interp(np.arange(n) / n, [0.0, 0.3, 0.34, 1.0], [0.0, 8.0, -8.0, 0.0])
    source = recording(noise_samples() * 10.0 ** (bend_db / 20.0))
    assert reason_of(pair_on(BY_NAME["loudness"], source, 1.0), source) == "too_small"
    assert reason_of(pair_on(BY_NAME["loudness"], source, 8.0), source) == "published"


def test_small_sweeps_of_speech_are_mostly_rejected_for_its_own_movement(real: sources.Gathered, rule: recipe.SpeechRule) -> None:
    """1.2 J of loudness drown in most voices' own movement: such pairs are too small or unclear, and a few are published."""
    found = []
    for pair in candidates(BY_NAME["loudness"], "speech", "quarter", "linear", real):
        pair = with_span(pair, 1.2 * pair.span)
        found.append(reason_of(pair, sources.realise(pair.source, RATE_HZ, real.corpora, rule)))
    assert found.count("too_small") > len(found) / 4
    assert {"too_small", "unclear", "published"} <= set(found)
    assert found.count("published") < len(found) / 2
    assert set(found) <= {"published", "leak_pitch", "leak_tempo", "leak_brightness", *Reason}


def test_what_a_voice_cannot_show_is_unmeasurable() -> None:
    """Where the last third has no F0, pitch isn't labelled, however clear the rest."""
    tone, noise = tone_source().sound.samples, noise_samples()
    late = np.arange(len(tone)) >= 2 * RATE_HZ
    source = recording(np.where(late, 0.3 * noise * np.std(tone) / np.std(noise), tone))
    assert reason_of(pair_on(BY_NAME["pitch"], source, 4.0), source) == "unmeasurable"


def test_a_sweep_of_nothing_is_never_published(case: Case) -> None:
    """A pair of span 0 is refused as doing nothing, or heard to be too small where restoring loudness moved a last bit."""
    pair = case.at(0.0)
    assert reason_of(pair, case.source) in ("does_nothing", "too_small")
    with contextlib.suppress(Refused):
        assert np.max(np.abs(render.clip(pair, case.source, 1).samples - case.clip(0).samples)) <= 1.0 / 32768.0


def test_a_leak_is_rejected_by_name() -> None:
    """A tilt of 8 J on noise moves the two loudness models apart further than any gain can mend: a leak of loudness."""
    dimension = BY_NAME["brightness"]
    assert "loudness" in dimension.holds
    for pair in islice(candidates(dimension, "noise", "easy", "ease_in", None), 3):
        source = sources.realise(pair.source, RATE_HZ, {}, recipe.SpeechRule(corpus=None))
        with pytest.raises(fill._Rejected, match=r"leak_loudness: loudness moved by [+-]\d+\.\d\d J, at most (0\.8|1) J is allowed"):
            fill.judge(pair, source, Margins())


def test_a_moved_moment_is_no_leak() -> None:
    """Where a sweep moves moments, a held dimension is compared moment by moment: F0 that climbs by 8 semitones, then stays."""
    time_s = np.arange(3 * RATE_HZ) / RATE_HZ
    f0_hz = 150.0 * 2.0 ** (8.0 * np.minimum(time_s, 1.0) / 12.0)
    cycles = np.cumsum(f0_hz) / RATE_HZ
    row = sum(np.sin(2.0 * np.pi * number * cycles) / number for number in range(1, 12))
    source = recording(row * (0.55 - 0.45 * np.cos(2.0 * np.pi * 4.0 * time_s)), "syllables")
    pair = pair_on(BY_NAME["tempo"], source, 8.0)
    assert BY_NAME["pitch"].jnd.on("syllables") == 0.25
    for clip in fill.judge(pair, source, Margins()):
        assert clip.leaks["pitch"] == pytest.approx(0.0, abs=0.4)


def test_the_leak_margin_is_the_recipes() -> None:
    """A pair that is published at 0.8 J is rejected as a leak where the recipe allows almost none."""
    dimension = BY_NAME["pitch"]
    for pair in islice(candidates(dimension, "voice", "medium", "linear", None), 6):
        source = sources.realise(pair.source, RATE_HZ, {}, recipe.SpeechRule(corpus=None))
        if reason_of(pair, source) == "published":
            assert reason_of(pair, source, Margins(max_leak_jnd=1e-3)) == "leak_loudness"
            return
    pytest.fail("none of 6 pairs of pitch on a voice was published")


def test_a_sweep_that_leaks_is_found(planted: Callable[..., Dimension]) -> None:
    """A loudness knob that also tilts the spectrum by 3 dB/octave leaks brightness."""

    def tilts_too(source: Source, planned: Planned) -> Sound:
        swept = BY_NAME["loudness"].manipulate(source, planned)
        return filters.tilted(swept, lambda time_s: 3.0 * np.sign(planned.span) * (time_s / 3.0 - 0.5))

    source = recording(noise_samples())
    pair = pair_on(planted("loudness", manipulate=tilts_too), source, 4.0)
    assert reason_of(pair, source, Margins(difference_gain=(0.5, 2.0))) == "leak_brightness"


def _double(source: Source, planned: Planned) -> Sound:
    return BY_NAME["loudness"].manipulate(source, replace(planned, span=2.0 * planned.span))


def _with_a_bump(source: Source, planned: Planned) -> Sound:
    swept = BY_NAME["loudness"].manipulate(source, planned)
    time_s = np.arange(len(swept.samples)) / RATE_HZ
    return filters.scaled_by_db(swept, np.where((time_s > 1.0) & (time_s < 2.0), -8.0 * np.sign(planned.span), 0.0))


@pytest.mark.parametrize("knob", [_double, _with_a_bump], ids=lambda knob: knob.__name__)
def test_a_sweep_off_its_curve_is_unfit(planted: Callable[..., Dimension], knob: Callable[[Source, Planned], Sound]) -> None:
    """Twice the change, or a dip in mid-course: the ends are heard the right way, but it isn't what was planned."""
    dimension, source = planted("loudness", manipulate=knob), recording(noise_samples())
    pair = pair_on(dimension, source, 4.0)
    with pytest.raises(fill._Rejected, match=r"difference_unfit: gain \d\.\d\d, R-squared [01]\.\d\d"):
        fill.judge(pair, source, Margins())


def test_a_witness_that_hears_the_opposite_rejects(planted: Callable[..., Dimension]) -> None:
    """A pair is not published if the independent measure says that it goes the other way."""
    opposite = lambda sound: replace(found := meters.loudness_level_phon(sound), value=-found.value)  # noqa: E731
    dimension, source = planted("loudness", witness=opposite), recording(noise_samples())
    with pytest.raises(fill._Rejected, match="witness_contradicts: planned up"):
        fill.judge(pair_on(dimension, source, 4.0), source, Margins())


def test_a_witness_that_hears_nothing_rejects(planted: Callable[..., Dimension]) -> None:
    """Without a second opinion there is no label."""
    dimension, source = planted("loudness", witness=lambda sound: meters.EMPTY), recording(noise_samples())
    with pytest.raises(fill._Rejected, match="witness_unmeasurable"):
        fill.judge(pair_on(dimension, source, 4.0), source, Margins())


# -- a measure can't see the plan -------------------------------------------------------------------------------------

OF_THE_PLAN = {PairPlan, Planned, Source, SourceSpec, ShardPlan, Cell}


def seen_types(function: Callable[..., object]) -> dict[str, object]:
    """A function's parameters with their types as resolved."""
    hints = typing.get_type_hints(function)
    return {name: hints[name] for name in inspect.signature(function).parameters}


def parts_of(hint: object) -> set[object]:
    """A type and everything inside of it."""
    found = {hint} if isinstance(hint, type) else set()
    for inner in typing.get_args(hint):
        found |= parts_of(inner)
    return found


def test_the_measure_stage_sees_a_sound_and_a_dimension() -> None:
    """By type, no function of `builder.measure` can take a plan: one Sound, and where needed which Dimension, or a Contour of the sound."""
    functions = [item for item in vars(measure).values() if isinstance(item, FunctionType) and item.__module__ == measure.__name__]
    assert len(functions) >= 4
    for function in functions:
        types = list(seen_types(function).values())
        assert types.count(Sound) == 1
        assert set(types) <= {Sound, Dimension, Contour, str}
    assert not OF_THE_PLAN & {item for item in vars(measure).values() if isinstance(item, type)}


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_a_dimension_measures_a_sound_and_nothing_else(dimension: Dimension) -> None:
    """By type, measure, witness and held_by take one Sound; whatever else they could take is a number with a default."""
    for function in (dimension.measure, dimension.witness, *(held.measure for held in dimension.held_by)):
        types = seen_types(function)
        needed = [name for name, item in inspect.signature(function).parameters.items() if item.default is inspect.Parameter.empty]
        assert [types[name] for name in needed] == [Sound]
        assert list(types.values()).count(Sound) == 1
        assert {hint for hint in types.values() if hint is not Sound} <= {int, float}
        assert typing.get_type_hints(function)["return"] is Contour
        assert not OF_THE_PLAN & set().union(*(parts_of(hint) for hint in typing.get_type_hints(function).values()))


def test_sound_and_contour_carry_no_plan() -> None:
    """What a measure is given and gives back has no field in which a plan could travel, but for the memo of analyses."""
    for record in (Sound, Contour):
        inside = set().union(*(parts_of(hint) for hint in typing.get_type_hints(record).values()))
        assert not OF_THE_PLAN & inside
    assert [name for name in Sound.__dataclass_fields__ if name != "_memo"] == ["samples", "sample_rate_hz", "parts"]


def test_the_witness_is_another_method(case: Case) -> None:
    """Measure and witness are different functions, and on one clip they don't give the same frames and values."""
    assert case.dimension.measure is not case.dimension.witness
    measured, witnessed = measure.measure(case.clip(1), case.dimension), measure.witness(case.clip(1), case.dimension)
    assert measured.value.shape != witnessed.value.shape or not np.allclose(measured.value, witnessed.value, equal_nan=True)


def test_the_default_recipe_builds_every_dimension(default_recipe: recipe.Recipe) -> None:
    """The pairs that are accepted above are of every dimension: none is left out of the default recipe."""
    assert {part.dimension for part in default_recipe.dimensions} == {dimension.name for dimension in DIMENSIONS}
