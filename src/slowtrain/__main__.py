"""``python -m slowtrain``: the same as the ``slowtrain`` command."""

from slowtrain.cli import program

program()
