"""Ten lines: a stream, a learner, a game, and what it lost."""

import swordplay as sp

stream = sp.streams.abrupt_drift(horizon=50_000, dim=5, every=1000, seed=0)
domain = sp.Ball(dim=5, radius=1.0)
facts = stream.assumptions(domain)  # worst-case G, L and T, read off the data

for learner in (sp.OGD(domain, facts), sp.SwordPP(domain, facts)):
    run = sp.play(learner, stream)
    regret = sp.regret.dynamic_regret(run, stream, stream.comparators)
    print(f"{type(learner).__name__:8} loss {run.cumulative_loss:8.1f}   regret {regret:8.1f}")
