"""Checks that every public learner goes through, found by themselves, and slots of one's own."""

from __future__ import annotations

import numpy as np
import pytest
from cases import (
    DIM,
    DOMAINS,
    LEARNERS,
    LOSSES,
    MANY,
    Domain,
    LastGradient,
    assert_close,
    feed,
    gradients_of,
    make,
    public_learners,
    snapshot,
    sparse,
    stream_for,
)

import swordplay as sp
from swordplay.ensemble import Ensemble

ROUNDS = 60
RECORD = ("decisions", "weights", "base_decisions", "anchors")
PLACES = {name: DOMAINS[name][0] for name in ("ball_elsewhere", "box", "simplex")}
learners = pytest.mark.parametrize("name", LEARNERS)
places = pytest.mark.parametrize("place", PLACES)
dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])


def home(name, place):
    """The domain to play on: OptimisticHedge knows one only."""
    return sp.Simplex(DIM) if name == "OptimisticHedge" else PLACES[place]


def ready(name, place="box", loss="huber", rounds=ROUNDS, **common):
    """A learner, and the stream that it was made for."""
    domain, stream = home(name, place), stream_for(loss, rounds)
    return make(name, domain, stream.assumptions(domain), **common), stream


def test_every_learner_is_found():
    found = {cls.__name__ for cls in public_learners()}
    assert found >= {
        "OGD", "OEGD", "Ader", "Sword", "SwordSmall", "SwordBest", "SwordPP", "SwordOptimism",
        "OptimisticOMD", "OptimisticHedge",
    }  # fmt: skip
    assert all(issubclass(cls, Ensemble) for cls in public_learners())
    for name in LEARNERS:
        assert ready(name)[0].own == (name in MANY)


# ------------------------------------------------------------------ one game, however it is played


@learners
@places
@dtypes
def test_streaming_is_batch(name, place, dtype):
    batch, stream = ready(name, place, dtype=dtype)
    streaming = batch.copy()
    run = sp.play(batch, stream, record=RECORD)
    seen = []
    for t in range(len(stream)):
        state = streaming.weights, streaming.base_decisions, streaming.anchors
        seen.append((feed(streaming, stream, t), *state))
    tolerance = 1e-12 if dtype == "float64" else 2e-5
    for field, mine in zip(RECORD, zip(*seen, strict=True), strict=True):
        assert_close(getattr(run, field), mine, tolerance, field)
    assert_close(streaming._state["decision"], batch._state["decision"], tolerance)
    assert streaming.round == batch.round == len(run) == len(stream)
    assert streaming.gradient_queries == batch.gradient_queries == run.gradient_queries
    assert_close(run.losses, stream.values(run.decisions.astype(float)), tolerance, "losses")


@learners
@places
def test_two_halves_are_one_whole(name, place):
    whole, stream = ready(name, place)
    halves = whole.copy()
    cut = 23
    run = sp.play(whole, stream, record=RECORD)
    one = sp.LinearStream(stream.features[:cut], stream.targets[:cut], stream.loss)
    two = sp.LinearStream(stream.features[cut:], stream.targets[cut:], stream.loss)
    first, second = (sp.play(halves, part, record=RECORD) for part in (one, two))
    assert snapshot(whole) == snapshot(halves)  # the same kernel, the same numbers: bit for bit
    for field in ("losses", *RECORD):
        parts = np.concatenate([getattr(first, field), getattr(second, field)])
        assert np.array_equal(parts, getattr(run, field)), field
    assert_close(first.adaptivity + second.adaptivity, run.adaptivity, 1e-12)
    assert_close(
        first.gradient_variation + second.gradient_variation, run.gradient_variation, 1e-12
    )
    for mine, theirs, all_ in zip(first.stability, second.stability, run.stability, strict=True):
        assert_close(mine + np.asarray(theirs), all_, 1e-12)


@learners
@places
def test_sparse_rows_are_rows(name, place):
    dense, stream = ready(name, place)
    rng = np.random.default_rng(0)
    stream.features[rng.random(stream.features.shape) < 0.5] = 0.0
    other, csr = dense.copy(), sparse(stream)
    run, same = (sp.play(who, what, record=RECORD) for who, what in ((dense, stream), (other, csr)))
    for field in ("losses", *RECORD):
        assert_close(getattr(same, field), getattr(run, field), 1e-11, field)
    assert_close(other.decide(), dense.decide(), 1e-11)


