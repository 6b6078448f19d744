"""The scoreboard: runs every labelled script under Slowtrain and holds the answer against the label.

    python clinic/run.py                          the set "clinic" of clinic/cases, and ../shared/cases
    python clinic/run.py --set strangers          all sets that strangers wrote; --set strangers-07 is one of them
    python clinic/run.py --only flowers_decode    scripts of any set, by parts of their names
    python clinic/run.py --measure 1              also measures the cures, into docs/results/measured.json
    python clinic/run.py --list                   lists the scripts and runs nothing

For each script: was the right cause named first, was its line named, how did the predicted
speed-up of the cure compare with the measured one. ``--measure`` runs the slow and the cured script in turn, and the
answer is read from the slow run of that pair, or of one right behind it where that was not recorded, so that both are
of one hour of a machine whose speed may change.
A cure of the run is measured without Slowtrain, by wall time. A cure of the step is measured by what it is
predicted for, the samples a second of steady steps, of which both scripts are recorded; where a script's samples are
not known, by the length of its steady steps if both took as many, else by the seconds that it prints itself, which hold
compiling and the pauses between epochs too.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import case_files
from pages import fill

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
MEASURED = RESULTS / "measured.json"
CASES = ROOT.parent / "shared" / "cases"  # re-created real reports, beside the checkout
UNPRICED = ("numerics/", "memory/")  # claims that save no time
ALARM = 1.05  # a predicted gain above this on a healthy script is a false alarm
TIMEOUT_S = 300
AS_MANY = 0.1  # by which two numbers of steady steps may differ, of which windows and warm-up take some: the same work
CROWDED = 0.3  # processors that other processes took, on average: what is timed beside them says little
TRIES = 3  # of a run on a crowded machine


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
    scope: str = ""  # of the cause as labelled: "step", "run", or "" where the label does not say


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
        """Relative error of the predicted speed-up, where the right cause was first and its cure saves time."""
        if self.predicted is None or self.measured is None or not self.script.causes or not self.right:
            return None
        if self.first.startswith(UNPRICED):
            return None
        return abs(self.predicted - self.measured) / self.measured


def scripts(only: list[str], chosen: str = "") -> list[Script]:
    """The labelled scripts of a set; those of all sets if none is chosen, or if ``only`` names some."""
    found = [_case_script(case) for case in case_files.list_cases(set_name="" if only else chosen)]
    if CASES.is_dir() and (only or chosen in ("", "clinic")):
        for name, label in json.loads((CASES / "labels.json").read_text(encoding="utf-8")).items():
            differs = label.get("fixed_differs_in") or ""
            slow, fixed = CASES / f"{name}.slow.py", CASES / f"{name}.fixed.py"
            found.append(Script(name, slow, fixed, label["causes"], differs=differs))
    names = [script.name for script in found]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise SystemExit(f"two scripts are called {', '.join(sorted(repeated))}; recordings are kept by name")
    return [s for s in found if not only or any(o in s.name for o in only)]


def _case_script(case: case_files.Case) -> Script:
    label = case.label
    return Script(
        case.name, case.script, case.write_cured_script(), case.causes, label.get("verdict"), case.lines,
        label.get("differs", ""), label.get("scope", ""),
    )  # fmt: skip


def examine(script: Script, folder: Path) -> Score:
    """Runs the script under ``slowtrain run`` (or reads the recording that is there), and reads the answer."""
    score = Score(script)
    answer = folder / "checkup.json"
    slowtrain = [sys.executable, "-m", "slowtrain"]
    known = sorted(folder.glob("*/recording.sqlite"))
    if known:
        command = [*slowtrain, "report", "--json", str(answer), str(known[-1].parent)]
    else:
        command = [*slowtrain, "run", "--out", str(folder), "--json", str(answer), str(script.slow)]
    for _ in range(1 if known else TRIES):  # again, while other processes take the processors
        done, _, others = watched(command, cwd=folder)
        if not crowded(others):
            break
    if not answer.exists():
        score.problem = (done.stderr.strip().splitlines() or ["no answer"])[-1][:100]
        return score
    found = json.loads(answer.read_text(encoding="utf-8"))
    score.verdict = found["verdict"]
    score.unattributed = sum(p["share"] for p in found["attribution"]["parts"] if p["category"] == "unattributed")
    # What is diagnosed without a gain (what bounds a healthy run) is no claim.
    causes = [d for d in found["diagnoses"] if (d["saving"]["speedup"] or 1.0) > 1.0 or d["cause"].startswith(UNPRICED)]
    if causes:
        first = causes[0]
        score.first, score.others = first["cause"], [d["cause"] for d in causes[1:]]
        saving = first["saving"]
        score.scope, score.predicted = saving["scope"], saving["speedup"]
        score.low, score.high = saving["low"], saving["high"]
        named = [p["line"] for d in causes if d["cause"] in script.causes for p in d["evidence"]["where"]]
        score.line = bool(set(named) & set(script.lines)) if script.lines else None
    return score


@dataclass(frozen=True)
class Run:
    """One run of a script: seconds per sample as it prints them (or None), wall seconds, and steady samples a second.

    ``others`` are the processors that other processes took meanwhile; None where the machine does not tell. ``steps``
    are the steady ones, of which each took ``step_ms``.
    """

    printed: float | None
    wall: float
    rate: float | None = None
    others: float | None = None
    step_ms: float | None = None
    steps: int | None = None


def run(script: Path, folder: Path | None) -> Run:
    """Runs a script, recorded into ``folder`` or, without one, alone."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command, answer = [sys.executable, str(script)], None
    if folder is not None:
        answer = folder / "checkup.json"
        command = [sys.executable, "-m", "slowtrain", "run", "--out", str(folder), "--json", str(answer), str(script)]
    done, wall, others = watched(command, check=True, env=environment, cwd=folder)
    spent = re.findall(r"TRAIN_SECONDS\s+([\d.]+)", done.stdout)
    work = re.findall(r"^WORK\s+([\d.]+)", done.stdout, re.MULTILINE)
    printed = float(spent[-1]) / float(work[-1] if work else 1) if spent else None
    if answer is None:
        return Run(printed, wall, others=others)
    found = json.loads(answer.read_text(encoding="utf-8"))
    steps = found["steps"]
    return Run(printed, wall, steps["samples_per_second"], others, found["attribution"]["total_ms"], steps["counted"])


