"""Shared by the verbs that measure (``fix``, ``verify``, ``memory``, ``batch``, ``rate``, ``crossover``).

It holds their options, the time budget, the selected device, the progress, and the output of the answer.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.cli import add_json_option, print_message
from slowtrain.errors import InputError
from slowtrain.recording.recording_folder import RUNS_FOLDER

if TYPE_CHECKING:
    from slowtrain.model.measurements import Device, Proof
    from slowtrain.verify.measurement.paired_trial import Bench

TIME_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def add_options(
    parser: argparse.ArgumentParser, *, html: str | None = "write a report that shows before and after"
) -> None:
    parser.add_argument(
        "--budget", default="10m", metavar="TIME", help="maximum measuring time: 90s, 10m, 1h (default: 10m)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed for Python, NumPy and TensorFlow in every run (default: 0)"
    )
    parser.add_argument("--stdin", type=Path, metavar="FILE", help="standard input for every run")
    parser.add_argument(
        "--out", type=Path, default=Path(RUNS_FOLDER), help="folder for the runs (default: %(default)s)"
    )
    if html is not None:
        parser.add_argument("--html", type=Path, metavar="FILE", help=html)
    add_json_option(parser)


def parse_budget_s(text: str) -> float:
    """Converts ``90s``, ``10m``, ``1h`` or a number of seconds to seconds. Raises ``InputError``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    seconds = float(found[1]) * TIME_UNITS_S[found[2]] if found else 0.0
    if not seconds:
        raise InputError(f"--budget {text} is not a time; write 90s, 10m or 1h")
    return seconds


def create_bench(args: argparse.Namespace, target: str, verb: str) -> Bench:
    """The bench on which the probes run. Its folder is named by the verb and the script.

    Raises ``InputError`` for a script that cannot run, and ``EnvironmentMissing`` without a framework.
    """
    from slowtrain.capture.process import launch
    from slowtrain.cli import _answers
    from slowtrain.verify.measurement.paired_trial import Bench
    from slowtrain.verify.measurement.probe_process import Script

    _answers.require_runnable(target, args.module)
    _answers.require_writable(getattr(args, "html", None), args.json)
    try:
        input_bytes = args.stdin.read_bytes() if args.stdin is not None else None
    except OSError as error:
        raise InputError(f"cannot read {args.stdin} ({error.strerror})") from error
    seconds = parse_budget_s(args.budget)
    folder = launch.new_folder(args.out, f"{verb}-{target if args.module else Path(target).stem}")
    deadline = time.monotonic() + seconds
    progress = ProofProgress(deadline)
    script = Script(target, tuple(args.arguments), args.module, input_bytes)
    return Bench(script, folder, deadline, args.seed, progress, print_message, progress.tick)


class ProofProgress:
    """Prints the current activity and the remaining time on stderr.

    On a terminal, prints each message, and the running time of a long probe every ten seconds. Otherwise, prints at
    most one line per minute.
    """

    EVERY_S = 10.0
    PIPED_S = 60.0

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.shown = sys.stderr.isatty()
        self._message = ""
        self._printed_s = time.monotonic()

    def __call__(self, message: str) -> None:
        self._message = message
        if self.shown:
            self._print_message(message)

    def tick(self, seconds: float) -> None:
        """Called while a probe runs, with its running time so far."""
        if time.monotonic() - self._printed_s >= (self.EVERY_S if self.shown else self.PIPED_S):
            running = f"; running for {seconds:.0f} s" if seconds >= 1 else ""
            self._print_message(self._message + running)

    def _print_message(self, message: str) -> None:
        self._printed_s = time.monotonic()
        print_message(f"{message} (at most {_format_clock(max(self.deadline - self._printed_s, 0.0))} left)")


