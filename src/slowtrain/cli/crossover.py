"""``slowtrain crossover``: which of two devices is faster, from which batch size on, and after how many steps."""

from __future__ import annotations

import argparse

HELP = "measure a script on two devices: from which batch size and after how many steps the GPU is faster"
EXAMPLES = """
slowtrain crossover train.py --epochs 3
slowtrain crossover --batches 8,64,512 train.py
slowtrain crossover --devices cpu:threads=1,cpu:threads=2 train.py     compare settings of the CPU, without a GPU
slowtrain crossover --recording runs/train-20260131-235959 train.py    keep the answer for slowtrain report
"""
CROSSOVER_FILE = "crossover.json"  # in the folder of a recording, where slowtrain report reads it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    parser.add_argument(
        "--devices", default="gpu,cpu", metavar="A,B", help="two of gpu, cpu, cpu:threads=N (default: %(default)s)"
    )
    parser.add_argument(
        "--batches", metavar="N,N,…", help="batch sizes (default: 1/4, 1 and 4 times that of the script)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes per device and batch size (default: 3)")
    _measuring.add_recording_option(parser)
    _measuring.add_options(parser, html=_measuring.PAGE_HELP)
    _measuring.add_script_arguments(parser)


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answers, _measuring
    from slowtrain.errors import InputError
    from slowtrain.report import crossover as report
    from slowtrain.report import pages
    from slowtrain.verify.batch_sizes import device_crossover

    _measuring.require_recording(args)
    if args.rounds < 1:
        raise InputError(f"--rounds {args.rounds}: must be at least 1, and at least 2 for confidence intervals")
    batches = _parse_batches(args.batches)
    device_crossover.parse_settings(args.devices)  # reports a wrong value before anything runs
    bench = _measuring.create_bench(args, args.script, "crossover")
    found = device_crossover.measure_crossover(bench, args.devices, batches, args.rounds)
    document = report.crossover_json(found)
    if args.recording is not None:
        _answers.write_file(args.recording / CROSSOVER_FILE, document)
    _measuring.print_sizing(
        args, bench.folder / CROSSOVER_FILE, document, pages.crossover_page(found), report.crossover_text, found
    )
    return 0


def _parse_batches(text: str | None) -> list[int]:
    """The batch sizes in a text such as ``8,64,512``. Raises ``InputError``."""
    from slowtrain.errors import InputError

    parts = [p.strip() for p in (text or "").split(",") if p.strip()]
    if any(not p.isdecimal() or not 0 < int(p) <= 1 << 20 for p in parts) or (text is not None and not parts):
        raise InputError(f"--batches {text}: write sizes such as 8,64,512")
    return [int(p) for p in parts]
