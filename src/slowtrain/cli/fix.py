"""``slowtrain fix``: diagnoses a script, applies the edits, measures them, and writes a patch with those that help."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

HELP = "fix a slow script: apply edits, measure them in interleaved runs, keep those that help"
EXAMPLES = """
slowtrain fix train.py
slowtrain fix --budget 20m train.py --epochs 3
slowtrain fix --write train.py
slowtrain fix --allow changes-training --json fix.json -m mypackage.train
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    parser.add_argument(
        "--allow", choices=["changes-training"], help="also apply edits that change the numbers of the training"
    )
    parser.add_argument("--write", action="store_true", help="change the files if the fix is proven")
    parser.add_argument("--force", action="store_true", help="write even if the repository has uncommitted changes")
    _measuring.add_options(parser)
    parser.add_argument("script", metavar="SCRIPT", help="training script, or module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def main(args: argparse.Namespace) -> int:
    from slowtrain import __version__
    from slowtrain.cli import _answers, _measuring
    from slowtrain.model import Effect
    from slowtrain.pack import fix_packing, plan_file
    from slowtrain.script.navigation import project_files
    from slowtrain.verify.fix import fix_loop
    from slowtrain.verify.measurement import edited_files

    script = project_files.main_file(args.script) if args.module else Path(args.script)
    if args.write and script is not None and script.is_file():
        # Checked before measuring for minutes. Other files that the fix changes are known only afterwards.
        edited_files.require_writable(Path(os.path.realpath(script)), force=args.force)
    allowed = fix_loop.DEFAULT_EFFECTS | ({Effect.CHANGES_TRAINING} if args.allow else set())
    bench = _measuring.create_bench(args, args.script, "fix")
    proof = fix_loop.fix_script(bench, frozenset(allowed), _measuring.find_device(None) if args.allow else None)
    proof, plan = fix_packing.with_packing(bench, proof)
    if plan is not None and proof.packing is not None:
        _answers.write_file(Path(proof.packing.plan), plan_file.plan_json(plan, __version__))
    written = False
    try:
        if args.write and proof.files:
            edited_files.write_files(proof.files, force=args.force)
            written = True
    finally:
        _measuring.print_proof(args, proof, bench.folder, written=written)
    return 0
