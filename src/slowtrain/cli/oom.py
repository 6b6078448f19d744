"""``slowtrain oom``: what a log's allocator dumps say of the memory that ran out."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "read a training log in which memory ran out, and say what held it and what to do"
EXAMPLES = """
slowtrain oom train.log
python train.py 2>&1 | slowtrain oom -        the log as it comes
slowtrain oom --html oom.html worker-0.log.gz
slowtrain oom --json - train.log
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - is standard output, and nothing else is printed there",
    )
    parser.add_argument("log", metavar="LOG", help="the log, of any length, also gzipped; - is standard input")


def main(args: argparse.Namespace) -> int:
    from slowtrain import oom as dumps
    from slowtrain.cli import _answer
    from slowtrain.errors import InputError
    from slowtrain.report import oom

    path = Path(args.log)
    if args.log != "-" and path.is_dir():
        raise InputError(f"{args.log} is a folder; give the log itself")
    found = dumps.read_log(sys.stdin.buffer if args.log == "-" else path, args.log)
    document = oom.oom_json(found)
    if args.html is not None:
        from slowtrain.report import pages

        _answer.write(args.html, pages.oom_page(found))
    if args.json is None or not _answer.written(document, args.json):
        _answer.show(oom.oom_text, found)
    return 0
