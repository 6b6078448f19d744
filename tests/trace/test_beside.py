"""What was measured later and kept beside a recording: of the same script on the same device, or not believed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from slowtrain.trace.loading import side_files

TEXT = "model.fit(x)\n"
HASH = hashlib.sha256(TEXT.encode()).hexdigest()
T4, A100, CPU = {"kind": "GPU", "name": "Tesla T4"}, {"kind": "GPU", "name": "A100"}, {"kind": "CPU", "name": "EPYC"}


def facts(**others: Any) -> dict[str, Any]:
    """Of a recording of that text on a T4."""
    machine = {"cpu": {"model": "EPYC"}, "gpu": {"devices": [{"name": "Tesla T4"}]}}
    devices = [{"kind": "CPU"}, {"kind": "GPU"}]
    return {"sources": {"train.py": TEXT}, "devices": devices, "machine": machine, **others}


def keep(folder: Path, fact: str, **told: Any) -> None:
    about = {"schema": f"slowtrain.{fact}/1", "source_sha256": HASH, **told}
    (folder / side_files.SIDECAR_FILES[fact]).write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("fact", "told"),
    [
        ("batch", {"measured_on": T4}),
        ("batch", {"measured_on": {"kind": "GPU", "name": None}}),
        ("batch", {"source_sha256": None}),
        ("crossover", {"sides": [{"name": "gpu", "measured_on": T4}, {"name": "cpu", "measured_on": CPU}]}),
    ],
)
def test_what_is_of_this_script_and_device_is_believed(tmp_path: Path, fact: str, told: dict[str, Any]) -> None:
    keep(tmp_path, fact, **told)
    found = side_files.read_sidecar_facts(tmp_path, facts())
    assert fact in found
    assert "notes" not in found


@pytest.mark.parametrize(
    ("fact", "told", "says"),
    [
        ("batch", {"source_sha256": "0" * 64, "measured_on": T4}, "another script"),
        ("batch", {"measured_on": A100}, "another device (A100)"),
        ("batch", {"measured_on": CPU}, "another device (EPYC)"),
        ("crossover", {"source_sha256": "0" * 64}, "another script"),
        ("crossover", {"sides": [{"measured_on": A100}, {"measured_on": CPU}]}, "another device (A100, EPYC)"),
    ],
)
def test_what_is_not_is_dropped_with_a_note(tmp_path: Path, fact: str, told: dict[str, Any], says: str) -> None:
    keep(tmp_path, fact, **told)
    found = side_files.read_sidecar_facts(tmp_path, facts(notes=["before"]))
    assert fact not in found
    first, note = found["notes"]
    assert first == "before"
    assert note.startswith(f"{fact}.json in this recording's folder belongs to {says}")


def test_a_run_on_the_cpu_is_one_of_the_two_that_were_held_against_each_other(tmp_path: Path) -> None:
    keep(tmp_path, "crossover", sides=[{"measured_on": T4}, {"measured_on": CPU}])
    assert "crossover" in side_files.read_sidecar_facts(tmp_path, facts(devices=[{"kind": "CPU"}]))
