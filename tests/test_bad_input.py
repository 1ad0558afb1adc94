"""Bad input: one clear error or one warning, and a learner that is as it was before."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from cases import DIM, LEARNERS, MANY, feed, make, snapshot, stream_for

import swordplay as sp
from swordplay.ensemble import Ensemble

BALL = sp.Ball(DIM)
FACTS = sp.Assumptions(lipschitz=1.0, smoothness=1.0, horizon=100)
STREAM = stream_for("huber", 30)
learners = pytest.mark.parametrize("name", LEARNERS)


def ready(name, **common):
    """A learner in the middle of a game, with constants that its stream keeps."""
    domain = sp.Simplex(DIM) if name == "OptimisticHedge" else BALL
    learner = make(name, domain, sp.Assumptions(50.0, 1.0, 100), **common)
    for t in range(4):
        feed(learner, STREAM, t)
    return learner


def told(learner, gradient):
    learner.learn((lambda x: gradient) if learner.own else gradient)


@learners
@pytest.mark.parametrize(
    "bad",
    [np.zeros(DIM + 1), np.zeros(DIM - 1), np.zeros((1, DIM)), np.zeros((DIM, 1)), [], 0.5],
    ids=lambda bad: str(np.shape(bad)),
)
def test_gradients_of_the_wrong_shape(name, bad):
    learner = ready(name)
    before = snapshot(learner)
    with pytest.raises(ValueError, match=rf"gradient must have shape \({DIM},\)"):
        told(learner, bad)
    assert snapshot(learner) == before


@learners
@pytest.mark.parametrize("bad", [["a", "b", "c"], [None, 1.0, 2.0], "abc", {}])
def test_gradients_that_are_no_numbers(name, bad):
    learner = ready(name)
    before = snapshot(learner)
    with pytest.raises((TypeError, ValueError)):
        told(learner, bad)
    assert snapshot(learner) == before


@learners
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("plain", [False, True])
def test_gradients_too_large_to_square(name, dtype, plain):
    learner = ready(name, dtype=dtype)
    if plain:
        if name == "OptimisticHedge":
            pytest.skip("it makes its own domain")
        from cases import Domain

        learner = make(name, Domain(BALL), FACTS, dtype=dtype)
    before = snapshot(learner)
    with pytest.raises(ValueError, match=r"overflows|is -?inf"):
        told(learner, np.array([1e200, -1e200, 1e300]))
    assert snapshot(learner) == before


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("given", [np.zeros(DIM), [0.0] * DIM, 0.0, None])
def test_learners_of_many_gradients_ask_for_a_function_in_one_sentence(name, given):
    learner = ready(name)
    before = snapshot(learner)
    with pytest.raises(TypeError, match=r"pass the function x -> grad f_t\(x\)") as caught:
        learner.learn(given)
    message = str(caught.value)
    assert message.startswith(type(learner).__name__)
    assert message.count(".") == 1
    assert "\n" not in message
    assert snapshot(learner) == before


@pytest.mark.parametrize("name", ["SwordOptimism", "OptimisticOMD", "OptimisticHedge"])
@pytest.mark.parametrize("bad", [np.zeros(DIM + 1), np.zeros((1, DIM)), [np.nan, 0.0, 0.0],
                                 [np.inf, 0.0, 0.0]], ids=str)  # fmt: skip
@pytest.mark.parametrize("plain", [False, True])
def test_bad_hints(name, bad, plain):
    learner = ready(name)
    if plain:
        if name == "OptimisticHedge":
            pytest.skip("it makes its own domain")
        from cases import Domain

        learner = make(name, Domain(BALL), FACTS)
        feed(learner, STREAM, 0)
    before = snapshot(learner)
    with pytest.raises(ValueError, match=r"hint"):
        learner.decide(hint=bad)
    assert snapshot(learner) == before


@learners
def test_a_gradient_above_g_warns_once_with_what_was_seen(name):
    if name == "OptimisticHedge":
        pytest.skip("it promises nothing")
    learner = make(name, BALL, FACTS)
    told(learner, np.array([1.0, 0.0, 0.0]))  # exactly G, and a rounding above it, are no breach
    told(learner, np.array([1.0 + 1e-9, 0.0, 0.0]))
    with pytest.warns(sp.AssumptionWarning, match=r"norm 5 .*promised lipschitz=1") as caught:
        told(learner, np.array([3.0, 4.0, 0.0]))
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told(learner, np.array([30.0, 40.0, 0.0]))
    assert learner.round == 4


@learners
@pytest.mark.parametrize("rows", ["dense", "functions"])
def test_a_game_with_a_gradient_above_g_warns_once_and_points_here(name, rows):
    if name == "OptimisticHedge":
        pytest.skip("it promises nothing")
    learner = make(name, BALL, sp.Assumptions(1e-3, 1.0, 30))
    stream = STREAM
    if rows == "functions":
        from cases import gradients_of

        values = [lambda x: 0.0] * len(STREAM)
        stream = sp.FunctionStream(values, gradients_of(STREAM), DIM)
    with pytest.warns(sp.AssumptionWarning, match=r"promised lipschitz=0\.001") as caught:
        sp.play(learner, stream)
    assert len(caught) == 1


@learners
def test_past_the_horizon_warns_once(name):
    if name == "OptimisticHedge":
        pytest.skip("it needs no horizon")
    learner = make(name, BALL, sp.Assumptions(50.0, 1.0, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for t in range(3):
            feed(learner, STREAM, t)
    with pytest.warns(sp.AssumptionWarning, match="Round 4 is past the promised horizon=3"):
        feed(learner, STREAM, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        feed(learner, STREAM, 4)
    assert learner.round == 5


@learners
def test_a_warning_that_is_an_error_does_not_lose_the_round(name):
    if name == "OptimisticHedge":
        pytest.skip("it promises nothing")
    learner, other = (make(name, BALL, FACTS) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(sp.AssumptionWarning):
            told(learner, np.array([3.0, 4.0, 0.0]))
    with pytest.warns(sp.AssumptionWarning):
        told(other, np.array([3.0, 4.0, 0.0]))
    assert snapshot(learner) == snapshot(other)


# ------------------------------------------------------------------ constants


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_lipschitz_constant_that_cannot_be(bad):
    with pytest.raises(ValueError, match=r"lipschitz \(G\) must be positive and finite"):
        sp.Assumptions(lipschitz=bad)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_a_smoothness_that_cannot_be(bad):
    with pytest.raises(ValueError, match=r"smoothness \(L\) must be positive"):
        sp.Assumptions(lipschitz=1.0, smoothness=bad)


@pytest.mark.parametrize("bad", [0, -1, 1.5, -0.0])
def test_a_horizon_that_cannot_be(bad):
    with pytest.raises(ValueError, match=r"horizon \(T\) must be a whole number of at least 1"):
        sp.Assumptions(lipschitz=1.0, horizon=bad)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_horizon_that_is_no_number(bad):
    with pytest.raises(ValueError, match=r"horizon \(T\) must be a whole number of at least 1"):
        sp.Assumptions(lipschitz=1.0, horizon=bad)


def test_assumptions_are_plain_numbers():
    facts = sp.Assumptions(np.float32(2.0), np.int64(3), np.int64(10))
    assert (facts.lipschitz, facts.smoothness, facts.horizon) == (2.0, 3.0, 10)
    assert [type(value) for value in vars(facts).values()] == [float, float, int]
    assert sp.Assumptions(1.0, smoothness=np.inf).smoothness is None
    assert sp.Assumptions(1.0, horizon=1).horizon == 1
    with pytest.raises(AttributeError):
        facts.lipschitz = 3.0


@pytest.mark.parametrize("name", ["OEGD", "Sword", "SwordSmall", "SwordBest", "SwordPP",
                                  "SwordOptimism"])  # fmt: skip
def test_smooth_learners_need_smoothness(name):
    with pytest.raises(ValueError, match=r"needs smooth losses.*use OGD or Ader"):
        make(name, BALL, sp.Assumptions(1.0, horizon=10))
    for rough in ("OGD", "Ader", "AderPP"):
        make(rough, BALL, sp.Assumptions(1.0, horizon=10))


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge", "OptimisticOMD"}))
def test_facts_must_be_assumptions(name):
    for bad in (None, 1.0, {"lipschitz": 1.0}):
        with pytest.raises(TypeError, match=r"facts must be Assumptions\(lipschitz="):
            make(name, BALL, bad)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge", "OptimisticOMD"}))
def test_everywhere_asks_for_what_it_cannot_know(name):
    everywhere = sp.Everywhere(DIM)
    with pytest.raises(ValueError, match=r"no diameter.*give step_sizes="):
        make(name, everywhere, FACTS)
    if name not in ("OGD", "OEGD"):
        with pytest.raises(ValueError, match=r"no diameter.*give meta_rate="):
            make(name, everywhere, FACTS, step_sizes=[0.1, 0.2])
    make(name, everywhere, FACTS, step_sizes=[0.1, 0.2], meta_rate=0.5)
    make(name, sp.Everywhere(DIM, diameter=2.0), FACTS)
    for facts in (FACTS, sp.Assumptions(1.0, 1.0)):  # an unknown horizon changes nothing here
        make(name, everywhere, facts, step_sizes=[0.1], meta_rate=0.5)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge"}))
@pytest.mark.parametrize("bad", [[], [np.nan], [np.inf], [-0.1], [[0.1, 0.2]]], ids=str)
def test_step_sizes_that_cannot_be(name, bad):
    with pytest.raises(ValueError, match="step_sizes"):
        make(name, BALL, FACTS, step_sizes=bad)


@learners
@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_meta_rates_that_cannot_be(name, bad):
    with pytest.raises(ValueError, match="meta_rate must be a positive finite number"):
        make(name, BALL, FACTS, meta_rate=bad)


@learners
@pytest.mark.parametrize("bad", ["int64", "float16", "complex128"])
def test_dtypes_that_cannot_be(name, bad):
    with pytest.raises(ValueError, match="dtype must be float64 or float32"):
        make(name, BALL, FACTS, dtype=bad)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge"}))
def test_starts_that_cannot_be(name):
    for outside in ([2.0, 0.0, 0.0], [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0]):
        with pytest.raises(ValueError, match=r"start lies outside.*domain.project\(start\)"):
            make(name, BALL, FACTS, start=outside)
    for shape in ((), (DIM + 1,), (2, 2, DIM), (99, DIM)):
        with pytest.raises(ValueError, match="start must have shape"):
            make(name, BALL, FACTS, start=np.zeros(shape))


@pytest.mark.parametrize("name", sorted(set(LEARNERS)))
def test_arguments_nobody_knows(name):
    with pytest.raises(TypeError):
        make(name, BALL, FACTS, learning_rate=0.1)


def test_constants_of_optimism_that_cannot_be():
    for name in ("step_cap", "rate_cap"):
        for bad in (0.0, -1.0, np.nan):
            with pytest.raises(ValueError, match=f"{name} must be positive"):
                sp.SwordOptimism(BALL, FACTS, **{name: bad})
    for bad in (-1.0, np.nan):
        with pytest.raises(ValueError, match="correction must be 0 or more"):
            sp.SwordOptimism(BALL, FACTS, correction=bad)


def test_building_blocks_that_cannot_be():
    with pytest.raises(TypeError, match="needs its step"):
        sp.OptimisticOMD(BALL)
    with pytest.raises(TypeError, match="lives on Simplex"):
        sp.OptimisticOMD(BALL, step_size=0.1, regulariser=sp.NegativeEntropy())
    with pytest.raises(ValueError, match="dim"):
        sp.OptimisticHedge(1)
    with pytest.raises(ValueError, match="step_sizes"):
        sp.OptimisticOMD(BALL, step_size=np.nan)


# ------------------------------------------------------------------ the game


@learners
def test_games_that_cannot_be(name):
    learner = ready(name)
    before = snapshot(learner)
    with pytest.raises(ValueError, match="Cannot record 'everything'; choose from"):
        sp.play(learner, STREAM, record=("everything",))
    for bad in (0, -1, 1.5):
        with pytest.raises(ValueError, match="every must be a whole number"):
            sp.play(learner, STREAM, every=bad)
    with pytest.raises(ValueError, match="4 coordinates"):
        sp.play(learner, stream_for("huber", 30, dim=4))
    with pytest.raises(ValueError, match=r"hints must have shape \(30, 3\)"):
        sp.play(learner, STREAM, hints=np.zeros((29, 3)))
    assert snapshot(learner) == before


def test_hints_for_a_learner_that_takes_none():
    learner = ready("SwordPP")
    before = snapshot(learner)
    with pytest.raises(TypeError, match="makes its own hint"):
        sp.play(learner, STREAM, hints=np.zeros((30, 3)))
    assert snapshot(learner) == before


@learners
def test_a_function_stream_of_the_wrong_dimension(name):
    learner = ready(name)
    before = snapshot(learner)
    values = [lambda x: 0.0] * 3
    stream = sp.FunctionStream(values, [lambda x: np.zeros(7)] * 3)  # it did not say its dimension
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        sp.play(learner, stream)
    assert snapshot(learner) == before


def test_an_ensemble_on_its_own_is_no_algorithm():
    with pytest.raises(NotImplementedError):
        Ensemble(BALL, FACTS)
