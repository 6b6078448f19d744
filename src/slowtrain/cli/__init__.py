"""The ``slowtrain`` command: one thin file per verb. Errors are printed and exit codes are chosen here only.

A verb is a module of this package with the verb's name (``_`` becomes ``-``). It defines

    HELP                     one line
    EXAMPLES                 a few command lines, one per line
    add_arguments(parser)    its options
    main(args) -> int        runs the verb and returns the exit code

Nothing is registered: a new file is a new verb. Verb modules import argparse and errors
only; heavy modules are imported inside ``main``, so that ``--help`` stays fast.
Exit codes are documented in ``docs/exit-codes.md``.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from slowtrain import __version__
from slowtrain.errors import InputError, SlowtrainError

INTERNAL_ERROR_EXIT = 70  # sysexits.h: an internal software error
INTERRUPTED_EXIT = 128 + 2
BROKEN_PIPE_EXIT = 128 + 13


def program() -> NoReturn:
    """The entry point of the ``slowtrain`` command: runs the command line and exits."""
    sys.exit(main())


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (default: that of the process) and returns its exit code. Never raises."""
    _replace_unencodable()
    try:
        code = _run_verb(argv)
        _flush_output()
    except SlowtrainError as error:
        print_message(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED_EXIT
    except BrokenPipeError:  # the reader, such as `head` or a pager, has exited
        _discard_output()
        code = BROKEN_PIPE_EXIT
    except Exception as error:  # noqa: BLE001  the user never sees our traceback
        print_message(_internal_error_message(error))
        code = INTERNAL_ERROR_EXIT
    return code


def verb_modules() -> dict[str, str]:
    """Verb -> dotted name of its module, found by listing this package."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name.replace("_", "-"): f"{__name__}.{name}" for name in names}


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the command line, from which ``docs/cli.md`` is generated.

    With ``only``, the parser knows this verb alone, so that no other verb is imported.
    """
    parser = _VerbParser(
        prog="slowtrain",
        description="Find out why a training step is slow, what each cause costs, and whether a fix works.",
        epilog="slowtrain VERB --help shows the options and examples of a verb.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"slowtrain {__version__}")
    parser.set_defaults(verb_main=None)
    choices = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=_VerbParser)
    for verb, module_name in verb_modules().items():
        if only not in (None, verb):
            continue
        module = importlib.import_module(module_name)
        sub = choices.add_parser(
            verb,
            help=module.HELP,
            description=module.HELP,
            epilog="examples:\n" + "\n".join(f"  {line}" for line in module.EXAMPLES.strip().splitlines()),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(verb_main=module.main)
    return parser


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="write the answer as JSON; - writes it to standard output and prints nothing else there",
    )


def print_message(message: str) -> None:
    """Prints one line on stderr. Characters that are not printable are replaced, because names may hold anything."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
    try:
        print(f"slowtrain: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # stderr is closed; the exit code still reports an error


class _VerbParser(argparse.ArgumentParser):
    """Reports wrong usage in one line, like every other error, instead of printing the usage."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see '{self.prog} --help'")


def _run_verb(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    parser = build_parser(words[0] if words and words[0] in verb_modules() else None)
    try:
        args = parser.parse_args(words)
    except SystemExit as done:  # argparse raises it after --help and --version
        _flush_output()
        return int(done.code or 0)
    if args.verb_main is None:
        parser.print_help()
        return 0
    return int(args.verb_main(args))


def _internal_error_message(error: Exception) -> str:
    """The message for an internal error. The traceback is written to a file."""
    import tempfile
    import traceback

    what = f"internal error ({type(error).__name__}: {error}); please report"
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="slowtrain-error-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"slowtrain {__version__}, Python {sys.version}\n{sys.argv!r}\n\n")
            traceback.print_exception(error, file=file)
    except OSError:
        return what
    return f"{what}, details in {file.name}"


def _replace_unencodable() -> None:
    """Prints a question mark instead of failing if the terminal cannot show a character."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _flush_output() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """Lets the interpreter's flush at exit succeed: https://docs.python.org/3/library/signal.html#note-on-sigpipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
