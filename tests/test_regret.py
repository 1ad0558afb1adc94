"""Regret, its measures and its comparators, against brute force.

Seen to fail when the code was broken: the dual's slack or its gap left out of `disk_maximum`; two
corners instead of four; an eigenvector's sign; a pair lost between two pieces; Huber taken for
squared throughout; the method of multipliers stopped after one turn; no switch moved; no plan made;
the ball's slice without its touching point or its radius; the bisection turned round or not
stepping out; a worse plan kept.
"""

from __future__ import annotations

import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

import swordplay as sp
from swordplay.regret import comparators, piecewise
from swordplay.regret.geometry import disk_maximum
from swordplay.streams import QuadraticStream

LOSSES = [
    sp.Squared(),
    sp.Huber(delta=0.4),
    sp.Huber(delta=50.0),
    sp.Logistic(),
    sp.Absolute(),
    sp.Pinball(q=0.8),
]


class Mine:
    """A user's domain: nothing but the protocol."""

    def __init__(self, like):
        self._like = like
        self.dim, self.diameter, self.center = like.dim, like.diameter, like.center

    def project(self, x):
        return self._like.project(x)

    def contains(self, x, tolerance=1e-9):
        return self._like.contains(x, tolerance)


def domains(dim):
    shift = np.linspace(-0.3, 0.5, dim)
    out = [
        sp.Ball(dim, 0.8),
        sp.Ball(dim, 1.3, center=shift),
        sp.Box(-1.0 + shift, 0.7 + 2 * shift**2),
        sp.L1Ball(dim, 1.5),
    ]
    out += [sp.Simplex(dim)] if dim > 1 else []
    return [*out, Mine(out[1]), Mine(out[2])]


def draw(seed, horizon, dim, loss=None, scale=1.0, sparse_rows=False):
    rng = np.random.default_rng(seed)
    features = scale * rng.standard_normal((horizon, dim))
    features[rng.random(features.shape) < 0.2] = 0.0
    targets = features @ rng.standard_normal(dim) + rng.standard_normal(horizon)
    if isinstance(loss, sp.Logistic):
        targets = np.where(targets > 0, 1.0, -1.0)
    return sp.LinearStream(sparse.csr_array(features) if sparse_rows else features, targets, loss)


def members(domain, count=400, seed=0):
    """Members all over the domain, its boundary and corners included."""
    rng = np.random.default_rng(seed)
    points = domain.center + 3 * domain.diameter * rng.standard_normal((count, domain.dim))
    inside = domain.center + domain.diameter * (rng.random((count, domain.dim)) - 0.5)
    return domain.project(np.concatenate([points, inside]))


def sampled_variation(stream, points):
    """(V_T, V^f_T) with the suprema over ``points`` only, gradients and values written out."""
    variation = function_variation = 0.0
    for t in range(1, len(stream)):
        if isinstance(stream, QuadraticStream):
            now, before = (2 * stream.scale * (points - stream.centers[s]) for s in (t, t - 1))
            f, g = (stream.scale * ((points - stream.centers[s]) ** 2).sum(1) for s in (t, t - 1))
        else:
            rows, y, loss = [stream.row(t), stream.row(t - 1)], stream.targets, stream.loss
            now, before = (
                loss.slope(y[s], points @ row)[:, None] * row
                for s, row in zip((t, t - 1), rows, strict=True)
            )
            f, g = (loss.value(y[s], points @ row) for s, row in zip((t, t - 1), rows, strict=True))
        variation += ((now - before) ** 2).sum(axis=1).max()
        function_variation += np.abs(f - g).max()
    return variation, function_variation


def plain_loss(stream, decisions):
    rows = np.broadcast_to(decisions, (len(stream), np.shape(decisions)[-1]))
    return sum(float(stream.value(t, x)) for t, x in enumerate(rows))


# ---------------------------------------------------------------- regret, path length, small loss


