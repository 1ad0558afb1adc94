"""Streams say what they promise: the paper's generators and instances, G and L, sparse rows."""

from __future__ import annotations

import numpy as np
import pytest
from cases import LOSSES, assert_close, sparse, stream_for
from scipy.sparse import coo_matrix, csr_matrix

import swordplay as sp
from swordplay.streams import abrupt_drift, gradual_drift, instance_one, instance_two, rademacher

BOUNDED = [
    sp.Ball(3, 1.5),
    sp.Ball(3, 0.5, center=[1.0, -2.0, 0.25]),
    sp.Box([-1.0, 0.5, 2.0], [0.0, 3.0, 2.5]),
    sp.Simplex(3),
    sp.L1Ball(3, 0.7),
]


# ------------------------------------------------------------------ the paper's generators


@pytest.mark.parametrize("make", [abrupt_drift, gradual_drift])
def test_a_drift_is_what_the_paper_says(make):
    stream = make(20_000, 5, 500, seed=3)
    assert len(stream) == 20_000
    assert stream.dim == 5
    assert stream.loss == sp.Huber(delta=2.0)
    assert stream.features.shape == (20_000, 5)
    assert stream.comparators.shape == (20_000, 5)
    norms = np.linalg.norm(stream.features, axis=1)
    assert norms.max() <= 1.0
    # Uniform in the ball of radius 1: the norm to the power d is uniform on [0, 1].
    powers = np.sort(norms**5)
    assert np.abs(powers - (np.arange(20_000) + 0.5) / 20_000).max() < 2.7 / 20_000**0.5
    assert np.abs(stream.features.mean(axis=0)).max() < 0.02
    assert np.linalg.norm(stream.comparators, axis=1).max() <= 1.0  # D / 2
    noise = stream.targets - np.einsum("td,td->t", stream.features, stream.comparators)
    assert noise.min() >= -1e-12
    assert noise.max() <= 0.1 + 1e-12
    assert noise.mean() == pytest.approx(0.05, abs=0.002)
    assert noise.std() == pytest.approx(0.1 / 12**0.5, abs=0.001)


def test_abrupt_models_are_drawn_anew_every_so_many_rounds_and_stand_still_between():
    stream = abrupt_drift(2300, 4, 500, seed=0)
    moved = np.flatnonzero(np.any(np.diff(stream.comparators, axis=0) != 0, axis=1)) + 1
    assert moved.tolist() == [500, 1000, 1500, 2000]
    models = abrupt_drift(20_000, 3, 1, seed=1, diameter=6.0).comparators
    powers = np.sort((np.linalg.norm(models, axis=1) / 3) ** 3)
    assert np.abs(powers - (np.arange(20_000) + 0.5) / 20_000).max() < 2.7 / 20_000**0.5


def test_gradual_models_travel_and_never_jump():
    stream = gradual_drift(2000, 4, 500, seed=0)
    steps = np.linalg.norm(np.diff(stream.comparators, axis=0), axis=1)
    assert steps.min() > 0
    assert steps.max() <= 2.0 / 500 + 1e-12  # a leg is at most D long
    for leg in range(4):
        straight = steps[leg * 500 : leg * 500 + 499]
        assert_close(straight, np.full(499, straight[0]), 1e-9)


@pytest.mark.parametrize("make", [abrupt_drift, gradual_drift])
def test_a_seed_is_a_stream(make):
    state = np.random.get_state()[1].copy()  # noqa: NPY002 - nobody may touch it
    one, same, other = make(300, 3, 50, 7), make(300, 3, 50, 7), make(300, 3, 50, 8)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert np.array_equal(one.features, same.features)
    assert np.array_equal(one.targets, same.targets)
    assert np.array_equal(one.comparators, same.comparators)
    assert not np.array_equal(one.features, other.features)
    assert not np.array_equal(one.comparators, other.comparators)


def test_a_drift_takes_other_sizes():
    stream = abrupt_drift(400, 2, 10, 0, radius=3.0, diameter=10.0, noise=0.0, loss=sp.Squared())
    assert np.linalg.norm(stream.features, axis=1).max() == pytest.approx(3.0, rel=0.05)
    assert np.linalg.norm(stream.comparators, axis=1).max() == pytest.approx(5.0, rel=0.1)
    assert stream.values(stream.comparators).max() < 1e-20
    assert len(abrupt_drift(1, 1, 1000)) == 1


# ------------------------------------------------------------------ the paper's instances


