"""Everything that runs equals the oracle: compiled, by hand, and on a domain that is not compiled.

CI runs this file a second time with NUMBA_DISABLE_JIT=1, where the kernels are plain Python.
"""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from cases import (
    DIM,
    DOMAINS,
    INTERPRETED,
    LOSS_NUMBERS,
    LOSSES,
    MANY,
    Domain,
    assert_close,
    feed,
    make,
    sparse,
    stream_for,
)

import swordplay as sp

ROUNDS = 24 if INTERPRETED else 200
LONG = 60 if INTERPRETED else 1500

ORACLES = {
    "OGD": "ogd",
    "OEGD": "oegd",
    "Ader": "ader",
    "AderPP": "ader",
    "Sword": "sword",
    "SwordSmall": "sword_small",
    "SwordBest": "sword_best",
    "SwordPP": "sword_pp",
}
STEPS = [0.005, 0.02, 0.08]  # where a domain has no diameter


def facts_for(stream, domain, loss):
    """G, L, T of the stream; without smoothness, or without bounds, any will do."""
    if np.isinf(domain.diameter):
        return sp.Assumptions(lipschitz=1e3, smoothness=1.0, horizon=len(stream))
    facts = stream.assumptions(domain)
    if facts.smoothness is None:
        return sp.Assumptions(facts.lipschitz, smoothness=1.0, horizon=facts.horizon)
    return facts


def naive_gradients(stream, loss):
    """The gradients, by the oracle's own losses."""
    numbers = LOSS_NUMBERS.get(loss, {})
    return [
        oracle.linear_gradient(loss, row, y, **numbers)
        for row, y in zip(stream.features, stream.targets, strict=True)
    ]


def naive_run(name, stream, loss, domain_name, facts, settings):
    """What the oracle does on the stream."""
    domain, project = DOMAINS[domain_name]
    settings = dict(settings)
    constants = {"D": domain.diameter, "G": facts.lipschitz, "L": facts.smoothness}
    if np.isinf(constants["D"]):
        constants["D"] = 1.0  # every constant made from it is replaced
    if name.startswith("Ader"):
        settings["surrogate"] = name == "AderPP"
    if name == "SwordBest" and "step_sizes" in settings:
        settings["step_sizes"] = (settings["step_sizes"], settings["step_sizes"])
    if name in ("OGD", "OEGD"):
        settings.pop("meta_rate", None)
    start = settings.pop("start", domain.center)
    gradients = naive_gradients(stream, loss)
    return oracle.run(
        ORACLES[name], gradients, project, start, T=facts.horizon, **constants, **settings
    )


def compare_run(run, learner, expected, tolerance, what):
    """Every number that a run reports, against the oracle's."""
    rounds = len(expected.decisions)
    for field, right in (
        ("decisions", expected.decisions),
        ("weights", expected.weights),
        ("base_decisions", expected.base_decisions),
        ("anchors", expected.anchors[:rounds]),
    ):
        assert_close(getattr(run, field), right, tolerance, f"{what}: {field}")
    assert_close(run.adaptivity, expected.adaptivity, tolerance, f"{what}: A_T")
    assert_close(run.gradient_variation, expected.gradient_variation, tolerance, f"{what}: V_T")
    for mine, right, which in zip(
        run.stability, expected.stability, ("S_x", "S_p", "S_mix"), strict=True
    ):
        compare_stability(mine, right, rounds, learner, tolerance, f"{what}: {which}")
    assert run.gradient_queries == expected.gradient_queries, what
    compare_state(learner, expected, tolerance, what)


def compare_stability(mine, right, rounds, learner, tolerance, what):
    """Sums of squares of small differences: a row of float32 rounds every difference.

    With errors e_t on differences a_t, |sum (a_t + e_t)^2 - sum a_t^2| is at most
    2 sqrt(sum a_t^2 sum e_t^2) + sum e_t^2; an e_t is some roundings of numbers of size 1.
    """
    if learner._row.dtype == np.float64:
        assert_close(mine, right, tolerance, what)
        return
    rounding = np.finfo(np.float32).eps * max(DIM, len(learner.step_sizes)) * np.sqrt(rounds)
    right = np.asarray(right)
    error = np.abs(np.asarray(mine) - right)
    assert (error <= tolerance * right + 2 * np.sqrt(right) * rounding + rounding**2).all(), what


