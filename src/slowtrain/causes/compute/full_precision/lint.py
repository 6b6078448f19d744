"""Where the cause compute/full-precision shows in a script's text."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from slowtrain.model import Effect, Prescription, Spot
from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.lint_rules import keras_names, spots
from slowtrain.script.text.source_file import Source

POLICY_SETTERS = ("set_global_policy", "set_dtype_policy", "set_policy")
LAYER_PREFIXES = ("keras.layers.", "keras.applications.")
TRAINING_METHODS = (".fit", ".train_on_batch")


def find_spots(source: Source) -> Iterable[Spot]:
    """A mixed policy that is set after all layers were made."""
    for call in find_late_policies(source):
        says = "the layers are made before this policy is set, so they compute in float32"
        cure = Prescription("edit", Effect.CHANGES_TRAINING, "set the policy before making the first layer")
        yield spots.node_spot(call, says, cure)


def find_late_policies(source: Source) -> Iterator[ast.Call]:
    """The call that sets a script's first policy, if it is mixed and all layers of the model are made before it."""
    if "mixed_" not in source.text:
        return
    events = file_events(source)
    index = next((i for i, e in enumerate(events) if _sets_policy(e)), None)
    call = events[index].node if index is not None else None
    if index is None or not isinstance(call, ast.Call) or not _is_mixed(events[index]):
        return
    before, after = events[:index], events[index + 1 :]
    if any(e.name.startswith(LAYER_PREFIXES) or _sets_policy(e) for e in after) or not any(
        map(_makes_products, before)
    ):
        return
    if any(_has_own_policy(e) for e in before):
        return
    made = {id(e.node) for e in before} - {id(e.node) for e in after}
    trained = [e.on for e in after if e.name in TRAINING_METHODS]
    if trained and all(one is not None and id(one.node) in made for one in trained):
        yield call


def _sets_policy(event: Event) -> bool:
    return event.name.startswith("keras.") and event.name.endswith(POLICY_SETTERS)


def _has_own_policy(event: Event) -> bool:
    """Whether the event makes a layer with a policy of its own."""
    given = event.given.keywords
    return event.name.startswith(LAYER_PREFIXES) and "dtype" in given and given["dtype"].known != "float32"


def _is_mixed(event: Event) -> bool:
    """Whether the policy is a mixed one, or its name is not known."""
    given = event.given.get("policy", 0)
    return given.known is NOT_KNOWN or (isinstance(given.known, str) and given.known.startswith("mixed_"))


def _makes_products(event: Event) -> bool:
    """Whether the event makes a layer with matrix products, or a model of such layers."""
    if event.name.startswith("keras.applications."):
        return True
    return event.name.startswith("keras.layers.") and event.name.rpartition(".")[2] in keras_names.COMPUTING_LAYERS
