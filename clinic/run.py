"""The scoreboard: runs every labelled script under Slowtrain and holds the answer against the label.

    python clinic/run.py                          all of clinic/scripts and ../shared/cases
    python clinic/run.py --only flowers_decode    one of them, or several
    python clinic/run.py --pairs 3 --markdown docs/scoreboard.md

For each script: was the right cause named first, was its line named, how did the predicted
speed-up of the cure compare with the measured one. The measurement runs the slow and the
cured script in turn, without Slowtrain; for a cause whose scope is the step it is the
ratio of the seconds that the scripts themselves print per sample, for the run that of their wall times.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from pages import fill

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).parent
CASES = HERE.parent.parent / "shared" / "cases"
ALARM = 1.05  # a predicted gain above this on a healthy script is a false alarm
TIMEOUT_S = 300


@dataclass
class Script:
    """One labelled script. ``causes`` that count as right; none: it is healthy."""

    name: str
    slow: Path
    fixed: Path | None
    causes: list[str]
    verdict: str | None = None
    lines: list[int] = field(default_factory=list)
    differs: str = ""


@dataclass
class Score:
    """What came of one script. ``measured`` is slow over fixed, None where it was not measured."""

    script: Script
    verdict: str = ""
    first: str = ""
    others: list[str] = field(default_factory=list)
    scope: str = ""
    predicted: float | None = None
    low: float | None = None
    high: float | None = None
    measured: float | None = None
    line: bool | None = None
    unattributed: float | None = None
    problem: str = ""

    @property
    def right(self) -> bool:
        if self.script.causes:
            return self.first in self.script.causes
        if self.script.verdict and self.script.verdict != self.verdict:
            return False
        return not self.alarm

    @property
    def alarm(self) -> bool:
        return not self.script.causes and bool(self.first) and (self.predicted or 1.0) > ALARM

    @property
    def error(self) -> float | None:
        """Relative error of the predicted speed-up, where the right cause was first."""
        if self.predicted is None or self.measured is None or not self.script.causes or not self.right:
            return None
        return abs(self.predicted - self.measured) / self.measured


def scripts(only: list[str]) -> list[Script]:
    """All labelled scripts, ours first."""
    found = []
    labels = tomllib.loads((HERE / "labels.toml").read_text(encoding="utf-8"))
    for name, label in labels.items():
        slow, fixed = HERE / "scripts" / f"{name}.slow.py", HERE / "scripts" / f"{name}.fixed.py"
        healthy = HERE / "scripts" / f"{name}.py"
        line = label.get("line", [])
        found.append(
            Script(
                name,
                slow if slow.exists() else healthy,
                fixed if fixed.exists() else None,
                label.get("causes", []),
                label.get("verdict"),
                line if isinstance(line, list) else [line],
                label.get("fixed_differs_in", ""),
            )
        )
    if CASES.is_dir():
        for name, label in json.loads((CASES / "labels.json").read_text(encoding="utf-8")).items():
            differs = label.get("fixed_differs_in") or ""
            found.append(
                Script(name, CASES / f"{name}.slow.py", CASES / f"{name}.fixed.py", label["causes"], differs=differs)
            )
    return [s for s in found if not only or any(o in s.name for o in only)]


def examine(script: Script, folder: Path) -> Score:
    """Runs the script under ``slowtrain run`` and reads the answer."""
    score = Score(script)
    answer = folder / "checkup.json"
    command = [sys.executable, "-m", "slowtrain", "run", "--out", str(folder), "--json", str(answer), str(script.slow)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder)
    if not answer.exists():
        score.problem = (done.stderr.strip().splitlines() or ["no answer"])[-1][:100]
        return score
    found = json.loads(answer.read_text(encoding="utf-8"))
    score.verdict = found["verdict"]
    score.unattributed = sum(p["share"] for p in found["attribution"]["parts"] if p["category"] == "unattributed")
    # What is diagnosed without a gain (what bounds a healthy run) is no claim.
    causes = [
        d for d in found["diagnoses"] if (d["saving"]["speedup"] or 1.0) > 1.0 or d["cause"].startswith("numerics/")
    ]
    if causes:
        first = causes[0]
        score.first, score.others = first["cause"], [d["cause"] for d in causes[1:]]
        saving = first["saving"]
        score.scope, score.predicted = saving["scope"], saving["speedup"]
        score.low, score.high = saving["low"], saving["high"]
        named = [p["line"] for d in causes if d["cause"] in script.causes for p in d["evidence"]["where"]]
        score.line = bool(set(named) & set(script.lines)) if script.lines else None
    return score


def seconds(script: Path) -> tuple[float, float]:
    """Seconds per sample as the script prints them, and the wall time of the process."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=TIMEOUT_S, check=True, env=environment
    )
    wall = time.perf_counter() - start
    spent = float(re.findall(r"TRAIN_SECONDS\s+([\d.]+)", done.stdout)[-1])
    work = re.findall(r"^WORK\s+([\d.]+)", done.stdout, re.MULTILINE)
    return spent / float(work[-1] if work else 1), wall