def compare_state(learner, expected, tolerance, what):
    """Where a learner stands after the last round, against the oracle."""
    assert learner.round == len(expected.decisions)
    assert learner.gradient_queries == expected.gradient_queries, what
    assert_close(learner.step_sizes, expected.step_sizes, 1e-14, f"{what}: step sizes")
    assert_close(learner.decide(), expected.next_decision, tolerance, f"{what}: x_(T+1)")
    assert_close(learner.weights, expected.next_weights, tolerance, f"{what}: p_(T+1)")
    assert_close(
        learner.base_decisions, expected.next_base_decisions, tolerance, f"{what}: x_(T+1,i)"
    )
    assert_close(learner.anchors, expected.anchors[-1], tolerance, f"{what}: x-hat_(T+1,i)")
    if len(expected.step_sizes) > 1:
        assert_close(learner.meta_rate, expected.meta_rates[-1], tolerance, f"{what}: eps_T")


def compare_by_hand(learner, stream, expected, tolerance, what):
    """Play by decide and learn; compare every round."""
    seen = []
    for t in range(len(stream)):
        before = learner.weights, learner.base_decisions
        seen.append((feed(learner, stream, t), *before))
    fields = ("decisions", "weights", "base_decisions")
    for mine, which in zip(zip(*seen, strict=True), fields, strict=True):
        assert_close(mine, getattr(expected, which), tolerance, f"{what}: {which}")
    compare_state(learner, expected, tolerance, what)


def compare_everywhere(name, domain_name, loss, settings, rounds, *, dtype=np.float64, tol=1e-10):
    """The four ways to run a learner, against one run of the oracle."""
    domain, _ = DOMAINS[domain_name]
    stream = stream_for(loss, rounds)
    facts = facts_for(stream, domain, loss)
    if np.isinf(domain.diameter):
        steps = STEPS[-1:] if name in ("OGD", "OEGD") else STEPS
        settings = {"step_sizes": steps, "meta_rate": 0.3} | settings
    expected = naive_run(name, stream, loss, domain_name, facts, settings)

    def learner(where=domain):
        return make(name, where, facts, dtype=dtype, **settings)

    record = ("decisions", "weights", "base_decisions", "anchors")
    compiled = learner()
    assert compiled._compiled
    run = sp.play(compiled, stream, record=record)
    compare_run(run, compiled, expected, tol, "compiled")
    values = [
        oracle.loss_value(loss, y, float(row @ x), **LOSS_NUMBERS.get(loss, {}))
        for row, y, x in zip(stream.features, stream.targets, expected.decisions, strict=True)
    ]
    assert_close(run.losses, values, 10 * tol, "losses")
    rows = learner()
    run = sp.play(rows, sparse(stream), record=record)
    compare_run(run, rows, expected, tol, "compiled, sparse rows")
    compare_by_hand(learner(), stream, expected, tol, "by hand")
    plain = learner(Domain(domain))
    assert not plain._compiled
    run = sp.play(plain, stream, record=record)
    compare_run(run, plain, expected, tol, "in NumPy")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", ORACLES)
def test_every_learner_domain_and_loss_equals_the_oracle(name, domain, loss):
    rounds = 2 * ROUNDS // 5 if name in MANY else ROUNDS  # the oracle is slowest there
    compare_everywhere(name, domain, loss, {}, rounds)


@pytest.mark.parametrize("domain", ["ball_elsewhere", "simplex"])
@pytest.mark.parametrize("name", ORACLES)
def test_long_runs_equal_the_oracle(name, domain):
    rounds = LONG // 5 if name in MANY else LONG
    compare_everywhere(name, domain, "huber", {}, rounds)


