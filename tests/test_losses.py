"""Values, slopes and kinks of every loss, in NumPy and in the kernel."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import LOSSES as BY_NAME
from hypothesis import given
from hypothesis import strategies as st

import swordplay as sp
from swordplay.kernels.losses import value_and_slope

LOSSES = [*BY_NAME.values(), sp.Huber(delta=2.0), sp.Huber(delta=1e-3), sp.Pinball(q=0.05)]
SMOOTH = [loss for loss in LOSSES if math.isfinite(loss.smoothness)]
numbers = st.floats(-50, 50, allow_nan=False)
losses = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def target(loss, y):
    return (1.0 if y >= 0 else -1.0) if isinstance(loss, sp.Logistic) else y


def kinks(loss, y):
    """Where the slope jumps, or only bends."""
    if isinstance(loss, sp.Huber):
        return [y - loss.delta, y + loss.delta]
    return [y] if isinstance(loss, sp.Absolute | sp.Pinball) else []


def test_every_public_loss_is_here():
    public = [getattr(sp, name) for name in sp.__all__]
    classes = {
        thing
        for thing in public
        if isinstance(thing, type) and issubclass(thing, sp.Loss) and thing is not sp.Loss
    }
    assert classes == {type(loss) for loss in LOSSES}


@losses
@given(numbers, numbers)
def test_the_slope_is_the_derivative(loss, y, guess):
    y, step = target(loss, y), 1e-5
    if any(abs(guess - kink) <= 2 * step for kink in kinks(loss, y)):
        return
    after, before = guess + step, guess - step
    rise = float(loss.value(y, after)) - float(loss.value(y, before))
    # Rounding of the values, divided by the step; the cubic term is far below it.
    rounding = 4e-16 * (1 + float(loss.value(y, guess))) / step
    assert rise / (after - before) == pytest.approx(
        float(loss.slope(y, guess)), abs=rounding + 1e-9
    )


@losses
@given(numbers, numbers, numbers)
def test_slopes_are_subgradients_everywhere_kinks_included(loss, y, guess, other):
    y = target(loss, y)
    for at in [guess, *kinks(loss, y)]:
        line = float(loss.value(y, at)) + float(loss.slope(y, at)) * (other - at)
        value = float(loss.value(y, other))
        assert value >= line - 1e-12 * (1 + abs(value) + abs(line))


@losses
@given(numbers, numbers, numbers, st.floats(0, 1))
def test_losses_are_convex_and_never_negative(loss, y, one, other, share):
    y = target(loss, y)
    ends = share * loss.value(y, one) + (1 - share) * loss.value(y, other)
    middle = loss.value(y, share * one + (1 - share) * other)
    assert 0.0 <= middle <= ends + 1e-12 * (1 + ends)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
@given(numbers, numbers, numbers)
def test_slopes_change_no_faster_than_the_smoothness(loss, y, one, other):
    y = target(loss, y)
    change = abs(float(loss.slope(y, one)) - float(loss.slope(y, other)))
    assert change <= loss.smoothness * abs(one - other) + 1e-13
    if isinstance(loss, sp.Squared | sp.Huber):  # and the smoothness is no larger than it must be
        assert loss.slope(0.0, 1e-4) == pytest.approx(1e-4 * loss.smoothness)


def test_logistic_smoothness_is_reached():
    slopes = sp.Logistic().slope(1.0, np.array([-1e-4, 1e-4]))
    assert (slopes[1] - slopes[0]) / 2e-4 == pytest.approx(sp.Logistic.smoothness, rel=1e-6)


def test_the_slope_at_a_kink_is_zero_where_that_is_documented():
    assert float(sp.Absolute().slope(1.5, 1.5)) == 0.0
    assert float(sp.Pinball(q=0.8).slope(1.5, 1.5)) == 0.0
    assert float(sp.Huber(delta=2.0).slope(0.0, 2.0)) == 2.0
    assert float(sp.Huber(delta=2.0).slope(0.0, -2.0)) == -2.0


def test_the_pinball_is_least_at_its_quantile():
    y = np.random.default_rng(0).normal(size=2001)
    for q in (0.1, 0.5, 0.9):
        loss = sp.Pinball(q=q)
        grid = np.sort(y)
        best = grid[int(np.argmin([loss.value(y, guess).sum() for guess in grid]))]
        assert best == pytest.approx(np.quantile(y, q), abs=2e-3)


@losses
def test_one_number_is_many_numbers(loss):
    rng = np.random.default_rng(1)
    y, guess = rng.normal(size=(2, 7, 5))
    y = np.sign(y) if isinstance(loss, sp.Logistic) else y
    for method in (loss.value, loss.slope):
        many = method(y, guess)
        assert many.shape == (7, 5)
        for at in np.ndindex(7, 5):
            alone = method(y[at], guess[at])
            assert np.shape(alone) == ()
            assert float(alone) == float(many[at])
        assert np.array_equal(method(y.tolist(), guess.tolist()), many)
        assert np.array_equal(method(y[0, 0], guess), method(np.full((7, 5), y[0, 0]), guess))


EXTREMES = [0.0, 1.0, -1.0, 1e-300, 1e4, -1e4, 1e8, -1e8, 1e150, -1e150, 1e300, -1e300, 1e308]


@losses
def test_the_kernel_says_the_same(loss):
    rng = np.random.default_rng(2)
    guesses = np.concatenate([rng.normal(scale=3, size=300), EXTREMES])
    for guess in guesses:
        for y in (target(loss, rng.normal()), target(loss, guess), 1.0, -1.0):
            points = [guess, *kinks(loss, y)]
            for at in points:
                with np.errstate(over="ignore"):
                    value, slope = value_and_slope(loss.code, loss.number, y, at)
                    wanted = float(loss.value(y, at))
                assert value == wanted or value == pytest.approx(wanted, rel=1e-14), (y, at)
                assert slope == pytest.approx(float(loss.slope(y, at)), rel=1e-14), (y, at)


@losses
def test_extreme_inputs_are_finite_where_the_loss_is(loss):
    for y in (1.0, -1.0):
        for guess in EXTREMES[:-1]:
            assert math.isfinite(float(loss.slope(y, guess)))
            if not isinstance(loss, sp.Squared) or abs(guess) <= 1e150:
                assert math.isfinite(float(loss.value(y, guess))), guess


def test_logistic_far_out():
    loss = sp.Logistic()
    assert float(loss.value(1.0, 1e4)) == 0.0
    assert float(loss.slope(1.0, 1e4)) == 0.0
    assert float(loss.value(1.0, -1e4)) == 1e4
    assert float(loss.slope(1.0, -1e4)) == -1.0
    assert float(loss.value(-1.0, 1e300)) == 1e300
    assert float(loss.slope(1.0, 30.0)) == pytest.approx(-math.exp(-30.0), rel=1e-12)
    assert float(loss.value(1.0, 30.0)) == pytest.approx(math.exp(-30.0), rel=1e-12)


def test_equality_hash_and_repr():
    different = [sp.Squared(), sp.Huber(1.0), sp.Huber(2.0), sp.Logistic(), sp.Absolute(),
                 sp.Pinball(0.5), sp.Pinball(0.6), "Squared()"]  # fmt: skip
    for i, one in enumerate(different):
        for j, other in enumerate(different):
            assert (one == other) == (i == j)
    for loss in LOSSES:
        again = eval(repr(loss), vars(sp))
        assert again == loss
        assert hash(again) == hash(loss)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_huber_refuses(delta):
    with pytest.raises(ValueError, match="delta must be positive and finite"):
        sp.Huber(delta=delta)


@pytest.mark.parametrize("q", [0.0, 1.0, -0.5, np.nan])
def test_pinball_refuses(q):
    with pytest.raises(ValueError, match="q must lie strictly between 0 and 1"):
        sp.Pinball(q=q)
