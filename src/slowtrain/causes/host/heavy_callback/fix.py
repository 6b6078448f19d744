"""Lets a callback do less work, or do it less often."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes.host.heavy_callback import HookFinding, LoggingFinding
from slowtrain.model import Edit, Effect, Place, Prescription
from slowtrain.script.fixes.loops import periodic_work
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text.source_file import Source
from slowtrain.trace import Trace


def find_cures(trace: Trace, finding: HookFinding | LoggingFinding) -> Iterable[Prescription]:
    if isinstance(finding, LoggingFinding):
        yield Prescription("edit", Effect.EXACT, "write summaries every hundredth step, or only the cheap ones")
        return
    name = finding.hooks[0].name.text
    kind, _, hook = name.partition(".")
    if kind == "TensorBoard":
        says = "TensorBoard(histogram_freq=0, write_images=False, write_graph=False)"
    elif kind in ("ModelCheckpoint", "BackupAndRestore"):
        says = f"let {kind} save less often (save_freq) or only weights (save_weights_only=True)"
    elif "batch" in hook:
        says = f"do the work of {name} once an epoch, or every hundredth batch"
    else:
        says = f"do the work of {name} every few epochs"
    edits = _lighter_hook_edits(trace, finding.places, kind, hook)
    yield Prescription("edit", Effect.EXACT, says, edits=edits)


def _lighter_hook_edits(trace: Trace, places: Sequence[Place], kind: str, hook: str) -> tuple[Edit, ...]:
    """Makes the callback do less: changes the arguments of Keras' own, and adds a condition to the user's."""

    def edit(source: Source, _line: int) -> Sequence[Edit]:
        if kind in ("TensorBoard", *periodic_work.KERAS_SAVERS):
            return periodic_work.make_callbacks_lighter(source, kind)
        return periodic_work.run_hook_less_often(source, kind, hook)

    return recorded_edits.first_applicable(trace, places, edit)
