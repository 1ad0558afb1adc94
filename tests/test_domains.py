"""Projections are projections, at every size of input; extents and diameters are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from cases import Domain, assert_close
from hypothesis import given
from hypothesis import strategies as st
from oracle import projector

import swordplay as sp

MAKERS = {
    "ball": lambda d, r, c: (
        sp.Ball(d, r, center=c),
        projector("ball", center=np.asarray(c), radius=r),
    ),
    "box": lambda d, r, c: (
        sp.Box(np.asarray(c) - r, np.asarray(c) + r),
        projector("box", low=np.asarray(c) - r, high=np.asarray(c) + r),
    ),
    "simplex": lambda d, r, c: (sp.Simplex(d), projector("simplex")),
    "l1_ball": lambda d, r, c: (sp.L1Ball(d, r), projector("l1_ball", radius=r)),
    "everywhere": lambda d, r, c: (sp.Everywhere(d), projector("everywhere")),
}
ONE_OF_EACH = [
    sp.Ball(3, 1.5),
    sp.Ball(3, 0.5, center=[1.0, -2.0, 0.25]),
    sp.Box([-1.0, 0.5, 2.0], [0.0, 3.0, 2.5]),
    sp.Box(-1.0, 1.0, dim=3),
    sp.Simplex(3),
    sp.L1Ball(3, 0.7),
    sp.Everywhere(3),
]
BOUNDED = [domain for domain in ONE_OF_EACH if np.isfinite(domain.diameter)]
floats = st.floats(-1e3, 1e3, allow_nan=False)


@st.composite
def situations(draw):
    """A domain, its naive projection, and a point: often on a face, a corner or a tie."""
    dim = draw(st.integers(2, 6))
    radius = draw(st.sampled_from([1e-3, 0.3, 1.0, 7.0, 1e4]))
    center = draw(st.lists(st.sampled_from([0.0, 0.5, -2.0]), min_size=dim, max_size=dim))
    domain, naive = MAKERS[draw(st.sampled_from(sorted(MAKERS)))](dim, radius, center)
    scale = draw(st.sampled_from([1e-8, 1.0, 1e6]))
    coordinates = st.one_of(floats, st.sampled_from([0.0, 1.0, -1.0, 0.5, radius, -radius]))
    x = scale * np.array(draw(st.lists(coordinates, min_size=dim, max_size=dim)))
    return domain, naive, x


@given(situations(), st.integers(0, 2**32 - 1))
def test_a_projection_is_the_nearest_member(situation, seed):
    domain, naive, x = situation
    near = domain.project(x)
    size = 1.0 + np.abs(x).max() + np.abs(near).max()
    assert np.abs(near - naive(x)).max() <= 1e-12 * size
    assert domain.contains(near)
    assert np.abs(domain.project(near) - near).max() <= 1e-15 * size * domain.dim  # idempotent
    members = domain.sample(np.random.default_rng(seed), 50)
    if np.isfinite(domain.diameter):
        # <x - Px, y - Px> <= 0 for every member y
        slack = 1e-11 * size * (1.0 + np.abs(members).max())
        assert ((members - near) @ (x - near)).max() <= slack
    assert (np.linalg.norm(members - x, axis=1) >= np.linalg.norm(near - x) - 1e-12 * size).all()


@given(situations(), st.integers(0, 2**32 - 1))
def test_a_block_is_projected_row_by_row(situation, seed):
    domain, _, x = situation
    block = np.vstack([x, 2 * x, np.random.default_rng(seed).normal(size=(3, domain.dim))])
    out = domain.project(block)
    assert out.shape == block.shape
    for row, near in zip(block, out, strict=True):
        assert np.array_equal(domain.project(row), near)
    assert domain.contains(out)
    assert domain.project(np.asfortranarray(block)).tobytes() == out.tobytes()
    assert domain.project(list(map(list, block))).tobytes() == out.tobytes()


@pytest.mark.parametrize("domain", ONE_OF_EACH, ids=repr)
def test_projections_leave_their_argument_alone_and_keep_its_type(domain):
    x = np.array([3.0, -4.0, 5.0])
    before = x.copy()
    near = domain.project(x)
    near[:] = 7.0
    assert np.array_equal(x, before)
    assert domain.project(x.astype(np.float32)).dtype == np.float32
    assert domain.project([3, -4, 5]).dtype == np.float64
    assert_close(domain.project(x.astype(np.float32)), domain.project(x), 1e-6)


@pytest.mark.parametrize("scale", [1e200, 1e300, 1e-200, 1e-320, 0.0])
@pytest.mark.parametrize("domain", ONE_OF_EACH, ids=repr)
def test_huge_and_tiny_inputs(domain, scale):
    for direction in ([1.0, 2.0, -3.0], [0.0, 0.0, 1.0], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0]):
        x = scale * np.array(direction)
        near = domain.project(x)
        assert np.isfinite(near).all()
        assert domain.contains(near)
        if np.isfinite(domain.diameter) and scale >= 1e200:  # the support of the direction
            wanted = domain.extent(np.array(direction))[1]
            assert_close(near @ direction, wanted, 1e-12, "the farthest member that way")
        elif scale <= 1e-200:
            assert np.abs(near - domain.project(np.zeros(3))).max() <= 1e-15


def test_the_simplex_does_not_spin_where_a_coordinate_sits_on_the_threshold():
    # Michelot's iteration never ended on these: rounding let the last survivor in and out again.
    rng = np.random.default_rng(0)
    for dim in (2, 3, 5, 20):
        points = rng.dirichlet(np.full(dim, 0.5), 2000)
        points[:, 0] = 0.0
        points /= points.sum(axis=1, keepdims=True)
        assert np.abs(sp.Simplex(dim).project(points) - points).max() < 1e-15
        ball = sp.L1Ball(dim, 1.0)
        assert np.abs(ball.project(points * (1 + 1e-15)) - points).max() < 1e-14


@pytest.mark.parametrize("domain", BOUNDED, ids=repr)
def test_extent_and_diameter_bound_what_can_be_sampled_and_are_reached(domain):
    rng = np.random.default_rng(1)
    members = domain.sample(rng, 4000)
    assert members.shape == (4000, 3)
    assert domain.contains(members)
    assert domain.sample(rng).shape == (3,)
    rows = np.vstack([rng.normal(size=(20, 3)), np.eye(3), np.zeros(3)])
    low, high = domain.extent(rows)
    products = members @ rows.T
    assert (products.min(axis=0) >= low - 1e-12).all()
    assert (products.max(axis=0) <= high + 1e-12).all()
    # Reached: the projection of a far point in that direction is the support.
    for row, least, most in zip(rows, low, high, strict=True):
        assert_close([domain.project(1e9 * row) @ row], [most], 1e-6)
        assert_close([domain.project(-1e9 * row) @ row], [least], 1e-6)
        one_low, one_high = domain.extent(row)
        assert (one_low, one_high) == (least, most)
    distances = np.linalg.norm(members[:2000] - members[2000:], axis=1)
    assert distances.max() <= domain.diameter
    corners = domain.project(1e9 * np.array(list(np.ndindex(3, 3, 3)), dtype=float) - 1e9)
    apart = np.linalg.norm(corners[:, None] - corners[None], axis=2)
    assert_close(apart.max(), domain.diameter, 1e-6, "two members D apart")
    assert domain.contains(domain.center)


def test_everywhere_has_no_end():
    domain = sp.Everywhere(2)
    assert domain.diameter == np.inf
    low, high = domain.extent([[1.0, 0.0], [0.0, 0.0]])
    assert low.tolist() == [-np.inf, 0.0]
    assert high.tolist() == [np.inf, 0.0]
    assert sp.Everywhere(2, diameter=3.0).diameter == 3.0
    assert domain.contains([1e300, -1e300])


@pytest.mark.parametrize("domain", BOUNDED, ids=repr)
def test_samples_are_spread_over_the_domain(domain):
    members = domain.sample(np.random.default_rng(2), 20_000)
    # The mean of a symmetric set; five standard errors, none larger than D / 2 / sqrt(20,000).
    assert np.abs(members.mean(axis=0) - domain.center).max() < 2.5 * domain.diameter / 20_000**0.5
    again = domain.sample(np.random.default_rng(2), 20_000)
    assert np.array_equal(members, again)


def test_ball_samples_are_uniform():
    radius = np.linalg.norm(sp.Ball(5, 2.0).sample(np.random.default_rng(3), 40_000), axis=1) / 2
    # The radius to the power d is uniform on [0, 1]: Kolmogorov-Smirnov at about 1e-6.
    sorted_powers = np.sort(radius**5)
    grid = (np.arange(40_000) + 0.5) / 40_000
    assert np.abs(sorted_powers - grid).max() < 2.7 / np.sqrt(40_000)


@pytest.mark.parametrize("domain", ONE_OF_EACH, ids=repr)
def test_contains(domain):
    inside = domain.project(np.array([0.1, 0.2, 0.3]))
    assert domain.contains(inside)
    assert domain.contains(np.vstack([inside, domain.center]))
    assert not domain.contains([np.nan, 0.0, 0.0])
    assert not domain.contains([np.inf, 0.0, 0.0])
    if np.isfinite(domain.diameter):
        outside = np.array([9.0, 9.0, 9.0])
        assert not domain.contains(outside)
        assert not domain.contains(np.vstack([inside, outside]))
        assert not domain.contains(1e200 * outside)
        step = (outside - domain.project(outside)) / np.linalg.norm(outside)
        assert not domain.contains(domain.project(outside) + 1e-6 * step)
        assert domain.contains(domain.project(outside) + 1e-6 * step, tolerance=1e-5)


def test_equality_and_hash():
    equal = [
        (sp.Ball(2), sp.Ball(2, 1.0, center=[0, 0])),
        (sp.Box(-1, 1, dim=2), sp.Box([-1, -1], [1, 1])),
        (sp.Simplex(4), sp.Simplex(4)),
        (sp.L1Ball(2, 3), sp.L1Ball(2, 3.0)),
        (sp.Everywhere(2), sp.Everywhere(2)),
    ]
    for one, other in equal:
        assert one == other
        assert hash(one) == hash(other)
        assert eval(repr(one), vars(sp)) == one
    different = [
        sp.Ball(2), sp.Ball(3), sp.Ball(2, 2.0), sp.Ball(2, center=[0, 1]), sp.L1Ball(2),
        sp.Box(-1, 1, dim=2), sp.Simplex(2), sp.Everywhere(2), sp.Everywhere(2, diameter=1.0),
        "Ball(2)",
    ]  # fmt: skip
    for i, one in enumerate(different):
        for j, other in enumerate(different):
            assert (one == other) == (i == j)


def test_the_protocol_knows_its_own_and_strangers():
    for domain in ONE_OF_EACH:
        assert isinstance(domain, sp.Domain)
    assert isinstance(Domain(sp.Ball(2)), sp.Domain)
    assert not isinstance("a ball", sp.Domain)


@pytest.mark.parametrize("domain", ONE_OF_EACH, ids=repr)
@pytest.mark.parametrize("bad", [np.zeros(2), np.zeros((2, 4)), np.zeros((1, 1, 3)), 0.0])
def test_wrong_shapes_are_refused_with_the_right_ones(domain, bad):
    for method in (domain.project, domain.contains):
        with pytest.raises(ValueError, match=r"shape \(3,\) or \(N, 3\)"):
            method(bad)


@pytest.mark.parametrize("domain", ONE_OF_EACH, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_there_is_no_projection_of_what_is_not_finite(domain, bad):
    with pytest.raises(ValueError, match="NaN or infinite"):
        domain.project([0.0, bad, 0.0])


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: sp.Ball(0), "dim must be a whole number"),
        (lambda: sp.Ball(2.5), "dim must be a whole number"),
        (lambda: sp.Ball(2, 0.0), "radius must be a positive finite number"),
        (lambda: sp.Ball(2, -1.0), "radius must be a positive finite number"),
        (lambda: sp.Ball(2, np.nan), "radius must be a positive finite number"),
        (lambda: sp.Ball(2, np.inf), "radius must be a positive finite number"),
        (lambda: sp.Ball(2, center=[1.0]), "center must be 2 finite numbers"),
        (lambda: sp.Ball(2, center=[1.0, np.nan]), "center must be 2 finite numbers"),
        (lambda: sp.Box([0, 1], [1, 1]), "Every entry of low"),
        (lambda: sp.Box([0, 2], [1, 1]), "Every entry of low"),
        (lambda: sp.Box([0, np.nan], [1, 1]), "low and high must be finite"),
        (lambda: sp.Box([0, 0], [1, np.inf]), "low and high must be finite"),
        (lambda: sp.Box([[0]], [[1]]), "low and high must be finite numbers or one-dimensional"),
        (lambda: sp.Box([0, 0], [1, 1], dim=3), "dim is 3"),
        (lambda: sp.Simplex(1), "dim of at least 2"),
        (lambda: sp.Simplex(0), "dim must be a whole number"),
        (lambda: sp.L1Ball(2, 0.0), "radius must be a positive finite number"),
        (lambda: sp.Everywhere(2, diameter=0.0), "diameter must be positive"),
        (lambda: sp.Everywhere(2, diameter=np.nan), "diameter must be positive"),
    ],
)
def test_domains_that_cannot_be_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_membership_is_measured_in_the_domain_s_own_size():
    assert not sp.Ball(3, 1e-10).contains([5e-10, 0.0, 0.0])
    assert sp.Ball(3, 1e-10).contains([1e-10, 0.0, 0.0])
    rng = np.random.default_rng(0)
    for domain in (sp.Simplex(5), sp.Ball(5, 1e6), sp.L1Ball(50, 1e6), sp.Box(-1e-6, 1e-6, dim=4)):
        for _ in range(100):
            narrow = domain.project(rng.standard_normal(domain.dim).astype(np.float32) * 1e7)
            assert narrow.dtype == np.float32
            assert domain.contains(narrow)
