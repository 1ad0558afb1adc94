"""Settings of the whole suite: Hypothesis tries few but fixed examples: a run is the same."""

from __future__ import annotations

import os

import pytest
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


def _needed(report):
    """Turn a skip for want of what SWORDPLAY_NEED names (words, with commas) into a failure."""
    needed = [word.lower() for word in os.environ.get("SWORDPLAY_NEED", "").split(",") if word]
    if report.skipped and not hasattr(report, "wasxfail"):
        why = str(report.longrepr)
        if any(word in why.lower() for word in needed):
            report.outcome, report.longrepr = "failed", f"needed here: {why}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    return _needed((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report():
    return _needed((yield))
