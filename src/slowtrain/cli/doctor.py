"""``slowtrain doctor``: what is wrong with this computer, and what to do about it on this very system."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "look over this computer: GPU seen or not and why, versions, card, host, settings"
EXAMPLES = """
slowtrain doctor
slowtrain doctor --data ~/images           how fast that folder can be read, too
slowtrain doctor --json facts.json         this computer's facts and how they were judged
slowtrain doctor --from facts.json         somebody else's computer
"""
WRONG = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE",
        nargs="?",
        const="-",
        help="write facts and judgement as JSON; without FILE, or with -, to standard output, and nothing else there",
    )
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument(
        "--from", metavar="FACTS.json", dest="facts", type=Path, help="judge the facts of another computer, from --json"
    )
    parser.add_argument("--data", metavar="FOLDER", type=Path, help="measure how fast this folder's files can be read")
    parser.add_argument("--no-load", action="store_true", help="do not copy to the GPU for a moment to see it at work")


def main(args: argparse.Namespace) -> int:
    """0 where nothing is wrong, 1 where something is."""
    from slowtrain.cli._answer import show, write, written
    from slowtrain.model.answers.doctor_sheet import CheckState
    from slowtrain.report import doctor

    found = _sheet(args)
    if args.html is not None:
        from slowtrain.report import pages

        write(args.html, pages.doctor_page(found))
    if args.json is None or not written(doctor.doctor_json(found), args.json):
        show(doctor.doctor_text, found)
        if args.html is not None:
            print(f"\nreport: {args.html}")
    return WRONG if found.of(CheckState.WRONG) else 0


def _sheet(args: argparse.Namespace):  # type: ignore[no-untyped-def]  # a Sheet, whose module --help does without
    from slowtrain.cli import _facts, _numpy
    from slowtrain.doctor import facts_document
    from slowtrain.errors import InputError

    if args.facts is None:
        if args.data is not None and not args.data.is_dir():
            raise InputError(f"{args.data} is no folder; --data takes the folder of the training data")
        from slowtrain.doctor.machine_sheet import build_sheet

        return build_sheet(facts_document.gather_facts(data=args.data, load=not args.no_load, say=_say))
    if args.data is not None:
        raise InputError("--data measures a folder of this computer; it does not go with --from")
    facts = facts_document.read_facts_file(args.facts)
    _numpy.alone()
    from slowtrain.doctor.machine_sheet import build_sheet  # which takes longer to import than what came so far

    with _facts.judged(args.facts):
        return build_sheet(facts, str(args.facts))


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"slowtrain: {what}", file=sys.stderr, flush=True)
