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
    from slowtrain.cli._support import proof_command, sizing_command

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    sizing_command.add_device_options(parser)
    proof_command.add_options(parser, html=sizing_command.PAGE_HELP)
    sizing_command.add_script_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli._support import proof_command, sizing_command
    from slowtrain.report import pages
    from slowtrain.report import sizing as report
    from slowtrain.verify.batch_sizes import memory_need

    device = sizing_command.find_device(args.device)
    bench = proof_command.create_bench(args, args.script, f"memory-{sizing_command.script_stem(args)}")
    answer = memory_need.measure_memory_need(bench, device, growth=args.growth)
    document, page = report.memory_json(answer), pages.memory_page(answer)
    sizing_command.print_sizing(args, bench.folder / "memory.json", document, page, report.memory_text, answer)
    return 1 if answer.fits is False else 0
