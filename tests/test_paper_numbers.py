"""The numbers of section 6.3 (Instances 1 and 2) and of the experiments, in shape and order."""

from __future__ import annotations

import numpy as np
import pytest

import swordplay as sp

DOUBLINGS = [2**k for k in range(8, 17)]
INSTANCES = {1: sp.streams.instance_one, 2: sp.streams.instance_two}
LEARNERS = {
    "OGD": sp.OGD,
    "Ader++": lambda domain, facts, **common: sp.Ader(domain, facts, surrogate=True, **common),
    "Sword": sp.Sword,
    "Sword++": sp.SwordPP,
}


def regrets(make, instance):
    """The dynamic regret against the minimisers, for every T: start 0, the true G and L."""
    domain = sp.Box(-1.0, 1.0)
    out = []
    for horizon in DOUBLINGS:
        stream = INSTANCES[instance](horizon)
        learner = make(domain, stream.assumptions(domain), start=[0.0])
        run = sp.play(learner, stream)
        out.append(run.cumulative_loss - stream.values(stream.comparators).sum())
    return np.array(out)


def slope(regret, last=None):
    """The log-log slope, by least squares over all, or over the last few, doublings."""
    last = len(regret) if last is None else last + 1
    return np.polyfit(np.log2(DOUBLINGS[-last:]), np.log2(regret[-last:]), 1)[0]


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", ["OGD", "Ader++"])
def test_regret_grows_like_the_root_of_t(name, instance):
    assert slope(regrets(LEARNERS[name], instance)) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", ["Sword", "Sword++"])
def test_regret_stays_constant(name, instance):
    regret = regrets(LEARNERS[name], instance)
    assert slope(regret, last=3) <= 0.15
    assert (regret > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_synthetic_stream_puts_the_algorithms_in_the_paper_s_order(seed):
    stream = sp.streams.abrupt_drift(50_000, 5, 1000, seed)
    domain = sp.Ball(5, 1.0)
    facts = stream.assumptions(domain)
    ogd, ader, sword = (
        sp.play(LEARNERS[name](domain, facts), stream).cumulative_loss
        for name in ("OGD", "Ader++", "Sword++")
    )
    assert ogd > ader > sword
    assert ogd > 2 * ader
