"""Every theorem, on random streams, domains and comparators.

What each test is there to catch was tried: the comment beside it names the change to the code that
makes it fail.
"""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swordplay as sp
from swordplay import bounds
from swordplay.hints import DecisionDeviation

LEARNERS = {
    "OGD": sp.OGD,
    "OEGD": sp.OEGD,
    "Ader": sp.Ader,
    "Ader++": lambda domain, facts, **how: sp.Ader(domain, facts, surrogate=True, **how),
    "Sword": sp.Sword,
    "SwordSmall": sp.SwordSmall,
    "SwordBest": sp.SwordBest,
    "SwordPP": sp.SwordPP,
    "SwordOptimism": sp.SwordOptimism,
}
DOMAINS = [
    sp.Ball(3, 0.7),
    sp.Ball(3, 1.5, center=[1.0, -2.0, 0.5]),
    sp.Box(low=[-1.0, 0.0, -0.2], high=[1.0, 0.5, 0.3]),
    sp.Simplex(3),
    sp.L1Ball(3, 1.2),
]
LOSSES = [sp.Squared(), sp.Huber(0.5), sp.Logistic()]


def make_stream(rng, domain, loss, horizon, kind):
    """Random rows; targets from a drifting model, from noise, or against the player."""
    features = rng.standard_normal((horizon, domain.dim))
    if kind == "still":
        features = np.tile(features[:1], (horizon, 1))
    elif kind == "alternating":
        features = np.tile(features[:2], (horizon, 1))[:horizon]
    models = domain.sample(rng, horizon)
    targets = np.einsum("td,td->t", features, models)
    if kind == "noise":
        targets = rng.standard_normal(horizon) * 3
    if isinstance(loss, sp.Logistic):
        targets = np.where(targets >= 0, 1.0, -1.0)
    return sp.LinearStream(features, targets, loss)


