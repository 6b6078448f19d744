"""``slowtrain run``: runs a script as ``python`` would, records it, says why it is slow."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slowtrain.cli import watch
from slowtrain.errors import InputError

HELP = "run a training script unchanged and say why each step takes as long as it does"
EXAMPLES = """
slowtrain run train.py --epochs 3             options behind the script are the script's
slowtrain run -m project.train                as python -m
slowtrain run --html report.html train.py     the whole report as one page
slowtrain run --json - train.py               the answer as JSON on standard output, the script's output on stderr
slowtrain run --live train.py                 what it does now, at the foot of the terminal
"""
RUNS = "slowtrain-runs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-m", dest="module", action="store_true", help="the script is a module's name, as with python -m"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path(RUNS), help=f"where recordings go (default: {RUNS})"
    )
    parser.add_argument(
        "--html",
        metavar="FILE",
        type=Path,
        help="write the report there too, in folders that are made (it is always in the recording)",
    )
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - is standard output, and nothing else is printed there",
    )
    parser.add_argument(
        "--no-windows", action="store_true", help="do without the profiler's and the line tracer's short windows"
    )
    parser.add_argument(
        "--max-disk",
        metavar="SIZE",
        help="what the recording may take, profiler windows included (default: 200MB); older steps become summaries",
    )
    parser.add_argument(
        "--on-nonfinite",
        choices=("stop", "report"),
        help="when the loss is no longer finite, run that step again op by op and name the first op that made it so; "
        "then stop the script, as Ctrl-C would, or let it go on",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="show the run at the foot of the terminal; the script's output scrolls above (also: slowtrain watch)",
    )
    watch.add_alerts(parser)
    parser.add_argument("script", metavar="SCRIPT", help="the script, or with -m the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _target

    _target.check(args.script, args.module)  # before what takes longer to import
    from slowtrain.capture.process import launch
    from slowtrain.cli._answer import Answer, Progress, writable
    from slowtrain.recording import byte_sizes, recording_folder, thinning

    writable(args.html, args.json)
    max_bytes = (
        byte_sizes.parse_size("--max-disk", args.max_disk, least=thinning.MIN_MAX_BYTES) if args.max_disk else None
    )
    told, live = None, None
    if args.alert_command:
        from slowtrain.watch import alert_delivery

        told = alert_delivery.parse_alert_command(args.alert_command)
    folder = launch.new_folder(args.out, Path(args.script).stem if not args.module else args.script)
    argv = launch.command_line(args.script, args.arguments, args.module)
    progress = Progress(folder)
    if warning := _target.warning(args.script, args.module):
        progress.warn(warning)
    if args.live or told is not None:
        from slowtrain.cli._live import Live

        live = Live(folder, told, shown=args.live)
    # Where the answer goes to standard output, the script's own output has to go elsewhere.
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
        progress.warn(f"the recording ended before the script did ({ended}); what follows is of the part before")
    progress.say("reading the recording")
    try:
        if not folder.is_dir():
            raise InputError(f"{folder} was taken away while the script ran: there is nothing to tell of it")
        Answer(folder, html=args.html, json=args.json).give()
    except Exception as error:
        # Raised again where the script itself ended well; else its own exit code matters more than our answer.
        if not outcome.exit_code:
            raise
        progress.warn(str(error) or type(error).__name__)
    return outcome.exit_code
