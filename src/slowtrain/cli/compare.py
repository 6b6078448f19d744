"""``slowtrain compare``: the differences between two recordings."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "show what became slower or faster between two recordings, and the noise of each"
EXAMPLES = """
slowtrain compare slowtrain-runs/train-20260131-120000 slowtrain-runs/train-20260131-121500
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="RUN_A", type=Path, help="folder of the first recording")
    parser.add_argument("after", metavar="RUN_B", type=Path, help="folder of the recording to compare with it")


def main(args: argparse.Namespace) -> int:
    from slowtrain.recording import recording_folder

    recording_folder.require_recording(args.before, args.after)  # before the slow imports
    from slowtrain.compare import compare_runs
    from slowtrain.report import proof
    from slowtrain.trace.loading import recording_trace

    traces = recording_trace.load_recording(args.before), recording_trace.load_recording(args.after)
    sys.stdout.write(proof.comparison_text(compare_runs(*traces, (str(args.before), str(args.after)))))
    return 0
