"""Long runs that nobody has to wait for: ``clinic/long_bench.py`` makes them up and the real recorder writes them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[2] / "clinic" / "long_bench.py"


def _load() -> ModuleType:
    if not BENCH.exists():
        pytest.skip("the clinic is not here", allow_module_level=True)
    spec = importlib.util.spec_from_file_location("long_bench", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["long_bench"] = module
    spec.loader.exec_module(module)
    return module


bench = _load()


def record(folder: Path, steps: int, max_bytes: int, step_ns: int = 2_000_000, epoch: int = 10_000) -> Path:
    folder.mkdir(parents=True)
    bench.record(folder, steps, max_bytes, step_ns, epoch)
    return folder
