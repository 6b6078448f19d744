"""What ``memory``, ``batch`` and ``crossover`` share: arguments, the card that is meant, how the answer is told."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.model.sizing import Device

LEAST_BYTES = 1 << 20


def device(text: str | None) -> Device | None:
    """The card or the size that was named. Raises ``InputError`` for neither."""
    from slowtrain.machine import cards
    from slowtrain.model.sizing import Device

    if text is None:
        return None
    size = cards.size_bytes(text)
    if size is not None:
        if size < LEAST_BYTES:
            raise InputError(f"--device {text} is less than 1 MiB; write a size such as 16GiB, or a card's name")
        return Device(text, size, "as it was given")
    card = cards.find(text)
    source = f"what TensorFlow took of a {card.seen} that nobody else used, by its own log"
    return Device(f"a {card.name}", card.usable_mib << 20, source)


def add_script(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT", help="the script")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="its own arguments; {batch} stands for the batch"
    )


def add_recording(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--recording", type=Path, metavar="FOLDER", help="keep the answer with this recording, for slowtrain diagnose"
    )


def check_recording(args: argparse.Namespace) -> None:
    """Raises ``InputError`` where what was named is no recording."""
    if args.recording is not None and not (args.recording / "recording.sqlite").exists():
        raise InputError(f"{args.recording} is no recording; give the folder that slowtrain run wrote")


def stem(args: argparse.Namespace) -> str:
    return str(args.script) if args.module else Path(args.script).stem


def tell(args: argparse.Namespace, file: Path, document: str, render: Callable[..., str], answer: Any) -> None:
    """Writes the JSON beside the probes and where it was asked for, and prints the text."""
    from slowtrain.cli import _answer

    _answer.write(file, document)
    if args.json is None or not _answer.written(document, args.json):
        _answer.show(render, answer)
