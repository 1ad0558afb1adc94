"""The default pool's kernels: equal to their naive twin, exact over batches, robust."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_oracle import NaivePool

from swordplay.kernels import pool, pool_grow, pool_losses
from swordplay.kernels import pool_layout as at
from swordplay.kernels.pool_plan import PoolConfig, fresh, layout

LOSSES = {
    "squared": at.SQUARED,
    "huber": at.HUBER,
    "absolute": at.ABSOLUTE,
    "pinball": at.PINBALL,
    "logistic": at.LOGISTIC,
}
NONE = np.empty(0)


def drifting(d, rows, loss, seed=0):
    """Return rows of wild scales, with outliers and gaps, whose model turns round half way."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) * 10.0 ** rng.uniform(-2, 2, d) + rng.normal(size=d)
    X[:, 0] = np.cumsum(X[:, 0])
    X[rows // 3, 0] *= 1000
    X[rng.random(X.shape) < 0.01] = np.nan
    signal = np.nan_to_num(X / (1e-9 + np.nanstd(X, axis=0))) @ rng.normal(size=d)
    signal[rows // 2 :] *= -1
    noisy = signal + rng.normal(size=rows)
    return X, (noisy > 0) * 1.0 if loss == at.LOGISTIC else noisy


def run(X, y, plan, weights=NONE, row=None):
    lay = layout(X.shape[1], plan)
    Y = np.ascontiguousarray(y, dtype=float).reshape(len(X), -1)
    row = fresh(lay, Y.shape[1]) if row is None else row
    out = np.empty((len(X), 2 * Y.shape[1]))
    pool.learn(row, lay.config, np.ascontiguousarray(X, dtype=float), Y, weights, out)
    return out[:, : Y.shape[1]].squeeze(-1) if Y.shape[1] == 1 else out, row


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("d", "rows"), [(1, 400), (4, 400), (60, 120)])
def test_compiled_equals_naive(loss, d, rows):
    X, y = drifting(d, rows, LOSSES[loss])
    plan = PoolConfig(loss=LOSSES[loss], param=0.3)
    got, _ = run(X, y, plan)
    slow = NaivePool(d, plan)
    want = np.empty(rows)
    for t in range(rows):
        want[t] = slow.predict(X[t])
        slow.learn(X[t], y[t])
    # logistic: the implicit step stops at 0.01, and on which side of it is a matter of rounding
    tolerance = 1e-6 if loss == "logistic" else 1e-9
    assert np.abs(got - want).max() <= tolerance * np.abs(want).max()


@pytest.mark.parametrize("loss", LOSSES)
def test_any_split_gives_the_same_bits(loss):
    X, y = drifting(5, 600, LOSSES[loss])
    plan = PoolConfig(loss=LOSSES[loss], param=0.3)
    whole, row = run(X, y, plan)
    rng = np.random.default_rng(1)
    lay = layout(5, plan)
    other, parts, start = fresh(lay), [], 0
    while start < len(X):
        stop = start + int(rng.integers(1, 30))
        part, _ = run(X[start:stop], y[start:stop], plan, row=other)
        parts.append(part)
        start = stop
    assert np.array_equal(np.concatenate(parts), whole)
    assert other.tobytes() == row.tobytes()


@pytest.mark.parametrize("loss", LOSSES)
def test_predict_is_what_learn_would_say_and_changes_nothing(loss):
    X, y = drifting(3, 300, LOSSES[loss])
    plan = PoolConfig(loss=LOSSES[loss], param=0.3)
    lay = layout(3, plan)
    _, row = run(X[:200], y[:200], plan)
    before = row.tobytes()
    out = np.empty((1, 2))
    pool.predict(row, lay.config, X[200:201].copy(), out)
    assert row.tobytes() == before
    said, _ = run(X[200:201], y[200:201], plan, row=row)
    assert said[0] == out[0, 0]


def test_learning_what_was_kept_is_learning():
    X, y = drifting(4, 200, at.SQUARED)
    plan = PoolConfig()
    lay = layout(4, plan)
    want, end = run(X, y, plan)
    row, work, out = fresh(lay), np.zeros(int(lay.config[at.WORK])), np.empty((1, 3))
    for t in range(len(X)):
        x, target = X[t : t + 1].copy(), np.array([[y[t]]])
        pool.predict_kept(row, lay.config, x, work, out)
        assert out[0, 0] == want[t]
        pool.learn_kept(row, lay.config, x, target, work, out)
    assert row.tobytes() == end.tobytes()


def test_targets_share_columns_but_nothing_else():
    """Two targets at once are two pools, bit for bit."""
    X, y = drifting(4, 400, at.SQUARED)
    other = np.cumsum(y) * 1e3
    plan = PoolConfig()
    both, _ = run(X, np.column_stack([y, other]), plan)
    assert np.array_equal(both[:, 0], run(X, y, plan)[0])
    assert np.array_equal(both[:, 1], run(X, other, plan)[0])


def test_weights():
    X, y = drifting(3, 400, at.SQUARED)
    plan = PoolConfig()
    plain, row = run(X, y, plan)
    ones, same = run(X, y, plan, np.ones(400))
    assert np.array_equal(plain, ones)
    assert row.tobytes() == same.tobytes()
    # a row of weight 0 is as if it had never been
    rng = np.random.default_rng(0)
    weights = (rng.random(400) < 0.7) * 1.0
    kept = weights > 0
    _, with_zeros = run(X, y, plan, weights)
    _, without = run(X[kept], y[kept], plan)
    assert with_zeros.tobytes() == without.tobytes()


def test_heavy_rows_count_more():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    group = rng.random(3000) < 0.5
    y = np.where(group, X[:, 0], -X[:, 0]) + 0.1 * rng.normal(size=3000)
    for loss in (at.SQUARED, at.LOGISTIC):
        target = (y > 0) * 1.0 if loss == at.LOGISTIC else y
        out, _ = run(X, target, PoolConfig(loss=loss), np.where(group, 1.0, 0.01))
        late = slice(1000, None)
        slope = np.polyfit(X[late, 0], out[late], 1)[0]
        assert slope > (0.2 if loss == at.LOGISTIC else 0.5)


def spoil(kind, X, y, rng, values):
    """Do something terrible to a stream, in place."""
    if kind == "zeros":
        X[:] = 0.0
    elif kind == "constants":
        X[:, 2], X[:, 3] = 7.0, 0.0
    elif kind == "outliers":
        X[rng.random(X.shape) < 0.001] *= 1000.0
    elif kind == "1e300":
        X[rng.random(X.shape) < 0.001] = 1e300
    elif kind == "first row":
        X[0] = 1e300
        if values:
            y[0] = -1e300
    elif kind == "targets":
        X[100] = -1e300
        if values:
            y[100], y[200] = 1e300, -1e300
    elif kind == "one target":
        y[:] = 1.0
    elif kind == "tiny":
        X[:] = X[:, :1] * 1e-200
    elif kind == "gaps":
        X[rng.random(X.shape) < 0.5] = np.nan


SPOILS = (
    "zeros",
    "constants",
    "outliers",
    "1e300",
    "first row",
    "targets",
    "one target",
    "tiny",
    "gaps",
)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", SPOILS)
def test_survives(kind, loss):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 6))
    clean = X @ rng.normal(size=6) + 0.1 * rng.normal(size=2000)
    y = (clean > 0) * 1.0 if loss == "logistic" else clean
    spoil(kind, X, y, rng, loss != "logistic")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out, row = run(X, y, PoolConfig(loss=LOSSES[loss], param=0.5))
    assert np.isfinite(out).all()
    assert np.isfinite(row).all()
    low, high = y.min(), y.max()
    assert ((out >= min(low, 0)) & (out <= max(high, 1))).all()


