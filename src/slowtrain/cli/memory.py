"""``slowtrain memory``: the device memory that a script needs, and the largest batch that fits."""

from __future__ import annotations

import argparse

HELP = "predict the device memory that a script needs, and its largest batch, in up to 10 minutes (--budget)"
EXAMPLES = """
slowtrain memory train.py --epochs 3
slowtrain memory --device T4 train.py
slowtrain memory --device 16GiB train.py --batch-size {batch}     if the batch size is an argument
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    _measuring.add_device_options(parser)
    _measuring.add_options(parser, html=_measuring.PAGE_HELP)
    _measuring.add_script_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _measuring
    from slowtrain.report import pages
    from slowtrain.report import sizing as report
    from slowtrain.verify.batch_sizes import memory_need

    device = _measuring.find_device(args.device)
    bench = _measuring.create_bench(args, args.script, "memory")
    answer = memory_need.measure_memory_need(bench, device, growth=args.growth)
    document, page = report.memory_json(answer), pages.memory_page(answer)
    _measuring.print_sizing(args, bench.folder / "memory.json", document, page, report.memory_text, answer)
    return 1 if answer.fits is False else 0
