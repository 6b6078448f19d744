"""``slowtrain diagnose``: the answer from a profile, on any computer, without TensorFlow."""

from __future__ import annotations

import argparse
from pathlib import Path

from slowtrain.cli import add_json_option, print_message

HELP = "read a profile written by TensorFlow, Keras or JAX, and show why its steps are slow"
EXAMPLES = """
slowtrain diagnose logs/
slowtrain diagnose --list logs/
slowtrain diagnose --session 2026_01_31_12_00_00 logs/
slowtrain diagnose --html report.html worker-0.xplane.pb
slowtrain diagnose --json - worker-0.xplane.pb.gz
slowtrain diagnose --facts facts.json logs/     use also the facts that slowtrain doctor --json wrote there
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--html", metavar="FILE", type=Path, help="write the HTML report to FILE")
    add_json_option(parser)
    parser.add_argument(
        "--facts",
        metavar="FACTS.json",
        type=Path,
        help="also check the computer on which the profile was made, from the file of `slowtrain doctor --json`",
    )
    parser.add_argument("--list", action="store_true", help="list the profiles found, newest first, and exit")
    parser.add_argument(
        "--session", metavar="NAME", help="profile to read, by its name in --list (default: the newest)"
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        help="a profile (*.xplane.pb, *.trace.json, also gzipped), its folder, or a log folder",
    )


def main(args: argparse.Namespace) -> int:
    from slowtrain.errors import InputError
    from slowtrain.profile import profile_files
    from slowtrain.recording import recording_folder

    looked = profile_files.search_sessions(args.path)
    sessions = looked.sessions
    if args.list:
        for session in sessions:
            size = sum(f.stat().st_size for f in session.files) / 1e6
            files = f"{len(session.files)} file{'s' if len(session.files) > 1 else ''}"  # one file per host
            print(f"{session.name}  {files}  {size:.1f} MB  {session.folder}")
        for note in looked.notes:
            print_message(note)
        return 0
    if args.session is not None:
        named = [s for s in sessions if s.name == args.session]
        if not named:
            raise InputError(f"{args.path}: no profile named {args.session!r}; --list shows the profiles")
        sessions = tuple(named)
    chosen = sessions[0]
    notes = [*([profile_files.other_sessions_note(sessions)] if len(sessions) > 1 else []), *looked.notes]
    if recording_folder.is_recording(args.path):
        notes.append(f"this profile is the newest of a recording; slowtrain report {args.path} uses all of it")
    from slowtrain.cli._answers import examine_profile, print_answer

    facts = None
    if args.facts is not None:
        from slowtrain.doctor import facts_document

        facts = facts_document.read_facts_file(args.facts)
    found = examine_profile(chosen.files, args.path, notes, facts=facts, facts_file=args.facts)
    print_answer(found, html=args.html, json=args.json)
    return 0
