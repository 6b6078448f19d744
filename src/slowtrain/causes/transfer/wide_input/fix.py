"""Edits that let batches cross in fewer bytes: a cast in the model or in the step, arrays of float32."""

from __future__ import annotations

import ast

from slowtrain.causes.transfer.wide_input import float64_arrays, model_cast, step_cast
from slowtrain.causes.transfer.wide_input.wide_part import WidePart
from slowtrain.model import Edit
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace

IN_MODEL = "hand over uint8 and cast in the model: layers.Rescaling(1 / 255) as its first layer"
IN_STEP = "hand over uint8 and cast in the step: tf.cast(x, tf.float32) / 255 as the first line of its tf.function"
AS_FLOAT32 = "make the arrays float32 (integers int32) before they are batched"
ASTYPE_CALL = '.astype("float32")'


def narrowing_edits(trace: Trace, part: WidePart) -> tuple[str, tuple[Edit, ...]]:
    """The cure's words and its edits; no edits if the text does not have the shape that they need."""
    places = (part.place,) if part.place else ()
    if part.narrow != "uint8":
        return AS_FLOAT32, recorded_edits.first_applicable(trace, places, lambda source, _: _float32_edits(source))
    made = recorded_edits.first_applicable(trace, places, model_cast.cast_in_model)
    if made or not trace.steps.source.startswith("function"):
        return IN_MODEL, made
    return IN_STEP, recorded_edits.first_applicable(trace, places, step_cast.cast_in_step)


def wide_arrays(source: Source) -> tuple[ast.expr, ...]:
    """The float64 arrays of data sets: those made in this file, or else those that calls pass on."""
    return tuple(float64_arrays.arrays_made_here(source)) or tuple(float64_arrays.arrays_made_elsewhere(source))


def _float32_edits(source: Source) -> list[Edit]:
    return [edit for array in wide_arrays(source) for edit in edits.append_to_chain(source, array, ASTYPE_CALL)]
