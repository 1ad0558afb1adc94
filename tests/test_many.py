"""Many games at once: the same results as one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import swordplay as sp


def learners(stream, domain):
    facts = stream.assumptions(domain)
    return [
        sp.OGD(domain, facts),
        sp.SwordPP(domain, facts),
        sp.Ader(domain, facts, surrogate=True),
        sp.Sword(domain, facts),
        sp.SwordPP(domain, facts, dtype="float32"),
    ]


@pytest.mark.parametrize("jobs", [1, 2, 5, None])
def test_the_number_of_jobs_changes_nothing(jobs):
    stream = sp.streams.abrupt_drift(horizon=3000, dim=4, every=500, seed=3)
    domain = sp.Ball(4, 1.0)
    alone, together = learners(stream, domain), learners(stream, domain)
    expected = [sp.play(learner, stream, record="weights") for learner in alone]
    runs = sp.play_many(together, stream, jobs=jobs, record="weights")
    for a, b, x, y in zip(expected, runs, alone, together, strict=True):
        np.testing.assert_array_equal(a.losses, b.losses)
        np.testing.assert_array_equal(a.weights, b.weights)
        assert x.to_bytes() == y.to_bytes()


class Twice(sp.SwordPP):
    """A learner whose hint is Python's: its games run in processes."""

    class Hint:
        def memory(self, dim):
            return 0

        def __call__(self, gradient, memory):
            return 2 * gradient

    hint = Hint()


def test_learners_in_python_run_in_processes_and_come_back():
    pytest.importorskip("joblib")
    stream = sp.streams.abrupt_drift(horizon=200, dim=3, every=50, seed=1)
    domain = sp.Ball(3, 1.0)
    facts = stream.assumptions(domain)
    players = [Twice(domain, facts), sp.SwordPP(domain, facts), Twice(domain, facts)]
    runs = sp.play_many(players, stream, jobs=2)
    twin = Twice(domain, facts)
    expected = sp.play(twin, stream)
    for k in (0, 2):
        np.testing.assert_array_equal(runs[k].losses, expected.losses)
        assert players[k].round == 200
        np.testing.assert_array_equal(players[k].decide(), twin.decide())


def test_one_stream_each():
    domain = sp.Ball(2, 1.0)
    streams = [sp.streams.abrupt_drift(horizon=n, dim=2, every=50, seed=n) for n in (100, 200)]
    players = [sp.OGD(domain, stream.assumptions(domain)) for stream in streams]
    assert [len(run) for run in sp.play_many(players, streams)] == [100, 200]


def test_bad_calls():
    stream = sp.streams.abrupt_drift(horizon=100, dim=2, every=50, seed=0)
    domain = sp.Ball(2, 1.0)
    learner = sp.OGD(domain, stream.assumptions(domain))
    with pytest.raises(ValueError, match="2 learners, but 1 streams"):
        sp.play_many([learner, learner.copy()], [stream])
    with pytest.raises(ValueError, match="twice"):
        sp.play_many([learner, learner], stream)
    with pytest.raises(ValueError, match="jobs"):
        sp.play_many([learner], stream, jobs=0)
    assert sp.play_many([], stream) == []