@pytest.mark.parametrize("name", ORACLES)
def test_a_fixed_rate_and_a_pool_and_a_start_of_ones_own_equal_the_oracle(name):
    steps = [0.07] if name in ("OGD", "OEGD") else [0.01, 0.3, 0.05, 0.0]
    settings = {"meta_rate": 0.37, "step_sizes": steps, "start": np.array([0.2, -0.9, 0.1])}
    compare_everywhere(name, "ball", "squared", settings, ROUNDS)


@pytest.mark.parametrize("rate", [None, 0.4])
@pytest.mark.parametrize("name", ORACLES)
def test_one_base_learner_equals_the_oracle(name, rate):
    settings = {"step_sizes": [0.1]} | ({} if rate is None else {"meta_rate": rate})
    compare_everywhere(name, "box", "huber", settings, ROUNDS // 2)


@pytest.mark.parametrize("domain", [key for key in DOMAINS if key != "everywhere"])
@pytest.mark.parametrize("name", ORACLES)
def test_a_float32_row_equals_the_oracle_to_its_own_precision(name, domain):
    # float32 rounds to 6e-8; a hundred rounds of projected steps, and weights that are exponentials
    # of sums, lose at most two more digits here. A wrong formula is off by far more.
    rounds = ROUNDS // 2
    compare_everywhere(name, domain, "huber", {}, rounds, dtype=np.float32, tol=2e-5)


# ------------------------------------------------------------------ Sword.optimism


def given_hints(rounds, seed=5):
    """M_1 = 0 and random others, one more than the rounds."""
    hints = np.random.default_rng(seed).normal(size=(rounds + 1, DIM))
    hints[0] = 0.0
    return hints


OPTIMISM = {"correction": 0.8, "step_cap": 0.3, "rate_cap": 0.25}


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "in NumPy"])
@pytest.mark.parametrize("rate", [None, 0.2])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_sword_optimism_with_given_hints_equals_the_oracle(domain_name, loss, rate, plain):
    domain, project = DOMAINS[domain_name]
    stream = stream_for(loss, ROUNDS // 2)
    facts, hints = facts_for(stream, domain, loss), given_hints(len(stream))
    fixed = {} if rate is None else {"meta_rate": rate}
    diameter = domain.diameter
    if np.isinf(diameter):
        fixed, diameter = {"step_sizes": STEPS, "meta_rate": rate or 0.3}, 1.0
    expected = oracle.sword_optimism(
        naive_gradients(stream, loss),
        project,
        domain.center,
        hints=hints,
        eta_bar=OPTIMISM["step_cap"],
        eps_bar=OPTIMISM["rate_cap"],
        lam=OPTIMISM["correction"],
        D=diameter,
        G=facts.lipschitz,
        **fixed,
    )
    where = Domain(domain) if plain else domain

    learner = sp.SwordOptimism(where, facts, **OPTIMISM, **fixed)
    record = ("decisions", "weights", "base_decisions", "anchors")
    run = sp.play(learner, stream, record=record, hints=hints[:-1])
    learner.decide(hint=hints[-1])
    compare_run(run, learner, expected, 1e-10, "play")

    learner = sp.SwordOptimism(where, facts, **OPTIMISM, **fixed)
    for t in range(len(stream)):
        x = learner.decide(hint=hints[t])
        assert_close(x, expected.decisions[t], what=f"decide, round {t + 1}")
        assert_close(learner.decide(), x, 0.0, "decide, asked again")
        learner.learn(stream.gradient(t, x))
    learner.decide(hint=hints[-1])
    compare_state(learner, expected, 1e-10, "by hand")


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "in NumPy"])
@pytest.mark.parametrize("domain_name", [key for key in DOMAINS if key != "everywhere"])
def test_sword_optimism_without_hints_leans_on_the_last_gradient(domain_name, plain):
    domain, project = DOMAINS[domain_name]
    stream = stream_for("huber", ROUNDS)
    facts = facts_for(stream, domain, "huber")
    pool = oracle.sword_optimism_pool(
        domain.diameter, facts.lipschitz, len(stream), OPTIMISM["step_cap"]
    )
    count = len(pool)
    expected = oracle.collaborative_ensemble(
        "sword_optimism, last gradient",
        naive_gradients(stream, "huber"),
        project,
        domain.center,
        step_sizes=pool,
        prior=oracle.uniform_prior(count),
        base_loss="shared",
        base_hints=["last"] * count,
        meta_hint="last",
        lam=OPTIMISM["correction"],
        first_rate=OPTIMISM["rate_cap"],
        rate=lambda A, V: oracle.adaptivity_rate(domain.diameter, OPTIMISM["rate_cap"], count, A),
    )
    where = Domain(domain) if plain else domain
    learner = sp.SwordOptimism(where, facts, **OPTIMISM)
    record = ("decisions", "weights", "base_decisions", "anchors")
    run = sp.play(learner, stream, record=record)
    compare_run(run, learner, expected, 1e-10, "play")
    learner = sp.SwordOptimism(where, facts, **OPTIMISM)
    compare_by_hand(learner, stream, expected, 1e-10, "by hand")


