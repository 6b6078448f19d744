"""``slowtrain batch``: throughput and memory for a range of batch sizes."""

from __future__ import annotations

import argparse

HELP = "measure throughput and memory over the batch size: where the curve flattens, and the largest batch that fits"
EXAMPLES = """
slowtrain batch train.py --epochs 3
slowtrain batch --device T4 --html batch.html train.py
slowtrain batch --recording runs/train-20260131-235959 train.py     keep the answer for slowtrain report
"""
BATCH_FILE = "batch.json"  # in the folder of a recording, where build.load reads it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    _measuring.add_device_options(parser)
    _measuring.add_recording_option(parser)
    _measuring.add_options(parser, html=_measuring.PAGE_HELP)
    _measuring.add_script_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answers, _measuring
    from slowtrain.report import pages
    from slowtrain.report import sizing as report
    from slowtrain.verify.batch_sizes import throughput_curve

    _measuring.require_recording(args)
    device = _measuring.find_device(args.device)
    bench = _measuring.create_bench(args, args.script, "batch")
    answer = throughput_curve.measure_curve(bench, device, growth=args.growth)
    document = report.batch_json(answer)
    if args.recording is not None:
        _answers.write_file(args.recording / BATCH_FILE, document)
    _measuring.print_sizing(
        args, bench.folder / BATCH_FILE, document, pages.batch_page(answer), report.batch_text, answer
    )
    return 0
