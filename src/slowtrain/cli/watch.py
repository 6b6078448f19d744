"""``slowtrain watch``: shows a run in progress. It only reads the recording."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from slowtrain.errors import InputError
from slowtrain.recording.recording_folder import RUNS_FOLDER

HELP = "watch a run in progress: step time and its parts, memory, alerts, remaining time"
EXAMPLES = """
slowtrain watch                                   the run in progress, in any folder of this computer
slowtrain watch slowtrain-runs/train-20260131-120000
slowtrain watch --once                            print the current state and exit
slowtrain watch --json                            print the current state as JSON and exit
slowtrain watch --alert-command 'notify-send Slowtrain'
"""
MAX_LISTED_RUNS = 5
LOOK_INTERVAL_S = 2.0
LINE_INTERVAL_S = 5.0  # if plain lines are printed instead of a screen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run",
        metavar="RUN",
        nargs="?",
        type=Path,
        help="folder of a recording (default: the newest in progress in slowtrain-runs, else your run in progress "
        "elsewhere on this computer, else the newest in slowtrain-runs)",
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        help="watch the newest recording in FOLDER",
    )
    parser.add_argument("--once", action="store_true", help="print the current state and exit")
    parser.add_argument("--json", action="store_true", help="print the current state as JSON and exit")
    parser.add_argument(
        "--every",
        metavar="SECONDS",
        type=float,
        help=f"refresh interval (default: {LOOK_INTERVAL_S:g}, or {LINE_INTERVAL_S:g} if the output is not a terminal)",
    )
    parser.add_argument(
        "--window",
        metavar="SECONDS",
        type=float,
        default=30.0,
        help="length of the time window for current figures (default: 30)",
    )
    parser.add_argument(
        "--no-diagnosis",
        action="store_true",
        help="do not search the recording for causes (in a separate process with low priority)",
    )
    add_alert_options(parser)
    parser.add_argument(
        "--prometheus-port",
        metavar="PORT",
        type=int,
        help="serve metrics for Prometheus at 127.0.0.1:PORT (needs pip install 'slowtrain[prometheus]')",
    )


def add_alert_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for alerts, which ``slowtrain run`` has too."""
    parser.add_argument(
        "--alert-command",
        metavar="CMD",
        help="run CMD for each new alert, without a shell; the alert is in SLOWTRAIN_ALERT_* and as JSON on its stdin",
    )


def main(args: argparse.Namespace) -> int:
    from slowtrain.recording import recording_folder

    every = args.every if args.every is not None else LOOK_INTERVAL_S
    if not 0.1 <= every <= 3600 or not 1 <= args.window <= 86_400:
        raise InputError("--every must be 0.1 to 3600 seconds, --window 1 to 86400")
    folder = args.run or (newest_run(args.out) if args.out else run_in_progress() or newest_run(Path(RUNS_FOLDER)))
    recording_folder.require_begun_recording(folder)  # before the slow imports
    from slowtrain.cli import _live_view
    from slowtrain.watch import frame_outputs
    from slowtrain.watch.run_watch import Watch

    single = args.once or args.json
    watch = Watch(folder, window_s=args.window, examine=not (args.no_diagnosis or single))
    following = _live_view.RunFollower(
        watch, frame_outputs.parse_alert_command(args.alert_command) if args.alert_command else None
    )
    try:
        if args.prometheus_port is not None:
            from slowtrain.watch.frame_outputs import MetricsServer

            following.seen.append(MetricsServer(args.prometheus_port))
        if single:
            _live_view.print_once(following, as_json=args.json)
        else:
            _live_view.follow_run(following, every, args.every or LINE_INTERVAL_S)
        return 0
    finally:
        following.close()


def run_in_progress() -> Path | None:
    """The run in progress in this folder, or else on this computer. None if there is none.

    Raises ``InputError`` if several runs are in progress elsewhere.
    """
    from slowtrain.machine.host import host_facts
    from slowtrain.recording import recording_folder

    known = {
        f: pid
        for f, pid in host_facts.folders_being_written(recording_folder.RECORDING_FILE).items()
        if recording_folder.is_running(f)
    }
    running = sorted(known, key=_last_write_time, reverse=True)
    for folder in running:
        if folder.parent == Path(RUNS_FOLDER).resolve():
            return Path(RUNS_FOLDER) / folder.name
    if len(running) > 1:
        typed = [f"slowtrain watch {shlex.quote(str(f))} (process {known[f]})" for f in running[:MAX_LISTED_RUNS]]
        more = f", and {len(running) - MAX_LISTED_RUNS} more" if len(running) > MAX_LISTED_RUNS else ""
        raise InputError(f"{len(running)} of your runs are in progress; choose one: {', '.join(typed)}{more}")
    return running[0] if running else None


def newest_run(out: Path) -> Path:
    """The recording in ``out`` that was written to last. Raises ``InputError`` if there is none."""
    from slowtrain.recording import recording_folder

    if not out.is_dir():
        raise InputError(f"{out} does not exist; give the folder of a recording, or --out FOLDER with recordings in it")
    runs = [f for f in out.iterdir() if recording_folder.is_recording(f)]
    if not runs:
        raise InputError(f"no recordings in {out}; `slowtrain run SCRIPT` creates one")
    return max(runs, key=_last_write_time)


def _last_write_time(folder: Path) -> float:
    from slowtrain.recording import recording_folder

    times = []
    for name in (recording_folder.RECORDING_FILE, f"{recording_folder.RECORDING_FILE}-wal"):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
