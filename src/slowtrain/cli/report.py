"""``slowtrain report``: the answer again, from a recording that is there."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "read a recording again and print its report"
EXAMPLES = """
slowtrain report slowtrain-runs/train-20260131-120000
slowtrain report --html report.html slowtrain-runs/train-20260131-120000
slowtrain report --json - slowtrain-runs/train-20260131-120000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page there too")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - is standard output, and nothing else is printed there",
    )
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="a recording's folder")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli._answer import Answer

    Answer(args.recording, html=args.html, json=args.json).give()
    return 0
