"""``slowtrain pack``: writes data once in a form that reads fast. First a plan, then, by the plan, all of it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowtrain.model import Place
    from slowtrain.model.packing import PackedFolder, PackingPlan

HELP = "write slow input data once as TFRecord or ArrayRecord shards: plan and measure a sample, then pack all of it"
EXAMPLES = """
slowtrain pack --plan pack.json train.py --epochs 3
slowtrain pack --plan pack.json --recording runs/train-20260131-235959 train.py
slowtrain pack --plan pack.json --to /fast/images images/
slowtrain pack --plan pack.json --format array-record images/
slowtrain pack --plan pack.json --format array-record train_on_jax.py
slowtrain pack pack.json                                      writes the data; the same command again goes on
slowtrain pack --runner direct pack.json --direct_num_workers=4 --direct_running_mode=multi_processing
"""
PROGRESS_S = 10.0  # between two lines
GRAIN_USE = """To train on it, with another order in each epoch:

data = read_packed()
batches = data.seed(0).shuffle().repeat().batch(32).to_iter_dataset()
model.fit(batches, steps_per_epoch=len(data) // 32, epochs=3)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument(
        "--plan", type=Path, metavar="FILE", help="make a plan for a script or a folder of data; pack nothing yet"
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="with --plan: the folder to write (default: packed-NAME, here)"
    )
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FOLDER",
        help="with --plan: a recording of the script, so it is not run for one",
    )
    parser.add_argument(
        "--at",
        metavar="FILE:LINE",
        help="with --plan: pack the results of the map or generator at this line, which you know to be the same in "
        "every epoch, or the PyDataset that fit gets there; two passes are compared",
    )
    parser.add_argument(
        "--format",
        choices=("tfrecord", "array-record"),
        help="with --plan: the files that are written (default: tfrecord); array-record, which is read without "
        "TensorFlow, for a folder or the PyDataset of a script (needs pip install 'slowtrain[grain]')",
    )
    parser.add_argument(
        "--runner",
        metavar="NAME",
        help="pack by the plan of a folder in the workers of an Apache Beam pipeline, on this machine with direct; "
        "further options of Beam follow the plan (needs pip install 'slowtrain[beam]')",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    _measuring.add_options(parser, html=None)
    parser.add_argument("script", metavar="PLAN|SCRIPT|FOLDER", help="a plan; with --plan a script or a folder of data")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script, or of Beam"
    )


def main(args: argparse.Namespace) -> int:
    return _make_plan(args) if args.plan is not None else _pack_by_plan(args)


def _make_plan(args: argparse.Namespace) -> int:
    from slowtrain import __version__
    from slowtrain.cli import _answers, print_message
    from slowtrain.pack import plan_file
    from slowtrain.report import packing as report

    _answers.require_writable(args.plan, args.json)
    plan = _plan_for_target(args)
    document = plan_file.plan_json(plan, __version__)
    _answers.write_file(args.plan, document, folders=True)
    if args.json is not None and _answers.write_json(document, args.json):
        return 0
    _answers.print_text(report.plan_text, plan)
    print(f"\nplan:   {args.plan}\npack:   slowtrain pack {args.plan}")
    if not plan.has_room:
        print_message(f"{plan.output} has too little room for the packed data; make a plan with another --to")
    return 0


def _plan_for_target(args: argparse.Namespace) -> PackingPlan:
    from slowtrain.capture.process import launch
    from slowtrain.cli import _measuring
    from slowtrain.model.packing import ARRAY_RECORD, TFRECORD
    from slowtrain.pack import folder_plan, packing_run, script_plan

    target = Path(args.script)
    output = args.to or packing_run.default_output(args.script, module=args.module)
    if not args.module and target.is_dir() and not (target / "__main__.py").exists():
        work = launch.new_folder(args.out, f"pack-{target.name}")
        return folder_plan.plan_folder(target, output, work, args.format or TFRECORD)
    _measuring.require_recording(args)
    at = _named_place(args.at) if args.at is not None else None
    bench = _measuring.create_bench(args, args.script, "pack")
    if args.format == ARRAY_RECORD:
        return script_plan.plan_batches(bench, output, at)
    return script_plan.plan_script(bench, output, args.recording, at)


def _named_place(text: str) -> Place:
    """The place of ``FILE:LINE``. Raises ``InputError``."""
    from slowtrain.errors import InputError
    from slowtrain.model import Place

    file, _, line = text.rpartition(":")
    if not line.isdecimal() or not Path(file).is_file():
        raise InputError(f"--at {text}: write a file and a line of your code, such as train.py:12")
    return Place(str(Path(file).absolute()), int(line))


def _pack_by_plan(args: argparse.Namespace) -> int:
    from slowtrain.cli import _answers
    from slowtrain.errors import InputError
    from slowtrain.pack import packing_run, plan_file
    from slowtrain.report import packing as report
    from slowtrain.report.documents import json_text, json_values

    path = Path(args.script)
    _answers.require_writable(None, args.json)
    if args.arguments and args.runner is None:
        raise InputError(
            f"{args.arguments[0]} stands behind the plan: only the options of Beam do, after --runner NAME"
        )
    plan = plan_file.read_plan(path)
    beam_options = None if args.runner is None else ["--runner", args.runner, *args.arguments]
    packed = packing_run.run_plan(plan, PackingProgress(plan.elements), beam_options)
    if args.json is not None and _answers.write_json(json_text({"folders": json_values(packed)}), args.json):
        return 0
    _answers.print_text(report.packed_text, packed)
    _print_how_to_read(path, plan, packed)
    return 0


def _print_how_to_read(path: Path, plan: PackingPlan, packed: Sequence[PackedFolder]) -> None:
    """Prints the patch of a script and the command that proves it, or for a folder the lines that read it."""
    from slowtrain.cli import _answers
    from slowtrain.model.packing import ARRAY_RECORD
    from slowtrain.pack import packing_run
    from slowtrain.verify.measurement import edited_files

    if plan.source.kind != "script":
        print(f"\nTo read it:\n\n{packing_run.reading_text(plan.form, packed)}")
        if plan.form.file_format == ARRAY_RECORD:
            print(GRAIN_USE)
        return
    patch = path.with_suffix(".diff")
    files = packing_run.reading_files(plan, packed).changed_files()
    _answers.write_file(patch, edited_files.unified_diff(files, Path.cwd()))
    verify, apply = packing_run.reading_commands(plan, patch)
    print(f"\npatch:  {patch}\nverify: {verify}\napply:  {apply}")


class PackingProgress:
    """Prints on stderr what is written, every ten seconds."""

    def __init__(self, elements: int | None) -> None:
        self.elements = elements
        self._begun = self._printed_s = time.monotonic()
        self._first: int | None = None

    def __call__(self, elements: int, size: int) -> None:
        now = time.monotonic()
        self._first = elements if self._first is None else self._first
        if now - self._printed_s < PROGRESS_S:
            return
        self._printed_s = now
        line = f"slowtrain: {elements:,} elements, {size / 2**20:,.0f} MiB"
        done = elements - self._first
        if self.elements and done > 0:
            left_s = (now - self._begun) / done * (self.elements - elements)
            line += f", {elements / self.elements:.0%}, about {left_s:.0f} s left"
        print(line, file=sys.stderr, flush=True)
