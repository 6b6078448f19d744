"""``slowtrain lint``: finds causes in source text, without running it and without TensorFlow."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from slowtrain.cli import print_message
from slowtrain.errors import InputError

if TYPE_CHECKING:
    from slowtrain.model import Effect
    from slowtrain.model.inspections import LintAnswer

HELP = "find causes of slow steps in source files without running them, and fix some of them"
EXAMPLES = """
slowtrain lint                                      all files below the current folder
slowtrain lint src/ train.ipynb
slowtrain lint --diff train.py                      what --fix would change
slowtrain lint --fix --select input src/
slowtrain lint --write-baseline lint.json src/      accept the present findings ...
slowtrain lint --baseline lint.json src/            ... and report only new ones
slowtrain lint --format sarif --output lint.sarif src/
slowtrain lint --recording slowtrain-runs/train-20260131-120000 train.py
"""
FINDINGS_EXIT, ERRORS_EXIT = 1, 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--select", metavar="CAUSES", action="append", default=[], help="look only for these ids or families"
    )
    parser.add_argument(
        "--ignore", metavar="CAUSES", action="append", default=[], help="do not look for these ids or families"
    )
    parser.add_argument(
        "--fix", action="store_true", help="apply the edits that do not change the numbers of the training"
    )
    parser.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="apply all edits, including those that change the numbers of the training",
    )
    parser.add_argument("--diff", action="store_true", help="show what --fix would change, without changing it")
    parser.add_argument(
        "--format", choices=["text", "json", "sarif", "github"], default="text", help="output format (default: text)"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write to FILE instead of standard output")
    parser.add_argument(
        "--statistics", action="store_true", help="count the findings of each cause instead of listing them"
    )
    parser.add_argument(
        "--minor", action="store_true", help="also report findings whose cure saves little of a training"
    )
    parser.add_argument("--baseline", metavar="FILE", type=Path, help="leave out the findings in this file")
    parser.add_argument("--write-baseline", metavar="FILE", type=Path, help="write all findings to FILE and exit")
    parser.add_argument(
        "--recording", metavar="FOLDER", type=Path, help="show what each finding cost in a recording of slowtrain run"
    )
    parser.add_argument(
        "--config", metavar="FILE", type=Path, help="settings file (default: the nearest pyproject.toml)"
    )
    parser.add_argument("--processes", metavar="N", type=int, help="number of processes (default: one per core)")
    parser.add_argument("paths", metavar="PATH", nargs="*", help="files and folders (default: the current folder)")


def main(args: argparse.Namespace) -> int:
    _check_options(args)  # before the slow imports
    paths = args.paths or ["."]
    import dataclasses

    from slowtrain.lint import lint_settings

    chosen = lint_settings.load_settings(
        paths, config=args.config, select=_split_names(args.select), ignore=_split_names(args.ignore)
    )
    chosen = dataclasses.replace(chosen, minor=args.minor)
    files, errors = lint_settings.find_files(paths, chosen)  # before the slow imports
    from msgspec.structs import replace

    from slowtrain.cli._answers import write_file
    from slowtrain.lint import file_fixes, hidden_findings, lint_run
    from slowtrain.model.inspections import FileError

    named = frozenset(paths)
    found = lint_run.lint_files(files, chosen, named=named, fixes=_allowed_effects(args), processes=args.processes)
    found = replace(found, errors=(*errors, *found.errors))
    if args.recording is not None:
        found = _add_runtime(found, args.recording)
    if args.write_baseline is not None:
        write_file(args.write_baseline, hidden_findings.baseline_document(found.findings, args.write_baseline))
        _print_errors(found)
        return ERRORS_EXIT if found.errors else 0
    if args.baseline is not None:
        found = hidden_findings.remove_known_findings(found, args.baseline)
    failed: list[FileError] = [] if args.diff else file_fixes.write_fixes(found.rewritten)
    if failed:
        left = {e.file for e in failed}
        rewritten = tuple(r for r in found.rewritten if r.file not in left)
        # A file that was not written is not fixed.
        still = lint_run.lint_files(sorted(left), chosen, named=frozenset(left)).findings
        findings = (*(f for f in found.findings if f.file not in left), *still)
        found = replace(found, findings=findings, errors=(*found.errors, *failed), rewritten=rewritten)
    text = _render_findings(args, found)
    if args.output is not None:
        write_file(args.output, text)
    else:
        sys.stdout.write(text)
    _print_errors(found)
    would = args.diff and bool(found.rewritten)
    return ERRORS_EXIT if found.errors else FINDINGS_EXIT if found.findings or would else 0


def _check_options(args: argparse.Namespace) -> None:
    from slowtrain.recording import recording_folder

    if args.processes is not None and args.processes < 1:
        raise InputError(f"--processes {args.processes}: must be at least 1")
    if args.diff and (args.format != "text" or args.statistics):
        raise InputError("--diff cannot be combined with --format and --statistics")
    if args.statistics and args.format != "text":
        raise InputError("--statistics works only with --format text")
    if args.write_baseline is not None and (args.fix or args.unsafe_fixes or args.diff or args.baseline):
        raise InputError("--write-baseline cannot be combined with --baseline, --fix, --unsafe-fixes and --diff")
    if args.recording is not None:
        recording_folder.require_recording(args.recording)


def _allowed_effects(args: argparse.Namespace) -> frozenset[Effect]:
    from slowtrain.model import Effect
    from slowtrain.model.inspections import SAFE_EFFECTS

    if args.unsafe_fixes:
        return frozenset(Effect)
    return SAFE_EFFECTS if args.fix or args.diff else frozenset()


def _split_names(values: list[str]) -> list[str]:
    return [name.strip() for one in values for name in one.split(",") if name.strip()]


def _add_runtime(found: LintAnswer, folder: Path) -> LintAnswer:
    from msgspec.structs import replace

    from slowtrain import diagnose
    from slowtrain.checkup import build_checkup
    from slowtrain.lint import recording_match
    from slowtrain.trace.loading import recording_trace

    trace = recording_trace.load_recording(folder)
    answer = build_checkup(trace, diagnose.diagnose_trace(trace), folder=folder)
    stale = set(recording_match.changed_files(sorted({f.file for f in found.findings}), trace))
    matched = recording_match.add_runtime_costs([f for f in found.findings if f.file not in stale], answer, trace)
    notes = [f"{file} has changed since the recording; its findings have no costs" for file in sorted(stale)]
    rest = [f for f in found.findings if f.file in stale]
    return replace(found, findings=(*matched, *rest), notes=(*found.notes, *notes))


def _render_findings(args: argparse.Namespace, found: LintAnswer) -> str:
    import shutil

    from slowtrain import __version__
    from slowtrain.cli._answers import supports_colour, supports_unicode
    from slowtrain.report import lint

    if args.diff:
        return "".join(one.diff for one in found.rewritten)
    if args.format == "json":
        return lint.lint_json(found)
    if args.format == "github":
        return lint.github_commands(found)
    if args.format == "sarif":
        return lint.sarif_log(found, __version__, _cause_pages(found))
    screen = args.output is None
    return lint.lint_text(
        found,
        width=max(shutil.get_terminal_size((100, 24)).columns, 80) if screen and sys.stdout.isatty() else 120,
        colour=screen and supports_colour(sys.stdout),
        unicode=not screen or supports_unicode(sys.stdout),
        statistics=args.statistics,
    )


def _cause_pages(found: LintAnswer) -> dict[str, tuple[str, str]]:
    from slowtrain.cause_folder import cause_files
    from slowtrain.cli import explain

    titles = {f.cause: (f.title, "") for f in found.findings}
    files = cause_files()
    pages = [explain.read_cause_page(files[cause]) for cause in titles if cause in files]
    return {**titles, **{p.id: (p.title, p.doc) for p in pages if p is not None}}


def _print_errors(found: LintAnswer) -> None:
    for error in found.errors:
        print_message(f"{error.place}: {error.says}")