def watched(
    command: list[str], *, check: bool = False, **how: Any
) -> tuple[subprocess.CompletedProcess[str], float, float | None]:
    """A process that has ended, its wall seconds, and the processors that others took meanwhile."""
    start, busy, own = time.perf_counter(), busy_s(), children_s()
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=check, **how)
    wall = time.perf_counter() - start
    return done, wall, (busy_s() - busy - (children_s() - own)) / wall if busy else None


def busy_s() -> float:
    """Seconds that the machine's processors have worked so far; 0 where the system does not tell."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").split("\n", maxsplit=1)[0].split()
    except OSError:
        return 0.0
    return sum(int(n) for i, n in enumerate(first[1:9]) if i not in (3, 4)) / os.sysconf("SC_CLK_TCK")


def children_s() -> float:
    """Processor seconds of the scripts that were run and have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def measure(script: Script, pairs: int, keep: Path) -> dict[str, dict[str, list[list[float | None]]]]:
    """Slow and cured in turn, ``alone`` and ``recorded``: of each run what :class:`Run` holds."""
    assert script.fixed is not None
    which = {"slow": script.slow, "fixed": script.fixed}
    ways = {"step": ("recorded",), "run": ("alone",)}.get(script.scope, ("recorded", "alone"))
    taken: dict[str, dict[str, list[list[float | None]]]] = {}
    for way in ways:
        runs: dict[str, list[list[float | None]]] = {"slow": [], "fixed": []}
        for turn in range(pairs):
            for key in ("slow", "fixed") if turn % 2 == 0 else ("fixed", "slow"):
                kept = None
                if turn == 0 and way == "recorded":
                    kept = keep / (script.name if key == "slow" else f"{script.name}.fixed")
                one = undisturbed(which[key], way == "recorded", kept)
                runs[key].append(list(astuple(one)))
        taken[way] = runs
    return taken


def undisturbed(script: Path, recorded: bool, kept: Path | None) -> Run:
    """A run of a script, again while other processes take the processors; the last one, if they do not let go."""
    for tried in range(1, TRIES + 1):
        with tempfile.TemporaryDirectory(prefix="slowtrain-clinic-") as temporary:
            folder = Path(temporary)
            if kept is not None:
                folder = kept.resolve()
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)
            one = run(script, folder if recorded else None)
        if not crowded(one.others) or tried == TRIES:
            break
    if crowded(one.others):
        print(f"{script.name}: other processes took {one.others:.2f} processors", flush=True)
    return one


def crowded(others: float | None) -> bool:
    return (others or 0.0) > CROWDED