@learners
def test_functions_are_a_stream_too(name):
    direct, stream = ready(name)
    through = direct.copy()
    values = [lambda x, t=t: stream.value(t, x) for t in range(len(stream))]
    run = sp.play(direct, stream, record=RECORD)
    same = sp.play(through, sp.FunctionStream(values, gradients_of(stream), DIM), record=RECORD)
    for field in ("losses", *RECORD):
        assert_close(getattr(same, field), getattr(run, field), 1e-11, field)


@learners
def test_recording_every_third_round_is_a_third_of_the_record(name):
    learner, stream = ready(name)
    other, nothing = learner.copy(), learner.copy()
    all_, third = sp.play(learner, stream, RECORD), sp.play(other, stream, RECORD, every=3)
    for field in RECORD:
        assert np.array_equal(getattr(third, field), getattr(all_, field)[::3])
    bare = sp.play(nothing, stream)
    assert all(getattr(bare, field) is None for field in RECORD)
    assert np.array_equal(bare.losses, all_.losses)
    assert snapshot(learner) == snapshot(other) == snapshot(nothing)


# ------------------------------------------------------------------ gradients


@learners
@places
def test_gradients_are_counted(name, place):
    learner, stream = ready(name, place)
    bases = len(learner.step_sizes)
    asked = []
    for t in range(8):
        before = learner.gradient_queries
        if learner.own:

            def gradient(x, t=t):
                asked.append(np.array(x))
                return stream.gradient(t, x)

            x, own = learner.decide(), learner.base_decisions
            asked.clear()
            learner.learn(gradient)
            wanted = bases + MANY[name]
            assert len(asked) == wanted
            assert np.array_equal(asked[0], x)  # at x_t, then at every x_{t,i}
            assert np.array_equal(asked[1 : bases + 1], own)
        else:
            feed(learner, stream, t)
            wanted = 1
        assert learner.gradient_queries - before == wanted
    assert learner.round == 8
    played, stream = ready(name, place)
    run = sp.play(played, stream)
    assert run.gradient_queries == played.gradient_queries == wanted * len(stream)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - set(MANY)))
def test_a_function_serves_a_one_gradient_learner_too_and_is_asked_once(name):
    learner, stream = ready(name)
    other, asked = learner.copy(), []

    def gradient(x):
        asked.append(x)
        return stream.gradient(0, x)

    learner.learn(gradient)
    feed(other, stream, 0)
    assert len(asked) == 1
    assert snapshot(learner) == snapshot(other)


@learners
@places
@dtypes
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_bad_gradient_changes_nothing(name, place, dtype, bad):
    learner, stream = ready(name, place, dtype=dtype)
    sp.play(learner, stream_for("huber", 7))
    untouched, before = learner.copy(), snapshot(learner)
    calls = len(learner.step_sizes) + MANY[name] if learner.own else 1
    for k in range(calls):
        for where in range(DIM):
            count = iter(range(calls))

            def gradient(x, k=k, where=where, count=count):
                g = stream.gradient(7, x)
                if next(count) == k:
                    g[where] = bad
                return g

            with pytest.raises(ValueError, match=f"gradient of round 8 is {bad} at index"):
                learner.learn(gradient)
            assert snapshot(learner) == before
    feed(learner, stream, 7)  # and it goes on as if nothing had happened
    feed(untouched, stream, 7)
    assert snapshot(learner) == snapshot(untouched)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "in NumPy"])
def test_a_gradient_that_raises_or_has_the_wrong_shape_changes_nothing(name, plain):
    learner, stream = ready(name, rounds=20)
    if plain:
        domain = Domain(home(name, "box"))
        learner = make(name, domain, stream.assumptions(home(name, "box")))
    feed(learner, stream, 0)
    before = snapshot(learner)
    for k in range(len(learner.step_sizes) + MANY[name]):
        for failure in (KeyboardInterrupt, ZeroDivisionError, ValueError):
            count = iter(range(1000))

            def gradient(x, k=k, failure=failure, count=count):
                if next(count) == k:
                    if failure is ValueError:
                        return np.zeros(DIM + 1)
                    raise failure
                return stream.gradient(1, x)

            with pytest.raises(failure):
                learner.learn(gradient)
            assert snapshot(learner) == before


