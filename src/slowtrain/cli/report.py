"""``slowtrain report``: the answer from an existing recording."""

from __future__ import annotations

import argparse
from pathlib import Path

from slowtrain.cli import add_json_option

HELP = "print the report of a recording"
EXAMPLES = """
slowtrain report slowtrain-runs/train-20260131-120000
slowtrain report --html report.html slowtrain-runs/train-20260131-120000
slowtrain report --json - slowtrain-runs/train-20260131-120000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write the HTML report to FILE")
    add_json_option(parser)
    parser.add_argument("recording", metavar="RECORDING", type=Path, help="folder of a recording")


def main(args: argparse.Namespace) -> int:
    from slowtrain.cli._answers import print_recording_answer

    print_recording_answer(args.recording, html=args.html, json=args.json)
    return 0
