"""The plan of a packing as a JSON document: written for people to read, read back without loss."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Literal

import msgspec

from slowtrain.errors import InputError
from slowtrain.model.packing import PackingPlan
from slowtrain.report.documents import Tool, json_text

SCHEMA = "slowtrain.pack/1"


class PlanDocument(msgspec.Struct):
    """What ``slowtrain pack --plan`` writes and ``slowtrain pack`` reads."""

    schema: Literal["slowtrain.pack/1"]
    tool: Tool
    plan: PackingPlan


def plan_json(plan: PackingPlan, version: str) -> str:
    document = {"schema": SCHEMA, "tool": {"version": version}, "plan": msgspec.to_builtins(plan)}
    return json_text(document)


def read_plan(path: Path) -> PackingPlan:
    """The plan in a file. Raises ``InputError`` if it is not one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the plan {path} ({error.strerror})") from error
    try:
        return msgspec.json.decode(content, type=PlanDocument).plan
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        hint = "make one with `slowtrain pack --plan FILE SCRIPT`"
        raise InputError(f"{path} is not a plan of slowtrain pack ({error}); {hint}") from None


def plan_id(plan: PackingPlan) -> str:
    """Identifies what is written: equal for plans that give the same files."""
    content: dict[str, Any] = {
        "source": dataclasses.asdict(plan.source),
        "form": dataclasses.asdict(plan.form),
        "lengths": plan.lengths,
        "shard_bytes": plan.shard_bytes,
        "edits": [msgspec.structs.asdict(edit) for edit in plan.marked_edits],
        "content_of": plan.content_of,
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
