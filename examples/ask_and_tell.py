"""Ask and tell: decide, see the loss, learn; stop, save, load and go on.

Nobody plays the game for you here, so the loss may come from anywhere: a queue, a sensor, a person.
"""

import tempfile
from pathlib import Path

import numpy as np

import swordplay as sp


def world(t):
    """Return the target of round t: it jumps in the middle of the game."""
    return np.array([0.5, -0.2]) if t < 500 else np.array([-0.4, 0.6])


def play(learner, rounds):
    lost = 0.0
    for t in rounds:
        x = learner.decide()  # ask
        miss = x - world(t)
        lost += 0.5 * miss @ miss
        learner.learn(miss)  # tell: the gradient of |x - target|^2 / 2 at x
    return lost


# |x - target| <= 2 on this ball, and the curvature is 1.
facts = sp.Assumptions(lipschitz=2.0, smoothness=1.0, horizon=1000)
learner = sp.SwordPP(sp.Ball(dim=2), facts)
first = play(learner, range(600))
print(f"lost in the first 600 rounds: {first:.3f}; decision {learner.decide().round(3)}")

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "learner.bin"
    learner.save(path)
    restored = sp.load(path)
    print(f"saved {path.stat().st_size} bytes after round {restored.round}")

lost, lost_restored = play(learner, range(600, 1000)), play(restored, range(600, 1000))
print(f"lost in the last 400 rounds: {lost:.3f}; by the restored one: {lost_restored:.3f}")
print("the same to the last bit:", learner.to_bytes() == restored.to_bytes())
print("step sizes:", learner.step_sizes.round(4))
print("weights:   ", learner.weights.round(4))