def test_dynamic_regret_is_the_difference_of_two_sums():
    stream = sp.streams.abrupt_drift(horizon=300, dim=3, every=100, seed=1)
    domain = sp.Ball(3)
    run = sp.play(sp.OGD(domain, stream.assumptions(domain)), stream, record="decisions")
    for u in (stream.comparators, np.zeros(3)):
        regret = plain_loss(stream, run.decisions) - plain_loss(stream, u)
        assert sp.regret.dynamic_regret(run, stream, u) == pytest.approx(regret, rel=1e-12)
        assert sp.regret.small_loss(stream, u) == pytest.approx(plain_loss(stream, u), rel=1e-12)
    with pytest.raises(ValueError, match="300 rounds, the stream 299"):
        sp.regret.dynamic_regret(
            run, sp.LinearStream(stream.features[:-1], stream.targets[:-1]), np.zeros(3)
        )


@pytest.mark.parametrize("shape", [(), (4,), (299, 3), (300, 4), (1, 300, 3), (300,), (1, 3)])
def test_comparators_of_a_wrong_shape_are_refused(shape):
    stream = sp.streams.abrupt_drift(horizon=300, dim=3, every=100, seed=1)
    with pytest.raises(ValueError, match="comparators must"):
        sp.regret.small_loss(stream, np.zeros(shape))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_comparators_that_are_not_finite_are_refused(bad):
    stream = sp.streams.abrupt_drift(horizon=300, dim=3, every=100, seed=1)
    u = stream.comparators.copy()
    u[7, 2] = bad
    with pytest.raises(ValueError, match=r"finite.*index \(7, 2\)"):
        sp.regret.small_loss(stream, u)
    with pytest.raises(ValueError, match=r"finite.*index \(7, 2\)"):
        sp.regret.path_length(u)


def test_path_length():
    assert sp.regret.path_length([[0, 0], [3, 4], [3, 5]]) == 6.0
    assert sp.regret.path_length([1, -1, 1]) == 4.0
    assert sp.regret.path_length([[1.0, 2.0]]) == 0.0
    for bad in (1.0, np.zeros((0, 2)), np.zeros((2, 2, 2))):
        with pytest.raises(ValueError, match="u must be"):
            sp.regret.path_length(bad)


def test_a_domain_of_another_dimension_is_refused():
    stream = draw(0, 10, 3)
    for measure in (
        sp.regret.gradient_variation,
        sp.regret.function_variation,
        sp.regret.best_fixed,
        sp.regret.minimizers,
    ):
        with pytest.raises(ValueError, match="has 2 coordinates, the stream 3"):
            measure(stream, sp.Ball(2))


# ---------------------------------------------------------------- variation


@given(
    c=st.tuples(st.floats(0, 5), st.floats(-5, 5)),
    h=st.tuples(st.floats(0, 5), st.floats(0, 5)),
    radius=st.floats(0.1, 5),
)
@settings(max_examples=200, deadline=None)
def test_disk_maximum_is_the_largest_value_on_the_circle(c, h, radius):
    angle = np.linspace(0, 2 * np.pi, 20_001)
    w = radius * np.stack([np.cos(angle), np.sin(angle)])
    best = (c[0] * w[0] ** 2 + 2 * h[0] * w[0] + c[1] * w[1] ** 2 + 2 * h[1] * w[1]).max()
    got = disk_maximum(*(np.array([v]) for v in (c[0], c[1], h[0], h[1])), radius)[0]
    scale = (abs(c[0]) + abs(c[1])) * radius**2 + (h[0] + h[1]) * radius
    assert best - 1e-12 * scale <= got <= best + 1e-6 * scale


@pytest.mark.parametrize(
    ("c1", "c2", "h1", "h2", "value"),
    [
        (2.0, 1.0, 0.0, 0.0, 2.0),  # no linear part
        (2.0, 1.0, 0.0, 0.5, 2.25),  # the hard case: w2 = h2 / (c1 - c2) = 1/2
        (2.0, 1.0, 0.0, 3.0, 7.0),  # not hard: the linear part wins
        (1.0, 1.0, 3.0, 4.0, 11.0),  # a sphere
        (0.0, 0.0, 3.0, 4.0, 10.0),  # linear
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, -1.0, 0.0, 0.5, 0.25),  # the concave direction is best inside
    ],
)
def test_disk_maximum_by_hand(c1, c2, h1, h2, value):
    for pair in ((c1, c2, h1, h2), (c2, c1, h2, h1)):
        got = disk_maximum(*(np.array([v]) for v in pair), 1.0)[0]
        assert got == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "sparse"])