@learners
def test_a_stream_whose_gradient_overflows_stops_the_game_at_that_round(name):
    learner, stream = ready(name, rounds=20)
    learner = make(name, home(name, "box"), sp.Assumptions(50.0, 1.0, 20))
    steep = stream.features.copy()
    steep[13] = 1e200
    wild = sp.LinearStream(steep, stream.targets, sp.Squared())
    other = learner.copy()
    sp.play(other, sp.LinearStream(steep[:13], stream.targets[:13], sp.Squared()))
    with pytest.raises(ValueError, match="gradient of round 14"):
        sp.play(learner, wild)
    assert learner.round == 13
    assert snapshot(learner) == snapshot(other)


# ------------------------------------------------------------------ deciding


@learners
@places
@dtypes
def test_decide_has_no_side_effects(name, place, dtype):
    learner, _ = ready(name, place, dtype=dtype)
    sp.play(learner, stream_for("huber", 5))
    before = snapshot(learner)
    x = learner.decide()
    assert x.dtype == np.dtype(dtype)
    kept = x.copy()
    x[:] = 99.0  # a copy: nobody can reach the state through it
    for view in (learner.weights, learner.base_decisions, learner.anchors, learner.step_sizes):
        view[:] = 99.0
    assert np.array_equal(learner.decide(), kept)
    _ = (learner.round, learner.gradient_queries, learner.meta_rate, learner.weights, repr(learner))
    learner.to_bytes()
    assert snapshot(learner) == before


@learners
@places
@dtypes
@pytest.mark.parametrize("loss", LOSSES)
def test_weights_sum_to_one_and_decisions_are_members(name, place, dtype, loss):
    domain, stream = home(name, place), stream_for(loss, ROUNDS, seed=3)
    facts = stream.assumptions(domain)
    learner = make(name, domain, sp.Assumptions(facts.lipschitz, 1.0, ROUNDS), dtype=dtype)
    run = sp.play(learner, stream, record=RECORD)
    slack = 1e-12 if dtype == "float64" else 1e-5
    assert np.abs(run.weights.astype(float).sum(axis=1) - 1).max() <= slack
    assert (run.weights >= 0).all()
    tolerance = 1e-9 if dtype == "float64" else 1e-5
    for block in (run.decisions, run.base_decisions, run.anchors):
        assert domain.contains(block.reshape(-1, DIM), tolerance)
    mixed = np.einsum("tn,tnd->td", run.weights, run.base_decisions)
    assert_close(run.decisions, mixed, 10 * slack, "x_t = sum p_i x_i")


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge"}))
@places
def test_start(name, place):
    domain, stream = PLACES[place], stream_for("huber", ROUNDS)
    facts = stream.assumptions(domain)
    assert_close(make(name, domain, facts).decide(), domain.center, 1e-15, "default: the centre")
    start = domain.project([0.3, 0.6, 0.1])
    learner = make(name, domain, facts, start=start)
    assert_close(learner.decide(), start, 1e-15)
    assert np.abs(learner.base_decisions - start).max() < 1e-15
    start[:] = 0.0  # the learner keeps its own
    assert learner.decide().any()
    each = domain.sample(np.random.default_rng(1), len(learner.step_sizes))
    apart = make(name, domain, facts, start=each)
    assert_close(apart.base_decisions, each, 1e-14)
    assert_close(apart.decide(), apart.weights @ each, 1e-14)
    assert make(name, domain, facts, start=domain.center.tolist()).decide().shape == (DIM,)


@learners
def test_a_copy_is_independent(name):
    learner, stream = ready(name)
    feed(learner, stream, 0)
    twin = learner.copy()
    assert type(twin) is type(learner)
    assert snapshot(twin) == snapshot(learner)
    before = snapshot(learner)
    for t in range(1, 9):
        feed(twin, stream, t)
    assert snapshot(learner) == before
    for t in range(1, 9):
        feed(learner, stream, t)
    assert snapshot(twin) == snapshot(learner)


