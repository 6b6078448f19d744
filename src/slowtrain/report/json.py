"""The contract ``slowtrain.checkup/1`` (``checkup.schema.json`` beside this file describes it)."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Mapping
from typing import Any

from slowtrain.model import Attribution, Checkup, DeviceUse, Diagnosis, Prescription, Saving, SeenInSource, Verdict

SCHEMA = "slowtrain.checkup/1"
# Enough to keep any sum within the contract's 0.1 %, and free of binary noise (12.299999999999999).
_DIGITS = 9


def checkup_json(checkup: Checkup) -> str:
    """The checkup as one JSON document, in ASCII so that any stream carries it."""
    return json.dumps(checkup_document(checkup), indent=2, allow_nan=False) + "\n"


def checkup_document(checkup: Checkup) -> dict[str, Any]:
    """The checkup in the shape of the contract; ``slowtrain fix`` adds its own key."""
    written: dict[str, Any] = json_values(
        {
            "schema": SCHEMA,
            "tool": {"version": checkup.version},
            "subject": _subject_document(checkup),
            "verdict": checkup.verdict,
            "step_verdict": checkup.step_verdict,
            "steps": {
                "counted": checkup.steps.counted,
                "warmup": checkup.steps.warmup,
                "median_ms": checkup.steps.median_ms,
                "p95_ms": checkup.steps.p95_ms,
                "samples_per_second": checkup.steps.samples_per_second,
            },
            "attribution": attribution_document(checkup.attribution),
            "run": _parts_document(checkup.run, "phase"),
            "overhead": {
                "share": checkup.overhead.share,
                "windows": [{"steps": w.steps, "inflation": w.inflation} for w in checkup.overhead.windows],
            },
            "diagnoses": [_diagnosis_document(d) for d in checkup.diagnoses],
            "healthy": checkup.healthy,
            "unchecked": [{"cause": u.cause, "missing": u.missing} for u in checkup.unchecked],
            "notes": checkup.notes,
            **({"findings": [_finding_document(f) for f in checkup.seen]} if checkup.seen else {}),
            **({"device": _device_document(checkup.device)} if checkup.device is not None else {}),
        }
    )
    return written


def _finding_document(seen: SeenInSource) -> dict[str, Any]:
    told = {"state": seen.state, "ms_per_step": seen.ms_per_step, "run_ms": seen.run_ms}
    return {
        "cause": seen.cause,
        "file": seen.place.file,
        "line": seen.place.line,
        "says": seen.says,
        "runtime": told if seen.state is not None else None,
    }


def _device_document(device: DeviceUse) -> dict[str, Any]:
    return {
        "name": device.name,
        "kind": device.kind,
        "busy_share": device.busy_share,
        "kernels_per_step": device.kernels,
        "median_kernel_us": device.median_kernel_us,
        "launch_delay_us": device.launch_delay_us,
        "queued_share": device.queued_share,
        "reached": [{"what": r.what, "ms": r.ms, "per_second": r.per_second, "peak": r.peak} for r in device.reached],
        "idle": _parts_document(device.idle, "reason"),
        "gaps": [
            {"start_ms": g.start_ms, "ms": g.ms, "reason": g.reason, "share": g.share, "detail": g.detail}
            for g in device.gaps
        ],
        "ops": [{"name": o.name, "ms": o.ms, "count": o.count, "share": o.share} for o in device.ops],
        "copies": [
            {"direction": c.name, "count": c.count, "bytes": c.bytes or None, "ms": c.ms, "exposed_share": c.share}
            for c in device.copies
        ],
    }


def _subject_document(checkup: Checkup) -> dict[str, Any]:
    subject = checkup.subject
    return {
        "kind": subject.kind,
        "path": subject.path,
        "command": subject.command,
        "exit_code": subject.exit_code,
        "framework": subject.framework,
        "device": subject.device,
        **({"computer": subject.computer} if subject.computer else {}),
    }


def _parts_document(attribution: Attribution, called: str) -> dict[str, Any]:
    parts = [{called: p.name, "ms": p.ms, "share": p.share} for p in attribution.parts]
    return {"total_ms": attribution.total_ms, "parts": parts}


def _diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    evidence = diagnosis.evidence
    return {
        "cause": diagnosis.cause,
        "title": diagnosis.title,
        "evidence": {
            "says": evidence.says,
            "numbers": evidence.numbers,
            "where": [{"file": p.file, "line": p.line, "code": p.code} for p in evidence.where],
        },
        "saving": _saving_document(diagnosis.saving),
        "prescriptions": [_prescription_document(p) for p in diagnosis.prescriptions],
        "verdict": verdict_document(diagnosis.verdict),
    }


def _saving_document(saving: Saving) -> dict[str, Any]:
    return {
        "scope": saving.scope,
        "ms": saving.ms,
        "speedup": saving.speedup,
        "low": saving.low,
        "high": saving.high,
    }


def _prescription_document(prescription: Prescription) -> dict[str, Any]:
    return {
        "kind": prescription.kind,
        "effect": prescription.effect,
        "says": prescription.says,
        "diff": prescription.diff,
    }


def verdict_document(found: Verdict | None) -> dict[str, Any] | None:
    """The result of measuring a cure."""
    if found is None:
        return None
    return {
        "outcome": found.outcome,
        "speedup": found.speedup,
        "low": found.low,
        "high": found.high,
        "runs": found.runs,
        "loss": found.loss,
        "scope": found.scope,
        "first_step_s": first_step_seconds(found),
    }


def first_step_seconds(found: Verdict) -> dict[str, float] | None:
    """Seconds until the end of the first step, without the cure and with it."""
    return dict(zip(("before", "after"), found.first_step_s, strict=True)) if found.first_step_s else None


def attribution_document(found: Attribution) -> dict[str, Any]:
    """The parts of a steady step."""
    return _parts_document(found, "category")


def json_values(value: Any) -> Any:
    """Plain JSON values: finite numbers or null, and the values of enumerations and NumPy scalars."""
    if isinstance(value, Mapping):
        return {str(k): json_values(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_values(v) for v in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(f"{float(value):.{_DIGITS}g}") if math.isfinite(value) else None
    raise TypeError(f"a checkup holds no {type(value).__name__}")