def test_variations_are_never_below_what_is_seen(loss, dim, sparse_rows):
    for number, domain in enumerate(domains(dim)):
        stream = draw(number, 12, dim, loss, sparse_rows=sparse_rows)
        seen, seen_values = sampled_variation(stream, members(domain))
        gradient = sp.regret.gradient_variation(stream, domain)
        function = sp.regret.function_variation(stream, domain)
        assert gradient >= seen * (1 - 1e-12), domain
        assert function >= seen_values * (1 - 1e-12), domain
        # Honest, and not silly.
        assert gradient <= 60 * seen
        assert function <= 60 * seen_values


@pytest.mark.parametrize("loss", [sp.Squared(), sp.Huber(delta=50.0)], ids=repr)
@pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "sparse"])
def test_gradient_variation_is_exact_in_one_and_two_dimensions(loss, sparse_rows):
    angle = np.linspace(0, 2 * np.pi, 100_001)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for center in ([0.0, 0.0], [0.4, -0.7]):
        domain = sp.Ball(2, 0.9, center=center)
        stream = draw(3, 30, 2, loss, sparse_rows=sparse_rows)
        got = sp.regret.gradient_variation(stream, domain)
        rows = stream.features.toarray() if sparse_rows else stream.features
        x = domain.center + domain.radius * circle
        slopes = x @ rows.T - stream.targets
        seen = 0.0
        for t in range(1, 30):
            gap = slopes[:, [t]] * rows[t] - slopes[:, [t - 1]] * rows[t - 1]
            seen += (gap**2).sum(axis=1).max()
        assert got.exact
        assert got == pytest.approx(seen, rel=1e-8)
    for domain in domains(1):
        stream = draw(4, 30, 1, loss, sparse_rows=sparse_rows)
        got = sp.regret.gradient_variation(stream, domain)
        if sparse_rows and isinstance(loss, sp.Huber) and not got.exact:
            continue  # sparse rows know a smaller part of the domain's extent
        ends = domain.project(np.array([[-50.0], [50.0]]))
        assert got.exact
        assert got == pytest.approx(sampled_variation(stream, ends)[0], rel=1e-12)


def test_gradient_variation_on_a_ball_in_five_dimensions_is_reached():
    """Ascent: a convex function's linearisation is maximised on the ball in closed form."""
    stream, domain = draw(5, 40, 5), sp.Ball(5, 1.1, center=[0.1, 0.0, -0.3, 0.2, 0.5])
    got = sp.regret.gradient_variation(stream, domain)
    rows, y = stream.features, stream.targets
    starts = domain.project(domain.center + np.random.default_rng(0).standard_normal((64, 5)) * 9)
    reached = 0.0
    for t in range(1, 40):
        a = np.outer(rows[t], rows[t]) - np.outer(rows[t - 1], rows[t - 1])
        b = y[t - 1] * rows[t - 1] - y[t] * rows[t]
        x = starts
        for _ in range(2000):
            up = (x @ a + b) @ a
            x = domain.center + domain.radius * up / np.linalg.norm(up, axis=1, keepdims=True)
        reached += ((x @ a + b) ** 2).sum(axis=1).max()
    assert got.exact
    assert got == pytest.approx(reached, rel=1e-9)


@pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "sparse"])
def test_gradient_variation_on_polytopes_is_at_the_vertices(sparse_rows):
    stream = draw(6, 25, 3, sparse_rows=sparse_rows)
    box = sp.Box([-1.0, 0.0, -2.0], [0.5, 1.0, -1.0])
    corners = np.stack(np.meshgrid(*zip(box.low, box.high, strict=True)), axis=-1).reshape(-1, 3)
    cases = [
        (box, corners),
        (sp.Simplex(3), np.eye(3)),
        (sp.L1Ball(3, 1.7), 1.7 * np.concatenate([np.eye(3), -np.eye(3)])),
    ]
    for domain, vertices in cases:
        got = sp.regret.gradient_variation(stream, domain)
        assert got.exact
        assert got == pytest.approx(sampled_variation(stream, vertices)[0], rel=1e-12)


def test_a_box_of_many_dimensions_gets_a_bound():
    stream, domain = draw(7, 20, 12), sp.Box(-np.ones(12), np.ones(12))
    got = sp.regret.gradient_variation(stream, domain)
    assert not got.exact
    assert got >= sampled_variation(stream, members(domain))[0]


