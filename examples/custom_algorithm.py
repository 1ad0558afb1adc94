"""An algorithm of your own, from the ensemble's slots: Sword++ with another hint.

Sword++ guesses that the next gradient will be the last one. Here the guess is the mean of the last
two, which is better where losses alternate. Everything else stays as it is in Sword++.
"""

import swordplay as sp


class MeanOfLastTwo:
    """M_{t+1} = (g_t + g_{t-1}) / 2, with g_0 = 0."""

    def memory(self, dim):
        return dim  # floats of the learner's row to keep: the gradient before

    def __call__(self, gradient, memory):
        hint = (gradient + memory) / 2
        memory[:] = gradient
        return hint


class SwordMean(sp.SwordPP):
    hint = MeanOfLastTwo()


domain = sp.Ball(dim=1)
for name, stream in (
    ("losses that alternate", sp.streams.instance_two(horizon=5000)),
    ("losses that drift", sp.streams.instance_one(horizon=5000)),
):
    facts = stream.assumptions(domain)
    print(name)
    for learner in (sp.SwordPP(domain, facts), SwordMean(domain, facts)):
        run = sp.play(learner, stream)
        regret = sp.regret.dynamic_regret(run, stream, stream.comparators)
        print(
            f"  {type(learner).__name__:10} what the hints missed {run.adaptivity:8.3f}"
            f"   regret {regret:7.3f}"
        )
