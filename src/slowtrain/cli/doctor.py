"""``slowtrain doctor``: problems of this computer, and how to fix them on this system."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slowtrain.cli import print_message

if TYPE_CHECKING:
    from slowtrain.model.inspections import Sheet

HELP = "check this computer: whether TensorFlow sees the GPU, versions, host, settings"
EXAMPLES = """
slowtrain doctor
slowtrain doctor --data ~/images           measure also how fast that folder can be read
slowtrain doctor --json facts.json         write the facts about this computer and the results
slowtrain doctor --from facts.json         check another computer
"""
PROBLEM_EXIT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write facts and results as JSON; without FILE or with -, only this is written to standard output",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the HTML report to FILE")
    parser.add_argument(
        "--from",
        metavar="FACTS.json",
        dest="facts",
        type=Path,
        help="check another computer, from a file that --json wrote there",
    )
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="measure how fast the files in FOLDER can be read")
    parser.add_argument("--no-load", action="store_true", help="do not put a short copy load on the GPU")


def main(args: argparse.Namespace) -> int:
    """Returns 0 if no problem was found, else 1."""
    from slowtrain.cli._answers import print_text, write_file, write_json
    from slowtrain.model.inspections import CheckState
    from slowtrain.report import doctor

    found = _machine_sheet(args)
    if args.html is not None:
        from slowtrain.report import pages

        write_file(args.html, pages.doctor_page(found))
    if args.json is None or not write_json(doctor.doctor_json(found), args.json):
        print_text(doctor.doctor_text, found)
        if args.html is not None:
            print(f"\nreport: {args.html}")
    return PROBLEM_EXIT if found.of(CheckState.WRONG) else 0


def _machine_sheet(args: argparse.Namespace) -> Sheet:
    from slowtrain.cli import _answers
    from slowtrain.doctor import facts_document
    from slowtrain.errors import InputError

    if args.facts is None:
        if args.data is not None and not args.data.is_dir():
            raise InputError(f"{args.data} is not a folder; --data takes the folder of the training data")
        from slowtrain.doctor.machine_sheet import build_sheet

        return build_sheet(facts_document.gather_facts(data=args.data, load=not args.no_load, say=_print_progress))
    if args.data is not None:
        raise InputError("--data measures a folder of this computer and cannot be combined with --from")
    facts = facts_document.read_facts_file(args.facts)
    from slowtrain.doctor.machine_sheet import build_sheet  # slow import, after the checks above

    with _answers.reject_damaged(args.facts):
        return build_sheet(facts, str(args.facts))


def _print_progress(what: str) -> None:
    if sys.stderr.isatty():
        print_message(what)