def test_function_variation_is_exact_where_it_says_so():
    for seed, domain in enumerate(domains(1)):
        stream = draw(seed, 30, 1)
        low, high = domain.project(np.array([[-50.0], [50.0]])).ravel()
        grid = np.linspace(low, high, 4001)[:, None]
        got = sp.regret.function_variation(stream, domain)
        assert got.exact
        assert got == pytest.approx(sampled_variation(stream, grid)[1], rel=1e-5)
    domain, stream = sp.Ball(2, 0.9, center=[0.3, -0.5]), draw(9, 20, 2)
    angle, length = np.meshgrid(np.linspace(0, 2 * np.pi, 401), np.linspace(0, 0.9, 101))
    grid = domain.center + np.stack([length * np.cos(angle), length * np.sin(angle)], -1)
    got = sp.regret.function_variation(stream, domain)
    assert got.exact
    assert got == pytest.approx(sampled_variation(stream, grid.reshape(-1, 2))[1], rel=1e-3)


def test_quadratic_streams_are_exact():
    stream = QuadraticStream(np.random.default_rng(0).standard_normal((15, 2)), scale=0.7)
    for domain in domains(2):
        gradient, function = sampled_variation(stream, members(domain, 3000))
        got = sp.regret.gradient_variation(stream, domain)
        assert got.exact
        assert got == pytest.approx(gradient, rel=1e-12)
        got = sp.regret.function_variation(stream, domain)
        assert got.exact == (not isinstance(domain, Mine))
        assert got >= function * (1 - 1e-12)
        if got.exact:
            assert got == pytest.approx(function, rel=1e-3)
    narrow = QuadraticStream([[0.0], [1.0], [-2.0]])
    mine = sp.regret.function_variation(narrow, Mine(sp.Ball(1, 1.0)))
    assert mine.exact
    assert mine == sp.regret.function_variation(narrow, sp.Ball(1, 1.0)) == 3.0 + 9.0


def test_slow_drift_loses_no_digits():
    """Instance 1: f'_t(x) = a(ax - 1), so the difference is affine in x; V_T = O(1/T)."""
    horizon = 1 << 16
    a = 0.5 - np.arange(horizon) / horizon
    step = 1 / horizon
    # |(a_t^2 - a_s^2) x - (a_t - a_s)| at x = +-1, from exactly known differences
    worst = step * (np.abs(a[1:] + a[:-1]) + 1)
    got = sp.regret.gradient_variation(sp.streams.instance_one(horizon), sp.Ball(1, 1.0))
    assert got == pytest.approx(float((worst**2).sum()), rel=1e-10)


def test_long_streams_are_cut_without_losing_a_pair(monkeypatch):
    stream, domain = draw(8, 101, 3), sp.Ball(3)
    whole = [
        f(stream, domain) for f in (sp.regret.gradient_variation, sp.regret.function_variation)
    ]
    monkeypatch.setattr("swordplay.regret.variation.WORK", 8 * 10)
    cut = [f(stream, domain) for f in (sp.regret.gradient_variation, sp.regret.function_variation)]
    np.testing.assert_allclose(cut, whole, rtol=1e-12)


def test_variation_of_one_round_is_zero():
    for stream in (draw(0, 1, 2), QuadraticStream([[1.0, 2.0]])):
        for measure in (sp.regret.gradient_variation, sp.regret.function_variation):
            assert measure(stream, sp.Ball(2)) == 0
            assert measure(stream, sp.Ball(2)).exact


def test_unbounded_domains():
    everywhere = sp.Everywhere(2)
    assert sp.regret.gradient_variation(draw(0, 5, 2), everywhere) == np.inf
    assert np.isfinite(sp.regret.gradient_variation(draw(0, 5, 2, sp.Huber(0.4)), everywhere))
    same = sp.LinearStream(np.ones((3, 2)), [0.0, 1.0, 1.0])
    assert sp.regret.gradient_variation(same, everywhere) == pytest.approx(2.0)
    assert sp.regret.function_variation(draw(0, 5, 2), everywhere) == np.inf


def test_callables_cannot_tell_a_supremum():
    stream = sp.FunctionStream([lambda x: 0.0], [lambda x: x], dim=2)
    for measure in (sp.regret.gradient_variation, sp.regret.function_variation):
        with pytest.raises(TypeError, match=r"run\.gradient_variation"):
            measure(stream, sp.Ball(2))


