"""The answer of ``slowtrain shrink`` as text, JSON and HTML."""

from __future__ import annotations

import json
from dataclasses import replace

from slowtrain.model.measurements import Range
from slowtrain.model.shrinking import Alternative, InferenceForm, LayerShare, Shrinking, Unmeasured
from slowtrain.report import pages, shrink

OWN = Alternative("as it is", "the script's own model", "exact", 38.7, 827.0, Range(1, 1, 1), 12 << 20, 11620, 0.5, 2.4,
                  Range(1, 1, 1))  # fmt: skip
HALF = replace(OWN, name="half width", says="8 instead of 16 in 7 layers", effect="changes training", step_ms=20.7,
               speedup=Range(1.9, 1.7, 2.1), peak_bytes=None, loss=0.7, reached_s=None, sooner=None)  # fmt: skip
SMALL = replace(HALF, name="smaller pictures", says="24 x 24 instead of 48 x 48", reached_s=1.3,
                sooner=Range(1.8, 1.5, 2.1))  # fmt: skip
FOUND = Shrinking(
    "train.py", ("train.py",), None, {"kind": "CPU"}, (LayerShare("conv2d_1", 0.6),), (OWN, HALF, SMALL),
    (InferenceForm("as it is", 46480, 11.2, Range(1, 1, 1), 0.0, 1.0),
     InferenceForm("LiteRT", 11620, 5.2, Range(2, 1.8, 2.2), 0.02, None)),
    (Unmeasured("float8", "needs a GPU with float8"),), 1920, 0.5, 3, (), 300.0,
)  # fmt: skip


def test_what_reaches_the_loss_soonest_is_the_answer() -> None:
    assert shrink.shrink_headline(FOUND) == (
        "smaller pictures reaches the loss of the model as it is 1.80 (1.50 to 2.10) times as soon"
    )
    assert [one.name for one in shrink.rows_by_gain(FOUND)] == ["as it is", "smaller pictures", "half width"]


def test_an_uncertain_gain_is_no_answer() -> None:
    uncertain = replace(FOUND, alternatives=(OWN, HALF, replace(SMALL, sooner=Range(1.8, 0.9, 3.6))))
    assert shrink.shrink_headline(uncertain).startswith("nothing that was tried")


def test_without_a_falling_loss_only_the_speed_is_told() -> None:
    slower = replace(SMALL, sooner=None, reached_s=None, speedup=Range(1.5, 1.2, 1.8))
    steady = replace(FOUND, target_loss=None, samples=None, alternatives=(OWN, slower, HALF))
    assert shrink.shrink_headline(steady) == (
        "half width is 1.90 (1.70 to 2.10) times as fast, but the losses could not be compared"
    )
    assert "not reached" not in shrink.shrink_text(steady)


def test_the_table_fits_80_columns() -> None:
    lines = shrink.shrink_text(FOUND, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in lines]
    assert "half width 20.7 ms 827 - 11.6k 0.70 not reached".split() in rows
    assert any("cannot" in line for line in lines)
    assert "  float8: needs a GPU with float8" in lines


def test_the_document_and_the_page() -> None:
    document = json.loads(shrink.shrink_json(FOUND))
    assert document["schema"] == "slowtrain.shrink/1"
    assert document["alternatives"][2]["sooner_by"] == {"value": 1.8, "low": 1.5, "high": 2.1}
    assert document["alternatives"][1]["seconds_to_loss"] is None
    page = pages.shrink_page(replace(FOUND, command=("<b>train.py",)))
    assert "&lt;b&gt;train.py" in page
    assert "smaller pictures" in page
