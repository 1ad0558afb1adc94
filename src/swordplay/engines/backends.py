"""Where jobs are done: loky's processes, Ray and Dask, all by way of joblib."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from swordplay.engines.jobs import Outcome, do_elsewhere

MODULES = {
    "threads": (),
    "processes": ("cloudpickle", "joblib"),
    "ray": ("cloudpickle", "joblib", "ray.util.joblib"),
    "dask": ("cloudpickle", "joblib", "distributed"),
}
ENGINES = tuple(MODULES)

Spread = Callable[[Iterable[tuple[Any, ...]]], Iterable[Outcome]]
"""Calls ``do_elsewhere`` with every tuple of arguments, somewhere."""


class Missing(ImportError):
    """An engine is not installed."""


@dataclass(frozen=True)
class Engine:
    """Where jobs are done; refused if there is no such engine, or with Missing if not installed.

    **Ray listens on every network interface, whatever address it is given.**
    """

    name: str = "threads"
    """One of ``ENGINES``."""
    workers: int | None = None
    """How many jobs at a time; None for one on each core, of the cluster if there is one."""
    scheduler: str | None = None
    """The address of a running Ray or Dask. Without, the one that this process is connected to, or
    else one that is started on this machine for the time being."""

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise ValueError(f"engine must be one of {', '.join(ENGINES)}; not {self.name!r}.")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"At least one job at a time must be allowed, not {self.workers}.")
        if self.scheduler is not None and self.name not in ("ray", "dask"):
            raise ValueError(f"A scheduler is for Ray and Dask; engine {self.name!r} has none.")
        try:
            for module in MODULES[self.name]:
                import_module(module)
        except ImportError as error:
            extra = "jobs" if self.name == "processes" else self.name
            raise Missing(
                f'engine {self.name!r} needs its extra: pip install "swordplay[{extra}]" ({error})'
            ) from error


THREADS = Engine()


@contextmanager
def session(engine: Engine) -> Iterator[Spread]:
    """Have an engine ready, and stop it afterwards if it was started for this."""
    from joblib import Parallel, delayed, parallel_config

    begin: dict[str, Callable[[Engine], AbstractContextManager[object]]]
    begin = {"processes": nullcontext, "ray": _ray, "dask": _dask}
    # Ray's backend hands out nothing before all is done: its workers had better share the disk.
    form = "list" if engine.name == "ray" else "generator_unordered"

    def spread(calls: Iterable[tuple[Any, ...]]) -> Iterable[Outcome]:
        outcomes: Iterable[Outcome] = Parallel(batch_size=1, return_as=form)(
            delayed(do_elsewhere)(*call) for call in calls
        )
        return outcomes

    backend = "loky" if engine.name == "processes" else engine.name
    with begin[engine.name](engine), parallel_config(backend, n_jobs=engine.workers or -1):
        yield spread


@contextmanager
def _ray(engine: Engine) -> Iterator[None]:
    import ray
    from ray.util.joblib import register_ray

    register_ray()
    if ray.is_initialized():
        yield
        return
    address = engine.scheduler or os.environ.get("RAY_ADDRESS")
    if address:
        ray.init(address=address)
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would report to its makers
        ray.init(
            num_cpus=engine.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _dask(engine: Engine) -> Iterator[None]:
    from distributed import Client, LocalCluster, default_client

    if engine.scheduler is not None:
        with Client(engine.scheduler):
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
            n_workers=engine.workers or os.cpu_count() or 1,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # ":0" is open to everybody
        ) as cluster,
        Client(cluster),
    ):
        yield
