"""Profiles of property-based tests (``make fuzz`` takes many more examples), and what tests need to run."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

WITHOUT_JAX = Path(__file__).parent / "without_jax"
PYTHON_PATH = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []

settings.register_profile("quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files that start TensorFlow first: workers that take quick files last end at about the same time."""
    slow_files = {item.path for item in items if item.get_closest_marker("tensorflow") is not None}
    items.sort(key=lambda item: item.path not in slow_files)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    of_tensorflow = item.get_closest_marker("tensorflow") is not None
    if of_tensorflow and importlib.util.find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed here")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(WITHOUT_JAX), *PYTHON_PATH] if of_tensorflow else PYTHON_PATH)
    if not os.environ["PYTHONPATH"]:
        del os.environ["PYTHONPATH"]
