"""How often a healthy loss is called slow convergence, and how often a rate that is far off is seen in it.

    python clinic/convergence_power.py --runs 500 --markdown docs/convergence.md
    python clinic/convergence_power.py --real FOLDER --markdown docs/convergence.md

The first draws runs (``simulated_losses.py``) and judges each as ``numerics/slow-convergence`` does, without runs at
other rates. The second records some thirty healthy scripts of the clinic into FOLDER, or reads the recordings that are
there: Keras' ``fit``, loops of one's own, generators with critics, agents that learn by reinforcement.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import case_files
import numpy as np
import simulated_losses
from pages import fill

from slowtrain.causes import cause_by_id
from slowtrain.diagnose import diagnose_trace
from slowtrain.errors import InputError
from slowtrain.trace import Trace
from slowtrain.trace.loading import recording_trace
from slowtrain.trace.signals.loss_curve import LossShape, build_loss_curve, read_loss_curve

SIMULATED, REAL = "<!-- simulated -->", "<!-- real -->"
TIMEOUT_S = 150
REAL_RUNS = (
    "barrel_aging", "book_factors", "bus_headways", "canopy_cover", "cello_bows", "credit_default", "denoise_loop",
    "digitgan", "digits_cnn", "drum_patterns", "fern_fronds", "frost_ferns", "iris_loop", "kiln_energy",
    "kite_lifts", "lap_times", "meteorite_spectra", "metro_flow", "night_counter", "pigeon_race", "premium_tabular",
    "press_force", "radtran", "rain_gauges", "river_flow_mixer", "saffron_threads", "stream_windows",
    "turnip_regatta", "warehouse_lifts", "wave_solver",
)  # fmt: skip
Kind = Callable[[np.random.Generator, int], Any]


def judged_shapes(kind: Kind, runs: int, seed: int, *, in_fit: bool) -> Counter[str]:
    """How many runs of a kind have each shape; ``too few`` is that of runs with too few steps or points.

    ``plateau``: of those whose shape is unclear, how many end on one, which the evidence of measured rates names.
    """
    rng = np.random.default_rng((seed, in_fit))
    found: Counter[str] = Counter()
    for _ in range(runs):
        run = simulated_losses.simulated_run(kind, rng, in_fit=in_fit)
        curve = build_loss_curve("loss", run.points, in_fit=in_fit)
        found[str(curve.shape.value) if curve is not None else "too few"] += 1
        found["plateau"] += curve is not None and curve.shape is LossShape.UNCLEAR and curve.plateau_start is not None
    return found


def finding_count(shapes: Counter[str]) -> int:
    return sum(shapes[str(shape.value)] for shape in LossShape if shape is not LossShape.UNCLEAR)


def simulated_table(runs: int, seed: int) -> str:
    kinds = simulated_losses
    rows = [
        f"Made by `python clinic/convergence_power.py --runs {runs} --seed {seed}`.", "", "",
        "| losses | reported by | finding | no finding, a plateau | enough losses |", "|---|---|---:|---:|---:|",
    ]  # fmt: skip
    wrong = total = 0
    for kind, in_fit, is_healthy in (
        *((k, f, True) for k in kinds.SUPERVISED for f in (True, False)),
        *((k, False, True) for k in kinds.OTHERS),
        *((k, f, False) for k in kinds.SICK for f in (True, False)),
    ):
        shapes = judged_shapes(kind, runs, seed, in_fit=in_fit)
        found, judged = finding_count(shapes), runs - shapes["too few"]
        name = kind.__name__.replace("_", " ")
        name = name if is_healthy else f"**{name}**"
        cells = (f"{found / runs:.1%}", f"{shapes['plateau'] / runs:.1%}", f"{judged / runs:.0%}")
        rows.append(f"| {name} | {'fit' if in_fit else 'own loop'} | {' | '.join(cells)} |")
        wrong, total = wrong + found * is_healthy, total + runs * is_healthy
    rows[2] = f"{wrong} of {total:,} healthy runs had a finding ({wrong / total:.2%}). In bold: rates that are far off."
    rows.insert(3, "")
    return "\n".join(rows) + "\n"


def recorded_run(name: str, folder: Path) -> Trace | str:
    """The newest recording of a case below ``folder``, made now if there is none; or why there is none."""
    own = folder / name
    known = sorted(own.glob("*/recording.sqlite"))
    if not known:
        own.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "slowtrain", "run", "--out", str(own), str(case_files.find_case(name).script)]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            run.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:  # what was recorded until then can be read
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        known = sorted(own.glob("*/recording.sqlite"))
    try:
        return recording_trace.load_recording(known[-1].parent) if known else "nothing was recorded"
    except InputError as error:
        return str(error)


def real_table(names: Iterable[str], folder: Path) -> str:
    cause = cause_by_id("numerics/slow-convergence")
    rows, wrong, read, shown = [], 0, 0, 0
    for name in names:
        trace = recorded_run(name, folder)
        if isinstance(trace, str):
            rows.append(f"| {name} | | | {trace} |")
            continue
        found, curve = diagnose_trace(trace, [cause]), read_loss_curve(trace)
        answer = f"finding: {curve.shape.value}" if found.diagnoses and curve is not None else "unchecked"
        wrong, read, shown = wrong + bool(found.diagnoses), read + 1, shown + (curve is not None)
        course = f"{curve.means[0]:.3g} to {curve.means[-1]:.3g} in {curve.steps:,} steps" if curve is not None else "–"
        rows.append(f"| {name} | {trace.steps.source} | {course} | {answer} |")
        print(rows[-1], flush=True)
    return "\n".join(
        [
            "Made by `python clinic/convergence_power.py --real FOLDER`.", "",
            f"{wrong} of {read} healthy scripts of the clinic had a finding. {shown} had enough losses to judge them.",
            "",
            "| script | steps of | loss in the first and last tenth | answer |", "|---|---|---|---|", *rows, "",
        ]
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="simulated runs of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--real", type=Path, metavar="FOLDER", help="records healthy scripts there instead")
    parser.add_argument("--markdown", type=Path, help="put the table into that page")
    args = parser.parse_args()
    text = simulated_table(args.runs, args.seed) if args.real is None else real_table(REAL_RUNS, args.real)
    print(text)
    if args.markdown:
        fill(args.markdown, text, SIMULATED if args.real is None else REAL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
