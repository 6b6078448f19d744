"""Whether what the user wants to have run is there and can run."""

from __future__ import annotations

import sys
from pathlib import Path

from slowtrain.errors import EnvironmentMissing, InputError

FRAMEWORKS = ("tensorflow", "keras", "jax")


def check(target: str, module: bool) -> None:
    """Raises ``InputError`` for a script that is none, ``EnvironmentMissing`` where nothing here can train."""
    import importlib.util

    path = Path(target)
    if not module and path.suffix == ".ipynb":
        raise InputError(f"{target} is a notebook; `jupyter nbconvert --to script {target}` makes a script of it")
    if not module and not path.exists():
        raise InputError(f"{target} does not exist; give the path of a Python script, or -m with a module's name")
    if not module and path.is_dir() and not (path / "__main__.py").exists():
        raise InputError(f"{target} is a folder; give the path of a Python script")
    if not any(importlib.util.find_spec(name) for name in FRAMEWORKS):
        raise EnvironmentMissing(
            f"this Python ({sys.executable}) has no TensorFlow; install Slowtrain where your script runs, "
            "or `pip install 'slowtrain[tensorflow]'` here"
        )
