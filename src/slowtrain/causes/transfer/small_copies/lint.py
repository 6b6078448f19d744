"""Where the cause transfer/small-copies shows in a script's text."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.causes.transfer.small_copies import tensor_columns
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.lint_rules import spots
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """Tables in which every column is a tensor of its own."""
    for call, count in tensor_columns.find_datasets_of_columns(source):
        says = "join the columns of one type in one array (np.column_stack), and take them apart in the model"
        cure = Prescription("advice", Effect.EQUIVALENT, says)
        says = f"a batch of this data is {count} small tensors, and each step copies every one by itself"
        yield spots.operation_spot(call, says, cure)
