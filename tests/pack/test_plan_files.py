"""A plan is read back as it was written, keeps to its schema, and says in one line what is wrong with a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from slowtrain.errors import InputError
from slowtrain.model import Edit, Saving, Verdict
from slowtrain.model.packing import ElementForm, PackedPart, PackingPlan, PackingSample, PackingSource
from slowtrain.pack import plan_file
from slowtrain.report import documents, packing

PLAN = PackingPlan(
    PackingSource("script", "/a/train.py", "00", "/a", ("--epochs", "3"), False, "/a/data.py", 12),
    "/a/packed",
    ElementForm(
        (PackedPart("0", "uint8", (8, None), "tensor"), PackedPart("1", "string", None, "tensor")), "({0}, {1})"
    ),
    PackingSample(100, 192.5, 800.25, 750.0, 40.0, 12.0, 100),
    (1000,),
    192_500,
    0.8,
    64 << 20,
    1 << 30,
    (Edit("/a/data.py", (12, 8), (12, 8), ".cache()"),),
    saving=Saving("step", 20.0, 5.0, 2.0, 5.0),
    proof=Verdict("better", 3.5, 3.1, 4.0, 6, "same"),
    rejected=("decoded: no room",),
    notes=("a note",),
)


@pytest.mark.parametrize(
    "plan", [PLAN, replace(PLAN, lengths=(None,), bytes=None, seconds=None, saving=None, proof=None, marked_edits=())]
)
def test_a_plan_is_read_back(plan: PackingPlan, tmp_path: Path) -> None:
    document = plan_file.plan_json(plan, "0.1")
    schema = documents.json_schema(plan_file.PlanDocument, plan_file.SCHEMA)
    jsonschema.validate(json.loads(document), schema)
    (tmp_path / "plan.json").write_text(document)
    assert plan_file.read_plan(tmp_path / "plan.json") == plan


def test_what_is_written_decides_the_id() -> None:
    same = [replace(PLAN, free_bytes=1, seconds=9.0, notes=()), replace(PLAN, sample=replace(PLAN.sample, read_us=1))]
    other = [
        replace(PLAN, lengths=(999,)),
        replace(PLAN, shard_bytes=1),
        replace(PLAN, form=replace(PLAN.form, block=2)),
        replace(PLAN, source=replace(PLAN.source, digest="11")),
    ]
    wanted = plan_file.plan_id(PLAN)
    assert [plan_file.plan_id(one) == wanted for one in same] == [True] * len(same)
    assert [plan_file.plan_id(one) == wanted for one in other] == [False] * len(other)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read the plan"),
        ("{", "is not a plan of slowtrain pack"),
        ('{"schema": "slowtrain.oom/1"}', "is not a plan of slowtrain pack"),
    ],
)
def test_a_file_that_is_no_plan(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError, match=said):
        plan_file.read_plan(tmp_path / "plan.json")


def test_the_text_says_what_will_happen_first() -> None:
    text = packing.plan_text(PLAN, width=120)
    for words in (
        "an element is ready 20x as fast: 800 µs now, 40 µs packed",
        "/a/data.py:12: the data set built there, 1,000 elements",
        "/a/packed: TFRecord shards, elements of 0 uint8 [8, ?], 1 string of any shape",
        "188 KiB; 1.00 GiB are free",
        "a step is predicted to be 4x as fast",
        "3.5x (3.10 to 4.00), better, 6 runs",
        "decoded: no room",
        "a note",
    ):
        assert words in text