def test_a_measured_number_is_a_number():
    value = sp.regret.gradient_variation(draw(0, 9, 2), sp.Ball(2))
    again = pickle.loads(pickle.dumps(value))
    assert (again, again.exact, again.how) == (value, value.exact, value.how)
    assert isinstance(value, float)
    assert "exact" in repr(value)


# ---------------------------------------------------------------- the best fixed decision


def certified(stream, domain, x):
    """An upper bound on F(x) - min F that owes nothing to the solver: <g, x> - min <g, .>."""
    g = sum(stream.gradient(t, x) for t in range(len(stream)))
    return float(g @ x - domain.extent(g[None])[0][0])


@pytest.mark.parametrize("loss", LOSSES[:4], ids=repr)
@pytest.mark.parametrize("kind", ["dense", "sparse", "functions", "long"])
def test_best_fixed_for_smooth_losses(loss, kind, monkeypatch):
    if kind == "long":
        monkeypatch.setattr(comparators, "HESSIAN_DIM", 0)
    for dim in (1, 4):
        for number, domain in enumerate(domains(dim)):
            scale = 3.0 if number % 2 else 0.3
            stream = draw(10 + number, 60, dim, loss, scale, sparse_rows=kind == "sparse")
            played = stream
            if kind == "functions":
                played = sp.FunctionStream(
                    [lambda x, t=t, s=stream: s.value(t, x) for t in range(60)],
                    [lambda x, t=t, s=stream: s.gradient(t, x) for t in range(60)],
                )
            x = sp.regret.best_fixed(played, domain)
            assert x.shape == (dim,)
            assert domain.contains(x)
            known = domain._like if isinstance(domain, Mine) else domain
            assert certified(stream, known, x) <= 1e-8 * stream.values(domain.center).sum()