@pytest.mark.parametrize("horizon", [1, 2, 7, 2**8, 2**12])
def test_instance_one(horizon):
    stream = instance_one(horizon)
    t = np.arange(1, horizon + 1)
    a = 0.5 - (t - 1) / horizon
    assert np.array_equal(stream.features[:, 0], a)
    assert (stream.targets == 1).all()
    facts = stream.assumptions(sp.Box(-1.0, 1.0))
    # |a (a x - 1)| <= |a| (1 + |a|), and |a| is largest, 1/2, in the first round.
    assert (facts.lipschitz, facts.smoothness, facts.horizon) == (0.75, 0.25, horizon)
    assert stream.assumptions(sp.Ball(1)) == facts
    best = stream.values(stream.comparators)
    for x in np.linspace(-1, 1, 41):
        assert (best <= stream.values(np.array([x])) + 1e-15).all()
    if horizon >= 2**8:
        # V_T = O(1): consecutive gradients differ by at most 3/T. F_T = Theta(T).
        x = np.linspace(-1, 1, 201)
        gradients = a[:, None] * (a[:, None] * x - 1)
        variation = (np.diff(gradients, axis=0) ** 2).max(axis=1).sum()
        assert variation <= 9 / horizon
        assert best.sum() >= 0.1 * horizon
        assert np.abs(np.diff(stream.comparators[:, 0])).sum() == 2.0  # P_T


@pytest.mark.parametrize("horizon", [1, 2, 7, 2**8, 2**12])
def test_instance_two(horizon):
    stream = instance_two(horizon)
    x = np.linspace(-1, 1, 201)
    for t in range(1, min(horizon, 300) + 1):
        a, b = (1.0, 1.0) if t % 2 else (0.5, 0.5)
        b = b if t <= horizon // 2 else -b
        assert (stream.features[t - 1, 0], stream.targets[t - 1]) == (a, b)
    facts = stream.assumptions(sp.Box(-1.0, 1.0))
    assert (facts.lipschitz, facts.smoothness, facts.horizon) == (2.0, 1.0, horizon)
    assert stream.values(stream.comparators).sum() == 0.0  # F_T
    if horizon >= 2**8:
        a, b = stream.features[:, 0], stream.targets
        gradients = a[:, None] * (a[:, None] * x - b[:, None])
        variation = (np.diff(gradients, axis=0) ** 2).max(axis=1).sum()
        assert 0.5 * horizon <= variation <= 4 * horizon  # Theta(T)
        assert np.abs(np.diff(stream.comparators[:, 0])).sum() == 2.0


def test_rademacher():
    stream = rademacher(4000, 3, seed=1, sigma=0.5)
    assert len(stream) == 4000
    assert stream.dim == 3
    assert set(np.unique(stream.comparators)) == {-0.5, 0.5}
    assert np.abs(stream.comparators.mean(axis=0)).max() < 0.05
    assert stream.values(stream.comparators).sum() == 0.0
    x = np.array([0.1, -0.2, 0.3])
    t = 17
    assert stream.value(t, x) == pytest.approx(np.sum((x - stream.comparators[t]) ** 2))
    assert_close(stream.gradient(t, x), 2 * (x - stream.comparators[t]), 1e-15)
    facts = stream.assumptions(sp.Ball(3, 0.5 * 3**0.5))
    assert facts.smoothness == 2.0
    assert facts.lipschitz == pytest.approx(4 * 0.5 * 3**0.5)
    assert np.array_equal(rademacher(50, 2, 5).centers, rademacher(50, 2, 5).centers)
    assert not np.array_equal(rademacher(50, 2, 5).centers, rademacher(50, 2, 6).centers)


# ------------------------------------------------------------------ G, L and T


@pytest.mark.parametrize("domain", BOUNDED, ids=repr)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("rows", ["dense", "sparse"])
def test_assumptions_hold_wherever_one_looks(domain, loss, rows):
    stream = stream_for(loss, 200, seed=4)
    stream = stream if rows == "dense" else sparse(stream)
    facts = stream.assumptions(domain)
    assert facts.horizon == 200
    members = np.vstack([domain.sample(np.random.default_rng(5), 200), domain.center])
    members = np.vstack([members, domain.project(1e6 * np.vstack([stream_rows(stream)]))])
    members = np.vstack([members, domain.project(-1e6 * np.vstack([stream_rows(stream)]))])
    steepest = 0.0
    for t in range(len(stream)):
        slopes = stream.loss.slope(stream.targets[t], members @ stream.row(t))
        steepest = max(steepest, np.abs(slopes).max() * np.linalg.norm(stream.row(t)))
    assert steepest <= facts.lipschitz * (1 + 1e-9)
    if rows == "dense":  # exact: reached
        assert steepest >= facts.lipschitz * (1 - 1e-4)
    largest = np.linalg.norm(stream_rows(stream), axis=1).max() ** 2
    if np.isinf(stream.loss.smoothness):
        assert facts.smoothness is None
    else:
        assert facts.smoothness == pytest.approx(stream.loss.smoothness * largest)