def ratio(measured: dict[str, dict[str, list[list[float]]]] | None, scope: str) -> float | None:
    """Median over the pairs of slow over fixed: of the time a sample takes for a step, of wall time for the run.

    Of pairs that had the machine for themselves, where there are any.
    """
    runs = (measured or {}).get("alone" if scope == "run" else "recorded")
    if not runs or not runs["slow"]:
        return None
    pairs = list(zip(runs["slow"], runs["fixed"], strict=True))
    alone = [pair for pair in pairs if not any(crowded(one[3] if len(one) > 3 else None) for one in pair)]
    pairs = alone or pairs
    if scope == "run":
        return statistics.median(slow[1] / fixed[1] for slow, fixed in pairs)
    if all(slow[2] and fixed[2] for slow, fixed in pairs):
        return statistics.median(fixed[2] / slow[2] for slow, fixed in pairs)
    if all(_alike(slow, fixed) for slow, fixed in pairs):
        return statistics.median(slow[4] / fixed[4] for slow, fixed in pairs)
    told = [slow[0] / fixed[0] for slow, fixed in pairs if slow[0] and fixed[0]]
    return statistics.median(told) if told else None


def _alike(slow: list[float], fixed: list[float]) -> bool:
    """Whether both runs took as many steady steps, whose length is known."""
    if min(len(slow), len(fixed)) < 6 or not all((slow[4], fixed[4], slow[5], fixed[5])):
        return False
    return abs(slow[5] / fixed[5] - 1) <= AS_MANY


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
    unknown = f"{score.unattributed:.0%}" if score.unattributed is not None else "-"
    return [
        score.script.name, wanted, claimed, verdict, line, score.scope or "-",
        figure(score.predicted), figure(score.measured), error, unknown,
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
            f"median error of the predicted speed-up: {statistics.median(errors):.0%} "
            f"over {len(errors)} scripts with an equivalent cure"
        )
        said.append(f"measured inside the predicted range: {covered} of {len(inside)}")
    said.append(f"median unattributed share of a step: {statistics.median(s.unattributed or 0 for s in scores):.1%}")
    return said


def markdown(scores: list[Score], made_of: str) -> str:
    made = (
        f"Made by `make {made_of}`. *Measured* is slow over cured, by `python clinic/run.py --measure 1` "
        "(`docs/results/measured.json`): steady samples a second for a step (where a "
        "script's samples are not known, the length of its steady steps if both took as many, else the seconds that it "
        "prints), wall time for the run."
    )
    table = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    table += ["| " + " | ".join(row(s)) + " |" for s in scores]
    return "\n".join([made, "", *(f"* {s}" for s in summary(scores)), "", *table]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="clinic", help="the scripts of that set; clinic includes ../shared/cases")
    parser.add_argument("--list", action="store_true", help="list the scripts, and run nothing")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--measure", type=int, default=0, metavar="PAIRS", help="pairs of slow and cured runs")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep recordings there, and read those that it has")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    parser.add_argument("--least", type=float, default=0.0, help="exit with 1 when fewer than this share are right")
    args = parser.parse_args()
    chosen = scripts(args.only, args.set)
    if not chosen:
        sets = sorted({case.label["set"] for case in case_files.list_cases()})
        parser.error(f"no script has such a name or set; the sets are {', '.join(sets)}, strangers")
    if args.list:
        for script in chosen:
            print(f"{script.name:<28}{', '.join(script.causes) or 'healthy'}")
        return 0
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    scores = []
    for script in chosen:
        with tempfile.TemporaryDirectory(prefix="slowtrain-clinic-") as temporary:
            keep = args.keep or Path(temporary)
            folder = keep / script.name
            try:
                if args.measure and script.fixed is not None:
                    remeasure(script, known, args.measure, keep)
                folder.mkdir(parents=True, exist_ok=True)
                score = examine(script, folder.resolve())
            except subprocess.TimeoutExpired:
                score = Score(script, problem="timed out")
        score.measured = ratio(known.get(script.name), score.scope)
        scores.append(score)
        widths = (22, 30, 30, 8, 4, 5, 6, 6, 6, 5)
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row(score), widths, strict=True)), flush=True)
    print("\n" + "\n".join(summary(scores)))
    if args.markdown:
        fill(args.markdown, markdown(scores, args.set), f"<!-- {args.set} -->")
    return int(sum(s.right for s in scores) / max(len(scores), 1) < args.least)


def remeasure(script: Script, known: dict[str, Any], pairs: int, keep: Path) -> None:
    """Into ``measured.json`` after each script, so that a long measurement can be broken off."""
    try:
        known[script.name] = measure(script, pairs, keep)
    except (subprocess.SubprocessError, IndexError) as error:
        print(f"{script.name}: not measured: {error}", flush=True)
        return
    MEASURED.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