# ------------------------------------------------------------------ small games


@learners
def test_a_horizon_of_one(name):
    domain = home(name, "box")
    stream = stream_for("huber", 1)
    learner = make(name, domain, stream.assumptions(domain))
    assert np.isfinite(learner.step_sizes).all()
    run = sp.play(learner, stream, record=RECORD)
    assert len(run) == 1
    assert np.isfinite(run.losses).all()
    assert np.isfinite(learner.decide()).all()
    assert run.gradient_variation == 0.0
    assert run.stability[1:] == (0.0, 0.0)
    assert not run.stability[0].any()


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"OptimisticHedge"}))
@places
def test_one_base_learner_has_all_the_weight(name, place):
    domain, stream = PLACES[place], stream_for("huber", ROUNDS)
    facts = stream.assumptions(domain)
    learner = make(name, domain, facts, step_sizes=[0.1])
    run = sp.play(learner, stream, record=RECORD)
    if name == "SwordBest":  # each step serves twice: with and without a hint
        assert run.weights.shape == (ROUNDS, 2)
        return
    assert (run.weights == 1.0).all()
    assert_close(run.decisions, run.base_decisions[:, 0], 1e-14)
    # Computed pools of one, too: L so large that the cap is below the first step.
    tiny = make(name, domain, sp.Assumptions(facts.lipschitz, 1e6, ROUNDS))
    if name not in ("Ader", "AderPP"):
        assert len(tiny.step_sizes) == (2 if name == "SwordBest" else 1)
        assert np.isfinite(sp.play(tiny, stream).losses).all()


@learners
def test_one_dimension(name):
    if name == "OptimisticHedge":
        pytest.skip("a simplex has two coordinates at least")
    stream = stream_for("huber", ROUNDS, dim=1)
    for domain in (sp.Ball(1), sp.Box(-1.0, 2.0), sp.L1Ball(1)):
        learner = make(name, domain, stream.assumptions(domain))
        run = sp.play(learner, stream, record=RECORD)
        assert domain.contains(run.decisions)
    fresh = make(name, sp.Ball(1), sp.Assumptions(1.0, 1.0, 9))
    fresh.learn((lambda x: 0.5) if fresh.own else 0.5)  # a bare number is a gradient in one
    assert fresh.decide() < 0


@learners
def test_a_round_with_no_gradient_moves_nobody_at_first(name):
    learner, _ = ready(name)
    x = learner.decide()
    for _ in range(5):
        learner.learn((lambda x: np.zeros(DIM)) if learner.own else np.zeros(DIM))
    assert_close(learner.decide(), x, 1e-12)
    assert np.isfinite(learner._state["head"]).all()


@learners
@places
@dtypes
def test_weights_survive_losses_that_would_overflow(name, place, dtype):
    # PyNOL has NaN weights at losses of 800; here 1e15 is no trouble.
    domain = home(name, place)
    learner = make(name, domain, sp.Assumptions(1e16, 1.0, 100), dtype=dtype, meta_rate=1.0)
    for sign in (1.0, -1.0, 1.0):
        g = sign * np.array([1e15, -1e15, 3e14])
        learner.learn((lambda x, g=g: g) if learner.own else g)
    assert np.isfinite(learner.weights).all()
    assert learner.weights.sum() == pytest.approx(1.0)
    assert domain.contains(learner.decide(), 1e-5)


def test_more_than_the_promised_horizon_is_played_on():
    learner, _ = ready("SwordPP", rounds=10)
    longer = stream_for("huber", 30)
    with pytest.warns(sp.AssumptionWarning, match="past the promised horizon=10"):
        run = sp.play(learner, longer)
    assert len(run) == 30


# ------------------------------------------------------------------ hints given


@pytest.mark.parametrize("name", ["SwordOptimism", "OptimisticOMD", "OptimisticHedge"])
@dtypes
def test_a_hint_replaces_the_one_before_it(name, dtype):
    one, stream = ready(name, dtype=dtype)
    for t in range(3):
        feed(one, stream, t)
    other = one.copy()
    hint = np.array([0.3, -0.2, 0.9])
    x = one.decide(hint=hint)
    other.decide(hint=-5 * hint)
    assert not np.array_equal(other.decide(), x)
    assert np.array_equal(other.decide(hint=hint), x)
    assert np.array_equal(other.decide(), x)
    feed(one, stream, 3)
    feed(other, stream, 3)
    assert snapshot(one) == snapshot(other)


