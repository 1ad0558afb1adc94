"""Sparse rows: the same game as with dense rows, at a cost of the nonzeros."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as ss

import swordplay as sp
from swordplay.kernels import sparse

RECORD = ("decisions", "weights", "base_decisions", "anchors")
LEARNERS = {
    "OGD": sp.OGD,
    "OEGD": sp.OEGD,
    "Ader++": lambda domain, facts, **how: sp.Ader(domain, facts, surrogate=True, **how),
    "SwordPP": sp.SwordPP,
    "Sword": sp.Sword,  # many gradients: dense slices
}
DOMAINS = [
    sp.Ball(40, 0.3),
    sp.Ball(40, 2.0, center=np.full(40, 0.1)),
    sp.Everywhere(40, diameter=2.0),
    sp.Box(-0.1, 0.1, dim=40),  # not a ball: dense slices
]


def make(seed=0, rounds=2000, dim=40, density=0.2):
    rng = np.random.default_rng(seed)
    rows = ss.random(rounds, dim, density=density, random_state=seed, format="csr")
    return rows, rng.standard_normal(rounds)


def play(name, domain, features, targets, **how):
    stream = sp.LinearStream(features, targets, sp.Huber(1.0))
    facts = sp.Assumptions(lipschitz=8.0, smoothness=8.0, horizon=len(stream))
    learner = LEARNERS[name](domain, facts, **how)
    return sp.play(learner, stream, record=RECORD), learner


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
@pytest.mark.parametrize("name", LEARNERS)
def test_sparse_equals_dense(name, domain):
    rows, targets = make()
    thin, thin_learner = play(name, domain, rows, targets)
    thick, thick_learner = play(name, domain, rows.toarray(), targets)
    for what in ("losses", *RECORD):
        np.testing.assert_allclose(
            getattr(thin, what), getattr(thick, what), rtol=1e-8, atol=1e-11, err_msg=what
        )
    assert thin.adaptivity == pytest.approx(thick.adaptivity, rel=1e-8)
    assert thin.gradient_variation == pytest.approx(thick.gradient_variation, rel=1e-8)
    np.testing.assert_allclose(thin.stability[0], thick.stability[0], rtol=1e-8, atol=1e-12)
    assert thin.stability[1:] == pytest.approx(thick.stability[1:], rel=1e-8, abs=1e-12)
    np.testing.assert_allclose(thin_learner.decide(), thick_learner.decide(), atol=1e-11)


def test_refreshing_changes_nothing_but_rounding():
    rows, targets = make(seed=1, rounds=5000, dim=8, density=0.5)  # 160 nonzeros: 100 refreshes
    assert rows.nnz > 50 * sparse.REFRESH * 8
    thin, _ = play("SwordPP", sp.Ball(8, 0.2), rows, targets)
    thick, _ = play("SwordPP", sp.Ball(8, 0.2), rows.toarray(), targets)
    np.testing.assert_allclose(thin.losses, thick.losses, rtol=1e-8, atol=1e-12)


def test_scales_that_would_underflow_are_folded():
    """Every step is projected back by a large factor, so sigma falls below 1e-150 in 500 rounds."""
    rounds = 3000
    rows = ss.csr_matrix(np.tile([[1.0, 0.0, 0.0, 0.0]], (rounds, 1)))
    targets = np.where(np.arange(rounds) % 2, 1e3, -1e3)
    domain = sp.Ball(4, 1.0)
    facts = sp.Assumptions(lipschitz=2000.0, smoothness=1.0, horizon=rounds)
    runs = []
    for features in (rows, rows.toarray()):
        learner = sp.OGD(domain, facts, step_sizes=[1.0])
        runs.append(sp.play(learner, sp.LinearStream(features, targets), record="decisions"))
    np.testing.assert_allclose(runs[0].decisions, runs[1].decisions, atol=1e-9)


def test_empty_rows_repeated_columns_and_float32():
    rows = ss.csr_matrix(
        (np.array([1.0, 2.0, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 2, 3])), shape=(3, 2)
    )
    given = rows.copy()
    stream = sp.LinearStream(rows, [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(stream.features.toarray(), [[0, 3], [0, 0], [3, 0]])
    assert (rows != given).nnz == 0, "the caller's matrix is not changed"
    domain = sp.Ball(2, 1.0)
    wide = sp.play(sp.SwordPP(domain, stream.assumptions(domain)), stream)
    narrow = sp.play(sp.SwordPP(domain, stream.assumptions(domain), dtype="float32"), stream)
    np.testing.assert_allclose(wide.losses, narrow.losses, rtol=1e-5)


def test_a_sparse_stream_can_be_played_in_pieces():
    rows, targets = make(seed=2)
    domain = sp.Ball(40, 0.3)
    facts = sp.Assumptions(lipschitz=8.0, smoothness=8.0, horizon=2000)
    whole = sp.play(sp.SwordPP(domain, facts), sp.LinearStream(rows, targets))
    learner = sp.SwordPP(domain, facts)
    first = sp.play(learner, sp.LinearStream(rows[:777], targets[:777]))
    learner = sp.from_bytes(learner.to_bytes())
    second = sp.play(learner, sp.LinearStream(rows[777:].toarray(), targets[777:]))
    joined = np.concatenate([first.losses, second.losses])
    np.testing.assert_allclose(joined, whole.losses, rtol=1e-9, atol=1e-12)


def test_bad_cells_are_named():
    rows, targets = make(rounds=10)
    rows.data[3] = np.nan
    with pytest.raises(ValueError, match=r"nan in row 0, column \d+"):
        sp.LinearStream(rows, targets)


@pytest.mark.parametrize("dim", [5, 400])
def test_an_unknown_horizon_grows_the_pool_in_the_middle(dim):
    """The room for the anchors has to grow with it: it once did not, and memory was overwritten."""
    rows, targets = make(seed=4, rounds=1500, dim=dim, density=0.05)
    domain, facts = sp.Ball(dim, 0.5), sp.Assumptions(lipschitz=8.0, smoothness=8.0)
    thin_learner, thick_learner = sp.SwordPP(domain, facts), sp.SwordPP(domain, facts)
    thin = sp.play(thin_learner, sp.LinearStream(rows, targets, sp.Huber(1.0)))
    thick = sp.play(thick_learner, sp.LinearStream(rows.toarray(), targets, sp.Huber(1.0)))
    assert len(thin_learner.step_sizes) == len(thick_learner.step_sizes) > 4
    np.testing.assert_allclose(thin.losses, thick.losses, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    "domain",
    [
        sp.Ball(5, 2.0, center=np.ones(5)),
        sp.Box([-1.0] * 5, [2.0] * 5),
        sp.Simplex(5),
        sp.L1Ball(5, 1.3),
    ],
    ids=repr,
)
def test_sparse_rows_promise_what_dense_rows_do(domain):
    rows, targets = make(seed=5, rounds=200, dim=5, density=0.4)
    rows = rows - 2 * rows.multiply(rows > 0.5)  # some negative entries
    for loss in (sp.Squared(), sp.Pinball(0.2), sp.Absolute()):
        thin = sp.LinearStream(rows, targets, loss).assumptions(domain)
        thick = sp.LinearStream(rows.toarray(), targets, loss).assumptions(domain)
        assert thin.lipschitz == pytest.approx(thick.lipschitz, rel=1e-12)
        if thick.smoothness is not None:
            assert thin.smoothness == pytest.approx(thick.smoothness, rel=1e-12)
