"""The alternatives that a model has, by what it consists of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slowtrain.capture.sandbox.model_changes import MIN_PICTURE_SIDE, SEPARABLE_CLASSES, SEPARATOR
from slowtrain.model import Effect
from slowtrain.model.shrinking import LayerShare, Unmeasured
from slowtrain.number_text import format_count
from slowtrain.profile.framework_names import NAME_NUMBER
from slowtrain.verify.measurement.probe_process import Treatment

ACCUMULATED_BATCHES = 4
MIN_BACKBONE_SHARE = 0.5  # of the parameters: a smaller part is no backbone
MAX_NAMED_LAYERS = 3
KERAS_WITH_REMATERIALISATION = (3, 9)
KERAS_WITH_ACCUMULATION = (3, 0)
KERAS_WITH_FUSED_ATTENTION = (3, 7)
KERAS_WITH_FLOAT8 = (3, 4)
FUSED_ATTENTION_CAPABILITY = (8, 0)  # of NVIDIA's GPUs: cuDNN's kernel, as Keras asks for it
FLOAT8_CAPABILITY = (8, 9)  # of NVIDIA's GPUs: the first with products in float8


@dataclass(frozen=True)
class Change:
    """One alternative before it is measured."""

    name: str
    says: str
    effect: Effect
    treatment: Treatment


@dataclass(frozen=True)
class ModelContents:
    """What a probe found: the fact ``model`` of its recording, the layers by time, the batch and the device.

    ``knee``: the batch beyond which a larger one gains little; None if it is not known, for the reason in ``no_knee``.
    ``fits``: whether it is trained by ``fit``. ``capability``: that of the GPU, None if it is not known.
    """

    about: Mapping[str, Any]
    layers: tuple[LayerShare, ...]
    batch: int
    knee: int | None
    no_knee: str
    on_gpu: bool
    on_jax: bool
    fits: bool
    capability: tuple[int, int] | None = None

    def lacks_keras(self, version: tuple[int, int]) -> str:
        """Why this version of Keras is too old; empty if it is not."""
        own = str(self.about.get("keras", ""))
        numbers = tuple(int(part) for part in own.split(".")[:2] if part.isdigit())
        return "" if numbers >= version else f"needs Keras {version[0]}.{version[1]}, and this is Keras {own}"

    @property
    def lacks_fit(self) -> str:
        """Why what ``fit`` gets cannot be changed; empty if it can."""
        if self.on_jax:
            return "is measured with TensorFlow only"
        return "" if self.fits else "the script trains without fit"


AS_IS = Change("as it is", "the script's own model", Effect.EXACT, Treatment(model=()))


def model_changes(found: ModelContents) -> tuple[list[Change], list[Unmeasured]]:
    """The changes that can be measured, and those that cannot, with the reason."""
    every = list(_every_change(found))
    return [one for one in every if isinstance(one, Change)], [one for one in every if isinstance(one, Unmeasured)]


def _every_change(found: ModelContents) -> Iterator[Change | Unmeasured]:
    yield _model_change("mixed_bfloat16", "matrices in bfloat16", "mixed-bfloat16")
    if found.on_gpu:
        yield Change(
            "mixed_float16", "matrices in float16", Effect.CHANGES_TRAINING,
            Treatment(("mixed-precision",), model=()),
        )  # fmt: skip
    else:
        yield Unmeasured("mixed_float16", "needs a GPU; a CPU computes float16 by converting it")
    if found.on_jax:
        yield Unmeasured("XLA", "JAX compiles every step with it")
    elif found.about.get("compiled"):
        yield Change("XLA", "jit_compile=True", Effect.EQUIVALENT, Treatment(("xla",), model=()))
    else:
        yield Unmeasured("XLA", "the script does not compile its model")
    yield _larger_batch(found)
    yield _smaller_pictures(found)
    yield from _smaller_block(found)
    yield _frozen_backbone(found)
    yield _change_or_reason(
        found.lacks_fit,
        _model_change("half pruned", "the smaller half of each matrix is zero and stays zero", "pruned"),
    )
    yield _change_or_reason(
        found.lacks_keras(KERAS_WITH_REMATERIALISATION),
        _model_change("rematerialisation", "activations are computed again in the backward pass", "recompute",
                      effect=Effect.EQUIVALENT),
    )  # fmt: skip
    yield _accumulated_gradients(found)
    yield _change_or_reason(
        lacks_fused_attention(found),
        _model_change("fused attention", "in bfloat16, and no attention weights are dropped",
                      "mixed-bfloat16", "fused-attention"),
    )  # fmt: skip
    yield _change_or_reason(
        lacks_float8(found), _model_change("float8", "matrices of dense layers are multiplied in float8", "float8")
    )


def _model_change(name: str, says: str, *changes: str, effect: Effect = Effect.CHANGES_TRAINING) -> Change:
    return Change(name, says, effect, Treatment(model=changes))


def _change_or_reason(lacks: str, change: Change) -> Change | Unmeasured:
    return Unmeasured(change.name, lacks) if lacks else change


def lacks_fused_attention(found: ModelContents) -> str:
    """Why attention cannot be fused, or is already; empty if it can be tried."""
    layers = found.about.get("attention", ())
    if not layers:
        return "the model has no attention layer of Keras"
    if not found.on_jax:
        return "Keras fuses attention on JAX, not on TensorFlow"
    if not found.on_gpu:
        return "needs a GPU"
    if found.capability is not None and found.capability < FUSED_ATTENTION_CAPABILITY:
        return "needs a GPU of compute capability 8.0 or later"
    if all(one["dtype"] in ("float16", "bfloat16") and not one["dropout"] for one in layers):
        return "Keras uses it already: the layers compute in 16 bits and drop no attention weights"
    return found.lacks_keras(KERAS_WITH_FUSED_ATTENTION)


def lacks_float8(found: ModelContents) -> str:
    """Why the matrices cannot be multiplied in float8; empty if it can be tried."""
    if not found.on_gpu:
        return "needs a GPU with float8; a CPU computes it by converting it"
    if found.capability is None or found.capability < FLOAT8_CAPABILITY:
        return "needs a GPU of compute capability 8.9 or later"
    if not found.about.get("products"):
        return "the model has no dense layer, and Keras has float8 for these only"
    return found.lacks_keras(KERAS_WITH_FLOAT8)


def _larger_batch(found: ModelContents) -> Change | Unmeasured:
    if found.knee is None or found.knee <= found.batch:
        why = found.no_knee or f"the script's batch of {found.batch:,} is at the knee already"
        return Unmeasured("batch at the knee", why)
    says = f"batches of {found.knee:,} instead of {found.batch:,}, the learning rate as it is"
    return Change(f"batch {found.knee:,}", says, Effect.CHANGES_TRAINING,
                  Treatment(rebatch=(found.batch, found.knee), model=()))  # fmt: skip


def _accumulated_gradients(found: ModelContents) -> Change | Unmeasured:
    name = "gradient accumulation"
    small = found.batch // ACCUMULATED_BATCHES
    if lacks := found.lacks_keras(KERAS_WITH_ACCUMULATION):
        return Unmeasured(name, lacks)
    if found.on_jax or small < 1:
        return Unmeasured(name, "is measured with TensorFlow only" if found.on_jax else "the batch is too small")
    says = f"{ACCUMULATED_BATCHES} batches of {small:,} for each update: less memory"
    treatment = Treatment(rebatch=(found.batch, small), model=(f"accumulate@{ACCUMULATED_BATCHES}",))
    return Change(name, says, Effect.EQUIVALENT, treatment)


def _smaller_pictures(found: ModelContents) -> Change | Unmeasured:
    shape = found.about.get("picture")
    if not shape:
        return Unmeasured("smaller pictures", "the model's input is no picture of a known size")
    height, width, _ = shape
    if min(height, width) < 2 * MIN_PICTURE_SIDE:
        return Unmeasured("smaller pictures", f"pictures of {height} x {width} are small already")
    says = f"{height // 2} x {width // 2} instead of {height} x {width}"
    return _change_or_reason(found.lacks_fit, _model_change("smaller pictures", says, "half-pictures"))


def _smaller_block(found: ModelContents) -> Iterator[Change | Unmeasured]:
    """The layers of the width of the most expensive hidden one: at half width, and as separable convolutions.

    All layers of that width change together, because what is added to each other has one width.
    """
    block = expensive_block(found.about.get("layers", ()), found.layers)
    if not block:
        yield Unmeasured("half width", "no hidden layer has a width that can be changed from outside")
        return
    width = block[0]["width"]
    numbers = SEPARATOR.join(one["number"] for one in block)
    yield _model_change(
        "half width", f"{width // 2} instead of {width} in {_layer_names(block)}", f"half-width@{numbers}"
    )
    convolutions = [one for one in block if one["class"] in SEPARABLE_CLASSES and one["kernel"] > 1]
    if convolutions:
        numbers = SEPARATOR.join(one["number"] for one in convolutions)
        yield _model_change(
            "depthwise", f"separable convolutions in {_layer_names(convolutions)}", f"separable@{numbers}"
        )


def expensive_block(layers: Sequence[Mapping[str, Any]], times: Sequence[LayerShare]) -> list[Mapping[str, Any]]:
    """The hidden layers as wide as the one that takes the most time; the most parameters where no time is known."""
    hidden = [one for one in layers if one["number"] and one["width"] > 1 and not one["output"]]
    share = {one.name: one.share for one in times}
    first = max(hidden, key=lambda one: (share.get(one["name"], 0.0), one["parameters"]), default=None)
    return [one for one in hidden if first is not None and one["width"] == first["width"]]


def layer_shares(layers: Sequence[Mapping[str, Any]], scopes: Sequence[tuple[str, float]]) -> list[LayerShare]:
    """The share of each layer, by its name; what is in no layer keeps the name of its scope.

    Keras 3 adds a number to a layer's name in each further call, ``conv2d_3_1``, which may look like the name of
    another layer. Whether names have it is decided for all of them: by what matches more layers.
    """
    names = {one["name"] for one in layers}
    plain = {part for scope, _ in scopes for part in scope.split("/") if part in names}
    numbered = {name for scope, _ in scopes for part in scope.split("/") if (name := _without_number(part)) in names}
    found: dict[str, float] = {}
    for scope, share in scopes:
        parts = [_without_number(p) if len(numbered) > len(plain) else p for p in scope.split("/")]
        name = next((p for p in reversed(parts) if p in names), scope)
        found[name] = found.get(name, 0.0) + share
    return [LayerShare(name, share) for name, share in sorted(found.items(), key=lambda one: -one[1])]


def _without_number(part: str) -> str:
    return re.sub(NAME_NUMBER, "", part)


def _layer_names(layers: Sequence[Mapping[str, Any]]) -> str:
    names = [str(one["name"]) for one in layers]
    return ", ".join(names) if len(names) <= MAX_NAMED_LAYERS else format_count(len(names), "layer")


def _frozen_backbone(found: ModelContents) -> Change | Unmeasured:
    whole = found.about.get("parameters") or 0
    parts = [p for p in found.about.get("backbones", ()) if p["parameters"] >= MIN_BACKBONE_SHARE * whole]
    if not parts:
        return Unmeasured("frozen backbone", "no part of the model is a model with most of its parameters")
    if not found.about.get("compiled"):
        return Unmeasured("frozen backbone", "the script does not compile its model")
    names = SEPARATOR.join(p["name"] for p in parts)
    return _model_change(
        "frozen backbone", f"{' and '.join(p['name'] for p in parts)} is not trained", f"frozen@{names}"
    )