@pytest.mark.parametrize("loss", LOSSES[4:], ids=repr)
@pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "sparse"])
def test_best_fixed_for_kinked_losses_is_the_linear_programs(loss, sparse_rows):
    q = 0.5 if isinstance(loss, sp.Absolute) else loss.q
    up, down = (1.0, 1.0) if isinstance(loss, sp.Absolute) else (1 - q, q)
    stream = draw(20, 80, 3, loss, sparse_rows=sparse_rows)
    rows = stream.features.toarray() if sparse_rows else stream.features
    eye = np.eye(80)
    for domain in (
        sp.Box([-1.0, 0.0, -2.0], [0.3, 0.2, 2.0]),
        sp.Simplex(3),
        Mine(sp.Simplex(3)),
        sp.Box([-9.0] * 3, [9.0] * 3),
    ):
        simplex = isinstance(domain, sp.Simplex | Mine)
        bounds = [(0, 1)] * 3 if simplex else list(zip(domain.low, domain.high, strict=True))
        # variables x, r+, r-, with rows x - r+ + r- = y
        equal, right = np.hstack([rows, -eye, eye]), stream.targets
        if simplex:
            equal = np.vstack([equal, np.r_[np.ones(3), np.zeros(160)]])
            right = np.r_[right, 1.0]
        cost = np.r_[np.zeros(3), np.full(80, up), np.full(80, down)]
        least = linprog(cost, A_eq=equal, b_eq=right, bounds=bounds + [(0, None)] * 160).fun
        x = sp.regret.best_fixed(stream, domain)
        assert domain.contains(x)
        assert least * (1 - 1e-9) <= stream.values(x).sum() <= least * (1 + 1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_best_fixed_on_a_disk_beats_a_grid(loss):
    stream, domain = draw(21, 50, 2, loss), sp.Ball(2, 0.6, center=[0.2, 0.1])
    x = sp.regret.best_fixed(stream, domain)
    step = np.linspace(-1, 1, 401)
    grid = domain.center + 0.6 * np.stack(np.meshgrid(step, step), -1).reshape(-1, 2)
    grid = domain.project(grid)
    losses = stream.loss.value(stream.targets[:, None], stream.features @ grid.T).sum(axis=0)
    assert losses.min() * (1 - 1e-3) <= stream.values(x).sum() <= losses.min() * (1 + 1e-10)


def test_best_fixed_of_ill_conditioned_rows():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((500, 6)) * np.logspace(0, -3, 6)
    stream = sp.LinearStream(features, features @ rng.standard_normal(6) * 9, sp.Squared())
    for domain in (sp.Ball(6, 2.0), sp.Box([-1.0] * 6, [1.0] * 6), Mine(sp.Box([-1] * 6, [1] * 6))):
        known = domain._like if isinstance(domain, Mine) else domain
        x = sp.regret.best_fixed(stream, domain)
        assert certified(stream, known, x) <= 1e-8 * stream.values(domain.center).sum()


def test_best_fixed_edges():
    zero = sp.LinearStream(np.zeros((3, 2)), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(sp.regret.best_fixed(zero, sp.Ball(2)), [0, 0])
    perfect = sp.LinearStream(np.eye(2), [0.0, 0.0], sp.Absolute())
    np.testing.assert_array_equal(sp.regret.best_fixed(perfect, sp.Ball(2)), [0, 0])
    centers = np.random.default_rng(0).standard_normal((9, 2))
    got = sp.regret.best_fixed(QuadraticStream(centers), sp.Ball(2))
    np.testing.assert_allclose(got, centers.mean(axis=0), rtol=1e-12)
    stream = draw(0, 50, 3)
    got = sp.regret.best_fixed(stream, sp.Everywhere(3))
    want = np.linalg.lstsq(stream.features, stream.targets, rcond=None)[0]
    np.testing.assert_allclose(got, want, rtol=1e-9)
    single = sp.LinearStream(stream.features.astype(np.float32), stream.targets)
    np.testing.assert_allclose(sp.regret.best_fixed(single, sp.Everywhere(3)), want, rtol=1e-5)


def test_what_cannot_be_certified_is_said():
    kink = sp.FunctionStream(
        [lambda x: float(np.abs(x - 0.3).sum())], [lambda x: np.where(x > 0.3, 1.0, -1.0)], dim=1
    )
    with pytest.warns(UserWarning, match="may not be smooth"):
        sp.regret.best_fixed(kink, sp.Ball(1, 1.0))


# ---------------------------------------------------------------- the minimiser of every round


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("dim", [1, 3])
@pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "sparse"])
def test_minimizers_minimise_every_round(loss, dim, sparse_rows):
    for number, domain in enumerate(domains(dim)):
        stream = draw(30 + number, 60, dim, loss, sparse_rows=sparse_rows)
        known = domain._like if isinstance(domain, Mine) else domain
        u = sp.regret.minimizers(stream, domain)
        assert u.shape == (60, dim)
        assert domain.contains(u)
        rows = stream.features.toarray() if sparse_rows else stream.features
        low, high = known.extent(rows)
        p = np.linspace(low, high, 2001)
        least = np.minimum(
            loss.value(stream.targets, p).min(axis=0),
            loss.value(stream.targets, np.clip(stream.targets, low, high)),
        )
        # A user's domain says nothing of its extent: goals out of reach are met to 1e-6.
        tolerance = 1e-5 if isinstance(domain, Mine) else 1e-12
        assert (stream.values(u) <= least + tolerance).all()


def test_minimizers_are_the_nearest_ones():
    """u is the projection of the last one iff <last - u, z - u> <= 0 for all z of the slice."""
    checked = 0
    for number, domain in enumerate(domains(3)):
        stream = draw(40 + number, 25, 3, sp.Squared(), scale=2.0)
        u = sp.regret.minimizers(stream, domain)
        pool = members(domain, 300)
        for t in range(1, 25):
            row, before, now = stream.features[t], u[t - 1], u[t]
            if not row.any():
                np.testing.assert_array_equal(now, before)
                continue
            # Members of the slice: between a member above the goal and one below it.
            above = pool @ row - row @ now
            high, low = pool[above > 1e-3][:100], pool[above < -1e-3][:100]
            up, down = above[above > 1e-3][:100, None], -above[above < -1e-3][:100, None]
            count = min(len(high), len(low))
            high, low, up, down = high[:count], low[:count], up[:count], down[:count]
            inside = (high * down + low * up) / (up + down)
            checked += count
            slack = 1e-4 if isinstance(domain, Mine) else 1e-7
            assert ((inside - now) @ (before - now) <= slack).all()
    assert checked > 1000