def test_sword_optimism_by_default_is_sword_plus_plus():
    domain, _ = DOMAINS["box"]
    stream = stream_for("squared", ROUNDS)
    facts = facts_for(stream, domain, "squared")
    expected = naive_run("SwordPP", stream, "squared", "box", facts, {})
    learner = sp.SwordOptimism(domain, facts)
    compare_by_hand(learner, stream, expected, 1e-10, "by hand")


# ------------------------------------------------------------------ the building blocks


@pytest.mark.parametrize("hinted", [False, True], ids=["last gradient", "given hints"])
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "in NumPy"])
@pytest.mark.parametrize("domain_name", DOMAINS)
def test_optimistic_omd_equals_the_oracle(domain_name, plain, hinted):
    domain, project = DOMAINS[domain_name]
    stream, hints = stream_for("huber", ROUNDS), given_hints(ROUNDS)[:-1]
    expected = oracle.optimistic_omd(
        naive_gradients(stream, "huber"),
        domain.center,
        0.13,
        hints=hints if hinted else "last",
        project=project,
    )
    learner = sp.OptimisticOMD(Domain(domain) if plain else domain, step_size=0.13)
    compare_omd(learner, stream, expected, hints if hinted else None)


@pytest.mark.parametrize("hinted", [False, True], ids=["last gradient", "given hints"])
@pytest.mark.parametrize("step", [0.05, 2.0])
def test_multiplicative_weights_equal_the_oracle(step, hinted):
    domain = sp.Simplex(DIM)
    stream, hints = stream_for("logistic", ROUNDS), given_hints(ROUNDS)[:-1]
    start = np.array([0.7, 0.2, 0.1])
    expected = oracle.optimistic_omd(
        naive_gradients(stream, "logistic"),
        start,
        step,
        hints=hints if hinted else "last",
        regularizer="entropy",
    )
    assert expected.anchors.min() > 1e-25  # above the floor that the library keeps
    learner = sp.OptimisticOMD(
        domain, step_size=step, regulariser=sp.NegativeEntropy(), start=start
    )
    compare_omd(learner, stream, expected, hints if hinted else None)


def compare_omd(learner, stream, expected, hints):
    played = learner.copy()
    run = sp.play(played, stream, record=("decisions", "anchors"), hints=hints)
    assert_close(run.decisions, expected.decisions, what="decisions")
    assert_close(run.anchors[:, 0], expected.anchors[:-1], what="anchors")
    for t in range(len(stream)):
        x = learner.decide() if hints is None else learner.decide(hint=hints[t])
        assert_close(x, expected.decisions[t], what=f"round {t + 1}")
        learner.learn(stream.gradient(t, x))
    assert_close(learner.anchors[0], expected.anchors[-1], what="the last anchor")
    assert learner.gradient_queries == played.gradient_queries == len(stream)