def _format_clock(seconds: float) -> str:
    return f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def print_proof(args: argparse.Namespace, proof: Proof, folder: Path, *, written: bool) -> None:
    """Prints the text, or only the JSON if ``--json -`` was given; writes the patch and the requested files."""
    from slowtrain.cli import _answers
    from slowtrain.report import pages
    from slowtrain.report import proof as report

    patch = folder / "fix.patch"
    if proof.diff:
        _answers.write_file(patch, proof.diff)
    if proof.diff and proof.files:
        proof = replace(
            proof, apply=_git_apply_command(proof, patch, back=False), undo=_git_apply_command(proof, patch, back=True)
        )
    shown = None
    if proof.before is not None:
        page = pages.proof_page(proof, written=written)
        shown = args.html or folder / "fix.html"
        _answers.write_file(shown, page, folders=True)
    document = report.proof_json(proof, written=written)
    _answers.write_file(folder / "fix.json", document)
    if args.json is not None and _answers.write_json(document, args.json):
        return
    _answers.print_text(report.proof_text, proof)
    if proof.diff:
        print(f"\npatch:  {patch}")
        if proof.files:
            print(f"undo:   {proof.undo}" if written else f"apply:  {proof.apply}")
    if proof.packing is not None:
        first = " (apply the patch first)" if proof.diff and not written else ""
        print(f"\nplan:   {proof.packing.plan}{first}, {report.packing_text(proof.packing)}")
        print("\n".join(f"{name + ':':<8}{one}" for name, one in report.packing_commands(proof.packing).items()))
    if shown is not None:
        print(f"report: {shown}")


def _git_apply_command(proof: Proof, patch: Path, *, back: bool) -> str:
    """The command that applies the patch, or with ``back`` reverts it, from any current folder."""
    from slowtrain.verify.measurement import edited_files

    top = edited_files.patch_root([one.path for one in proof.files], Path.cwd())
    return shlex.join(["git", "-C", str(top), "apply", *(["-R"] if back else []), str(patch.resolve())])


MIN_DEVICE_BYTES = 1 << 20
PAGE_HELP = "write the HTML report to FILE (default: in the folder of the runs)"


def find_device(text: str | None) -> Device | None:
    """The named card or size; without a name, the GPU of this computer, or None if there is none.

    Raises ``InputError`` for an unknown name or a size below 1 MiB.
    """
    from slowtrain.machine.host.gpu_devices import Gpus
    from slowtrain.machine.tables import card_memory
    from slowtrain.model.measurements import Device

    if text is None:
        found = card_memory.local_gpu_memory(Gpus().facts()["devices"])
        return Device(f"this computer's {found[0]}", *found[1:], "here") if found is not None else None
    size = card_memory.size_bytes(text)
    if size is not None:
        if size < MIN_DEVICE_BYTES:
            raise InputError(f"--device {text} is less than 1 MiB; write a size such as 16GiB, or a card's name")
        return Device(text, size, "as it was given")
    card = card_memory.find_card(text)
    article = "an" if card.name[0] in "AEFHILMNORSX" else "a"  # names that are pronounced with a vowel first
    return Device(f"{article} {card.name}", card.usable_mib << 20, card_memory.source_sentence(card), "card")


def add_device_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="CARD",
        help="name of a GPU (T4, A100-40GB) or a memory size (16GiB); default: the GPU of this computer, if any",
    )
    parser.add_argument(
        "--growth", action="store_true", help="allocate device memory as needed, as with set_memory_growth"
    )


def add_script_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT", help="training script")
    parser.add_argument(
        "arguments",
        nargs=argparse.REMAINDER,
        metavar="...",
        help="its arguments; {batch} is replaced by the batch size",
    )


def add_recording_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recording",
        type=Path,
        metavar="FOLDER",
        help="store the answer in this recording, for slowtrain report",
    )


def require_recording(args: argparse.Namespace) -> None:
    """Raises ``InputError`` if ``--recording`` does not name a recording."""
    from slowtrain.recording import recording_folder

    if args.recording is not None and not recording_folder.is_recording(args.recording):
        raise InputError(f"{args.recording} is not a recording; give the folder that slowtrain run wrote")


def print_sizing(
    args: argparse.Namespace, file: Path, document: str, page: str, render: Callable[..., str], answer: Any
) -> None:
    """Writes JSON and page into the folder of the runs or to the requested files, and prints the text."""
    from slowtrain.cli import _answers

    shown = args.html or file.with_suffix(".html")
    _answers.write_file(shown, page, folders=True)
    _answers.write_file(file, document)
    if args.json is None or not _answers.write_json(document, args.json):
        _answers.print_text(render, answer)
    if args.json != "-":
        print(f"\nreport: {shown}")