def test_minimizers_on_a_users_domain_follow_the_compiled_ones():
    for number, domain in enumerate(domains(3)[:5]):
        stream = draw(50 + number, 80, 3, sp.Squared(), scale=2.0)
        compiled = sp.regret.minimizers(stream, domain)
        np.testing.assert_allclose(
            sp.regret.minimizers(stream, Mine(domain)), compiled, atol=3e-5 * domain.diameter
        )


@pytest.mark.parametrize("horizon", [7, 8, 1001, 4096])
@pytest.mark.parametrize("domain", [sp.Ball(1, 1.0), sp.Box([-1.0], [1.0])], ids=repr)
def test_minimizers_of_the_instances_are_their_comparators(horizon, domain):
    for stream in (sp.streams.instance_one(horizon), sp.streams.instance_two(horizon)):
        np.testing.assert_array_equal(sp.regret.minimizers(stream, domain), stream.comparators)


def test_minimizers_of_other_streams():
    centers = 2 * np.random.default_rng(0).standard_normal((9, 2))
    quadratic, domain = QuadraticStream(centers), sp.Ball(2)
    want = domain.project(centers)
    np.testing.assert_allclose(sp.regret.minimizers(quadratic, domain), want)
    functions = sp.FunctionStream(
        [lambda x, t=t: quadratic.value(t, x) for t in range(9)],
        [lambda x, t=t: quadratic.gradient(t, x) for t in range(9)],
    )
    np.testing.assert_allclose(sp.regret.minimizers(functions, domain), want, atol=1e-6)
    with pytest.raises(ValueError, match="no minimiser"):
        sp.regret.minimizers(draw(0, 5, 2, sp.Logistic()), sp.Everywhere(2))


# ---------------------------------------------------------------- piecewise


