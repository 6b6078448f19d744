"""Checks before a run: the script exists and can run in this environment."""

from __future__ import annotations

import sys
from pathlib import Path

from slowtrain.errors import EnvironmentMissing, InputError

MAX_SCRIPT_BYTES = 5_000_000  # a larger Python file holds data or was generated
FIRST_KERAS_WITHOUT_MULTI_WORKER = (
    3  # first major version of Keras whose ``fit`` does not work with MultiWorkerMirroredStrategy
)
FRAMEWORKS = ("tensorflow", "keras", "jax")


def require_runnable(target: str, module: bool) -> None:
    """Raises ``InputError`` if the target is not a script, ``EnvironmentMissing`` if no framework is installed."""
    import importlib.util

    path = Path(target)
    if not module and path.suffix == ".ipynb":
        raise InputError(f"{target} is a notebook; convert it with `jupyter nbconvert --to script {target}`")
    if not module and not path.exists():
        raise InputError(f"{target} does not exist; give the path of a Python script, or -m and a module name")
    if not module and path.is_dir() and not (path / "__main__.py").exists():
        raise InputError(f"{target} is a folder; give the path of a Python script")
    if module and (missing := missing_module_part(target)):
        raise InputError(f"there is no module named {missing}; give a module name as for python -m, or a script")
    if not any(importlib.util.find_spec(name) for name in FRAMEWORKS):
        raise EnvironmentMissing(
            f"this Python ({sys.executable}) has no TensorFlow; install Slowtrain in the environment of your script, "
            "or run `pip install 'slowtrain[tensorflow]'` here"
        )


def known_failure(target: str, module: bool) -> str | None:
    """A warning about code that is known to fail: ``fit`` of Keras 3 under a strategy with several workers."""
    import os

    path = Path(*target.split(".")).with_suffix(".py") if module else Path(target)
    name = b"MultiWorkerMirroredStrategy"
    try:
        data = path.read_bytes() if path.is_file() and path.stat().st_size <= MAX_SCRIPT_BYTES else b""
    except OSError:
        return None
    if name not in data:
        return None
    from slowtrain.machine.host.environment_variables import count_workers, keras_backend, keras_version
    from slowtrain.script.lint_rules import worker_strategies
    from slowtrain.script.text import source_file

    keras = keras_version(os.environ) or ""
    if not keras.partition(".")[0].isdecimal() or int(keras.partition(".")[0]) < FIRST_KERAS_WITHOUT_MULTI_WORKER:
        return None
    if keras_backend(os.environ) != "tensorflow" or count_workers(os.environ) == 1:
        return None
    read = source_file.parse_source(str(path), data.decode("utf-8", "replace"))
    try:
        call = next(worker_strategies.unsupported_strategies(read), None) if read is not None else None
    except (SyntaxError, RecursionError):  # the script reports its own error when it runs
        return None
    finally:
        source_file.clear_caches()
    return (
        f"{path}:{call.lineno}: {worker_strategies.STRATEGY_TEXT}; {worker_strategies.STRATEGY_ADVICE}"
        if call is not None
        else None
    )


def missing_module_part(module: str) -> str:
    """The part of a module name that ``python -m`` would not find from this folder. Empty if it may exist.

    Does not import the module. A package can change its ``__path__`` when it runs, so a package whose text mentions
    that is assumed to hold the module.
    """
    import importlib.util
    import os
    from importlib.machinery import PathFinder

    top, *parts = module.split(".")
    sys.path.insert(0, os.getcwd())
    try:
        importlib.invalidate_caches()
        spec, name = importlib.util.find_spec(top), top
        while spec is not None and (parts or spec.submodule_search_locations is not None):
            if spec.submodule_search_locations is None or _may_redirect_imports(spec.origin):
                return ""  # a module can still turn itself into a package when it runs
            part = parts.pop(0) if parts else "__main__"
            name = f"{name}.{part}"
            # Searched by its last part, because for a full name the finder needs the parent package imported.
            spec = PathFinder.find_spec(part, list(spec.submodule_search_locations))
    except (ImportError, LookupError, OSError, ValueError):
        return ""
    finally:
        sys.path.remove(os.getcwd())
    return name if spec is None else ""


def _may_redirect_imports(origin: str | None) -> bool:
    """Whether a package may search for its modules outside its folder, or cannot be read."""
    if origin is None:
        return False  # a namespace package has no code
    try:
        text = Path(origin).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    return not origin.endswith(".py") or any(word in text for word in ("__path__", "meta_path", "sys.modules"))
