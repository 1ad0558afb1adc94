"""Where jobs are done: loky's processes and Ray by way of joblib, and Dask."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any

from swordplay.engines.jobs import Outcome, do_elsewhere

MODULES = {
    "threads": (),
    "processes": ("cloudpickle", "joblib"),
    "ray": ("cloudpickle", "joblib", "ray.util.joblib"),
    "dask": ("cloudpickle", "distributed"),
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
    if engine.name == "dask":
        with _dask(engine):
            yield partial(_through_dask, engine.workers)
        return
    from joblib import Parallel, delayed, parallel_config

    # Ray's backend hands out nothing before all is done: its workers had better share the disk.
    ray = engine.name == "ray"
    form = "list" if ray else "generator_unordered"

    def spread(calls: Iterable[tuple[Any, ...]]) -> Iterable[Outcome]:
        outcomes: Iterable[Outcome] = Parallel(batch_size=1, return_as=form)(
            delayed(do_elsewhere)(*call) for call in calls
        )
        return outcomes

    with (
        _ray(engine) if ray else nullcontext(),
        parallel_config("ray" if ray else "loky", n_jobs=engine.workers or -1),
    ):
        yield spread


def _through_dask(workers: int | None, calls: Iterable[tuple[Any, ...]]) -> Iterator[Outcome]:
    """Call by Dask's own client: joblib's backend waits for ever for a job that was given up."""
    from distributed import as_completed, default_client

    client, waiting = default_client(), iter(calls)

    def begin(most: int) -> list[Any]:
        return [client.submit(do_elsewhere, *call, pure=False) for call in islice(waiting, most)]

    running = as_completed(begin(workers or 2 * sum(client.nthreads().values())))
    try:
        for future in running:
            yield future.result()
            running.update(begin(1))
    finally:
        client.cancel(list(running.futures))


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