def make_comparators(rng, domain, stream, kind):
    if kind == "fixed":
        return domain.sample(rng)
    if kind == "minimisers":
        return sp.regret.minimizers(stream, domain)
    pieces = domain.sample(rng, 4)
    return pieces[np.minimum(np.arange(len(stream)) * 4 // len(stream), 3)]


games = given(
    seed=st.integers(0, 2**32 - 1),
    domain=st.sampled_from(DOMAINS),
    loss=st.sampled_from(LOSSES),
    horizon=st.integers(1, 150),
    kind=st.sampled_from(["drift", "still", "alternating", "noise"]),
    against=st.sampled_from(["fixed", "pieces", "minimisers"]),
)


@pytest.mark.parametrize("name", LEARNERS)
@games
@settings(max_examples=25, deadline=None)
def test_every_certificate_holds(name, seed, domain, loss, horizon, kind, against):
    rng = np.random.default_rng(seed)
    stream = make_stream(rng, domain, loss, horizon, kind)
    learner = LEARNERS[name](domain, stream.assumptions(domain))
    run = sp.play(learner, stream)
    u = make_comparators(rng, domain, stream, against)
    certificate = sp.certify(learner, run, stream, u)
    assert certificate.holds, str(certificate)
    assert certificate.broken == ()
    assert certificate.bound == pytest.approx(sum(certificate.terms.values()))
    assert certificate.regret == pytest.approx(
        float(stream.values(_rows(run, learner, stream)).sum() - stream.values(u).sum()), abs=1e-6
    )


def _rows(run, learner, stream):
    """The decisions of an equal learner, played from Python."""
    twin = type(learner)(learner.domain, learner.facts, **_extra(learner))
    return sp.play(twin, stream, record="decisions").decisions


def _extra(learner):
    return {"surrogate": learner.surrogate} if isinstance(learner, sp.Ader) else {}


@pytest.mark.parametrize("name", ["SwordPP", "Ader++", "Sword"])
@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_certificates_hold_at_a_fixed_rate(name, rate):
    rng = np.random.default_rng(5)
    for domain in DOMAINS:
        stream = make_stream(rng, domain, sp.Squared(), 120, "drift")
        learner = LEARNERS[name](domain, stream.assumptions(domain), meta_rate=rate)
        run = sp.play(learner, stream)
        certificate = sp.certify(learner, run, stream, domain.sample(rng, 120))
        assert certificate.holds, str(certificate)


@games
@settings(max_examples=30, deadline=None)
def test_the_certificate_is_the_oracles_bound(seed, domain, loss, horizon, kind, against):
    """Fails with lambda = 0, with S_mix at a tenth, and with p_{t+1} ~ p_t exp(-eps_t l_t)."""
    rng = np.random.default_rng(seed)
    stream = make_stream(rng, domain, loss, horizon, kind)
    facts = stream.assumptions(domain)
    learner = sp.SwordPP(domain, facts)
    run = sp.play(learner, stream)
    u = np.broadcast_to(make_comparators(rng, domain, stream, against), (horizon, 3))
    certificate = sp.certify(learner, run, stream, u)
    if len(learner.step_sizes) == 1:
        return
    D, L = domain.diameter, facts.smoothness
    naive = oracle.sword_pp(
        [lambda x, t=t: stream.gradient(t, x) for t in range(horizon)],
        domain.project,
        domain.center,
        D=D,
        G=facts.lipschitz,
        L=L,
        T=horizon,
    )
    P, eta = oracle.path_length(u), naive.step_sizes
    rates = np.concatenate([[naive.first_rate], naive.meta_rates])
    surprise = np.sum((naive.gradients - naive.hints) ** 2, axis=1)
    S_x, S_p, S_mix = naive.stability
    every_i = (
        math.log(len(eta)) / rates[-1]
        + D**2 * np.sum(rates[:-1] * surprise)
        + eta * naive.adaptivity
        + (D**2 + 2 * D * P) / (2 * eta)
        + (2 * L - 1 / (4 * eta)) * S_x
        - S_p * 2 * D**2 * L
        - 2 * L * S_mix
    )
    assert certificate.bound == pytest.approx(every_i.min(), rel=1e-8)


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_three_stabilities_cancel(domain):
    """Eq. (46): the collaboration. Fails with the correction removed (lambda = 0), halved, or with

    the caps of Sword (1/(4L), 1/(4 D^2 L)) in place of those of Sword++.
    """
    facts = sp.Assumptions(lipschitz=2.0, smoothness=0.8, horizon=10_000)
    learner = sp.SwordPP(domain, facts)
    D, L = domain.diameter, facts.smoothness
    eta, eps = learner.step_sizes.max(), learner._rate.cap
    strength = learner._correction.strength
    assert strength - 1 / (4 * eta) <= 1e-12
    assert 8 * eta * D**2 * L**2 + 8 * eps * D**4 * L**2 - 1 / (4 * eps) <= 1e-12
    assert 8 * eta * L**2 + 8 * eps * D**2 * L**2 - strength <= 1e-12


@games
@settings(max_examples=40, deadline=None)
def test_stability_turns_adaptivity_into_gradient_variation(
    seed, domain, loss, horizon, kind, against
):
    """Eq. (43): A_T <= G^2 + 2 V_T + 4 L^2 S_mix + 4 D^2 L^2 S_p."""
    rng = np.random.default_rng(seed)
    stream = make_stream(rng, domain, loss, horizon, kind)
    facts = stream.assumptions(domain)
    # Large steps, so that the stabilities matter.
    run = sp.play(sp.SwordPP(domain, facts, step_sizes=[0.5 / facts.smoothness, 0.1]), stream)
    _, S_p, S_mix = run.stability
    G, L, D = facts.lipschitz, facts.smoothness, domain.diameter
    V = sp.regret.gradient_variation(stream, domain)
    assert run.adaptivity <= (G**2 + 2 * V + 4 * L**2 * S_mix + 4 * D**2 * L**2 * S_p) * (1 + 1e-9)


@games
@settings(max_examples=40, deadline=None)
def test_theorems_3_and_10_hold_before_a_round_is_played(
    seed, domain, loss, horizon, kind, against
):
    rng = np.random.default_rng(seed)
    stream = make_stream(rng, domain, loss, horizon, kind)
    facts = stream.assumptions(domain)
    G, L, D = facts.lipschitz, facts.smoothness, domain.diameter
    u = np.broadcast_to(make_comparators(rng, domain, stream, against), (horizon, 3))
    P, F = sp.regret.path_length(u), sp.regret.small_loss(stream, u)
    V = float(sp.regret.gradient_variation(stream, domain))

    learner = sp.SwordPP(domain, facts)
    regret = sp.regret.dynamic_regret(sp.play(learner, stream), stream, u)
    assert regret <= bounds.theorem_10(len(learner.step_sizes), G, L, V, F, D, P) + 1e-9

    experts = len(sp.Sword(domain, facts).step_sizes)
    rate = min(1 / (4 * D**2 * L), math.sqrt(math.log(max(experts, 2)) / (2 * D**2 * (G**2 + V))))
    learner = sp.Sword(domain, facts, meta_rate=rate)
    regret = sp.regret.dynamic_regret(sp.play(learner, stream), stream, u)
    assert regret <= bounds.theorem_3(experts, G, L, V, D, P) + 1e-9


@given(seed=st.integers(0, 2**32 - 1), domain=st.sampled_from(DOMAINS), horizon=st.integers(2, 150))
@settings(max_examples=40, deadline=None)
def test_lemma_1_for_oegd(seed, domain, horizon):
    rng = np.random.default_rng(seed)
    stream = make_stream(rng, domain, sp.Squared(), horizon, "drift")
    facts = stream.assumptions(domain)
    step = float(rng.uniform(0.01, 1)) / (4 * facts.smoothness)
    learner = sp.OEGD(domain, facts, step_sizes=[step])
    u = make_comparators(rng, domain, stream, "pieces")
    regret = sp.regret.dynamic_regret(sp.play(learner, stream), stream, u)
    V = float(sp.regret.gradient_variation(stream, domain))
    P = sp.regret.path_length(u)
    assert regret <= bounds.lemma_1(step, facts.lipschitz, V, domain.diameter, P) + 1e-9


@pytest.mark.parametrize("entropic", [False, True])
def test_theorem_1_for_both_regularisers(entropic):
    rng = np.random.default_rng(3)
    domain = sp.Simplex(4)
    for trial in range(10):
        T = 60
        stream = sp.LinearStream(rng.standard_normal((T, 4)), rng.standard_normal(T))
        hints = rng.standard_normal((T, 4)) * (trial % 3)
        regulariser = sp.NegativeEntropy() if entropic else sp.Euclidean()
        learner = sp.OptimisticOMD(domain, step_size=0.3, regulariser=regulariser)
        run = sp.play(learner, stream, record=("decisions", "anchors"), hints=hints)
        u = rng.dirichlet(np.ones(4), T)
        certificate = sp.certify(learner, run, stream, u)
        assert certificate.holds
        trajectory = bounds._theorem_1(learner, run, u, certificate.regret, ())
        assert trajectory.holds
        if entropic:
            assert trajectory.terms == certificate.terms


@pytest.mark.parametrize("rate", [None, 0.2, 2.0])
def test_lemma_2_for_optimistic_hedge(rate):
    rng = np.random.default_rng(11)
    for kind in range(3):
        T, N = 400, 6
        losses = rng.random((T, N)) + np.linspace(0, 0.2 * kind, N)
        if kind == 1:  # the leader changes: the case in which a wrong rescaling is linear
            losses[: T // 2, 0] -= 1.0
            losses[T // 2 :, 1] -= 1.0
        learner = sp.OptimisticHedge(N, meta_rate=rate)
        weights, hints = np.empty((T, N)), np.zeros((T, N))
        for t in range(T):
            hints[t] = losses[t - 1] if t else 0.0
            weights[t] = learner.decide(hint=hints[t])
            learner.learn(losses[t])
        paid = np.sum(weights * losses)
        surprise = np.sum(np.abs(losses - hints).max(axis=1) ** 2)
        moves = np.sum(np.abs(np.diff(weights, axis=0)).sum(axis=1) ** 2)
        for i in range(N):
            regret = paid - losses[:, i].sum()
            if rate is not None:
                assert regret <= bounds.lemma_2(rate, surprise, N, moves) + 1e-9
            else:
                squares = np.sum((losses - hints) ** 2)
                most = np.sum((losses - hints) ** 2, axis=1).max()
                budget = 4 * math.sqrt(math.log(N) * squares) + math.log(N) + 2 * most
                assert regret <= budget


def test_the_whole_sum_is_rescaled():
    """Eq. (54): p ~ exp(-eps_t * all losses). Fails with p_{t+1} ~ p_t exp(-eps_t l_t)."""
    rng = np.random.default_rng(0)
    losses = rng.random((300, 4)) * 3
    learner = sp.OptimisticHedge(4)
    for row in losses:
        learner.learn(row)
    rate = learner.meta_rate
    assert rate < 0.2  # it did fall from 1
    exponent = -rate * (losses.sum(axis=0) + losses[-1])
    expected = np.exp(exponent - exponent.max())
    np.testing.assert_allclose(learner.weights, expected / expected.sum(), rtol=1e-9)


def test_a_worst_case_bound_follows_from_a_universal_one():
    """Theorem 7, with A_T the least for which sqrt(A_T (D + P_T)) bounds what was certified."""
    stream = sp.streams.gradual_drift(horizon=2000, dim=3, every=500, seed=1)
    domain = sp.Ball(3, 1.0)
    learner = sp.SwordPP(domain, stream.assumptions(domain))
    run = sp.play(learner, stream)
    best = sp.regret.minimizers(stream, domain)
    regret, P = sp.regret.dynamic_regret(run, stream, best), sp.regret.path_length(best)
    D, V_f = domain.diameter, float(sp.regret.function_variation(stream, domain))
    ladder = [sp.regret.best_piecewise(stream, domain, k) for k in (1, 4, 16)] + [best]
    A = max(
        sp.certify(learner, run, stream, u).bound ** 2 / (D + sp.regret.path_length(u))
        for u in ladder
    )
    assert regret <= bounds.theorem_7(A, D, P, V_f, len(stream))


def test_no_algorithm_follows_random_signs():
    """Theorem 8: the regret grows like T, the bound it rules out like sqrt T."""
    ratios = []
    for T in (2**8, 2**10, 2**12):
        stream = sp.streams.rademacher(T, dim=2, seed=3)
        domain = sp.Ball(2, math.sqrt(2))
        learner = sp.SwordPP(domain, stream.assumptions(domain))
        run = sp.play(learner, stream)
        u = stream.comparators
        regret, P = sp.regret.dynamic_regret(run, stream, u), sp.regret.path_length(u)
        F = sp.regret.small_loss(stream, u)
        assert sp.certify(learner, run, stream, u).holds
        ratios.append(regret / math.sqrt((1 + F) * (1 + P)))
    assert ratios[1] > 1.6 * ratios[0]
    assert ratios[2] > 1.6 * ratios[1]


@pytest.mark.parametrize("name", ["OGD", "SwordPP", "Sword", "Ader++"])
def test_certificates_hold_when_the_horizon_is_unknown(name):
    stream = sp.streams.abrupt_drift(horizon=3000, dim=3, every=400, seed=2)
    domain = sp.Ball(3, 1.0)
    known = stream.assumptions(domain)
    facts = sp.Assumptions(known.lipschitz, known.smoothness, None)
    learner = LEARNERS[name](domain, facts)
    run = sp.play(learner, stream)
    assert run.facts["epochs"] == 5
    for u in (np.zeros(3), stream.comparators, sp.regret.minimizers(stream, domain)):
        certificate = sp.certify(learner, run, stream, u)
        assert certificate.holds, str(certificate)


class TestWhatCannotBeCertified:
    def setup_method(self):
        self.stream = sp.streams.abrupt_drift(horizon=200, dim=3, every=50, seed=0)
        self.domain = sp.Ball(3, 1.0)
        self.facts = self.stream.assumptions(self.domain)

    def test_a_broken_promise_is_named(self):
        low = sp.Assumptions(lipschitz=0.05, smoothness=1.0, horizon=200)
        learner = sp.SwordPP(self.domain, low)
        with pytest.warns(sp.AssumptionWarning, match="lipschitz=0.05"):
            run = sp.play(learner, self.stream)
        certificate = sp.certify(learner, run, self.stream, np.zeros(3))
        assert "lipschitz=0.05 promised" in certificate.broken[0]
        assert "assumption broken" in str(certificate)

    def test_comparators_outside(self):
        learner = sp.SwordPP(self.domain, self.facts)
        run = sp.play(learner, self.stream)
        with pytest.raises(ValueError, match="comparators leave"):
            sp.certify(learner, run, self.stream, np.full(3, 5.0))

    def test_a_run_that_was_not_the_first(self):
        learner = sp.SwordPP(self.domain, sp.Assumptions(self.facts.lipschitz, 1.0, 400))
        sp.play(learner, self.stream)
        run = sp.play(learner, self.stream)
        with pytest.raises(ValueError, match="first round"):
            sp.certify(learner, run, self.stream, np.zeros(3))

    def test_no_diameter(self):
        learner = sp.OGD(sp.Everywhere(3), self.facts, step_sizes=[0.1])
        run = sp.play(learner, self.stream)
        with pytest.raises(ValueError, match="no diameter"):
            sp.certify(learner, run, self.stream, np.zeros(3))

    def test_a_correction_that_no_theorem_covers(self):
        class Penalised(sp.SwordPP):
            def correction(self):
                return lambda bases, last: np.abs(bases - last).sum(axis=1)

        learner = Penalised(self.domain, self.facts)
        run = sp.play(learner, self.stream)
        with pytest.raises(ValueError, match="DecisionDeviation"):
            sp.certify(learner, run, self.stream, np.zeros(3))
        assert not isinstance(learner._correction, DecisionDeviation)


def test_a_violated_certificate_says_so():
    certificate = sp.Certificate(
        "Theorem 0", regret=2.0, bound=1.0, terms={"all": 1.0}, base_learner=0
    )
    assert not certificate.holds
    assert "VIOLATED" in str(certificate)


def test_the_terms_of_three_guesses_add_up():
    """Evaluated naively, guess by guess.

    Fails without ln 2 for the inherited prior, without the number of guesses in the spread, with
    S_p over the last cap alone, and when the toll of earlier guesses is forgotten.
    """
    rng = np.random.default_rng(8)
    domain, T = sp.Ball(3, 0.4), 200  # guesses of 16, 64 and 256 rounds
    stream = make_stream(rng, domain, sp.Squared(), T, "noise")
    known = stream.assumptions(domain)
    G, L, D = known.lipschitz, known.smoothness, domain.diameter
    for name in ("SwordPP", "Ader++"):
        learner = LEARNERS[name](domain, sp.Assumptions(G, L, None))
        run = sp.play(learner, stream, record=("decisions", "weights", "base_decisions"))
        gradients = np.array([stream.gradient(t, run.decisions[t]) for t in range(T)])
        hints = np.vstack([np.zeros(3), gradients[:-1]]) * (name == "SwordPP")
        surprise = np.sum((gradients - hints) ** 2, axis=1)
        last = learner.step_sizes
        inverse, spent, calm, toll, travel, mixed = 0.0, 0.0, 0.0, np.zeros(len(last)), 0.0, 0.0
        for begin, end, guess in ((0, 16, 16), (16, 80, 64), (80, T, 256)):
            part = LEARNERS[name](domain, sp.Assumptions(G, L, guess))
            steps, rate = part.step_sizes, part._rate
            nearest = np.abs(np.log(last)[:, None] - np.log(steps)[None, :]).argmin(axis=1)
            A = np.sum(surprise[begin:end])
            toll += steps[nearest] * A
            rates = [
                rate.after(a, 0) for a in np.concatenate([[0], np.cumsum(surprise[begin:end])])
            ]
            spent += np.sum(np.array(rates[:-1]) * surprise[begin:end])
            inverse += 1 / rates[-1]
            count = len(steps)
            p = run.weights[begin:end, len(last) - count :]
            x = run.base_decisions[begin:end, len(last) - count :]
            calm += np.sum(np.abs(np.diff(p, axis=0)).sum(axis=1) ** 2) / (4 * rate.cap)
            moves = np.sum(np.diff(x, axis=0) ** 2, axis=2)
            travel = travel + moves.sum(axis=0)[nearest]
            mixed += np.sum(p[1:] * moves)
        strength = 2 * L if name == "SwordPP" else 0.0
        u = domain.sample(rng, T)
        spread = 3 * D**2 + 2 * D * oracle.path_length(u)
        choice = (math.log(2) - np.log(part._prior)) * inverse
        every_i = toll + spread / (2 * last) + choice + (strength - 1 / (4 * last.max())) * travel
        expected = every_i.min() + D**2 * spent - calm - strength * mixed
        certificate = sp.certify(learner, run, stream, u)
        assert certificate.bound == pytest.approx(expected, rel=1e-9), name


def test_closed_forms_are_the_oracles():
    rng = np.random.default_rng(1)
    u = rng.standard_normal((40, 2))
    P = oracle.path_length(u)
    for _ in range(20):
        D, G, L, V, F = rng.uniform(0.1, 5, 5)
        N = int(rng.integers(2, 12))
        constants = {"D": D, "G": G, "L": L, "V": V}
        choice, spread, varied = math.log(N), D**2 + 2 * D * P, G**2 + 2 * V
        assert bounds.theorem_2(N, G, L, V, D) == pytest.approx(
            oracle.theorem_2(N, **constants)["bound"]
        )
        assert bounds.theorem_3(N, G, L, V, D, P) == pytest.approx(
            oracle.theorem_3(N, u, **constants)["bound"]
        )
        assert bounds.lemma_1(0.3, G, V, D, P) == pytest.approx(
            oracle.lemma_1(u, eta=0.3, D=D, G=G, V=V)["bound"]
        )
        # Eq. (46) with eps-bar = 1/(8 D^2 L) and eta-bar = 1/(8L), term by term
        assert bounds.theorem_4(N, G, L, V, D, P) == pytest.approx(
            2 * math.sqrt(choice * (G**2 * D**2 + 2 * D**2 * V))
            + 2 * math.sqrt(spread * varied)
            + 4 * choice * 8 * D**2 * L
            + 4 * spread * 8 * L
        )
        assert bounds.theorem_6(N, L, F, D, P) <= oracle.small_loss(N, F, u, D=D, L=L)["bound"] * (
            1 + 1e-9
        )
        assert bounds.theorem_10(N, G, L, V, F, D, P) > bounds.theorem_2(1, G, L, V, D)


def test_a_run_is_certified_with_its_own_learner():
    stream = sp.streams.abrupt_drift(horizon=300, dim=3, every=100, seed=0)
    domain = sp.Ball(3, 1.0)
    facts = stream.assumptions(domain)
    learner = sp.SwordPP(domain, facts)
    run = sp.play(learner, stream)
    with pytest.raises(ValueError, match="played by another learner, a SwordPP"):
        sp.certify(sp.OGD(domain, facts), run, stream, np.zeros(3))
    other = sp.SwordPP(domain, facts, step_sizes=learner.step_sizes / 2)
    sp.play(other, stream)
    with pytest.raises(ValueError, match="played by another learner"):
        sp.certify(other, run, stream, np.zeros(3))


def test_a_run_can_be_certified_after_playing_on():
    stream = sp.streams.abrupt_drift(horizon=300, dim=3, every=100, seed=0)
    domain = sp.Ball(3, 1.0)
    known = stream.assumptions(domain)
    learner = sp.SwordPP(domain, sp.Assumptions(known.lipschitz, known.smoothness, None))
    run = sp.play(learner, stream)
    before = sp.certify(learner, run, stream, np.zeros(3))
    for _ in range(5):
        sp.play(learner, stream)
    after = sp.certify(learner, run, stream, np.zeros(3))
    assert after.terms == before.terms


def test_the_stability_of_a_resumed_run_is_its_own():
    stream = sp.streams.abrupt_drift(horizon=2000, dim=3, every=100, seed=0)
    domain = sp.Ball(3, 1.0)
    known = stream.assumptions(domain)
    learner = sp.SwordPP(domain, sp.Assumptions(known.lipschitz, known.smoothness, None))
    sp.play(learner, sp.LinearStream(stream.features[:150], stream.targets[:150], stream.loss))
    run = sp.play(learner, stream, record="base_decisions")
    largest = run.base_decisions[:, -1]  # a base learner that was there all along
    moves = np.sum(np.diff(largest, axis=0) ** 2, axis=1)
    resumed = [336 - 150 - 1, 1360 - 150 - 1]  # the moves across a new guess do not count
    # the first move, from the round before this run, counts and is not among the records
    expected = moves.sum() - moves[resumed].sum()
    assert run.stability[0][-1] == pytest.approx(expected, rel=0.02)


def test_lemma_2_certifies_hedge():
    rng = np.random.default_rng(4)
    rows = rng.random((80, 4))
    stream = sp.FunctionStream(
        [lambda x, v=v: float(v @ x) for v in rows], [lambda x, v=v: v for v in rows], dim=4
    )
    for rate in (None, 0.5):
        learner = sp.OptimisticHedge(4, meta_rate=rate)
        run = sp.play(learner, stream)
        for u in (np.eye(4)[2], np.full(4, 0.25)):
            certificate = sp.certify(learner, run, stream, u)
            assert certificate.holds
            assert math.isfinite(certificate.bound)
            assert certificate.theorem.startswith("Lemma 2")
        with pytest.raises(ValueError, match="fixed comparator"):
            sp.certify(learner, run, stream, rng.dirichlet(np.ones(4), 80))


def test_everywhere_promises_its_diameter():
    stream = sp.LinearStream(np.ones((200, 1)), np.full(200, 5.0), sp.Huber(1.0))
    domain = sp.Everywhere(1, diameter=0.5)
    learner = sp.SwordPP(domain, stream.assumptions(domain))
    certificate = sp.certify(learner, sp.play(learner, stream), stream, [5.0])
    assert any("diameter=0.5 promised" in what for what in certificate.broken)
