"""Twelve recordings of TensorFlow on an H200: what Slowtrain says of each, held against the truth.

    python clinic/gpu_truth.py ../shared/traces/tf-h200        prints the table

The truth is clinic/gpu_truth.toml. `clinic/gpu.py --recordings` writes the same table into a page.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TRUTH = Path(__file__).parent / "gpu_truth.toml"
MOST_OFF_SHARE = 0.15  # of device and copies: the truth by hand is sure to 7 %, and steps differ by as much
MOST_OFF_MS = 0.05  # below that a part is noise beside steps of 2 ms and more
COLUMNS = (
    "recording", "largest part", "device ms", "true", "to device ms", "true", "step verdict", "first cause", "right",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What Slowtrain says of one recording or profile, as far as it is judged."""

    verdict: str
    step_verdict: str
    step_ms: float
    parts_ms: dict[str, float]
    first: str = ""
    first_gain: float | None = None
    gain_range: tuple[float, float] | None = None
    scope: str = ""
    lines: list[int] = field(default_factory=list)
    first_of_step: str = ""

    @property
    def largest(self) -> str:
        return max(self.parts_ms, key=lambda c: self.parts_ms[c]) if self.parts_ms else ""


def read_truth() -> dict[str, dict[str, Any]]:
    return tomllib.loads(TRUTH.read_text(encoding="utf-8"))


def ask(verb: str, recording: Path) -> Answer:
    """The answer of ``slowtrain report`` or ``slowtrain diagnose`` for a copy of the recording."""
    with tempfile.TemporaryDirectory(prefix="slowtrain-gpu-") as folder:
        copy = Path(folder) / recording.name
        shutil.copytree(recording, copy)
        command = [sys.executable, "-m", "slowtrain", verb, "--json", "-", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if not done.stdout.startswith("{"):
        raise RuntimeError((done.stderr.strip().splitlines() or ["no answer"])[-1])
    return read_answer(json.loads(done.stdout))


def read_answer(found: dict[str, Any]) -> Answer:
    """From the JSON of ``run``, ``report`` or ``diagnose``. A diagnosis without a gain says what bounds a step."""
    claims = [d for d in found["diagnoses"] if (d["saving"]["speedup"] or 1.0) > 1.0]
    first = (claims or found["diagnoses"] or [None])[0]
    of_step = next((d["cause"] for d in claims if d["saving"]["scope"] == "step"), "")
    saving = first["saving"] if first else {}
    return Answer(
        verdict=found["verdict"],
        step_verdict=found.get("step_verdict") or found["verdict"],
        step_ms=found["attribution"]["total_ms"],
        parts_ms={p["category"]: p["ms"] for p in found["attribution"]["parts"]},
        first=first["cause"] if first else "",
        first_gain=saving.get("speedup"),
        gain_range=(saving["low"], saving["high"]) if saving.get("low") else None,
        scope=saving.get("scope", ""),
        lines=[p["line"] for p in first["evidence"]["where"]] if first else [],
        first_of_step=of_step,
    )


def is_near(found_ms: float, true_ms: float) -> bool:
    return abs(found_ms - true_ms) <= max(MOST_OFF_SHARE * true_ms, MOST_OFF_MS)


def list_faults(answer: Answer, truth: dict[str, Any]) -> list[str]:
    """What is wrong in an answer; empty where all that is judged is right."""
    faults = []
    if truth["dominates"] and answer.largest not in truth["dominates"]:
        faults.append(f"largest part {answer.largest}, not {' or '.join(truth['dominates'])}")
    for category, key in (("device", "device_ms"), ("h2d", "h2d_ms")):
        if key in truth and not is_near(answer.parts_ms.get(category, 0.0), truth[key]):
            faults.append(f"{category} {answer.parts_ms.get(category, 0.0):.3g} ms, not {truth[key]:.3g}")
    if answer.step_verdict not in truth["step_verdict"]:
        faults.append(f"{answer.step_verdict}, not {' or '.join(truth['step_verdict'])}")
    if answer.first not in truth["first"]:
        faults.append(f"first {answer.first or 'nothing'}, not {truth['first'][0] or 'nothing'}")
    elif truth["lines"] and not set(truth["lines"]) & set(answer.lines):
        faults.append(f"no line of {', '.join(map(str, truth['lines']))}")
    return faults


def table(recordings: Path) -> str:
    """A row for each recording; below it how many are right."""
    rows, right = [], 0
    for name, truth in read_truth().items():
        answer = ask("report", recordings / name)
        faults = list_faults(answer, truth)
        right += not faults
        said = [answer.step_verdict, answer.first or "–", "; ".join(faults) or "yes"]
        rows.append([name, *_figures(answer, truth), *said])
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|---:|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", f"All of it right: {right} of {len(rows)}."]) + "\n"


def _figures(answer: Answer, truth: dict[str, Any]) -> list[str]:
    """The largest part with its share, then the device and the copies to it, found and true."""
    if not answer.parts_ms or not answer.step_ms:
        return ["–"] * 5
    largest = f"{answer.largest} {answer.parts_ms[answer.largest] / answer.step_ms:.0%}"
    cells = [largest]
    for category, key in (("device", "device_ms"), ("h2d", "h2d_ms")):
        true = truth.get(key)
        cells += [f"{answer.parts_ms.get(category, 0.0):.3g}", "–" if true is None else f"{true:.3g}"]
    return cells


if __name__ == "__main__":
    print(table(Path(sys.argv[1])))
