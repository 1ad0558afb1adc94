"""The one way in which this package compiles a function, and where it keeps the result.

Numba notices a change only of the file that defines a function, not of the functions it calls, so
an upgrade could leave old code in the cache. Here the cache lives in a folder named after the
content of all kernels: whatever changes, the folder changes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic, overload

config: Any = numba.config
Function = TypeVar("Function", bound=Callable[..., Any])

# Sums may be reordered and fused (vector instructions need it); NaN and infinity keep their
# meaning, because the kernels look for them.
REORDER = {"reassoc", "contract", "arcp", "nsz"}
_OPTIONS: dict[str, Any] = {"nogil": True, "fastmath": REORDER, "error_model": "numpy"}
_STALE_AFTER = 7 * 24 * 3600.0  # seconds without use, after which another version's cache goes


def _fingerprint() -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted([*here.glob("*.py"), here.parent / "state.py"]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _user_cache() -> Path:
    given = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    if given:
        return Path(given) / "swordplay"
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and a user whom the system does not know: many a container
        owner = getattr(os, "getuid", lambda: "user")()
        return Path(tempfile.gettempdir()) / f"swordplay-{owner}"
    if sys.platform == "win32":
        return home / "AppData" / "Local" / "swordplay"
    folder = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    return folder / "swordplay"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def cache_folder() -> Path | None:
    """Return where compiled kernels are kept: beside their source, else in the user's cache.

    ``NUMBA_CACHE_DIR`` comes first where it is set. None, with a warning, if nothing is writable.
    """
    name = f"swordplay-{_fingerprint()}"
    beside = Path(__file__).parent / "__pycache__"
    if config.CACHE_DIR:
        beside = Path(config.CACHE_DIR)
    if _writable(beside / name):
        _prune(beside, name)
        return beside / name
    user = _user_cache()
    said = (user / name).exists()
    if _writable(user / name):
        if not said:
            print(
                f"swordplay: {beside} cannot be written; compiled kernels are kept in {user}.",
                file=sys.stderr,
            )
        _prune(user, name)
        return user / name
    warnings.warn(
        f"Neither {beside} nor {user} can be written: kernels are compiled anew in every process. "
        "Set NUMBA_CACHE_DIR to a folder that can.",
        stacklevel=2,
    )
    return None


def _prune(folder: Path, keep: str) -> None:
    """Remove what other versions of the kernels left, once nobody has used it for a week."""
    for other in folder.glob("swordplay-*"):
        if other.name != keep and time.time() - other.stat().st_mtime > _STALE_AFTER:
            shutil.rmtree(other, ignore_errors=True)


_FOLDER = None if config.DISABLE_JIT else cache_folder()


def compiled(function: Function) -> Function:
    """Compile an entry point on first use, keep it on disk, hold no lock while it runs."""
    if config.DISABLE_JIT:

        @functools.wraps(function)
        def interpreted(*arguments: Any) -> Any:
            with np.errstate(all="ignore"):  # as compiled code has it; kernels look for themselves
                return function(*arguments)

        return cast(Function, interpreted)
    elsewhere = config.CACHE_DIR
    try:
        # Numba decides on the folder when it decorates; nobody else's kernels are concerned.
        config.CACHE_DIR = "" if _FOLDER is None else str(_FOLDER)
        wrapped: Function = numba.njit(cache=_FOLDER is not None, **_OPTIONS)(function)
    finally:
        config.CACHE_DIR = elsewhere
    return wrapped


def part(function: Function) -> Function:
    """Compile a piece of entry points: it is kept on disk inside each of them.

    Inside for good: called as a function, it would be the piece's own code in the process that
    compiles it, and the entry point's copy of it, added up in another order, in all that read that
    from disk. Numbers would differ between the two in their last bits. It is faster, too: up to
    twice for learners of many gradients.
    """
    wrapped: Function = numba.njit(forceinline=True, **_OPTIONS)(function)
    return wrapped


def inlined(function: Function) -> Function:
    """Compile a piece into the loop that calls it; each use is compiled anew."""
    wrapped: Function = numba.njit(inline="always", **_OPTIONS)(function)
    return wrapped


def borrow(array: Any) -> Any:
    """Return the same flat array without a count of its users.

    Every array that compiled code hands on costs two atomic additions, half the time of a short
    round. An entry point's caller holds the array anyway, so nobody has to count.
    """
    return array


@intrinsic
def _without_count(typing_context: Any, array: Any) -> Any:
    """Copy an array's description (pointer, shape) with nothing in the place of its owner."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, value=arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), build


@overload(borrow)
def _borrow(array: Any) -> Any:
    # Numba wants the same annotations on both.
    def borrowed(array: Any) -> Any:
        return _without_count(array)  # type: ignore[call-arg]  # Numba adds the first one

    return borrowed
