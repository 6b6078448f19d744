"""Mixed precision that comes too late: a layer takes the policy there is when it is made, and keeps it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from slowtrain.script.interpreter.domain.abstract_values import NOT_KNOWN
from slowtrain.script.interpreter.domain.call_events import Event
from slowtrain.script.interpreter.engine.interpreter import file_events
from slowtrain.script.text.source_file import Source
from slowtrain.source.spots.compute import walked

SETTING = ("set_global_policy", "set_dtype_policy", "set_policy")
LAYERS = ("keras.layers.", "keras.applications.")
TRAINED = (".fit", ".train_on_batch")


def policies(source: Source) -> Iterator[ast.Call]:
    """The call that sets a script's first policy, a mixed one, where all layers of what is trained are there before."""
    if "mixed_" not in source.text:
        return
    every = file_events(source)
    at = next((i for i, e in enumerate(every) if _sets(e)), None)
    call = every[at].node if at is not None else None
    if at is None or not isinstance(call, ast.Call) or not _mixed(every[at]):
        return
    before, after = every[:at], every[at + 1 :]
    if any(e.name.startswith(LAYERS) or _sets(e) for e in after) or not any(map(_computes, before)):
        return
    if any(_own(e) for e in before):
        return
    made = {id(e.node) for e in before} - {id(e.node) for e in after}
    trained = [e.on for e in after if e.name in TRAINED]
    if trained and all(one is not None and id(one.node) in made for one in trained):
        yield call


def _sets(event: Event) -> bool:
    return event.name.startswith("keras.") and event.name.endswith(SETTING)


def _own(event: Event) -> bool:
    """Whether a layer is given a policy of its own."""
    given = event.given.keywords
    return event.name.startswith(LAYERS) and "dtype" in given and given["dtype"].known != "float32"


def _mixed(event: Event) -> bool:
    """Whether the policy is a mixed one, or one by a name that the text leaves open."""
    given = event.given.get("policy", 0)
    return given.known is NOT_KNOWN or (isinstance(given.known, str) and given.known.startswith("mixed_"))


def _computes(event: Event) -> bool:
    """Whether it makes a layer with matrix products in it, or a whole model of such."""
    if event.name.startswith("keras.applications."):
        return True
    return event.name.startswith("keras.layers.") and event.name.rpartition(".")[2] in walked.COMPUTING
