"""``slowtrain shrink``: what a cheaper model does to the step, to memory, and to the time until a loss."""

from __future__ import annotations

import argparse

HELP = (
    "measure cheaper models: number formats, batch, width, frozen parts, and forms for inference; writes none of them"
)
EXAMPLES = """
slowtrain shrink train.py --epochs 3
slowtrain shrink --seconds 20 --budget 30m train.py     longer runs, so that losses come further down
slowtrain shrink --json - train.py
"""
SHRINK_FILE = "shrink.json"
DEFAULT_SECONDS = 5.0
MIN_STEPS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    parser.add_argument(
        "--seconds",
        type=float,
        default=DEFAULT_SECONDS,
        help="seconds of training in each run (default: %(default)s); losses are compared at its end",
    )
    _measuring.add_options(parser, html=_measuring.PAGE_HELP)
    _measuring.add_script_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _measuring
    from slowtrain.errors import InputError
    from slowtrain.report import pages
    from slowtrain.report import shrink as report
    from slowtrain.verify.alternatives import comparison
    from slowtrain.verify.measurement.probe_process import Rule

    if not 0 < args.seconds < float("inf"):
        raise InputError(f"--seconds {args.seconds}: must be more than 0")
    bench = _measuring.create_bench(args, args.script, "shrink")
    found = comparison.compare_alternatives(bench, Rule(seconds=args.seconds, steps=MIN_STEPS))
    document = report.shrink_json(found)
    _measuring.print_sizing(
        args, bench.folder / SHRINK_FILE, document, pages.shrink_page(found), report.shrink_text, found
    )
    return 0
