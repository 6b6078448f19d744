"""``slowtrain verify``: tests a change of the user's own by the same rules as ``fix``."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "test a change of your own: compare a script with and without a patch, or two scripts, in interleaved runs"
EXAMPLES = """
slowtrain verify --patch my.diff train.py --epochs 3
slowtrain verify --treat prefetch,parallel-map train.py
slowtrain verify --treat cache@train.py:12 train.py
slowtrain verify --baseline train.py --candidate faster.py
slowtrain verify --scope run --budget 20m --baseline a.py --candidate b.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _measuring

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module name, as in python -m")
    parser.add_argument("--patch", type=Path, metavar="FILE", help="unified diff, applied to copies of the files")
    parser.add_argument(
        "--treat", metavar="NAMES",
        help="leave the script unchanged but run it with these settings, separated by commas: prefetch, parallel-map, "
        "no-eager, several-steps, xla, all-threads, mixed-precision, cache@FILE:LINE (in memory, after that map)",
    )  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="the present script")
    parser.add_argument(
        "--candidate", type=Path, metavar="FILE", help="the changed script, run in place of the present one"
    )
    parser.add_argument(
        "--scope", choices=["step", "run"], default="step", help="compare steady steps or whole runs (default: step)"
    )
    parser.add_argument(
        "--effect",
        choices=["exact", "equivalent"],
        help="expected effect on the numbers; the change is rejected if the loss contradicts it",
    )
    _measuring.add_options(parser, html=None)
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="training script, with --patch or --treat")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the script")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _measuring
    from slowtrain.errors import InputError
    from slowtrain.model import Effect
    from slowtrain.verify.measurement import candidate_proof, edited_files
    from slowtrain.verify.measurement.edited_files import EditedFiles

    treatments: tuple[str, ...] = ()
    if args.treat is not None and args.script is not None and not (args.patch or args.baseline or args.candidate):
        target, files, name = args.script, EditedFiles(), args.treat
        treatments = candidate_proof.parse_treatments(args.treat)
    elif args.patch is not None and args.script is not None and not (args.baseline or args.candidate or args.treat):
        target, files, name = args.script, edited_files.apply_patch_file(args.patch, Path.cwd()), args.patch.name
    elif args.baseline is not None and args.candidate is not None and not (args.patch or args.treat):
        if args.script is not None:  # both scripts are given by options, so all other arguments are theirs
            args.arguments = [args.script, *args.arguments]
        target, files, name = (
            str(args.baseline),
            edited_files.replace_script(args.baseline, args.candidate),
            args.candidate.name,
        )
    else:
        raise InputError("give --patch FILE or --treat NAMES and a script, or --baseline FILE and --candidate FILE")
    effect = Effect(args.effect) if args.effect else None
    bench = _measuring.create_bench(args, target, "verify")
    proof = candidate_proof.prove_candidate(bench, files, name, args.scope, effect, treatments)
    _measuring.print_proof(args, proof, bench.folder, written=False)
    return 0 if any(a.kept for a in proof.attempts) else 1
