"""``slowtrain batch``: throughput and memory for a range of batch sizes."""

from __future__ import annotations

import argparse

HELP = "measure throughput and memory over the batch size: where the curve flattens, and the largest batch that fits"
EXAMPLES = """
slowtrain batch train.py --epochs 3
slowtrain batch --device T4 --html batch.html train.py
slowtrain batch --recording runs/train-20260131-235959 train.py     keep the answer for slowtrain report
"""
KEPT = "batch.json"  # in the folder of a recording, where build.load reads it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _proving, _sizing

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    _sizing.add_device(parser)
    _sizing.add_recording(parser)
    _proving.add_options(parser, html=_sizing.PAGE)
    _sizing.add_script(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answer, _proving, _sizing
    from slowtrain.report import pages
    from slowtrain.report import sizing as report
    from slowtrain.verify.batch_sizes import throughput_curve

    _sizing.check_recording(args)
    device = _sizing.device(args.device)
    bench = _proving.bench(args, args.script, f"batch-{_sizing.stem(args)}")
    answer = throughput_curve.measure_curve(bench, device, growth=args.growth)
    document = report.batch_json(answer)
    if args.recording is not None:
        _answer.write(args.recording / KEPT, document)
    _sizing.tell(args, bench.folder / KEPT, document, pages.batch_page(answer), report.batch_text, answer)
    return 0
