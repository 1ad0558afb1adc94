"""The files that CONTRIBUTING.md gives to copy keep what the protocols ask."""

import numpy as np
import pytest
from skeletons.algorithm import OptimisticAder
from skeletons.base_learner import Scaled
from skeletons.domain import PositiveBall

import swordplay as sp
from swordplay.hints import Correction
from swordplay.regularisers import Regulariser

# ------------------------------------------------------------------------------------- domain


@pytest.fixture
def positive():
    return PositiveBall(dim=4, radius=1.5)


def test_domain_has_every_member_of_the_protocol(positive):
    assert isinstance(positive, sp.Domain)
    assert positive.contains(positive.center)
    assert positive.center.shape == (positive.dim,)


def test_domain_projection(positive):
    rng = np.random.default_rng(0)
    x = 3 * rng.standard_normal((200, 4))
    inside = positive.project(x)
    assert positive.contains(inside)
    np.testing.assert_allclose(positive.project(inside), inside, atol=1e-12)  # idempotent
    np.testing.assert_array_equal(inside[0], positive.project(x[0]))  # a row alone
    # The variational inequality: <x - project(x), y - project(x)> <= 0 for every member y.
    members = positive.sample(rng, 500)
    assert positive.contains(members)
    slope = (x - inside) @ members.T - np.sum((x - inside) * inside, axis=1, keepdims=True)
    assert slope.max() <= 1e-12


def test_domain_diameter_and_extent(positive):
    rng = np.random.default_rng(1)
    members = positive.sample(rng, 500)
    apart = np.linalg.norm(members[:, None] - members[None], axis=-1)
    assert 0.6 * positive.diameter < apart.max() <= positive.diameter
    rows = rng.standard_normal((50, 4))
    low, high = positive.extent(rows)
    products = rows @ members.T
    assert (low <= products.min(axis=1)).all()
    assert (products.max(axis=1) <= high).all()


def test_domain_is_played_by_sword_pp(positive):
    rng = np.random.default_rng(2)
    model = positive.sample(rng)
    features = rng.standard_normal((400, 4))
    stream = sp.LinearStream(features, features @ model, sp.Huber(delta=1.0))
    run = sp.play(sp.SwordPP(positive, stream.assumptions(positive)), stream, record="decisions")
    assert positive.contains(run.decisions)
    assert run.cumulative_loss < 0.7 * stream.values(positive.center).sum()
    assert stream.value(399, run.decisions[-1]) < 0.1 * stream.value(399, positive.center)


# ------------------------------------------------------------------------------- base learner


@pytest.fixture
def box():
    return sp.Box(low=[-1.0, 0.0, -2.0], high=[1.0, 0.5, 2.0])


@pytest.fixture
def scaled():
    return Scaled([1.0, 2.0, 5.0])


def test_base_learner_step_is_the_argmin(box, scaled):
    assert isinstance(scaled, Regulariser)
    rng = np.random.default_rng(3)
    anchors, directions = box.sample(rng, 50), 3 * rng.standard_normal((50, 3))
    stepped = scaled.step(box, anchors, directions)
    assert stepped.shape == anchors.shape
    assert box.contains(stepped)
    members = box.sample(rng, 200)
    for x, anchor, direction in zip(stepped, anchors, directions, strict=True):
        least = direction @ x + scaled.divergence(x, anchor)
        for share in (1.0, 1e-3):  # far and near: a convex function has no other minima
            for y in x + share * (members - x):
                assert least <= direction @ y + scaled.divergence(y, anchor) + 1e-12


def test_base_learner_divergence(box, scaled):
    x, anchor = box.sample(np.random.default_rng(4), 2)
    assert scaled.divergence(x, x) == 0
    assert scaled.divergence(x, anchor) >= 0.5 * np.sum((x - anchor) ** 2)  # strongly convex


def test_base_learner_runs_through_the_ensemble(box, scaled):
    class ScaledSwordPP(sp.SwordPP):
        regulariser = scaled

    class UnitSwordPP(sp.SwordPP):
        regulariser = Scaled(np.ones(3))

    rng = np.random.default_rng(5)
    features = rng.standard_normal((500, 3))
    stream = sp.LinearStream(features, features @ box.sample(rng), sp.Huber(delta=1.0))
    facts = stream.assumptions(box)
    run = sp.play(ScaledSwordPP(box, facts), stream, record="decisions")
    assert box.contains(run.decisions)
    assert run.cumulative_loss < stream.values(box.center).sum()
    # With every scale 1 it is the built-in Euclidean one.
    unit, built_in = (sp.play(kind(box, facts), stream) for kind in (UnitSwordPP, sp.SwordPP))
    np.testing.assert_allclose(unit.losses, built_in.losses, rtol=1e-9, atol=1e-12)


def test_base_learner_alone_and_elsewhere(box, scaled):
    learner = sp.OptimisticOMD(box, step_size=0.1, regulariser=scaled)
    learner.learn([1.0, 1.0, 1.0])
    np.testing.assert_allclose(learner.anchors[0], box.center - 0.1 / scaled.scales)
    with pytest.raises(TypeError, match="lives on Box"):
        sp.OptimisticOMD(sp.Ball(3), step_size=0.1, regulariser=scaled).learn(np.ones(3))


# ---------------------------------------------------------------------------------- algorithm


@pytest.fixture
def game():
    stream = sp.streams.abrupt_drift(horizon=4000, dim=3, every=500, seed=6)
    domain = sp.Ball(dim=3)
    return domain, stream.assumptions(domain), stream


def test_algorithm_runs(game):
    domain, facts, stream = game
    learner = OptimisticAder(domain, facts)
    assert isinstance(learner.correction(), Correction)
    steps = learner.step_sizes
    assert (np.diff(steps) > 0).all()
    assert learner.weights.sum() == pytest.approx(1)
    run = sp.play(learner, stream, record=("decisions", "weights"))
    assert domain.contains(run.decisions)
    np.testing.assert_allclose(run.weights.sum(axis=1), 1)
    assert run.gradient_queries == len(stream)  # one a round


def test_algorithm_regret_is_sane(game):
    domain, facts, stream = game
    run = sp.play(OptimisticAder(domain, facts), stream)
    regret = run.cumulative_loss - stream.values(stream.comparators).sum()
    still = stream.values(domain.center).sum() - stream.values(stream.comparators).sum()
    ogd = sp.play(sp.OGD(domain, facts), stream).cumulative_loss
    assert 0 < regret < 0.5 * still
    assert run.cumulative_loss < ogd


def test_algorithm_is_saved_and_loaded(game, tmp_path):
    domain, facts, stream = game
    learner = OptimisticAder(domain, facts)
    half = sp.LinearStream(stream.features[:2000], stream.targets[:2000], stream.loss)
    rest = sp.LinearStream(stream.features[2000:], stream.targets[2000:], stream.loss)
    sp.play(learner, half)
    learner.save(tmp_path / "learner")
    restored = sp.load(tmp_path / "learner")
    assert type(restored) is OptimisticAder
    np.testing.assert_array_equal(sp.play(learner, rest).losses, sp.play(restored, rest).losses)
    assert learner.to_bytes() == restored.to_bytes()
