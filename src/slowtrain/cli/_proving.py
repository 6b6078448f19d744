"""What ``fix`` and ``verify`` share: options of a probe, the time, progress, and how a proof is told."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slowtrain.cli.run import RUNS
from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.model.answers.cure_proof import Proof
    from slowtrain.verify.measurement.paired_trial import Bench

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def add_options(
    parser: argparse.ArgumentParser, *, html: str | None = "write a report with before and after side by side"
) -> None:
    parser.add_argument(
        "--budget", default="10m", metavar="TIME", help="how long to measure at most: 90s, 10m, 1h (default: 10m)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="of Python, NumPy and TensorFlow in every probe (default: 0)"
    )
    parser.add_argument("--stdin", type=Path, metavar="FILE", help="what every probe reads from standard input")
    parser.add_argument("--out", type=Path, default=Path(RUNS), help="where the runs go (default: %(default)s)")
    if html is not None:
        parser.add_argument("--html", type=Path, metavar="FILE", help=html)
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - is standard output, and nothing else is printed there",
    )


def budget_s(text: str) -> float:
    """Seconds of ``90s``, ``10m``, ``1h`` or a bare number. Raises ``InputError``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not seconds:
        raise InputError(f"--budget {text} is no time; write 90s, 10m or 1h")
    return seconds


def bench(args: argparse.Namespace, target: str, stem: str) -> Bench:
    """Where the probes run. Raises ``InputError`` and ``EnvironmentMissing`` for what cannot be run."""
    from slowtrain.capture.process import launch
    from slowtrain.cli import _answer, _target
    from slowtrain.verify.measurement.paired_trial import Bench
    from slowtrain.verify.measurement.probe_process import Script

    _target.check(target, args.module)
    _answer.writable(getattr(args, "html", None), args.json)
    try:
        given = args.stdin.read_bytes() if args.stdin is not None else None
    except OSError as error:
        raise InputError(f"cannot read {args.stdin} ({error.strerror})") from error
    seconds = budget_s(args.budget)
    folder = launch.new_folder(args.out, stem)
    deadline = time.monotonic() + seconds
    said = Progress(deadline)
    script = Script(target, tuple(args.arguments), args.module, given)
    return Bench(script, folder, deadline, args.seed, said, warn, said.tick)


def warn(message: str) -> None:
    """A line on stderr, wherever that leads: what happens in each probe has to be known before the first."""
    print(f"slowtrain: {message}", file=sys.stderr, flush=True)


class Progress:
    """What happens now, on stderr, with the time that is left.

    On a terminal each message, and while it takes long how long by now; where it is piped, a line a minute at most.
    """

    EVERY_S = 10.0
    PIPED_S = 60.0

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.shown = sys.stderr.isatty()
        self._message = ""
        self._told = time.monotonic()

    def __call__(self, message: str) -> None:
        self._message = message
        if self.shown:
            self._tell(message)

    def tick(self, seconds: float) -> None:
        """While a probe runs; it has for ``seconds``."""
        if time.monotonic() - self._told >= (self.EVERY_S if self.shown else self.PIPED_S):
            running = f"; a process has run for {seconds:.0f} s" if seconds >= 1 else ""
            self._tell(self._message + running)

    def _tell(self, message: str) -> None:
        self._told = time.monotonic()
        warn(f"{message} (at most {_clock(max(self.deadline - self._told, 0.0))} left)")


def _clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def tell(args: argparse.Namespace, proof: Proof, folder: Path, *, written: bool) -> None:
    """Prints the text, or the JSON alone where it was asked for on standard output; writes what was asked for."""
    from slowtrain.cli import _answer
    from slowtrain.report import pages
    from slowtrain.report import proof as report

    patch = folder / "fix.patch"
    if proof.diff:
        _answer.write(patch, proof.diff)
    if proof.diff and proof.files:
        proof = replace(proof, apply=_git_apply(proof, patch, back=False), undo=_git_apply(proof, patch, back=True))
    shown = None
    if proof.before is not None:
        page = pages.proof_page(proof, written=written)
        shown = args.html or folder / "fix.html"
        _answer.write(shown, page, folders=True)
    document = report.proof_json(proof, written=written)
    _answer.write(folder / "fix.json", document)
    if args.json is not None and _answer.written(document, args.json):
        return
    _answer.show(report.proof_text, proof)
    if proof.diff:
        print(f"\npatch:  {patch}")
        if proof.files:
            print(f"undo:   {proof.undo}" if written else f"apply:  {proof.apply}")
    if shown is not None:
        print(f"report: {shown}")


def _git_apply(proof: Proof, patch: Path, *, back: bool) -> str:
    """The command that applies the patch, or takes it ``back``, from wherever it is typed."""
    from slowtrain.verify.candidates import edited_files

    top = edited_files.patch_root([one.path for one in proof.files], Path.cwd())
    return shlex.join(["git", "-C", str(top), "apply", *(["-R"] if back else []), str(patch.resolve())])
