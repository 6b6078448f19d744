"""The JSON documents and their schemas, above all the contract ``slowtrain.checkup/1``."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slowtrain import oom as logs
from slowtrain.doctor import facts_document, machine_sheet
from slowtrain.report import crossover, doctor, documents, oom, proof, rates, sizing
from tests.verify.test_crossing import drawn

from . import checkups
from .test_proof import planned, proven
from .test_rates import SWEEP
from .test_sizing import ANSWER, CURVE

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = documents.json_schema(documents.CheckupDocument, documents.CHECKUP_SCHEMA)
TESTS = Path(__file__).parents[1]
SCHEMAS = TESTS.parent / "docs/schemas"
CONTRACT = Path(__file__).parents[3] / "shared" / "design" / "CHECKUP-JSON.md"


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("name", [n for n in checkups.ALL if n not in ("hostile", "long_names")])
def test_follows_the_schema(name: str) -> None:
    document = strict(documents.checkup_json(checkups.ALL[name]()))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def doctor_json() -> str:
    facts = facts_document.read_facts_file(TESTS / "machine/fixtures/worn_v100.json")
    return doctor.doctor_json(machine_sheet.build_sheet(facts, "facts.json"))


WRITTEN: dict[str, Callable[[], str]] = {
    "batch": lambda: sizing.batch_json(CURVE),
    "crossover": lambda: crossover.crossover_json(drawn()),
    "doctor": doctor_json,
    "memory": lambda: sizing.memory_json(ANSWER),
    "rate": lambda: rates.rate_json(SWEEP),
    "oom": lambda: oom.oom_json(logs.read_log(TESTS / "dumps/data/tf221-mlp.log.gz", "train.log")),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_other_documents_follow_the_published_schemas(name: str) -> None:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    document = strict(WRITTEN[name]())
    assert document["schema"] == schema["$id"]
    jsonschema.Draft202012Validator(schema).validate(document)
    known = schema["$defs"][schema["$ref"].rpartition("/")[2]]["properties"]
    assert set(document) - {"schema", "slowtrain"} <= set(known)


def test_fix_follows_the_published_schema() -> None:
    schema = json.loads((SCHEMAS / "fix.schema.json").read_text(encoding="utf-8"))
    for found in (proven(), planned()):
        document = strict(proof.proof_json(found, written=True))
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        jsonschema.Draft202012Validator(schema).validate(document["fix"])
        assert ("packing" in document["fix"]) == (found.packing is not None)


def test_a_schema_refuses_what_the_contract_does_not_allow() -> None:
    document = strict(documents.checkup_json(checkups.input_bound()))
    for change in ({"verdict": "slow"}, {"healthy": ["no id"]}, {"overhead": {"share": 1.5, "windows": []}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(SCHEMA).validate(document | change)


@pytest.mark.parametrize("name", checkups.ALL)
def test_is_strict_ascii_and_keeps_names(name: str) -> None:
    text = documents.checkup_json(checkups.ALL[name]())
    assert text.isascii()
    assert text.endswith("}\n")
    assert strict(text)["subject"]["command"] == list(checkups.ALL[name]().subject.command)


@pytest.mark.parametrize("name", ["input_bound", "healthy", "insufficient", "unattributed", "startup"])
@pytest.mark.parametrize("whole", ["attribution", "run"])
def test_parts_add_up(name: str, whole: str) -> None:
    document = strict(documents.checkup_json(checkups.ALL[name]()))[whole]
    assert math.isclose(sum(p["ms"] for p in document["parts"]), document["total_ms"], rel_tol=1e-3, abs_tol=1e-9)
    if document["parts"]:
        assert math.isclose(sum(p["share"] for p in document["parts"]), 1.0, rel_tol=1e-3)


def test_numbers_that_are_none_are_null() -> None:
    document = strict(documents.checkup_json(checkups.hostile()))
    assert document["steps"] == {
        "counted": 1,
        "warmup": 0,
        "median_ms": None,
        "p95_ms": None,
        "samples_per_second": None,
    }
    assert document["diagnoses"][0]["evidence"]["numbers"] == {checkups.EVIL: None, "inf": None}
    assert document["diagnoses"][0]["saving"]["high"] is None


def test_numpy_scalars_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert documents.json_values({"a": numpy.float32(0.5), "b": numpy.int64(3), "c": numpy.float64("nan")}) == {
        "a": 0.5,
        "b": 3,
        "c": None,
    }


def keys(value: Any) -> Any:
    """The shape of a document: keys, and the first item of each list."""
    if isinstance(value, dict):
        return {k: keys(v) for k, v in value.items() if k not in ("numbers", "framework", "device")}
    return [keys(value[0])] if isinstance(value, list) and value else None


def test_has_the_keys_of_the_contract() -> None:
    if not CONTRACT.exists():
        pytest.skip(f"the contract is not here: {CONTRACT}")
    fenced = re.search(r"```json\n(.*?)```", CONTRACT.read_text(encoding="utf-8"), re.DOTALL)
    assert fenced
    # The contract names the step's verdict in its list of keys, not in its example.
    assert "`step_verdict`:" in CONTRACT.read_text(encoding="utf-8")
    written = keys(strict(documents.checkup_json(checkups.input_bound())))
    assert written == keys(json.loads(fenced[1])) | {"step_verdict": None}