@pytest.mark.parametrize("experts", [2, 7])
def test_optimistic_hedge_with_a_fixed_rate_equals_the_oracle(experts):
    rng = np.random.default_rng(experts)
    losses = rng.normal(size=(ROUNDS, experts))
    hints = np.vstack([losses + 0.3 * rng.normal(size=losses.shape), np.zeros(experts)])
    hints[0] = 0.0
    expected = oracle.optimistic_hedge(losses, hints, rate=0.3)
    learner = sp.OptimisticHedge(experts, meta_rate=0.3)
    for t in range(ROUNDS):
        p = learner.decide(hint=hints[t])
        assert_close(p, expected.weights[t], what=f"round {t + 1}")
        assert_close(learner.weights, p, what="weights")
        learner.learn(losses[t])
    assert_close(learner.decide(hint=hints[-1]), expected.next_weights, what="the last")


def test_optimistic_hedge_makes_its_own_rate_as_documented():
    # Its documentation: min(1, sqrt(ln N / sum |l_s - m_s|^2)), the norm the Euclidean one. The
    # oracle's has the largest entry there, so its pieces are put together here.
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(ROUNDS, 4)) * 0.1
    learner, total, missed, hint = sp.OptimisticHedge(4), np.zeros(4), 0.0, np.zeros(4)
    for t, loss in enumerate(losses):
        rate = oracle.self_confident(1.0, np.log(4), missed)
        expected = oracle.hedge_weights(oracle.uniform_prior(4), rate, total + hint)
        assert_close(learner.decide(), expected, what=f"round {t + 1}")
        assert_close(learner.meta_rate, rate, what=f"rate of round {t + 1}")
        learner.learn(loss)
        total += loss
        missed += float(np.sum((loss - hint) ** 2))
        hint = loss


# ------------------------------------------------------------------ the oracle's parts


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_equal_the_oracle(loss):
    rng = np.random.default_rng(1)
    numbers = LOSS_NUMBERS.get(loss, {})
    for y, guess in rng.normal(scale=3, size=(300, 2)):
        y = np.sign(y) if loss == "logistic" else y
        assert_close(
            LOSSES[loss].value(y, guess), oracle.loss_value(loss, y, guess, **numbers), 1e-13
        )
        assert_close(
            LOSSES[loss].slope(y, guess), oracle.loss_slope(loss, y, guess, **numbers), 1e-13
        )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("name", DOMAINS)
def test_projections_equal_the_oracle(name, scale):
    domain, project = DOMAINS[name]
    for x in np.random.default_rng(2).normal(scale=scale, size=(60, DIM)):
        assert_close(domain.project(x), project(x), 1e-12, f"{x}")


def test_pools_equal_the_oracle_over_orders_of_magnitude():
    rng = np.random.default_rng(3)
    for _ in range(300):
        D, G, L = np.exp(rng.normal(scale=2, size=3))
        T = int(np.exp(rng.uniform(0, 14)))
        facts = sp.Assumptions(G, L, T)
        domain = sp.Ball(2, D / 2)
        for name, expected in (
            ("OGD", [oracle.ogd_step(D, G, T)]),
            ("OEGD", [oracle.oegd_step(D, G, L, T)]),
            ("Ader", oracle.ader_pool(D, G, T)),
            ("Sword", oracle.sword_pool(D, G, L, T)),
            ("SwordSmall", oracle.sword_small_pool(D, G, L, T)),
            ("SwordBest", np.concatenate(oracle.sword_best_pools(D, G, L, T))),
            ("SwordPP", oracle.sword_pp_pool(D, G, L, T)),
            ("SwordOptimism", oracle.sword_optimism_pool(D, G, T, 1 / (8 * L))),
        ):
            learner = make(name, domain, facts)
            assert_close(learner.step_sizes, expected, 1e-13, f"{name}, {(D, G, L, T)}")
            prior = oracle.ader_prior if name == "Ader" else oracle.uniform_prior
            assert_close(learner.weights, prior(len(expected)), 1e-14, f"{name}: p_1")
