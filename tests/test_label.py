"""The label rule's arithmetic, on contours made by hand: what passes, what abstains and why, to the last digit of a margin."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from builder import label
from builder.acoustics import statistics
from builder.acoustics.meters import EMPTY
from builder.label import Heard
from builder.records import Contour, FloatArray, Margins, Reason

MARGINS = Margins()
N = 96
"""Frames of a contour: whole in thirds and in eighths, so that no frame lies on an edge."""
TIME_S: FloatArray = (np.arange(N) + 0.5) / 32.0
START_S, END_S = 0.0, 3.0
LINE: FloatArray = (TIME_S / 3.0 - 0.5).astype(np.float64)
"""From -1/2 to 1/2 over the region."""

MANY = settings(max_examples=200, deadline=None, derandomize=True)


def contour(value: FloatArray, counted: np.ndarray | None = None) -> Contour:
    """A contour of N frames over three seconds."""
    return Contour(TIME_S, np.asarray(value, dtype=np.float64), counted)


def hear(value: FloatArray, counted: np.ndarray | None = None) -> Heard:
    """What such a contour says."""
    return label.hear(contour(value, counted), START_S, END_S)


def heard(**changes: float) -> Heard:
    """A clear rise of 4 units, but for what is given."""
    clear = Heard(contrast=4.0, trend=6.0, rank_correlation=0.9, block_tau=0.9, salience=5.0, counted=1.0, valid=1.0, valid_third=1.0)
    return replace(clear, **changes)


def wiggle(amplitude: float) -> FloatArray:
    """Eight whole waves over the region."""
    return amplitude * np.sin(2.0 * np.pi * 8.0 * LINE)


# -- what a contour says ----------------------------------------------------------------------------------------------


def test_a_line_says_its_span() -> None:
    """Of a line that rises by 6: contrast 4, trend 6, both rank figures 1, all frames valid, nothing about the trend."""
    found = hear(6.0 * LINE)
    assert (found.contrast, found.trend, found.rank_correlation, found.block_tau) == (4.0, 6.0, 1.0, 1.0)
    assert (found.valid, found.valid_third) == (1.0, 1.0)
    assert found.salience > 100.0


def test_a_constant_says_nothing() -> None:
    """A flat contour has contrast, trend and rank figures 0, and is no direction."""
    found = hear(np.full(N, 3.0))
    assert (found.contrast, found.trend, found.rank_correlation, found.block_tau) == (0.0, 0.0, 0.0, 0.0)
    assert label.direction_of(found, 1.0, MARGINS) == 0


def test_salience_is_trend_over_residual() -> None:
    """A rise of 6 with an alternation of +-2 about it, three frames each way: 6 over 2."""
    alternating = np.where(np.arange(N) // 6 % 2 == 0, 2.0, -2.0)
    assert hear(6.0 * LINE + alternating).salience == pytest.approx(3.0, rel=0.1)


def test_figures_are_rounded_before_they_are_judged() -> None:
    """What is compared and stored has four decimals."""
    found = hear(np.pi * LINE + wiggle(0.1234567))
    for figure in (found.contrast, found.trend, found.rank_correlation, found.block_tau, found.salience, found.valid):
        assert figure == round(figure, 4)


def test_only_the_active_region_is_heard() -> None:
    """What lies before and after the active region doesn't count, neither as value nor as missing."""
    outside = (TIME_S < 0.5) | (TIME_S > 2.5)
    whole = 6.0 * LINE
    found = label.hear(contour(np.where(outside, np.nan, whole)), 0.5, 2.5)
    assert found.valid == 1.0
    assert found.trend == pytest.approx(4.0, abs=0.01)
    assert label.hear(contour(np.where(outside, -1e6, whole)), 0.5, 2.5).trend == pytest.approx(4.0, abs=0.01)


def test_two_wild_frames_are_not_heard() -> None:
    """A tracker's octave errors in three frames move contrast and trend by one frame's step at most: 1/96 of the span."""
    value = 6.0 * LINE
    value[[40, 41]] += 12.0
    value[80] -= 12.0
    found = hear(value)
    assert found.contrast == pytest.approx(4.0, abs=0.0626)
    assert found.trend == pytest.approx(6.0, abs=0.0626)