def stream_rows(stream):
    return stream.features.toarray() if stream.sparse else stream.features


def test_assumptions_of_a_domain_of_ones_own_are_never_too_small():
    class Bare:
        dim, diameter, center = 3, 3.0, np.zeros(3)

    stream = stream_for("squared", 50)
    assert stream.assumptions(Bare()).lipschitz >= stream.assumptions(sp.Ball(3, 1.5)).lipschitz


def test_assumptions_without_end():
    everywhere = sp.Everywhere(3)
    stream = stream_for("huber", 50)
    norms = np.linalg.norm(stream.features, axis=1)
    assert stream.assumptions(everywhere).lipschitz == pytest.approx(0.7 * norms.max())
    assert sparse(stream).assumptions(everywhere).lipschitz == pytest.approx(0.7 * norms.max())
    with pytest.raises(ValueError, match="unbounded gradients"):
        stream_for("squared", 50).assumptions(everywhere)
    with pytest.raises(ValueError, match="coordinates"):
        stream.assumptions(sp.Ball(4))
    empty_row = sp.LinearStream(np.vstack([np.zeros(3), stream.features[1:]]), stream.targets)
    empty_row.loss = stream.loss
    for rows in (empty_row, sparse(empty_row)):
        assert np.isfinite(rows.assumptions(everywhere).lipschitz)


def test_a_stream_of_zeros_has_constants_all_the_same():
    stream = sp.LinearStream(np.zeros((4, 2)), np.zeros(4))
    facts = stream.assumptions(sp.Ball(2))
    assert facts.lipschitz > 0
    assert facts.smoothness > 0
    run = sp.play(sp.SwordPP(sp.Ball(2), facts), stream)
    assert run.cumulative_loss == 0.0


# ------------------------------------------------------------------ rows


@pytest.mark.parametrize("loss", LOSSES)
def test_sparse_is_dense(loss):
    dense = stream_for(loss, 60)
    dense.features[np.random.default_rng(0).random(dense.features.shape) < 0.6] = 0.0
    rows = sparse(dense)
    assert rows.sparse
    assert not dense.sparse
    decisions = np.random.default_rng(1).normal(size=(60, 3))
    assert_close(rows.values(decisions), dense.values(decisions), 1e-13)
    assert_close(rows.values(decisions[0]), dense.values(decisions[0]), 1e-13)
    assert_close(rows.predictions(decisions), dense.predictions(decisions), 1e-13)
    assert_close(rows.norms(), dense.norms(), 1e-14)
    for t in range(60):
        assert np.array_equal(rows.row(t), dense.row(t))
        assert rows.value(t, decisions[t]) == pytest.approx(dense.value(t, decisions[t]))
        assert_close(rows.gradient(t, decisions[t]), dense.gradient(t, decisions[t]), 1e-13)
    assert (len(rows), rows.dim) == (len(dense), dense.dim)


def test_the_callers_matrix_is_left_alone():
    for dtype in (np.int64, np.float32, np.float64):
        mine = csr_matrix(np.array([[1, 0, 2], [0, 3, 0]], dtype=dtype))
        before = mine.data.copy()
        stream = sp.LinearStream(mine, [1.0, 2.0])
        assert mine.data.dtype == dtype
        mine.data[:] = 9
        if dtype != np.float64:
            assert_close(stream.features.data, before, 0.0)
    doubled = coo_matrix(([1.0, 2.0], ([0, 0], [1, 1])), shape=(1, 2))
    assert sp.LinearStream(doubled, [0.0]).row(0).tolist() == [0.0, 3.0]


def test_many_values_are_one_value_many_times():
    for stream in (stream_for("huber", 30), rademacher(30, 3)):
        decisions = np.random.default_rng(1).normal(size=(30, 3))
        each = [stream.value(t, decisions[t]) for t in range(30)]
        assert_close(stream.values(decisions), each, 1e-13)
        still = [stream.value(t, decisions[0]) for t in range(30)]
        assert_close(stream.values(decisions[0]), still, 1e-13)


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_the_gradient_is_the_derivative(loss):
    stream, step = stream_for(loss, 30), 1e-6
    x = np.random.default_rng(2).normal(size=3)
    for t in range(30):
        rise = [
            (stream.value(t, x + step * e) - stream.value(t, x - step * e)) / (2 * step)
            for e in np.eye(3)
        ]
        assert_close(stream.gradient(t, x), rise, 1e-6)


def test_anything_numpy_can_view_is_a_stream():
    stream = sp.LinearStream([[1, 2], [3, 4]], (1, 2), sp.Absolute(), comparators=[[0, 0], [1, 1]])
    assert stream.features.dtype == np.float64
    assert stream.comparators.shape == (2, 2)
    single = sp.LinearStream(np.ones((2, 2), dtype=np.float32), [1, 2])
    assert single.value(0, np.array([1.0, 2.0])) == 2.0
    assert "2 dense rows" in repr(stream)