def test_outliers_are_got_over():
    """One value in a thousand times 1000 leaves most of what there is to learn."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 6))
    y = X @ rng.normal(size=6) + 0.1 * rng.normal(size=4000)
    X[rng.random(X.shape) < 0.001] *= 1000.0
    out, _ = run(X, y, PoolConfig())
    assert np.mean((y - out)[2000:] ** 2) < 0.1 * np.var(y)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_scale_and_shift_change_nothing(loss):
    rng = np.random.default_rng(2)
    X, y = drifting(5, 3000, LOSSES[loss], seed=3)
    X = np.nan_to_num(X)
    plan = PoolConfig(loss=LOSSES[loss])
    plain = run(X, y, plan)[0]
    scale = 10.0 ** rng.uniform(-6, 6, 5)
    moved = run(X * scale + scale * X.std(axis=0) * rng.normal(size=5) * 10, y, plan)[0]
    if loss == "logistic":
        p, q = np.clip(plain, 1e-7, 1), np.clip(moved, 1e-7, 1)
        a, b = (-np.log(np.where(y == 1, s, 1 - s)).mean() for s in (p, q))
    else:
        a, b = np.mean((plain - y) ** 2), np.mean((moved - y) ** 2)
    assert abs(b / a - 1) < 0.01


def test_widening_goes_on_as_before():
    """New columns that stay 0 change no expert's prediction; every view counts in this stream."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    signal = (
        X[:, 0] + X[:, 1] ** 2 + np.cumsum(rng.normal(size=500)) - 2 * np.diff(X[:, 2], prepend=0)
    )
    for loss, tolerance in ((at.SQUARED, 1e-9), (at.LOGISTIC, 0.1)):
        y = (signal > np.median(signal)) * 1.0 if loss == at.LOGISTIC else signal
        plan = PoolConfig(loss=loss)
        old, new = layout(3, plan), layout(5, plan)
        _, row = run(X[:300], y[:300], plan)
        wide = pool_grow.widen(row, old, new)
        assert wide.size == fresh(new).size
        a, b = np.empty((200, 2)), np.empty((200, 2))
        pool.predict(row, old.config, X[300:].copy(), a)
        pool.predict(wide, new.config, np.column_stack([X[300:], np.zeros((200, 2))]), b)
        # labels are moderated by a forgetting that new coordinates wind down
        assert np.allclose(a, b, rtol=0, atol=tolerance * np.std(a))