@pytest.mark.parametrize("name", sorted(set(LEARNERS) - {"SwordOptimism", "OptimisticOMD",
                                                         "OptimisticHedge"}))  # fmt: skip
def test_a_learner_with_a_hint_of_its_own_takes_no_other(name):
    learner, _ = ready(name)
    before = snapshot(learner)
    with pytest.raises(TypeError, match="makes its own hint"):
        learner.decide(hint=np.zeros(DIM))
    assert snapshot(learner) == before


@pytest.mark.parametrize("plain", [False, True], ids=["compiled", "in NumPy"])
def test_a_hint_that_knows_the_future_pays(plain):
    domain = sp.Ball(DIM, 1.0)
    where = Domain(domain) if plain else domain
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(200, DIM))
    facts = sp.Assumptions(5.0, 1.0, 200)
    told, untold = (sp.SwordOptimism(where, facts, step_cap=0.5) for _ in range(2))
    paid = {True: 0.0, False: 0.0}
    for g in gradients:
        paid[True] += g @ told.decide(hint=g)
        paid[False] += g @ untold.decide()
        told.learn(g)
        untold.learn(g)
    assert paid[True] < paid[False] - 50


# ------------------------------------------------------------------ slots of one's own


class Mean:
    """The mean of the gradients so far: a hint with a memory."""

    def memory(self, dim):
        return dim + 1

    def __call__(self, gradient, memory):
        memory[0] += 1
        memory[1:] += gradient
        return memory[1:] / memory[0]


class Entropy:
    """A user's own regulariser, which happens to be the negative entropy."""

    def step(self, domain, anchors, directions):
        grown = anchors * np.exp(-(directions - directions.min(axis=1, keepdims=True)))
        return grown / grown.sum(axis=1, keepdims=True)

    def divergence(self, x, anchor):
        return float(np.sum(x * np.log(x / anchor)))


def length(bases, last_bases):
    """A user's own correction: lambda times the distance, not its square."""
    return 0.3 * np.linalg.norm(bases - last_bases, axis=1)


class OwnHint(sp.SwordPP):
    hint = Mean()


class SameHint(sp.SwordPP):
    hint = LastGradient()


class OwnCorrection(sp.SwordPP):
    def correction(self):
        return length


class OwnRegulariser(sp.SwordPP):
    regulariser = Entropy()


class SameCorrection(sp.SwordPP):
    def correction(self):
        strength = 2 * self.facts.smoothness
        return lambda bases, last: strength * np.sum((bases - last) ** 2, axis=1)


OWN = {cls.__name__: cls for cls in (OwnHint, SameHint, OwnCorrection, OwnRegulariser)}


@pytest.mark.parametrize("name", OWN)
@dtypes
def test_slots_of_ones_own_run_through_the_ensemble(name, dtype, tmp_path):
    domain, stream = sp.Simplex(DIM), stream_for("huber", ROUNDS)
    facts = stream.assumptions(domain)
    common = {"step_sizes": [0.02, 0.1, 0.5], "meta_rate": 0.5}
    learner, builtin = (
        OWN[name](domain, facts, dtype=dtype, **common),
        sp.SwordPP(domain, facts, **common),
    )
    assert not learner._compiled
    assert builtin._compiled
    run = sp.play(learner, stream, record=RECORD)
    tolerance = 1e-9 if dtype == "float64" else 1e-5
    assert domain.contains(run.decisions, tolerance)
    assert np.abs(run.weights.sum(axis=1) - 1).max() < 1e-5
    assert run.gradient_queries == ROUNDS
    decisions = sp.play(builtin, stream, record="decisions").decisions
    if name == "SameHint" and dtype == "float64":
        assert_close(run.decisions, decisions, 1e-12)
    if name != "SameHint":
        assert np.abs(run.decisions - decisions).max() > 1e-4  # the slot does something
    learner.save(tmp_path / "learner")
    again = sp.load(tmp_path / "learner", like=OWN[name](domain, facts, dtype=dtype, **common))
    assert again._row.tobytes() == learner._row.tobytes()
    feed(again, stream, 0)
    feed(learner, stream, 0)
    assert again._row.tobytes() == learner._row.tobytes()


