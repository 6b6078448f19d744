"""``slowtrain verify``: proves somebody's own idea by the rules by which ``fix`` proves its own."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "prove an idea of your own: a script with and without a patch, or two scripts, in interleaved runs"
EXAMPLES = """
slowtrain verify --patch my.diff train.py --epochs 3
slowtrain verify --treat prefetch,parallel-map train.py
slowtrain verify --treat cache@train.py:12 train.py
slowtrain verify --baseline train.py --candidate faster.py
slowtrain verify --scope run --budget 20m --baseline a.py --candidate b.py
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from slowtrain.cli import _proving

    parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module's name, as in python -m")
    parser.add_argument("--patch", type=Path, metavar="FILE", help="a unified diff, applied to copies")
    parser.add_argument(
        "--treat", metavar="NAMES",
        help="change nothing in the script, but run it with: prefetch, parallel-map, no-eager, several-steps, xla, "
        "all-threads, mixed-precision, cache@FILE:LINE (in memory, behind the map of that line; several with commas)",
    )  # fmt: skip
    parser.add_argument("--baseline", type=Path, metavar="FILE", help="the script as it is")
    parser.add_argument("--candidate", type=Path, metavar="FILE", help="the script as it would be, run in its place")
    parser.add_argument(
        "--scope", choices=["step", "run"], default="step", help="time steady steps, or whole runs (default: step)"
    )
    parser.add_argument(
        "--effect", choices=["exact", "equivalent"], help="what the change promises; a loss that says no rejects it"
    )
    _proving.add_options(parser, html=None)
    parser.add_argument("script", nargs="?", metavar="SCRIPT", help="the script, with --patch")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="the script's own arguments")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli import _proving
    from slowtrain.errors import InputError
    from slowtrain.model import Effect
    from slowtrain.verify.candidates import candidate_proof, external_patch
    from slowtrain.verify.candidates.edited_files import EditedFiles

    treatments: tuple[str, ...] = ()
    if args.treat is not None and args.script is not None and not (args.patch or args.baseline or args.candidate):
        target, files, name = args.script, EditedFiles(), args.treat
        treatments = candidate_proof.parse_treatments(args.treat)
    elif args.patch is not None and args.script is not None and not (args.baseline or args.candidate or args.treat):
        target, files, name = args.script, external_patch.apply_patch_file(args.patch, Path.cwd()), args.patch.name
    elif args.baseline is not None and args.candidate is not None and not (args.patch or args.treat):
        if args.script is not None:  # both scripts are named by options: all that follows is their arguments
            args.arguments = [args.script, *args.arguments]
        target, files, name = (
            str(args.baseline),
            external_patch.replace_script(args.baseline, args.candidate),
            args.candidate.name,
        )
    else:
        raise InputError("give --patch FILE or --treat NAMES and a script, or --baseline FILE and --candidate FILE")
    effect = Effect(args.effect) if args.effect else None
    stem = target if args.module else Path(target).stem
    bench = _proving.bench(args, target, f"verify-{stem}")
    proof = candidate_proof.prove_candidate(bench, files, name, args.scope, effect, treatments)
    _proving.tell(args, proof, bench.folder, written=False)
    return 0 if any(a.kept for a in proof.attempts) else 1
