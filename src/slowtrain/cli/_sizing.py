"""What ``memory``, ``batch`` and ``crossover`` share: arguments, the card that is meant, how the answer is told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.model.answers.batch_sizing import Device

LEAST_BYTES = 1 << 20
PAGE = "write the page there; otherwise it lies beside the probes"


def device(text: str | None) -> Device | None:
    """The card or the size that was named, else the only GPU of this computer. Raises ``InputError`` for neither."""
    from slowtrain.machine.host.nvml import Gpus
    from slowtrain.machine.tables import card_memory
    from slowtrain.model.answers.batch_sizing import Device

    if text is None:
        found = card_memory.local_gpu_memory(Gpus().facts()["devices"])
        return Device(f"this computer's {found[0]}", *found[1:], "here") if found is not None else None
    size = card_memory.size_bytes(text)
    if size is not None:
        if size < LEAST_BYTES:
            raise InputError(f"--device {text} is less than 1 MiB; write a size such as 16GiB, or a card's name")
        return Device(text, size, "as it was given")
    card = card_memory.find_card(text)
    article = "an" if card.name[0] in "AEFHILMNORSX" else "a"  # letters and names by how they are spoken
    return Device(f"{article} {card.name}", card.usable_mib << 20, card_memory.source_sentence(card), "card")


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="CARD",
        help="a card's name (T4, A100-40GB) or a size (16GiB); default: the GPU of this computer, where there is one",
    )
    parser.add_argument(
        "--growth", action="store_true", help="memory is taken as it is needed, as with set_memory_growth"
    )


def add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT", help="the script")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="its own arguments; {batch} stands for the batch"
    )


def add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recording", type=Path, metavar="FOLDER", help="keep the answer with this recording, for slowtrain report"
    )


def check_recording(args: argparse.Namespace) -> None:
    """Raises ``InputError`` where what was named is no recording."""
    from slowtrain.recording import recording_folder

    if args.recording is not None and not recording_folder.is_recording(args.recording):
        raise InputError(f"{args.recording} is no recording; give the folder that slowtrain run wrote")


def stem(args: argparse.Namespace) -> str:
    return str(args.script) if args.module else Path(args.script).stem


def tell(
    args: argparse.Namespace, file: Path, document: str, page: str, render: Callable[..., str], answer: Any
) -> None:
    """Writes JSON and page beside the probes or where they were asked for, and prints the text."""
    from slowtrain.cli import _answer

    shown = args.html or file.with_suffix(".html")
    _answer.write(shown, page, folders=True)
    _answer.write(file, document)
    if args.json is None or not _answer.written(document, args.json):
        _answer.show(render, answer)
    if args.json != "-":
        print(f"\nreport: {shown}")
