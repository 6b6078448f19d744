"""Shared by ``memory``, ``batch`` and ``crossover``: arguments, the selected device, and output of the answer."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.model.answers.batch_sizing import Device

MIN_DEVICE_BYTES = 1 << 20
PAGE_HELP = "write the HTML report to FILE (default: in the folder of the runs)"


def find_device(text: str | None) -> Device | None:
    """The named card or size; without a name, the GPU of this computer, or None if there is none.

    Raises ``InputError`` for an unknown name or a size below 1 MiB.
    """
    from slowtrain.machine.host.gpu_devices import Gpus
    from slowtrain.machine.tables import card_memory
    from slowtrain.model.answers.batch_sizing import Device

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


def script_stem(args: argparse.Namespace) -> str:
    return str(args.script) if args.module else Path(args.script).stem


def print_sizing(
    args: argparse.Namespace, file: Path, document: str, page: str, render: Callable[..., str], answer: Any
) -> None:
    """Writes JSON and page into the folder of the runs or to the requested files, and prints the text."""
    from slowtrain.cli._support import answer_output

    shown = args.html or file.with_suffix(".html")
    answer_output.write_file(shown, page, folders=True)
    answer_output.write_file(file, document)
    if args.json is None or not answer_output.write_json(document, args.json):
        answer_output.print_text(render, answer)
    if args.json != "-":
        print(f"\nreport: {shown}")