def test_mirror_says_the_opposite():
    X, y = drifting(3, 400, at.LOGISTIC)
    plan = PoolConfig(loss=at.LOGISTIC)
    lay = layout(3, plan)
    _, row = run(X[:200], y[:200], plan)
    frames = row[: lay.frames]
    other = np.concatenate([frames, pool_grow.mirror(row[lay.frames :], lay)])
    a, _ = run(X[200:], y[200:], plan, row=row)
    b, _ = run(X[200:], 1 - y[200:], plan, row=other)
    assert np.allclose(a, 1 - b, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_implicit_steps_minimise(loss):
    """m' = m - a s minimises loss(m') + (m' - m)^2 / (2 a)."""
    from scipy.optimize import minimize_scalar

    rng = np.random.default_rng(0)
    for _ in range(200):
        a, m = 10.0 ** rng.uniform(-3, 2), 3 * rng.normal()
        if loss == "logistic":
            y = float(rng.integers(0, 2))
            s, _ = pool_losses.implicit_logistic(y, m, 1 / (1 + np.exp(-m)), a)

            def value(z, y=y):
                return np.logaddexp(0, z) - y * z
        else:
            y = m + 3 * rng.normal()
            s, _ = pool_losses.implicit(LOSSES[loss], 0.3, y, m, a)

            def value(z, y=y):
                half = 0.5 if loss == "squared" else 1.0
                return half * pool_losses.value(LOSSES[loss], 0.3, y, z)

        def target(z, m=m, a=a, value=value):
            return value(z) + (z - m) ** 2 / (2 * a)

        best = minimize_scalar(target, bounds=(m - 200, m + 200), options={"xatol": 1e-10})
        assert target(m - a * s) <= min(best.fun, target(m)) + 1e-3 * min(a, 1.0)


def test_the_vectoriser_is_on_for_the_pool_alone():
    from numba import config

    assert config.SLP_VECTORIZE == 0
    run(*drifting(2, 10, at.SQUARED), PoolConfig())
    assert config.SLP_VECTORIZE == 0


NUMBERS = st.builds(
    lambda m, e: m * 10.0**e, st.sampled_from([-1.0, 0.0, 1.0, 0.5, 3.0]), st.integers(-320, 305)
)
STRETCHES = st.lists(st.tuples(NUMBERS, st.integers(1, 40)), min_size=1, max_size=8)


def stretches(told, rng):
    """Return a column of constants, or of noise, of any size that a float may have."""
    return np.concatenate([np.full(k, v) * (rng.normal(size=k) if k > 3 else 1) for v, k in told])


@settings(max_examples=400)
@given(st.tuples(STRETCHES, STRETCHES, STRETCHES), st.sampled_from(sorted(LOSSES)))
def test_no_finite_numbers_make_it_sick(columns, loss):
    rng = np.random.default_rng(0)
    a, b, y = (stretches(told, rng) for told in columns)
    n = min(len(a), len(b), len(y))
    y = (y[:n] > 0) * 1.0 if loss == "logistic" else y[:n]
    out, row = run(np.column_stack([a[:n], b[:n]]), y, PoolConfig(loss=LOSSES[loss], param=0.3))
    assert np.isfinite(row).all()
    assert np.isfinite(out).all()
