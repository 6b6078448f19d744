"""Measures packing on scripts of the clinic: the gain that ``slowtrain pack`` predicts and the one that is there.

    python clinic/packing_bench.py [--only NAME ...] [--budget 2m] [--markdown docs/packing.md]

For each script: a plan, all of its data packed, then by ``slowtrain verify`` steps of the script against those with the
patch, and steps of the script with its hand-made cure against those with the patch. It needs an idle computer and takes
about five minutes for each script. What is measured stays below ``build/packing`` and is not measured again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case_files import find_case, patched_text
from pages import fill

BUILD = Path(__file__).parent.parent / "build" / "packing"
# By script, the line that is named because its text does not show that it gives the same in each epoch.
SCRIPTS = {"vineyard_bands": 0, "balloon_soundings": 0, "bridge_strain": 0, "mangrove_tiles": 0, "pastry_returns": 45}
LIMIT_S = 1800  # of one command
BEGIN = "<!-- measured -->"


@dataclass(frozen=True)
class Ratio:
    """How many times as fast, with its 95 % interval; ``high`` is None if it has no end."""

    speedup: float
    low: float
    high: float | None

    def __str__(self) -> str:
        return f"{self.speedup:.2f} ({self.low:.2f} to {'…' if self.high is None else f'{self.high:.2f}'})"


@dataclass(frozen=True)
class Measured:
    """The predicted and the measured gain of packing; ``over_cure``: speed in terms of the hand-made cure's."""

    predicted: Ratio
    measured: Ratio
    over_cure: Ratio
    loss: str

    @property
    def error(self) -> float:
        """How far the prediction is from the measurement, as a share of it."""
        return abs(self.predicted.speedup / self.measured.speedup - 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(SCRIPTS), metavar="NAME")
    parser.add_argument("--budget", default="2m", help="of each comparison")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    lines = ["| script | predicted | measured | of the hand-made cure's speed | losses |", "|---|---:|---:|---:|---|"]
    errors, ratios = [], []
    for name in args.only:
        found = measure_script(name, args.budget)
        row = f"{found.predicted} | {found.measured} | {found.over_cure} | {found.loss}"
        lines.append(f"| `{name}` | {row} |")
        print(lines[-1], flush=True)
        errors.append(found.error)
        ratios.append(found.over_cure.speedup)
    error, ratio = statistics.median(errors), statistics.median(ratios)
    lines += ["", f"Medians: the prediction is {error:.0%} off; the speed is {ratio:.2f} times the hand-made cure's."]
    print(lines[-1])
    if args.markdown:
        fill(args.markdown, "\n".join(lines) + "\n", BEGIN)
    return 0


def measure_script(name: str, budget: str) -> Measured:
    """Plans, packs and compares in a folder of its own, going on where an earlier call stopped."""
    folder = BUILD / name
    folder.mkdir(parents=True, exist_ok=True)
    case, script = find_case(name), f"{name}.py"
    cured = case.cured_text()
    assert cured is not None
    (folder / script).write_text(case.script_text(), encoding="utf-8")
    (folder / "cured.py").write_text(cured, encoding="utf-8")
    if not (folder / "pack.json").exists():
        named = ["--at", f"{script}:{SCRIPTS[name]}"] if SCRIPTS.get(name) else []
        _slowtrain(folder, "pack", "--plan", "pack.json", "--budget", budget, *named, script)
    if not (folder / "pack.diff").exists():
        _slowtrain(folder, "pack", "pack.json")
    packed = patched_text(case.script_text(), (folder / "pack.diff").read_text(encoding="utf-8"))
    (folder / "packed.py").write_text(packed, encoding="utf-8")
    saving = json.loads((folder / "pack.json").read_text(encoding="utf-8"))["plan"]["saving"]
    predicted = Ratio(saving["before_ms"] / saving["after_ms"], saving["low"], saving["high"])
    gain = _verified(folder, "gain.json", "--budget", budget, "--patch", "pack.diff", script)
    over_cure = _verified(folder, "over_cure.json", "--budget", budget, "--effect", "equivalent",
                          "--baseline", "cured.py", "--candidate", "packed.py")  # fmt: skip
    return Measured(predicted, _ratio(gain), _ratio(over_cure), str(gain["loss"]))


def _verified(folder: Path, name: str, *arguments: str) -> dict[str, Any]:
    """What ``verify`` measured of its one change, kept in a file of this name."""
    path = folder / name
    if not path.exists():
        path.write_text(_slowtrain(folder, "verify", "--json", "-", *arguments), encoding="utf-8")
    document = json.loads(path.read_text(encoding="utf-8"))
    verdict = document["fix"]["attempts"][0]["verdict"]
    if verdict is None:
        raise SystemExit(f"{path}: nothing was measured; remove it and give a longer --budget")
    return dict(verdict)


def _ratio(verdict: dict[str, Any]) -> Ratio:
    return Ratio(verdict["speedup"], verdict["low"], verdict["high"])


def _slowtrain(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "slowtrain", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
