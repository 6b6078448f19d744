"""``slowtrain report``: the answer from an existing recording."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "print the report of a recording"
EXAMPLES = """
slowtrain report slowtrain-runs/train-20260131-120000
slowtrain report --html report.html slowtrain-runs/train-20260131-120000
slowtrain report --json - slowtrain-runs/train-20260131-120000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write the HTML report to FILE")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - writes it to standard output and prints nothing else there",
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="folder of a recording")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli._answers import RecordingAnswer

    RecordingAnswer(args.recording, html=args.html, json=args.json).print_answer()
    return 0
