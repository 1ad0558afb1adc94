"""Where jobs are done: loky's processes, Ray and Dask, all by way of joblib."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from swordplay.engines.jobs import Outcome, do_elsewhere

ENGINES = ("threads", "processes", "ray", "dask")
EXTRAS = {"processes": "jobs", "ray": "ray", "dask": "dask"}

Spread = Callable[[Iterable[tuple[Any, ...]]], Iterable[Outcome]]
"""Calls ``do_elsewhere`` with every tuple of arguments, somewhere."""


class Missing(ImportError):
    """An engine is not installed."""


def check(engine: str, workers: int | None = None, scheduler: str | None = None) -> None:
    """Refuse an engine that there is not (ValueError) or that is not installed (Missing)."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; not {engine!r}.")
    if workers is not None and workers < 1:
        raise ValueError(f"At least one job at a time must be allowed, not {workers}.")
    if scheduler is not None and engine not in ("ray", "dask"):
        raise ValueError(f"A scheduler is for Ray and Dask; engine={engine!r} has none.")
    if engine == "threads":
        return
    try:
        import cloudpickle  # noqa: F401
        import joblib  # noqa: F401

        if engine == "ray":
            import ray.util.joblib  # noqa: F401
        if engine == "dask":
            import distributed  # noqa: F401
    except ImportError as error:
        raise Missing(
            f'engine={engine!r} needs its extra: pip install "swordplay[{EXTRAS[engine]}]" '
            f"({error})"
        ) from error


@contextmanager
def session(engine: str, workers: int | None, scheduler: str | None) -> Iterator[Spread]:
    """Have an engine ready, and stop it afterwards if it was started for this."""
    from joblib import Parallel, delayed, parallel_config

    begin: dict[str, Callable[..., AbstractContextManager[None]]]
    begin = {"processes": lambda *_: nullcontext(), "ray": _ray, "dask": _dask}
    # Ray's backend hands out nothing before all is done.
    form = "list" if engine == "ray" else "generator_unordered"

    def spread(calls: Iterable[tuple[Any, ...]]) -> Iterable[Outcome]:
        outcomes: Iterable[Outcome] = Parallel(batch_size=1, return_as=form)(
            delayed(do_elsewhere)(*call) for call in calls
        )
        return outcomes

    backend = "loky" if engine == "processes" else engine
    with begin[engine](workers, scheduler), parallel_config(backend, n_jobs=workers or -1):
        yield spread


@contextmanager
def _ray(workers: int | None, scheduler: str | None) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    register_ray()
    if ray.is_initialized():
        yield
        return
    address = scheduler or os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _dask(workers: int | None, scheduler: str | None) -> Iterator[None]:
    from distributed import Client, LocalCluster, default_client

    if scheduler is not None:
        with Client(scheduler):
            yield
        return
    try:
        default_client()
    except ValueError:
        pass
    else:
        yield
        return
    with (
        LocalCluster(
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address=None,
        ) as cluster,
        Client(cluster),
    ):
        yield
