"""The ``slowtrain`` command: one thin file per verb, and the one place that prints errors and decides exit codes.

A verb is a module of this package whose name is the verb's (``_`` reads as ``-``), with

    HELP                     one line
    EXAMPLES                 a few command lines, one a line
    add_arguments(parser)    its options
    main(args) -> int        does it, and returns the exit code

Nothing is registered: a new file is a new verb. Verb modules import argparse and errors
only; whatever is heavy is imported inside ``main``, so that ``--help`` stays quick.
Exit codes are documented in ``docs/exit-codes.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import os
import pkgutil
import sys
from collections.abc import Sequence
from typing import NoReturn

from slowtrain import __version__
from slowtrain.errors import InputError, SlowtrainError

INTERNAL_ERROR = 70  # sysexits.h: an internal software error
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13
MANY_OBJECTS = 200_000  # made and not freed, before the garbage collector looks for circles among them; 20 MB or so
READING = ("lint", "report", "diagnose", "compare")  # verbs that read, answer and leave nothing to be tidied up


def program() -> NoReturn:
    """The process that was started as ``slowtrain``: runs its command line and ends.

    The garbage collector wakes seldom, for what is imported and read here stays to the end; and at the end it leaves
    all of it alone: going through it again would take a sixth of the time of an answer. After verbs that only read
    the end comes at once, as mypy's: freeing one by one what they made takes from 3% to a twentieth of their time.
    """
    from slowtrain.cli import _later

    gc.set_threshold(MANY_OBJECTS)
    _later.begin()
    code = main()
    if sys.argv[1:2] and sys.argv[1] in READING and code not in (INTERRUPTED, BROKEN_PIPE, INTERNAL_ERROR):
        with contextlib.suppress(OSError):
            _flush()  # an error may have come after the answer
        sys.stderr.flush()
        os._exit(code)  # files are closed and processes have ended
    gc.freeze()
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (that of the process by default); returns its exit code and never raises."""
    _print_anything()
    try:
        code = _dispatch(argv)
        _flush()
    except SlowtrainError as error:
        _say(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, `head` or a pager, has seen enough
        _discard_output()
        code = BROKEN_PIPE
    except Exception as error:  # noqa: BLE001  the user never sees a traceback of ours
        _say(_internal(error))
        code = INTERNAL_ERROR
    return code


def verbs() -> dict[str, str]:
    """Verb -> the module that does it, found by listing this package."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))
    return {name.replace("_", "-"): f"{__name__}.{name}" for name in names}


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The whole command line; also what ``docs/cli.md`` is generated from. ``only``: with this verb alone, at once."""
    parser = _Parser(
        prog="slowtrain",
        description="Why is this training step slow, what is each reason worth, and does the cure work?",
        epilog="slowtrain VERB --help shows a verb's options and examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"slowtrain {__version__}")
    parser.set_defaults(verb_main=None)
    choices = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=_Parser)
    for verb, module_name in verbs().items():
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


class _Parser(argparse.ArgumentParser):
    """Misuse is one line like every other error, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see '{self.prog} --help'")


def _dispatch(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    parser = build_parser(words[0] if words and words[0] in verbs() else None)
    try:
        args = parser.parse_args(words)
    except SystemExit as done:  # argparse's way to end --help and --version
        _flush()
        return int(done.code or 0)
    if args.verb_main is None:
        parser.print_help()
        return 0
    return int(args.verb_main(args))


def _say(message: str) -> None:
    """One line on stderr, whatever the message holds: names in it may come from anywhere."""
    line = "".join(c if c.isprintable() else "?" for c in " ".join(message.split()))
    try:
        print(f"slowtrain: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # nobody listens; the exit code still tells


def _internal(error: Exception) -> str:
    """The line for a fault of ours; the traceback goes into a file."""
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


def _print_anything() -> None:
    """A terminal that cannot show a character gets a question mark, not an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """Lets the interpreter's own last flush succeed: https://docs.python.org/3/library/signal.html#note-on-sigpipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
