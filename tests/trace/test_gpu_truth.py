"""Recordings of TensorFlow on a GPU, held against what is true of them (clinic/gpu_truth.toml)."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import sys
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from slowtrain.cli import main

ROOT = Path(__file__).parents[2]
CLINIC = ROOT / "clinic"
RECORDINGS = ROOT.parent / "shared" / "traces" / "tf-h200"
NAMES = (
    "g_wide_pictures", "g_transformer_mixed", "g_big_embedding", "s001_tfdata", "g_eager_loop", "g_eigen_on_host",
    "handmade_conv", "healthy_loop", "s001_feed", "g_small_dense", "s002_sequential", "s003_startup",
)  # fmt: skip
STEADY = NAMES[:-1]  # the last was killed in its first step

pytestmark = pytest.mark.skipif(not RECORDINGS.is_dir(), reason=f"the recordings of a GPU are not at {RECORDINGS}")


@pytest.fixture(scope="module")
def clinic() -> Any:
    if not CLINIC.is_dir():
        pytest.skip("the clinic is not here")
    sys.path.insert(0, str(CLINIC))
    try:
        return importlib.import_module("gpu_truth")
    finally:
        sys.path.remove(str(CLINIC))


@cache
def answer(verb: str, name: str) -> Any:
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
        main([verb, "--json", "-", str(shutil.copytree(RECORDINGS / name, Path(folder) / name))])
    return sys.modules["gpu_truth"].read_answer(json.loads(said.getvalue()))


def test_the_truth_is_about_these_recordings(clinic: Any) -> None:
    assert set(clinic.read_truth()) == set(NAMES)


@pytest.mark.parametrize("name", STEADY)
def test_the_largest_part_of_a_step(clinic: Any, name: str) -> None:
    assert answer("report", name).largest in clinic.read_truth()[name]["dominates"]


@pytest.mark.parametrize("name", STEADY)
@pytest.mark.parametrize("verb", ["report", "diagnose"])
@pytest.mark.parametrize("category", ["device", "h2d"])
def test_device_and_copies_are_as_in_the_profile(clinic: Any, category: str, verb: str, name: str) -> None:
    found_ms = answer(verb, name).parts_ms.get(category, 0.0)
    true_ms = clinic.read_truth()[name][f"{category}_ms"]
    assert clinic.is_near(found_ms, true_ms), f"{category}: {found_ms:.3f} ms, true are {true_ms:.3f} ms"


@pytest.mark.parametrize("name", NAMES)
def test_the_verdict_of_the_step(clinic: Any, name: str) -> None:
    assert answer("report", name).step_verdict in clinic.read_truth()[name]["step_verdict"]


@pytest.mark.parametrize("name", NAMES)
def test_the_first_cause_and_its_line(clinic: Any, name: str) -> None:
    found, truth = answer("report", name), clinic.read_truth()[name]
    assert found.first in truth["first"]
    assert not truth["lines"] or set(found.lines) & set(truth["lines"])


@pytest.mark.parametrize("name", STEADY)
def test_the_parts_add_up_to_the_step(clinic: Any, name: str) -> None:
    found = answer("report", name)
    assert sum(found.parts_ms.values()) == pytest.approx(found.step_ms, rel=1e-3)