def measure(score: Score, pairs: int) -> None:
    """Slow and cured in turn; sets the median ratio."""
    script = score.script
    if script.fixed is None:
        return
    ratios = []
    try:
        for turn in range(pairs):
            order = [script.slow, script.fixed] if turn % 2 == 0 else [script.fixed, script.slow]
            taken = {path: seconds(path) for path in order}
            which = 1 if score.scope == "run" else 0
            ratios.append(taken[script.slow][which] / taken[script.fixed][which])
    except (subprocess.SubprocessError, IndexError, ZeroDivisionError) as error:
        score.problem = f"not measured: {type(error).__name__}"
        return
    score.measured = statistics.median(ratios)


def figure(value: float | None) -> str:
    return f"{value:.2f}" if value is not None else "-"


def row(score: Score) -> list[str]:
    claimed = score.first or ("-" if not score.problem else score.problem)
    wanted = (
        score.script.causes[0]
        if score.script.causes
        else f"healthy{' (' + score.script.verdict + ')' if score.script.verdict else ''}"
    )
    verdict = "right" if score.right else ("FALSE ALARM" if score.alarm else "missed")
    line = {True: "yes", False: "no", None: "-"}[score.line]
    error = f"{score.error:.0%}" if score.error is not None else "-"
    return [
        score.script.name, wanted, claimed, verdict, line, score.scope or "-",
        figure(score.predicted), figure(score.measured), error, f"{score.unattributed:.0%}" if score.unattributed is not None else "-",
    ]  # fmt: skip


HEADER = ["script", "label", "named first", "", "line", "scope", "predicted", "measured", "error", "unattributed"]


def summary(scores: list[Score]) -> list[str]:
    sick = [s for s in scores if s.script.causes]
    healthy = [s for s in scores if not s.script.causes]
    errors = sorted(s.error for s in scores if s.error is not None and not s.script.differs)
    inside = [
        s for s in scores if s.error is not None and not s.script.differs and s.low is not None and s.high is not None
    ]
    covered = sum(s.low <= (s.measured or 0) <= s.high for s in inside)  # type: ignore[operator]
    lines = [s.line for s in sick if s.line is not None]
    said = [
        f"right cause first: {sum(s.right for s in sick)} of {len(sick)}",
        f"false alarms: {sum(s.alarm for s in healthy)} of {len(healthy)} healthy scripts",
        f"right line: {sum(lines)} of {len(lines)}",
    ]
    if errors:
        said.append(
            f"median error of the predicted speed-up: {statistics.median(errors):.0%} over {len(errors)} scripts with an equivalent cure"
        )
        said.append(f"measured inside the predicted range: {covered} of {len(inside)}")
    said.append(f"median unattributed share of a step: {statistics.median(s.unattributed or 0 for s in scores):.1%}")
    return said


def markdown(scores: list[Score], pairs: int) -> str:
    table = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    table += ["| " + " | ".join(row(s)) + " |" for s in scores]
    return (
        "\n".join(
            [
                f"Made by `make clinic` (`python clinic/run.py --pairs {pairs}`).",
                "",
                *(f"* {s}" for s in summary(scores)),
                "",
                *table,
            ]
        )
        + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--pairs", type=int, default=1, help="measured pairs of slow and cured runs; 0: none")
    parser.add_argument("--markdown", type=Path, help="write the table there, between the markers if it has them")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 when fewer than this share are right")
    args = parser.parse_args()
    scores = []
    for script in scripts(args.only):
        with tempfile.TemporaryDirectory(prefix="slowtrain-clinic-") as folder:
            try:
                score = examine(script, Path(folder))
            except subprocess.TimeoutExpired:
                score = Score(script, problem="timed out")
        if args.pairs and script.causes and score.first:
            measure(score, args.pairs)
        scores.append(score)
        print(
            "  ".join(
                f"{cell:<{width}}" for cell, width in zip(row(score), (22, 30, 30, 8, 4, 5, 6, 6, 6, 5), strict=True)
            ),
            flush=True,
        )
    print()
    print("\n".join(summary(scores)))
    if args.markdown:
        fill(args.markdown, markdown(scores, args.pairs))
    share = sum(s.right for s in scores) / max(len(scores), 1)
    return int(share < args.least)


if __name__ == "__main__":
    sys.exit(main())