# ------------------------------------------------------------------ functions


def test_a_function_stream():
    values = [lambda x, t=t: float(np.sum((x - t) ** 2)) for t in range(6)]
    gradients = [lambda x, t=t: 2 * (x - t) for t in range(6)]
    stream = sp.FunctionStream(values, gradients, comparators=np.ones((6, 2)))
    assert len(stream) == 6
    assert not stream.knows_dim
    with pytest.raises(ValueError, match="dim="):
        _ = stream.dim
    assert stream.value(2, np.array([2.0, 3.0])) == 1.0
    assert stream.gradient(2, np.array([2.0, 3.0])).tolist() == [0.0, 2.0]
    assert_close(stream.values(np.zeros(2)), [2.0 * t**2 for t in range(6)], 1e-15)
    run = sp.play(sp.OGD(sp.Ball(2, 9.0), sp.Assumptions(40.0, horizon=6)), stream)
    assert len(run) == 6
    with pytest.raises(ValueError, match="cannot be read off callables"):
        stream.assumptions(sp.Ball(2))
    with pytest.raises(ValueError, match="as many"):
        sp.FunctionStream(values, gradients[:-1])
    with pytest.raises(ValueError, match="at least one"):
        sp.FunctionStream([], [])


@pytest.mark.parametrize("stream", [abrupt_drift(20, 2, 5), rademacher(20, 2)], ids=["linear", "q"])
def test_streams_keep_the_protocol(stream):
    assert isinstance(stream, sp.streams.Stream)
    for bad in (np.zeros(3), np.zeros((19, 2)), np.zeros((20, 3)), np.zeros((1, 20, 2))):
        with pytest.raises(ValueError, match="must have shape"):
            stream.values(bad)


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sp.LinearStream(np.zeros((0, 2)), []), "at least one row"),
        (lambda: sp.LinearStream([], []), "at least one row"),
        (lambda: sp.LinearStream(np.zeros((2, 0)), [0, 0]), "at least one row and one column"),
        (lambda: sp.LinearStream(np.zeros(3), np.zeros(3)), r"must be \(T, d\)"),
        (lambda: sp.LinearStream(np.zeros((2, 2, 2)), np.zeros(2)), r"must be \(T, d\)"),
        (lambda: sp.LinearStream(np.zeros((3, 2)), np.zeros(2)), "one entry a row"),
        (lambda: sp.LinearStream(np.zeros((3, 2)), np.zeros((3, 1))), "one entry a row"),
        (lambda: sp.LinearStream([[1, 2], [3, np.nan]], [0, 0]), "nan in row 1, column 1"),
        (lambda: sp.LinearStream([[1, np.inf], [3, 4]], [0, 0]), "inf in row 0, column 1"),
        (lambda: sp.LinearStream(csr_matrix([[0, 2], [0, np.nan]]), [0, 0]),
         "nan in row 1, column 1"),
        (lambda: sp.LinearStream([[1, 2], [3, 4]], [0, np.nan]), "targets hold nan in row 1"),
        (lambda: sp.LinearStream([["a", "b"]], [0]), "features must be numbers"),
        (lambda: sp.LinearStream([[1, 2]], [0], sp.Logistic()), "-1 and"),
        (lambda: sp.LinearStream([[1, 2]], [0], comparators=[[1.0]]), "must have shape"),
        (lambda: abrupt_drift(0, 2, 5), "horizon must be a whole number"),
        (lambda: abrupt_drift(10, 0, 5), "dim must be a whole number"),
        (lambda: abrupt_drift(10, 2, 0), "every must be a whole number"),
        (lambda: abrupt_drift(10.5, 2, 5), "horizon must be a whole number"),
        (lambda: gradual_drift(-1, 2, 5), "horizon must be a whole number"),
        (lambda: abrupt_drift(10, 2, 5, radius=-1.0), "radius must be a positive"),
        (lambda: instance_one(0), "horizon must be a whole number"),
        (lambda: instance_two(1.5), "horizon must be a whole number"),
        (lambda: rademacher(0), "horizon must be a whole number"),
        (lambda: rademacher(5, sigma=np.nan), "finite"),
        (lambda: sp.streams.QuadraticStream(np.zeros(3)), "centers must be"),
        (lambda: sp.streams.QuadraticStream([[0.0]], scale=0.0), "scale must be positive"),
    ],
)  # fmt: skip
def test_bad_streams_are_refused_with_the_reason(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_loss_of_ones_own_is_told_where_to_go():
    with pytest.raises(TypeError, match="FunctionStream"):
        sp.LinearStream([[1.0]], [1.0], lambda y, p: 0.0)
