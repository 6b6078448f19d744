"""``slowtrain run``: runs a script as ``python`` would, records it, and shows why it is slow."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slowtrain.cli import add_json_option, print_message, watch
from slowtrain.errors import InputError
from slowtrain.recording.recording_folder import RUNS_FOLDER

HELP = "run a training script unchanged and show why its steps are slow"
EXAMPLES = """
slowtrain run train.py --epochs 3             options after the script belong to the script
slowtrain run -m project.train                run a module, as python -m
slowtrain run --html report.html train.py     write the HTML report
slowtrain run --json - train.py               JSON on standard output, the script's output on standard error
slowtrain run --live train.py                 show the run in the last rows of the terminal
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        type=Path,
        default=Path(RUNS_FOLDER),
        help=f"folder for recordings (default: {RUNS_FOLDER})",
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        type=Path,
        help="also write the HTML report to FILE and create its folders (the recording always holds the report)",
    )
    add_json_option(parser)
    parser.add_argument(
        "--no-windows", action="store_true", help="do not use the short windows of the profiler and the line tracer"
    )
    parser.add_argument(
        "--max-disk",
        metavar="SIZE",
        help="maximum size of the recording with its profiles (default: 200MB); older steps are summarised",
    )
    parser.add_argument(
        "--on-nonfinite",
        choices=("stop", "report"),
        help="when the loss becomes NaN or infinite, repeat that step op by op and name the first op that caused it; "
        "then stop the script, as Ctrl-C does, or let it continue",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="show the run in the last rows of the terminal, below the script's output (see also slowtrain watch)",
    )
    watch.add_alert_options(parser)
    parser.add_argument("script", metavar="SCRIPT", help="training script, or module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answers

    _answers.require_runnable(args.script, args.module)  # before the slow imports
    from slowtrain.capture.process import launch
    from slowtrain.cli._answers import RunProgress, print_recording_answer, require_writable
    from slowtrain.recording import recording_folder, thinning

    require_writable(args.html, args.json)
    max_bytes = (
        recording_folder.parse_size("--max-disk", args.max_disk, least=thinning.MIN_MAX_BYTES)
        if args.max_disk
        else None
    )
    alert_sender, live = None, None
    if args.alert_command:
        from slowtrain.watch import frame_outputs

        alert_sender = frame_outputs.parse_alert_command(args.alert_command)
    folder = launch.new_folder(args.out, Path(args.script).stem if not args.module else args.script)
    argv = launch.command_line(args.script, args.arguments, args.module)
    progress = RunProgress(folder)
    if warning := _answers.known_failure(args.script, args.module):
        print_message(warning)
    if args.live or alert_sender is not None:
        from slowtrain.cli._live_view import LiveView

        live = LiveView(folder, alert_sender, shown=args.live)
    # If the answer goes to standard output, the script's output goes to standard error.
    stdout = sys.stderr if args.json == "-" else None
    try:
        outcome = launch.run_recorded(
            argv,
            folder,
            windows=not args.no_windows,
            max_bytes=max_bytes,
            on_nonfinite=args.on_nonfinite,
            stdout=stdout,
            tick=live.tick if live is not None else progress.tick,
        )
    finally:
        if live is not None:
            live.close()
    ended = recording_folder.early_end_reason(folder)
    if ended:
        print_message(f"the recording ended before the script did ({ended}); the report covers the part before that")
    progress.say("reading the recording")
    try:
        if not folder.is_dir():
            raise InputError(f"{folder} was removed while the script ran, so there is no report")
        print_recording_answer(folder, html=args.html, json=args.json)
    except Exception as error:
        # Raised only if the script succeeded. Otherwise its exit code is more important than our error.
        if not outcome.exit_code:
            raise
        print_message(str(error) or type(error).__name__)
    return outcome.exit_code