@pytest.mark.parametrize("every", [1000, 777])
def test_best_piecewise_finds_the_switches(every):
    domain = sp.Ball(5)
    stream = sp.streams.abrupt_drift(horizon=20_000, dim=5, every=every, seed=2)
    segments = -(-20_000 // every)
    u = sp.regret.best_piecewise(stream, domain, segments)
    cuts = np.flatnonzero(np.diff(u, axis=0).any(axis=1)) + 1
    assert u.shape == (20_000, 5)
    assert len(cuts) == segments - 1
    assert np.abs(cuts - np.arange(every, 20_000, every)).max() <= 10
    assert domain.contains(u)
    assert stream.values(u).sum() <= stream.values(stream.comparators).sum()


def brute_force(stream, domain, most):
    """Dynamic programming over every switch, with the exact cost of every stretch."""
    horizon = len(stream)
    cost = np.full((horizon + 1, horizon + 1), np.inf)
    for a in range(horizon):
        for b in range(a + 1, horizon + 1):
            part = sp.LinearStream(stream.features[a:b], stream.targets[a:b], stream.loss)
            cost[a, b] = part.values(sp.regret.best_fixed(part, domain)).sum()
    best, out = cost[0], []
    for _ in range(most):
        out.append(best[horizon])
        best = np.minimum(best, (best[:, None] + cost).min(axis=0))
    return out


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_best_piecewise_is_near_the_best(loss):
    rng = np.random.default_rng(5)
    models = np.repeat(rng.uniform(-1, 1, (3, 2)), 8, axis=0)
    features = rng.standard_normal((24, 2))
    targets = (features * models).sum(axis=1) + 0.1 * rng.standard_normal(24)
    if isinstance(loss, sp.Logistic):
        targets = np.where(targets > 0, 1.0, -1.0)
    stream, domain = sp.LinearStream(features, targets, loss), sp.Ball(2, 1.5)
    for segments, least in enumerate(brute_force(stream, domain, 4), start=1):
        u = sp.regret.best_piecewise(stream, domain, segments)
        assert np.diff(u, axis=0).any(axis=1).sum() <= segments - 1
        got = stream.values(u).sum()
        # Eight rounds a stretch say little of a quantile: its switches are the hardest to find.
        slack = 1.3 if isinstance(loss, sp.Pinball) else 1.05
        assert least - 1e-9 <= got <= slack * least + 1e-9


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("kind", ["dense", "sparse", "long"])
def test_more_segments_never_lose_more(loss, kind, monkeypatch):
    # Small numbers, so that every stage is reached: the plan, the splits, all rounds.
    monkeypatch.setattr(piecewise, "NODES", 20)
    monkeypatch.setattr(piecewise, "PLANNED", 6)
    dim = 2
    if kind == "long":
        monkeypatch.setattr(piecewise, "SURROGATE_DIM", 3)
        dim = 6
    domain = sp.Ball(dim, 1.0)
    stream = draw(60, 70, dim, loss, sparse_rows=kind == "sparse")
    losses = []
    for segments in (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 20, 40, 69, 70, 100):
        u = sp.regret.best_piecewise(stream, domain, segments)
        assert domain.contains(u)
        assert np.diff(u, axis=0).any(axis=1).sum() <= segments - 1
        losses.append(sp.regret.small_loss(stream, u))
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()
    assert losses[8] < losses[5] < losses[2] < losses[0]
    first = sp.regret.best_piecewise(stream, domain, 1)
    np.testing.assert_array_equal(first, np.tile(sp.regret.best_fixed(stream, domain), (70, 1)))
    last = sp.regret.best_piecewise(stream, domain, 70)
    np.testing.assert_array_equal(last, sp.regret.minimizers(stream, domain))


def test_best_piecewise_of_quadratics_and_functions():
    rng = np.random.default_rng(1)
    centers = np.repeat([[0.5, 0.0], [-0.5, 0.2], [0.1, 0.9]], [30, 50, 40], axis=0)
    centers = centers + 0.05 * rng.standard_normal(centers.shape)
    quadratic, domain = QuadraticStream(centers), sp.Ball(2)
    u = sp.regret.best_piecewise(quadratic, domain, 3)
    for a, b in ((0, 30), (30, 80), (80, 120)):
        np.testing.assert_allclose(u[a:b], np.tile(centers[a:b].mean(axis=0), (b - a, 1)))
    functions = sp.FunctionStream(
        [lambda x, t=t: quadratic.value(t, x) for t in range(120)],
        [lambda x, t=t: quadratic.gradient(t, x) for t in range(120)],
    )
    np.testing.assert_allclose(sp.regret.best_piecewise(functions, domain, 3), u, atol=1e-6)


def test_best_piecewise_on_a_users_domain():
    stream = sp.streams.abrupt_drift(horizon=600, dim=2, every=200, seed=4)
    built_in = sp.regret.best_piecewise(stream, sp.Ball(2, 0.5), 3)
    mine = sp.regret.best_piecewise(stream, Mine(sp.Ball(2, 0.5)), 3)
    np.testing.assert_allclose(mine, built_in, atol=1e-5)


def test_a_worse_plan_is_not_kept(monkeypatch):
    stream, domain = sp.streams.abrupt_drift(horizon=90, dim=2, every=30, seed=4), sp.Ball(2)
    two = stream.values(sp.regret.best_piecewise(stream, domain, 2)).sum()
    good = piecewise._plan
    monkeypatch.setattr(
        piecewise, "_plan", lambda costs, most: [*good(costs, 2), [0, 1, 2, len(costs) - 1]]
    )
    monkeypatch.setattr(piecewise._Pieces, "polish", lambda self, cuts: cuts)
    assert stream.values(sp.regret.best_piecewise(stream, domain, 3)).sum() <= two * (1 + 1e-9)


@pytest.mark.parametrize("segments", [0, -1, 2.5])
def test_segments_must_be_a_count(segments):
    with pytest.raises(ValueError, match="segments must be"):
        sp.regret.best_piecewise(draw(0, 9, 2), sp.Ball(2), segments)


def test_fifty_thousand_rounds_are_quick():
    stream, domain = sp.streams.abrupt_drift(), sp.Ball(5)
    sp.regret.minimizers(stream, domain)  # compiles
    limits = {
        lambda: sp.regret.gradient_variation(stream, domain): 2.0,
        lambda: sp.regret.minimizers(stream, domain): 2.0,
        lambda: sp.regret.best_fixed(stream, domain): 2.0,
        lambda: sp.regret.best_piecewise(stream, domain, 50): 15.0,
    }
    for measure, limit in limits.items():
        began = time.perf_counter()
        measure()
        assert time.perf_counter() - began < limit
