"""``slowtrain oom``: explains out-of-memory errors from the allocator dumps in a log."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from slowtrain.cli import add_json_option

HELP = "read a training log with an out-of-memory error, and show what used the memory and what to do"
EXAMPLES = """
slowtrain oom train.log
python train.py 2>&1 | slowtrain oom -        read the log from a pipe
slowtrain oom --html oom.html worker-0.log.gz
slowtrain oom --json - train.log
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the HTML report to FILE")
    add_json_option(parser)
    parser.add_argument("log", metavar="LOG", help="log file of any length, optionally gzipped; - reads standard input")


def main(args: argparse.Namespace) -> int:
    from slowtrain import oom as dumps
    from slowtrain.cli import _answers
    from slowtrain.errors import InputError
    from slowtrain.report import oom

    path = Path(args.log)
    if args.log != "-" and path.is_dir():
        raise InputError(f"{args.log} is a folder; give a log file")
    found = dumps.read_log(sys.stdin.buffer if args.log == "-" else path, args.log)
    if args.html is not None:
        from slowtrain.report import pages

        _answers.write_file(args.html, pages.oom_page(found))
    if args.json is None or not _answers.write_json(oom.oom_json(found), args.json):
        _answers.print_text(oom.oom_text, found)
    return 0
