"""The errors with which Slowtrain stops, each with its documented exit code.

A message says in one line what happened, where, and what to do next. Only :mod:`slowtrain.cli` prints errors; no other
module prints them or calls ``sys.exit``.
"""

from __future__ import annotations


class SlowtrainError(Exception):
    """An error that the user can act on."""

    exit_code = 1


class InputError(SlowtrainError):
    """A file, a folder or an argument is not what the command needs."""

    exit_code = 2


class EnvironmentMissing(SlowtrainError):
    """This Python or this machine lacks something that the command needs."""

    exit_code = 3
