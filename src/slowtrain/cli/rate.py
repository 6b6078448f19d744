"""``slowtrain rate``: the loss at other learning rates and with other batches."""

from __future__ import annotations

import argparse

HELP = "measure how fast the loss falls at other learning rates and batches than the script's own"
EXAMPLES = """
slowtrain rate train.py --epochs 3
slowtrain rate --budget 20m --json rate.json -m mypackage.train
slowtrain rate --recording runs/train-20260131-235959 train.py      keep the answer for slowtrain report
"""
RATE_FILE = "rate.json"  # in the folder of a recording, where it is read with the recording


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    _measuring.add_recording_option(parser)
    _measuring.add_options(parser, html=None)
    parser.add_argument("script", metavar="SCRIPT", help="training script, or module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answers, _measuring
    from slowtrain.report import rates as report
    from slowtrain.verify.learning_rates import rate_comparison

    _measuring.require_recording(args)
    bench = _measuring.create_bench(args, args.script, "rate")
    answer = rate_comparison.measure_rates(bench)
    document = report.rate_json(answer)
    for folder in (bench.folder, *((args.recording,) if args.recording is not None else ())):
        _answers.write_file(folder / RATE_FILE, document)
    if args.json is None or not _answers.write_json(document, args.json):
        _answers.print_text(report.rate_text, answer)
    if args.recording is not None and args.json != "-":
        print(f"\nstored for slowtrain report {args.recording}")
    return 0