@pytest.mark.parametrize("value", [np.full(N, np.nan), None], ids=["no value", "no frame"])
def test_nothing_to_hear_is_unmeasurable(value: FloatArray | None) -> None:
    """A contour without a value or without a frame is unmeasurable: no exception, no number, no direction."""
    found = label.hear(EMPTY, START_S, END_S) if value is None else hear(value)
    assert np.isnan([found.contrast, found.trend, found.rank_correlation, found.block_tau]).all()
    assert (found.valid, found.valid_third) == (0.0, 0.0)
    assert label.judge_heard(found, 4.0, 1.0, MARGINS) is Reason.UNMEASURABLE
    assert label.direction_of(found, 1.0, MARGINS) == 0


@pytest.mark.parametrize("missing", ["first", "last"])
def test_a_third_without_a_value_is_unmeasurable(missing: str) -> None:
    """Without its first or its last third a contour has no contrast, however clear the rest."""
    value = 6.0 * LINE
    value[: N // 3] = np.nan
    found = hear(value if missing == "first" else -value[::-1])
    assert np.isnan(found.contrast)
    assert found.valid == pytest.approx(2.0 / 3.0, abs=1e-4)
    assert found.valid_third == 0.0
    assert label.judge_heard(found, 4.0, 1.0, MARGINS) is Reason.UNMEASURABLE


def test_valid_shares_are_of_the_counted_frames() -> None:
    """Frames that aren't asked for a value don't count as missing: pauses are no fault of a clip."""
    value = 6.0 * LINE
    value[1::2] = np.nan
    half = np.arange(N) % 2 == 0
    assert hear(value).valid == 0.5
    assert hear(value, np.ones(N, dtype=bool)).valid == 0.5
    assert (hear(value, half).valid, hear(value, half).valid_third) == (1.0, 1.0)


def test_the_poorest_third_is_found() -> None:
    """The share of the poorest third is of its own counted frames: here a quarter in the middle one."""
    value = 6.0 * LINE
    middle = np.arange(32, 64)
    value[middle[8:]] = np.nan
    found = hear(value)
    assert found.valid_third == 0.25
    assert found.valid == 0.75
    counted = np.ones(N, dtype=bool)
    counted[middle[16:]] = False
    assert hear(value, counted).valid_third == 0.5
    assert hear(value, counted).valid == 0.9


def test_a_third_without_a_counted_frame_has_nothing() -> None:
    """A third in which nothing is loud enough to be asked has the share 0."""
    value = 6.0 * LINE
    value[32:64] = np.nan
    assert hear(value, np.isfinite(value)).valid == 1.0
    assert hear(value, np.isfinite(value)).valid_third == 0.0


def test_a_value_counts_even_where_none_was_asked() -> None:
    """A frame with a value is counted, so that no share can exceed one."""
    found = hear(6.0 * LINE, np.zeros(N, dtype=bool))
    assert (found.valid, found.valid_third) == (1.0, 1.0)


# -- rule 3: heard ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_a_clear_move_is_heard(sign: int) -> None:
    """A line that goes as planned passes; one that goes the other way is contradicted."""
    found = hear(sign * 6.0 * LINE + wiggle(0.5))
    assert label.judge_heard(found, sign * 4.0, 1.0, MARGINS) is None
    assert label.judge_heard(found, -sign * 4.0, 1.0, MARGINS) is Reason.CONTRADICTED
    assert label.direction_of(found, 1.0, MARGINS) == sign


@pytest.mark.parametrize(
    ("planned", "jnd", "needed"),
    [(4.0, 1.0, 2.0), (4.0, 3.0, 3.0), (1.0, 1.0, 1.0), (10.0, 1.0, 5.0)],
    ids=["half the plan", "one J", "one J of a small plan", "half of a large plan"],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_contrast_needed_is_one_jnd_or_half_the_plan(planned: float, jnd: float, needed: float, sign: int) -> None:
    """|contrast| must reach the larger of 1 J and half the plan: just there passes, 0.0001 under is too small."""
    rise = heard(trend=sign * 6.0, rank_correlation=sign * 0.9, block_tau=sign * 0.9)
    assert label.judge_heard(replace(rise, contrast=sign * needed), sign * planned, jnd, MARGINS) is None
    under = replace(rise, contrast=sign * (needed - 1e-4))
    assert label.judge_heard(under, sign * planned, jnd, MARGINS) is Reason.TOO_SMALL


def test_contradiction_needs_all_figures_and_a_margin() -> None:
    """Contradicted means all four the other way by 1 J or more; less is too small, and a disagreement isn't a contradiction."""
    against = heard(contrast=-1.0, trend=-1.5, rank_correlation=-0.5, block_tau=-0.5)
    assert label.judge_heard(against, 4.0, 1.0, MARGINS) is Reason.CONTRADICTED
    assert label.judge_heard(replace(against, contrast=-0.9999), 4.0, 1.0, MARGINS) is Reason.TOO_SMALL
    for figure in ("trend", "rank_correlation", "block_tau"):
        assert label.judge_heard(replace(against, **{figure: 0.1}), 4.0, 1.0, MARGINS) is Reason.TOO_SMALL


@pytest.mark.parametrize("figure", ["trend", "rank_correlation", "block_tau"])
@pytest.mark.parametrize("value", [0.0, -0.0001])
def test_one_figure_that_disagrees_is_unclear(figure: str, value: float) -> None:
    """A contrast that is large enough is unclear if any other figure is nought or the other way."""
    assert label.judge_heard(heard(**{figure: value}), 4.0, 1.0, MARGINS) is Reason.UNCLEAR


@pytest.mark.parametrize("figure", ["contrast", "trend", "rank_correlation", "block_tau"])
def test_one_figure_that_is_missing_is_unmeasurable(figure: str) -> None:
    """A figure that is `nan` makes a clip unmeasurable, whichever it is: `nan` is never compared."""
    assert label.judge_heard(heard(**{figure: float("nan")}), 4.0, 1.0, MARGINS) is Reason.UNMEASURABLE


@pytest.mark.parametrize(("figure", "least"), [("valid", 0.6), ("valid_third", 0.2)])
def test_the_share_of_valid_frames_has_a_floor(figure: str, least: float) -> None:
    """60 % of the frames and 20 % of the poorest third are enough; 0.0001 less is unmeasurable."""
    assert label.judge_heard(heard(**{figure: least}), 4.0, 1.0, MARGINS) is None
    assert label.judge_heard(heard(**{figure: least - 1e-4}), 4.0, 1.0, MARGINS) is Reason.UNMEASURABLE


def test_salience_is_asked_only_where_the_recipe_asks() -> None:
    """By default a wavering rise passes; a recipe that asks for a salience of 2 gets it to the digit."""
    strict = replace(MARGINS, min_salience=2.0)
    assert label.judge_heard(heard(salience=0.1), 4.0, 1.0, MARGINS) is None
    assert label.judge_heard(heard(salience=2.0), 4.0, 1.0, strict) is None
    assert label.judge_heard(heard(salience=1.9999), 4.0, 1.0, strict) is Reason.NOT_SALIENT
    assert label.judge_heard(heard(salience=float("inf")), 4.0, 1.0, strict) is None


def test_a_recipe_can_ask_for_more() -> None:
    """Twice the J and the whole plan: what passed by default no longer does."""
    assert label.judge_heard(heard(contrast=1.9999), 2.0, 1.0, replace(MARGINS, min_contrast_jnd=2.0)) is Reason.TOO_SMALL
    assert label.judge_heard(heard(contrast=3.9999), 4.0, 1.0, replace(MARGINS, min_share_of_plan=1.0)) is Reason.TOO_SMALL


def test_a_plan_of_nothing_is_never_heard() -> None:
    """A control has no direction: no contour, however clear, agrees with a planned contrast of 0."""
    assert label.judge_heard(heard(), 0.0, 1.0, MARGINS) is Reason.TOO_SMALL


def test_a_move_under_the_margin_is_no_direction() -> None:
    """Without a plan a clip says up or down from 1 J on, and nothing under it."""
    assert label.direction_of(heard(contrast=1.0), 1.0, MARGINS) == 1
    assert label.direction_of(heard(contrast=0.9999), 1.0, MARGINS) == 0
    assert label.direction_of(heard(contrast=1.0), 1.5, MARGINS) == 0


def test_there_and_back_is_no_direction() -> None:
    """A contour that rises as far as it falls says nothing."""
    assert label.direction_of(hear(-20.0 * np.abs(LINE)), 1.0, MARGINS) == 0


# -- symmetry ---------------------------------------------------------------------------------------------------------

sixteenths = st.integers(-64, 64).map(lambda number: number / 16.0)
"""Numbers that add and subtract without rounding."""


@st.composite
def contours(draw: st.DrawFn) -> FloatArray:
    """Slope, steps of noise held for six frames, and gaps: often a direction, often none."""
    slope = draw(st.integers(-12, 12))
    noise = np.repeat(draw(st.lists(sixteenths, min_size=16, max_size=16)), 6)
    gaps = draw(st.sets(st.integers(0, N - 1), max_size=40))
    value = slope * np.arange(N) / 16.0 + noise
    value[sorted(gaps)] = np.nan
    return value


RISE = 6.0 * np.arange(N) / 16.0


@MANY
@example(RISE)
@example(-RISE)
@example(np.full(N, np.nan))
@given(contours())
def test_reversed_in_time_up_is_down(value: FloatArray) -> None:
    """A contour played backwards says the opposite, or nothing where it said nothing; and so does its negative."""
    direction = label.direction_of(hear(value), 1.0, MARGINS)
    event(f"direction {direction}")
    assert label.direction_of(hear(value[::-1]), 1.0, MARGINS) == -direction
    assert label.direction_of(hear(-value), 1.0, MARGINS) == -direction
    assert label.direction_of(hear(-value[::-1]), 1.0, MARGINS) == direction


@MANY
@example(RISE, 7)
@given(contours(), st.integers(-1000, 1000))
def test_a_constant_changes_nothing(value: FloatArray, constant: int) -> None:
    """Adding a constant to a contour changes no figure but the last digits of salience: labels are about change, not level."""
    before, after = hear(value), hear(value + constant)
    assert repr(replace(before, salience=0.0)) == repr(replace(after, salience=0.0))
    assert label.direction_of(before, 1.0, MARGINS) == label.direction_of(after, 1.0, MARGINS)


@MANY
@example(RISE, 4.0)
@given(contours(), st.sampled_from([0.25, 0.5, 2.0, 4.0]))
def test_the_unit_does_not_matter(value: FloatArray, factor: float) -> None:
    """A contour, its plan and its J in another unit are judged the same."""
    for planned in (4.0, -4.0):
        first, other = hear(value * 16.0), hear(value * 16.0 * factor)
        assert label.judge_heard(first, planned * 16.0, 16.0, MARGINS) == label.judge_heard(
            other, planned * 16.0 * factor, 16.0 * factor, MARGINS
        )


@MANY
@given(contours(), st.floats(1.0, 20.0), st.floats(0.1, 5.0))
def test_no_contour_is_heard_both_ways(value: FloatArray, planned: float, jnd: float) -> None:
    """What agrees with a rising plan disagrees with the falling one, whatever the plan and the J."""
    rising, falling = (label.judge_heard(hear(value), sign * planned, jnd, MARGINS) for sign in (1, -1))
    assert rising is not None or falling is not None
    if rising is None:
        assert falling is Reason.CONTRADICTED


# -- rule 2: the difference to the sham -------------------------------------------------------------------------------


@pytest.mark.parametrize("gain", [0.6, 0.7, 1.0, 1.4])
@pytest.mark.parametrize("span", [6.0, -6.0])
def test_a_difference_along_the_plan_fits(gain: float, span: float) -> None:
    """A share of 0.6 to 1.4 of the plan fits, and the gain is that share."""
    assert label.judge_difference(contour(gain * span * LINE), span * LINE, MARGINS) == (None, gain, 1.0)


@pytest.mark.parametrize("gain", [0.5, 0.5999, 1.4001, 2.0, -1.0, 0.0])
def test_a_difference_of_another_size_is_unfit(gain: float) -> None:
    """Half the plan, over 1.4 times it, its opposite or nothing at all is unfit."""
    reason, found, _ = label.judge_difference(contour(gain * 6.0 * LINE), 6.0 * LINE, MARGINS)
    assert reason is Reason.DIFFERENCE_UNFIT
    assert found == pytest.approx(gain)


@pytest.mark.parametrize(("spread", "fits"), [(0.65, True), (0.66, False)])
def test_a_difference_off_the_curve_is_unfit(spread: float, fits: bool) -> None:
    """R-squared must reach 0.7: with orthogonal noise of s on a plan of unit variance that is s = sqrt(3/7) = 0.6547."""
    plan = np.where(np.arange(N) < N // 2, -1.0, 1.0)
    noise = np.where(np.arange(N) % 2 == 0, spread, -spread)
    reason, gain, r_squared = label.judge_difference(contour(plan + noise), plan, MARGINS)
    assert gain == 1.0
    assert r_squared == pytest.approx(1.0 / (1.0 + spread**2), abs=1e-4)
    assert (reason is None) is fits


def test_a_difference_without_values_is_unfit() -> None:
    """No difference to fit: gain and R-squared are 0, and the clip is unfit rather than an error."""
    assert label.judge_difference(contour(np.full(N, np.nan)), LINE, MARGINS) == (Reason.DIFFERENCE_UNFIT, 0.0, 0.0)
    assert label.judge_difference(EMPTY, np.zeros(0), MARGINS) == (Reason.DIFFERENCE_UNFIT, 0.0, 0.0)


def test_the_difference_takes_the_shams_own_movement_out() -> None:
    """Whatever the carrier does by itself is in both and cancels: what is left is the sweep."""
    own = wiggle(3.0) - 5.0 * LINE
    found = statistics.difference(contour(own + 6.0 * LINE), contour(own), None)
    np.testing.assert_array_equal(found.time_s, TIME_S)
    np.testing.assert_allclose(found.value, 6.0 * LINE, atol=0.4)


def test_the_difference_has_no_value_where_either_has_none() -> None:
    """A gap in the clip stays a gap; a gap in the sham of more than 1.5 frames makes one; nothing is filled in over it."""
    clip, sham = 6.0 * LINE, np.zeros(N)
    clip[10:13] = np.nan
    sham[40:60] = np.nan
    missing = np.isnan(statistics.difference(contour(clip), contour(sham), None).value)
    assert set(np.flatnonzero(missing)) == {10, 11, 12, *range(41, 59)}


def test_the_difference_follows_time_where_it_moved() -> None:
    """With a time map each frame of the clip is compared with the moment of the sham that it comes from."""
    found = statistics.difference(contour(6.0 * LINE), contour(6.0 * LINE), lambda time_s: 0.5 * time_s)
    kept = slice(4, N - 4)
    np.testing.assert_allclose(found.value[kept], (6.0 / 3.0 * 0.5 * TIME_S)[kept], atol=1e-9)


def test_the_difference_to_nothing_is_nothing() -> None:
    """Against a sham without a frame or without a value there's no difference, and no exception."""
    for sham in (EMPTY, contour(np.full(N, np.nan))):
        assert np.isnan(statistics.difference(contour(LINE), sham, None).value).all()
    assert statistics.difference(EMPTY, contour(LINE), None).value.size == 0


# -- rule 4: the witness ----------------------------------------------------------------------------------------------

BLOCKS = np.repeat([1.0, -1.0] * 4, N // 8)
"""Eight blocks up and down: a witness with movement of its own, its spread known in closed form."""
SPREAD = np.sqrt((8.0 - 16.0 / 42.0) / 6.0 * 3.0 / 4.0)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_witness_agrees_in_sign(sign: int) -> None:
    """A witness that goes the planned way agrees, by however little and whatever it does on the sham."""
    for size in (6.0, 0.01):
        assert label.judge_witness(contour(sign * size * LINE), contour(BLOCKS), sign, START_S, END_S, Margins()) == (None, "agrees")


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("share", "verdict"), [(0.99, "undecided"), (1.01, "contradicts")])
def test_a_witness_may_contradict_by_less_than_its_own_spread(share: float, verdict: str, sign: int) -> None:
    """The other way by less than what it moves on the sham by itself is undecided; by more, it contradicts."""
    against = contour(-sign * 1.5 * share * SPREAD * LINE)
    reason, found = label.judge_witness(against, contour(BLOCKS), sign, START_S, END_S, Margins())
    assert found == verdict
    assert reason is (Reason.WITNESS_CONTRADICTS if verdict == "contradicts" else None)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_steady_witness_contradicts_by_anything(sign: int) -> None:
    """A witness that holds still on the sham and goes the other way on the clip contradicts."""
    found = label.judge_witness(contour(-sign * 0.1 * LINE), contour(np.zeros(N)), sign, START_S, END_S, Margins())
    assert found == (Reason.WITNESS_CONTRADICTS, "contradicts")


def test_a_witness_without_a_value_is_none() -> None:
    """No value on the clip, under a fifth of a third's frames, or too little on the sham to know its spread: no witness at all."""
    silent, patchy = contour(np.full(N, np.nan)), np.where(np.arange(N) % 10 == 0, LINE, np.nan)
    nothing = (Reason.WITNESS_UNMEASURABLE, "unmeasurable")
    for clip in (EMPTY, silent, contour(patchy)):
        assert label.judge_witness(clip, contour(BLOCKS), 1, START_S, END_S, Margins()) == nothing
    for sham in (EMPTY, silent):
        assert label.judge_witness(contour(-6.0 * LINE), sham, 1, START_S, END_S, Margins()) == nothing


# -- rule 5: leaks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", [3.0, -3.0])
@pytest.mark.parametrize("jnd", [0.5, 1.0, 2.0])
def test_a_leak_is_counted_in_jnd(span: float, jnd: float) -> None:
    """A held dimension that moves along a line by s leaks 2/3 s over J, with its sign, whatever the sham does by itself."""
    own = wiggle(0.2)
    found = label.leak_jnd(contour(own + span * LINE), contour(own), None, START_S, END_S, jnd)
    assert found == pytest.approx(span * 2.0 / 3.0 / jnd, abs=0.01 / jnd)


@pytest.mark.parametrize("factor", [2.0, 10.0])
def test_a_leak_of_level_is_of_mean_power(factor: float) -> None:
    """For levels the thirds' mean power or loudness counts: a uniform change of 3 is 3, whatever lies under it."""
    own = np.where(np.arange(N) % 2 == 0, 0.0, -10.0)
    late = np.where(np.arange(N) < N // 2, 0.0, 3.0)
    assert label.leak_jnd(contour(own + late), contour(own), None, START_S, END_S, 1.0, factor) == pytest.approx(3.0, abs=1e-4)


def test_a_leak_of_level_weighs_the_loud_frames() -> None:
    """A loss of 10 dB in every other frame of the last third is 0.55 of its power: -2.596 dB, not -5."""
    late = np.where((np.arange(N) >= 2 * N // 3) & (np.arange(N) % 2 == 0), -10.0, 0.0)
    found = label.leak_jnd(contour(late), contour(np.zeros(N)), None, START_S, END_S, 1.0, 10.0)
    assert found == pytest.approx(10.0 * np.log10(0.55), abs=1e-4)


def test_no_movement_is_no_leak() -> None:
    """A clip that is as its sham leaks exactly 0."""
    own = contour(wiggle(2.0) + 5.0 * LINE)
    for factor in (None, 2.0, 10.0):
        assert label.leak_jnd(own, own, None, START_S, END_S, 1.0, factor) == 0.0


@pytest.mark.parametrize("factor", [None, 10.0])
def test_a_leak_that_cannot_be_measured_is_none(factor: float | None) -> None:
    """None where either has no value, or a third has under a fifth of its frames: not 0, not `nan`."""
    silent, moving = contour(np.full(N, np.nan)), contour(6.0 * LINE)
    late = 6.0 * LINE
    late[2 * N // 3 + 6 :] = np.nan
    for clip, sham in ((silent, moving), (moving, silent), (EMPTY, moving), (moving, EMPTY), (EMPTY, EMPTY), (contour(late), moving)):
        assert label.leak_jnd(clip, sham, None, START_S, END_S, 1.0, factor) is None
