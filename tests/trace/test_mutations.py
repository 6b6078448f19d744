"""Twenty thousand damaged profiles, with ``make fuzz`` two million: columns or one ``InputError`` each.

Memory is bounded; so is the time for each, which ``make test`` does not measure.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
MANY = 2_000_000 if FUZZ else 8_000
INPUTS = int(os.environ.get("SLOWTRAIN_FUZZ_INPUTS", MANY))
SEED = int(os.environ.get("SLOWTRAIN_FUZZ_SEED", "1"))
MOST_CPU_S = 2.0 if FUZZ else math.inf  # for one input
MOST_BYTES = 200 << 20  # of a process at its peak; 35 MiB of it are Python and NumPy


@pytest.mark.fuzz
def test_damaged_profiles_are_read_or_declined() -> None:
    processes = [start(SEED + i, INPUTS // 2) for i in range(2)]
    found = [ended(process) for process in processes]
    counts = {key: sum(one[key] for one in found) for key in ("events", "none", "declined")}
    print(found)  # for `pytest -s`
    assert sum(counts.values()) == INPUTS // 2 * 2
    assert min(counts["events"], counts["declined"]) > INPUTS // 5, "the damage is always fatal or never"
    for one in found:
        assert one["slowest_s"] < MOST_CPU_S, one
        assert one["peak_bytes"] < MOST_BYTES, one


def start(seed: int, inputs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.trace.mutations", "--inputs", str(inputs), "--seed", str(seed)]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=alone, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        said, complaint = process.communicate(timeout=400 + INPUTS / 100)  # an input that hangs ends here
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        pytest.fail(f"still running: {process.args!r}")
    assert process.returncode == 0, str(complaint)
    answer: dict[str, Any] = json.loads(said)
    return answer
