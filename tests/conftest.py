"""Settings of the whole suite: Hypothesis tries few but fixed examples: a run is the same."""

from __future__ import annotations

from databases import cluster, databases  # noqa: F401 - fixtures
from hypothesis import HealthCheck, settings

settings.register_profile(
    "swordplay",
    max_examples=60,
    deadline=None,  # the first example may compile a kernel
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("swordplay")
