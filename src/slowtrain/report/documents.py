"""Answers as JSON: each document is declared once, as a class, from which both the document and its schema are made.

A document has the fields of its class, in their order. The value of a field is the attribute of the answer with the
field's name, or with the path that ``at`` gives; :func:`build_document` takes values that the answer does not hold. A
field that is ``UNSET`` by default is left out if it has no value. A number that is not finite is null. The schema is
not checked when a document is written, because an inexact figure must not stop a report; tests check it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import numbers
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field

from slowtrain.model import Checkup, Effect, IdleGap, Reached, VerdictKind

CHECKUP_SCHEMA = "slowtrain.checkup/1"
# Enough to keep any sum within the contract's 0.1 %, and free of binary noise (12.299999999999999).
_DIGITS = 9
SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def at(path: str) -> Meta:
    """Marks a field whose value is at another path of the answer. Null if a value on the way is None."""
    return Meta(extra={"path": path})


CauseId = Annotated[str, Meta(extra_json_schema={"pattern": "^[a-z]+/[a-z0-9-]+$"})]
Count = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
Position = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
Share = Annotated[float | None, Meta(extra_json_schema={"minimum": 0, "maximum": 1})]
Scope = Literal["step", "run"]
RuntimeWord = Literal["confirmed", "harmless", "not reached"]


class Tool(Struct):
    version: str


class SubjectDocument(Struct):
    kind: str
    path: str
    command: tuple[str, ...]
    exit_code: int | None
    framework: Mapping[str, str | None]
    device: Mapping[str, str | int | None]
    computer: str | UnsetType = UNSET


class StepsDocument(Struct):
    counted: Count
    warmup: Count
    median_ms: float | None
    p95_ms: float | None
    samples_per_second: float | None


class CategoryPart(Struct):
    name: str = field(name="category")
    ms: float | None
    share: Share


class PhasePart(Struct):
    name: str = field(name="phase")
    ms: float | None
    share: Share


class IdlePart(Struct):
    name: str = field(name="reason")
    ms: float | None
    share: Share


class StepDivision(Struct):
    total_ms: float | None
    parts: tuple[CategoryPart, ...]


class RunDivision(Struct):
    total_ms: float | None
    parts: tuple[PhasePart, ...]


class IdleDivision(Struct):
    total_ms: float | None
    parts: tuple[IdlePart, ...]


class WindowDocument(Struct):
    steps: Count
    inflation: float | None


class OverheadDocument(Struct):
    share: Share
    windows: tuple[WindowDocument, ...]


class PlaceDocument(Struct):
    file: str
    line: int


class CodePlace(Struct):
    file: str
    line: int
    code: str


class EvidenceDocument(Struct):
    says: str
    numbers: Mapping[str, float]
    where: tuple[CodePlace, ...]


class SavingDocument(Struct):
    scope: Scope
    ms: float | None
    speedup: float | None
    low: float | None
    high: float | None


class PrescriptionDocument(Struct):
    kind: Literal["edit", "treatment", "setting", "advice"]
    effect: Effect
    says: str
    diff: str | None


class FirstStep(Struct):
    """Seconds until the first step was done, without the cure and with it."""

    before: float
    after: float


class VerdictDocument(Struct):
    outcome: Literal["better", "no better", "cannot tell"]
    speedup: float | None
    low: float | None
    high: float | None
    runs: Count
    loss: str
    scope: Scope = "step"
    first_step_s: FirstStep | None = None


class DiagnosisDocument(Struct):
    cause: CauseId
    title: str
    evidence: EvidenceDocument
    saving: SavingDocument
    prescriptions: tuple[PrescriptionDocument, ...]
    verdict: VerdictDocument | None


class UncheckedDocument(Struct):
    cause: CauseId
    missing: tuple[str, ...]


class RuntimeDocument(Struct):
    state: RuntimeWord
    ms_per_step: float | None
    run_ms: float | None


class SourceFinding(Struct):
    cause: CauseId
    file: Annotated[str, at("place.file")]
    line: Annotated[Position, at("place.line")]
    says: str
    runtime: RuntimeDocument | None


class OpDocument(Struct):
    name: str
    ms: float | None
    count: float | None
    share: float | None


class CopyDocument(Struct):
    name: str = field(name="direction")
    count: float | None
    bytes: float | None
    ms: float | None
    share: float | None = field(name="exposed_share")


class DeviceDocument(Struct):
    name: str
    kind: str
    busy_share: float | None
    kernels: float | None = field(name="kernels_per_step")
    median_kernel_us: float | None
    launch_delay_us: float | None
    queued_share: float | None
    reached: tuple[Reached, ...]
    idle: IdleDivision
    gaps: tuple[IdleGap, ...]
    ops: tuple[OpDocument, ...]
    copies: tuple[CopyDocument, ...]


class CheckupDocument(Struct):
    """Additions are free; a change to what stands here needs a new number. Numbers are finite or null."""

    schema: Literal["slowtrain.checkup/1"]
    tool: Tool
    subject: SubjectDocument
    verdict: VerdictKind
    step_verdict: VerdictKind
    steps: StepsDocument
    attribution: StepDivision
    run: RunDivision
    overhead: OverheadDocument
    diagnoses: tuple[DiagnosisDocument, ...]
    healthy: tuple[CauseId, ...]
    unchecked: tuple[UncheckedDocument, ...]
    notes: tuple[str, ...]
    findings: Annotated[
        tuple[SourceFinding, ...] | UnsetType,
        Meta(description="What slowtrain lint sees in the script's files; runtime is null where the run cannot tell."),
    ] = UNSET
    device: DeviceDocument | UnsetType = UNSET


def checkup_json(checkup: Checkup) -> str:
    return json_text(checkup_document(checkup))


def checkup_document(checkup: Checkup) -> dict[str, Any]:
    """The checkup in the shape of the contract; ``slowtrain fix`` adds its own key."""
    findings = [build_document(SourceFinding, one, runtime=one if one.state else None) for one in checkup.seen]
    return build_document(CheckupDocument, checkup, schema=CHECKUP_SCHEMA, tool=checkup, findings=findings)


def build_document(kind: type[Struct], answer: Any, **other_values: Any) -> dict[str, Any]:
    """The document of an answer as JSON values. ``other_values``: values of fields that the answer does not hold."""
    document = {}
    for name, key, path, nested, optional, nullable in _document_fields(kind):
        value = other_values[name] if name in other_values else _value_at(answer, path)
        if value or not optional:
            document[key] = json_values(None if nullable and value == "" else value, nested)
    return document


def json_values(value: Any, kind: type[Struct] | None = None) -> Any:
    """Plain JSON values: finite numbers or null, and the values of enumerations and NumPy scalars.

    Anything else becomes a document of ``kind``, or if that is None, of all fields of its dataclass.
    """
    if kind is FirstStep and isinstance(value, tuple):
        value = FirstStep(*value)
    if isinstance(value, Mapping):
        return {str(k): json_values(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(v, kind) for v in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(f"{float(value):.{_DIGITS}g}") if math.isfinite(value) else None
    if kind is not None:
        return build_document(kind, value)
    if isinstance(value, Struct):
        return {name: json_values(getattr(value, name)) for name in value.__struct_fields__}
    if dataclasses.is_dataclass(value):
        return {f.name: json_values(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise TypeError(f"a document holds no {type(value).__name__}")


def json_text(document: Mapping[str, Any]) -> str:
    """The document in ASCII, so that any stream carries it."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def json_schema(kind: type, name: str) -> dict[str, Any]:
    """The JSON schema of a document: ``name`` with its version, such as ``slowtrain.oom/1``."""
    return {"$schema": SCHEMA_DIALECT, "$id": name, **_short_schema(msgspec.json.schema(kind))}


