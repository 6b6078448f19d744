"""Where the cause compute/double-precision shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.causes.compute.double_precision import fix
from slowtrain.causes.compute.double_precision.fix import SINGLE_PRECISION_CURE
from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

WEIGHT_TEXT = "NumPy makes float64, so this weight and all that is computed with it are float64"
DTYPE_SETTERS = frozenset({"set_floatx", "set_dtype_policy", "set_global_policy"})


def find_spots(source: Source) -> Iterable[Spot]:
    """Keras set to float64 for a whole file; weights made from float64 arrays of NumPy."""
    found = dict.fromkeys(double_precision_settings(source), "this makes all layers compute in float64")
    found |= dict.fromkeys(double_weights(source), WEIGHT_TEXT)
    changed = fix.single_precision_edits(source) if found else ()
    cure = Prescription("edit", Effect.CHANGES_TRAINING, SINGLE_PRECISION_CURE, edits=changed)
    yield from (spots.node_spot(call, says, cure) for call, says in found.items())


def double_precision_settings(source: Source) -> Iterator[ast.Call]:
    """Find settings that make all layers, or one layer, use float64."""
    every = file_events(source) if "float64" in source.text else ()
    setting = [e for e in every if e.name.rpartition(".")[2] in DTYPE_SETTERS and e.name.startswith("keras.")]
    for event in every:
        if not isinstance(event.node, ast.Call):
            continue
        last = event.name.rpartition(".")[2]
        chosen = setting == [event] and event.given.get("", 0).known == "float64"  # and no other call resets it
        wide = event.name.startswith("keras.layers.") and last in keras_names.COMPUTING_LAYERS
        if chosen or (wide and event.given.get("dtype").known == "float64"):
            yield event.node
            return


def double_weights(source: Source) -> Iterator[ast.Call]:
    """Find float64 weights whose dtype the text does not state."""
    for event in file_events(source) if "Variable" in source.text else ():
        double = event.name == "tensorflow.Variable" and event.result.dtype == "float64"
        said = isinstance(event.node, ast.Call) and _states_dtype(source, event.node)
        shape = event.given.get("initial_value", 0).shape
        if double and not said and isinstance(event.node, ast.Call) and (shape is None or len(shape) > 1):
            yield event.node


def _states_dtype(source: Source, made: ast.Call) -> bool:
    """Whether the text states the dtype of a weight, or a parameter of the function does."""
    if any(k.arg == "dtype" and not _is_dtype_of_data(k.value) for k in made.keywords):
        return True
    function = node_lookup.enclosing_function(source, made)
    chosen = set(scope_names.parameter_names(function)) if function is not None else set()
    inner = (k.value for n in syntax_tree.nodes_inside(made, ast.Call) for k in n.keywords if k.arg == "dtype")
    return any(isinstance(one, ast.Name) and one.id in chosen for one in inner)


def _is_dtype_of_data(dtype: ast.expr) -> bool:
    """``x.dtype``"""
    return isinstance(dtype, ast.Attribute) and dtype.attr == "dtype"
