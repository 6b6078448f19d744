"""``slowtrain diagnose``: the answer from somebody's profile, on any machine, without TensorFlow."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "read a profile that TensorFlow, Keras or JAX wrote, and say why its steps are slow"
EXAMPLES = """
slowtrain diagnose logs/
slowtrain diagnose --list logs/
slowtrain diagnose --session 2026_01_31_12_00_00 logs/
slowtrain diagnose --html report.html worker-0.xplane.pb
slowtrain diagnose --json - worker-0.xplane.pb.gz
slowtrain diagnose --facts facts.json logs/     and the computer, by what slowtrain doctor --json wrote there
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the page there")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - is standard output, and nothing else is printed there",
    )
    parser.add_argument(
        "--facts",
        metavar="FACTS.json",
        type=Path,
        help="judge the computer too, by what `slowtrain doctor --json` wrote where the profile was made",
    )
    parser.add_argument("--list", action="store_true", help="list the profiles that are there, newest first, and stop")
    parser.add_argument(
        "--session", metavar="NAME", help="the one to read, by its name in --list (default: the newest)"
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        help="a profile (*.xplane.pb, *.trace.json, also gzipped), its folder, or a log folder",
    )


def main(args: argparse.Namespace) -> int:
    from slowtrain.errors import InputError
    from slowtrain.profile import discovery
    from slowtrain.recording import recording_folder

    looked = discovery.search_sessions(args.path)
    sessions = looked.sessions
    if args.list:
        for session in sessions:
            size = sum(f.stat().st_size for f in session.files) / 1e6
            files = f"{len(session.files)} file{'s' if len(session.files) > 1 else ''}"  # of one host or of several
            print(f"{session.name}  {files}  {size:.1f} MB  {session.folder}")
        for note in looked.notes:
            print(f"slowtrain: {note}", file=sys.stderr)
        return 0
    if args.session is not None:
        named = [s for s in sessions if s.name == args.session]
        if not named:
            raise InputError(f"{args.path}: no profile {args.session!r} there; --list shows those that are")
        sessions = tuple(named)
    chosen = sessions[0]
    notes = [*([discovery.other_sessions_note(sessions)] if len(sessions) > 1 else []), *looked.notes]
    if recording_folder.is_recording(args.path):
        notes.append(f"slowtrain report {args.path} answers from the whole recording: this is its newest window")
    from slowtrain.cli._answer import examine_profile, tell  # which takes longer to import than what came so far

    facts = None
    if args.facts is not None:
        from slowtrain.doctor import facts_document

        facts = facts_document.read_facts_file(args.facts)
    found = examine_profile(chosen.files, args.path, notes, facts=facts, given=args.facts)
    tell(found, html=args.html, json=args.json)
    return 0