def _short_schema(schema: Any) -> Any:
    """``{"type": ["string", "null"]}`` in place of a list of two schemas, and no defaults. Each number may be null."""
    if isinstance(schema, list):
        return [_short_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    short = {key: _short_schema(value) for key, value in schema.items() if key != "default"}
    choices = short.get("anyOf", [])
    if choices and all(set(one) == {"type"} for one in choices):
        del short["anyOf"]
        types = [[one["type"]] if isinstance(one["type"], str) else one["type"] for one in choices]
        short["type"] = list(dict.fromkeys(name for names in types for name in names))
    return {**short, "type": ["number", "null"]} if short.get("type") == "number" else short


@functools.cache
def _document_fields(kind: type[Struct]) -> tuple[tuple[str, str, str, type[Struct] | None, bool, bool], ...]:
    """Of each field: name, key, path in the answer, class of what it holds, whether it may be absent, and be null."""
    return tuple(
        (
            one.name,
            one.encode_name,
            next((m.extra["path"] for m in getattr(one.type, "__metadata__", ()) if m.extra), one.name),
            next((t for t in _inner_types(one.type) if isinstance(t, type) and issubclass(t, Struct)), None),
            one.default is UNSET,
            type(None) in _inner_types(one.type),
        )
        for one in msgspec.structs.fields(kind)
    )


def _inner_types(annotation: Any) -> Iterator[Any]:
    """An annotation and all types inside it."""
    yield annotation
    for inner in get_args(annotation):
        yield from _inner_types(inner)


def _value_at(answer: Any, path: str) -> Any:
    for name in path.split("."):
        answer = getattr(answer, name) if answer is not None else None
    return answer
