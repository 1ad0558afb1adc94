"""Assumptions(horizon=None): guess 16 rounds, then four times as many, and keep what is known."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    DIM,
    DOMAINS,
    LEARNERS,
    MANY,
    Domain,
    assert_close,
    feed,
    make,
    snapshot,
    stream_for,
)

import swordplay as sp
from swordplay import state

RECORD = ("decisions", "weights", "base_decisions", "anchors")
ENDS = [16, 80, 336]  # 16, then 64 more, then 256 more
# A pool or a rate that was computed from the horizon: the building blocks have none.
GROWING = sorted(set(LEARNERS) - {"OptimisticOMD", "OptimisticHedge"})
POOLS = sorted(set(GROWING) - {"OGD", "OEGD"})
STREAM = stream_for("huber", 400)
growing = pytest.mark.parametrize("name", GROWING)
places = pytest.mark.parametrize("place", ["ball_elsewhere", "box", "simplex"])


def unknown(name, place="box", **common):
    domain = DOMAINS[place][0]
    facts = STREAM.assumptions(domain)
    return make(name, domain, sp.Assumptions(facts.lipschitz, facts.smoothness), **common)


def known(name, horizon, place="box"):
    domain = DOMAINS[place][0]
    facts = STREAM.assumptions(domain)
    return make(name, domain, sp.Assumptions(facts.lipschitz, facts.smoothness, horizon))


@growing
@places
def test_the_pool_is_that_of_the_guess(name, place):
    learner = unknown(name, place)
    for guess, end in zip((16, 64, 256, 1024), (*ENDS, 400), strict=True):
        assert np.array_equal(learner.step_sizes, known(name, guess, place).step_sizes)
        while learner.round < end:
            feed(learner, STREAM, learner.round)
    assert learner.round == 400


@growing
@places
def test_growing_keeps_what_was_learned(name, place):
    learner = unknown(name, place)
    for t in range(400):
        if t + 1 not in ENDS:
            feed(learner, STREAM, t)
            continue
        held = learner.copy()  # the same learner, had it not ended a guess in this round
        held._keep_promises = lambda: None
        feed(held, STREAM, t)
        steps, hinted = held.step_sizes, held._hinted
        feed(learner, STREAM, t)
        assert learner.round == held.round == t + 1
        assert learner.gradient_queries == held.gradient_queries
        # Every new base learner stands where the old one nearest in step size stood, among those
        # of its own kind (SwordBest has two kinds).
        twins = []
        for i, step in enumerate(learner.step_sizes):
            distance = np.abs(np.log(steps / step))
            distance[hinted != learner._hinted[i]] = np.inf
            twins.append(int(distance.argmin()))
        assert_close(learner.anchors, held.anchors[twins], 1e-13, "anchors")
        if name in POOLS:
            assert set(np.round(np.log(steps), 9)) <= set(np.round(np.log(learner.step_sizes), 9))
        # Half of the weights is what was learned, half the prior: nobody loses more than half.
        fresh = known(name, int(learner._state["head"][state.GUESS]), place).weights
        learned = held.weights[twins] / held.weights[twins].sum()
        assert_close(learner.weights, 0.5 * learned + 0.5 * fresh, 1e-12, "weights")


@growing
@places
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_streaming_is_batch_across_growth(name, place, dtype):
    batch = unknown(name, place, dtype=dtype)
    streaming, plain = batch.copy(), None
    if dtype == "float64":
        facts = batch.facts
        plain = make(name, Domain(DOMAINS[place][0]), facts)
    run = sp.play(batch, STREAM, record=RECORD)
    final = len(batch.step_sizes)
    tolerance = 1e-10 if dtype == "float64" else 5e-4
    for t in range(len(STREAM)):
        assert_close(streaming.decide(), run.decisions[t], tolerance, f"round {t + 1}")
        feed(streaming, STREAM, t)
    assert len(streaming.step_sizes) == final
    assert_close(streaming.weights, batch.weights, 10 * tolerance)
    assert streaming.gradient_queries == batch.gradient_queries == run.gradient_queries
    if plain is not None:
        same = sp.play(plain, STREAM, record=RECORD)
        for field in ("losses", *RECORD):
            assert_close(getattr(same, field), getattr(run, field), 1e-10, field)


@growing
@places
def test_records_of_a_growing_pool_put_every_base_learner_in_its_column(name, place):
    learner = unknown(name, place)
    twin = learner.copy()
    run = sp.play(learner, STREAM, record=RECORD)
    count = len(learner.step_sizes)
    assert run.weights.shape == (400, count)
    assert run.base_decisions.shape == (400, count, DIM)
    assert_close(run.weights.sum(axis=1), np.ones(400), 1e-12)
    for t in range(400):
        # Where a base learner of this step (and kind) plays, it stands in the final pool's column.
        for column in range(count):
            same = np.isclose(twin.step_sizes, learner.step_sizes[column], rtol=1e-9)
            same &= twin._hinted == learner._hinted[column]
            if same.sum() == 1 and name not in ("OGD", "OEGD"):
                (mine,) = np.flatnonzero(same)
                others = np.isclose(learner.step_sizes, learner.step_sizes[column], rtol=1e-9)
                others &= learner._hinted == learner._hinted[column]
                if others.sum() == 1:
                    assert run.weights[t, column] == pytest.approx(twin.weights[mine], rel=1e-9)
        mixed = run.weights[t] @ run.base_decisions[t]
        assert_close(mixed, run.decisions[t], 1e-10)
        feed(twin, STREAM, t)


@growing
def test_saving_across_growth(name, tmp_path):
    learner = unknown(name)
    for t in range(400):
        if t in (15, 16, 79, 80, 100, 335, 336):
            learner.save(tmp_path / "state")
            again = sp.load(tmp_path / "state")
            assert snapshot(again) == snapshot(learner)
            like = sp.load(tmp_path / "state", like=unknown(name))
            assert snapshot(like) == snapshot(learner)
            feed(like, STREAM, t)
            feed(learner, STREAM, t)
            feed(again, STREAM, t)
            assert snapshot(like) == snapshot(learner) == snapshot(again)
            learner = again
        else:
            feed(learner, STREAM, t)


@growing
def test_a_guess_that_is_nonsense_is_refused(name):
    learner = unknown(name)
    header, row = state.unpack(learner.to_bytes())
    for key in ("format", "dtype", "floats"):
        header.pop(key)
    for nonsense in (np.nan, np.inf, 0.0, -16.0, 1e300):
        row[state.GUESS] = nonsense
        with pytest.raises(sp.StateError):
            sp.from_bytes(state.pack(header, row))


@pytest.mark.parametrize("name", ["OptimisticOMD", "OptimisticHedge"])
def test_who_computes_nothing_from_the_horizon_does_not_guess(name):
    learner = make(name, sp.Simplex(DIM), sp.Assumptions(50.0, 1.0))
    assert not learner._guesses


@pytest.mark.parametrize("name", sorted(set(POOLS) - {"Ader", "AderPP"}))
def test_a_pool_of_ones_own_and_a_rate_that_learns_need_no_horizon(name):
    # Only Ader's rate is computed from T: the self-confident ones are not.
    facts = STREAM.assumptions(DOMAINS["box"][0])
    steps = [0.01, 0.1, 0.4]
    told = make(name, DOMAINS["box"][0], facts, step_sizes=steps)
    untold = make(
        name,
        DOMAINS["box"][0],
        sp.Assumptions(facts.lipschitz, facts.smoothness),
        step_sizes=steps,
    )
    one, other = (sp.play(who, STREAM, record=RECORD) for who in (told, untold))
    assert np.array_equal(one.decisions, other.decisions)
    fixed = {"step_sizes": steps, "meta_rate": 0.3}
    for maybe in (facts, sp.Assumptions(facts.lipschitz, facts.smoothness)):
        assert not make("Ader", DOMAINS["box"][0], maybe, **fixed)._guesses


@growing
def test_no_warning_of_a_horizon_that_nobody_promised(name, recwarn):
    sp.play(unknown(name), STREAM)
    assert not [w for w in recwarn if "horizon" in str(w.message)]


@growing
@pytest.mark.parametrize("seed", [0, 1])
def test_the_regret_is_that_of_a_known_horizon_within_a_factor(name, seed):
    horizon = 3000 if name in MANY else 12_000
    stream = sp.streams.abrupt_drift(horizon, 5, horizon // 6, seed)
    domain = sp.Ball(5, 1.0)
    facts = stream.assumptions(domain)
    guessing = sp.Assumptions(facts.lipschitz, facts.smoothness)
    at_best = stream.values(stream.comparators).sum()
    known_regret, unknown_regret = (
        sp.play(make(name, domain, what), stream).cumulative_loss - at_best
        for what in (facts, guessing)
    )
    assert known_regret > 0
    # The documented price is at most sqrt(K) with K = log4(T/16) + 1 guesses, twice over.
    guesses = np.log2(horizon / 16) / 2 + 1
    assert unknown_regret <= 2 * np.sqrt(guesses) * known_regret
