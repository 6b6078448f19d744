"""The answer of ``slowtrain shrink`` as text, JSON and HTML."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from slowtrain.model.measurements import Range
from slowtrain.model.shrinking import Alternative, InferenceForm, LayerShare, LossPoint, Shrinking, Unmeasured
from slowtrain.report import pages, shrink

from .test_browser import BROWSER, browse, probed


def curve(fall_s: float, end_s: float, end: float = 0.5) -> tuple[LossPoint, ...]:
    """A loss that falls from 2 to ``end``, with a point each tenth of a second."""
    losses = ((k / 10, end + (2 - end) * math.exp(-k / 10 / fall_s)) for k in range(2, round(10 * end_s) + 1))
    return tuple(LossPoint(seconds, loss, 0.95 * loss, 1.05 * loss) for seconds, loss in losses)


OWN = Alternative("as it is", "the script's own model", "exact", 38.7, 827.0, Range(1, 1, 1), 12 << 20, 11620, 0.5, 2.4,
                  Range(1, 1, 1), curve(0.6, 2.4))  # fmt: skip
HALF = replace(OWN, name="half width", says="8 instead of 16 in 7 layers", effect="changes training", step_ms=20.7,
               speedup=Range(1.9, 1.7, 2.1), peak_bytes=None, loss=0.7, reached_s=None, sooner=None,
               curve=curve(0.6, 1.8, 0.7))  # fmt: skip
SMALL = replace(HALF, name="smaller pictures", says="24 x 24 instead of 48 x 48", reached_s=1.3,
                sooner=Range(1.8, 1.5, 2.1), curve=curve(0.3, 2.0))  # fmt: skip
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


def test_each_alternative_has_a_chart_of_its_loss() -> None:
    (first, small), (second, half) = shrink.loss_plots(FOUND)
    assert (first, second) == ("smaller pictures", "half width")
    assert small.y_labels == half.y_labels  # one scale
    assert small.x_labels[-1][0] == half.x_labels[-1][0] == "2.40 s"
    assert small.level == half.level is not None
    assert [name for name, _ in half.names] == ["as it is", "half width"]
    assert len([kind for _, kind in half.paths if kind.startswith("line")]) == 2
    assert any(re.fullmatch(r"0.20 s: as it is .+; half width .+", hover.title) for hover in half.hovers)
    assert half.hovers[-1].title.count(" to ") == 1  # the narrower model is trained in less time


def test_a_loss_that_grows_does_not_press_the_others_flat() -> None:
    growing = tuple(LossPoint(p.seconds, 1e6, 1e6, 1e6) for p in HALF.curve)
    plots = dict(shrink.loss_plots(replace(FOUND, alternatives=(OWN, replace(HALF, curve=growing), SMALL))))
    assert plots["half width"].y_labels[-1][0] == "2"


def test_without_losses_there_is_no_chart() -> None:
    assert [
        name for name, _ in shrink.loss_plots(replace(FOUND, alternatives=(OWN, HALF, replace(SMALL, curve=()))))
    ] == ["half width"]
    silent = replace(FOUND, alternatives=(replace(OWN, curve=()), HALF))
    assert shrink.loss_plots(silent) == []
    assert "Loss over time" not in pages.shrink_page(silent).partition('id="checkup"')[0]


def test_the_bar_of_layers_is_one_whole() -> None:
    segments = shrink.layer_segments(FOUND)
    assert [s.title for s in segments] == [
        "conv2d_1: of the time of all ops, 60%", "the rest: of the time of all ops, 40%"
    ]  # fmt: skip
    assert sum(s.width for s in segments) == pytest.approx(1.0)


@pytest.mark.browser
@pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")
@pytest.mark.parametrize("width", [500, 1280])
def test_the_page_in_a_browser(width: int, tmp_path: Path) -> None:
    page = pages.shrink_page(FOUND)
    assert page.count('<svg class="plot"') == 2
    dom = browse(tmp_path, probed(page), f"--window-size={width},2000", "--dump-dom").stdout
    sizes = re.findall(r'<svg class="(?:plot|stacked)"[^>]* data-size="(\d+)x(\d+)"', dom)
    assert len(sizes) == 3
    assert all(int(w) > 200 and int(h) > 30 for w, h in sizes)
    assert 'data-overflow="0"' in dom