def test_a_hint_of_ones_own_that_is_the_gradient_is_sword_plus_plus():
    for place, domain in PLACES.items():
        stream = stream_for("squared", 200)
        facts = stream.assumptions(domain)
        mine, theirs = SameHint(domain, facts), sp.SwordPP(domain, facts)
        one, other = (sp.play(who, stream, record=RECORD) for who in (mine, theirs))
        for field in (*RECORD, "adaptivity", "gradient_variation"):
            assert_close(getattr(one, field), getattr(other, field), 1e-11, f"{place}: {field}")
        for a, b in zip(one.stability, other.stability, strict=True):
            assert_close(a, b, 1e-10, place)


def test_a_correction_of_ones_own_that_is_the_paper_s_is_sword_plus_plus():
    domain, stream = PLACES["box"], stream_for("squared", 200)
    facts = stream.assumptions(domain)
    mine, theirs = SameCorrection(domain, facts), sp.SwordPP(domain, facts)
    assert not mine._compiled
    one, other = (sp.play(who, stream, record=RECORD) for who in (mine, theirs))
    assert_close(one.weights, other.weights, 1e-11)
    assert_close(one.decisions, other.decisions, 1e-11)


@pytest.mark.parametrize("hinted", [False, True])
def test_a_regulariser_of_ones_own_that_is_the_entropy_is_multiplicative_weights(hinted):
    domain, stream = sp.Simplex(DIM), stream_for("huber", ROUNDS)
    mine = sp.OptimisticOMD(domain, step_size=0.4, regulariser=Entropy())
    theirs = sp.OptimisticOMD(domain, step_size=0.4, regulariser=sp.NegativeEntropy())
    assert theirs._compiled
    assert not mine._compiled
    hints = np.random.default_rng(0).normal(size=(ROUNDS, DIM)) if hinted else None
    one, other = (sp.play(who, stream, record=RECORD, hints=hints) for who in (mine, theirs))
    for field in RECORD:
        assert_close(getattr(one, field), getattr(other, field), 1e-11, field)


@learners
def test_a_domain_of_ones_own(name, tmp_path):
    if name == "OptimisticHedge":
        pytest.skip("it makes its own domain")
    domain, stream = PLACES["box"], stream_for("huber", ROUNDS)
    facts = stream.assumptions(domain)
    mine, theirs = make(name, Domain(domain), facts), make(name, domain, facts)
    assert not mine._compiled
    one, other = (sp.play(who, stream, record=RECORD) for who in (mine, theirs))
    for field in ("losses", *RECORD):
        assert_close(getattr(one, field), getattr(other, field), 1e-11, field)
    assert one.gradient_queries == other.gradient_queries
    mine.save(tmp_path / "learner")
    with pytest.raises(sp.StateError, match="like="):
        sp.load(tmp_path / "learner")
    again = sp.load(tmp_path / "learner", like=make(name, Domain(domain), facts))
    assert again._row.tobytes() == mine._row.tobytes()
    if name not in MANY:
        before = snapshot(mine)
        with pytest.raises(ValueError, match="is nan at index"):
            mine.learn([0.0, np.nan, 0.0])
        assert snapshot(mine) == before


def test_a_slot_of_ones_own_that_fails_changes_nothing():
    class Broken:
        works = True

        def memory(self, dim):
            return 2

        def __call__(self, gradient, memory):
            memory[:] += 1
            if not self.works:
                raise ZeroDivisionError
            return gradient

    class Fragile(sp.SwordPP):
        hint = Broken()

    domain, stream = PLACES["box"], stream_for("huber", ROUNDS)
    learner = Fragile(domain, stream.assumptions(domain))
    feed(learner, stream, 0)
    before = snapshot(learner)
    Fragile.hint.works = False
    with pytest.raises(ZeroDivisionError):
        feed(learner, stream, 1)
    assert snapshot(learner) == before
