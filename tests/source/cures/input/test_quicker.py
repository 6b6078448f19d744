"""Advice for Python that makes input."""

from __future__ import annotations

from slowtrain.script.locations.edits import input_edits
from slowtrain.script.text.source_file import parse_source


def test_batches_are_handed_over_where_samples_are_single() -> None:
    assert (
        len(list(input_edits.python_input_fixes(64.0, "work")))
        == len(list(input_edits.python_input_fixes(64.0, "samples"))) + 1
    )
    assert len(list(input_edits.python_input_fixes(1.0, "work"))) == len(
        list(input_edits.python_input_fixes(64.0, "samples"))
    )


def test_the_function_is_named() -> None:
    source = parse_source("train.py", "class Jitter:\n    def apply(self):\n        return 1\nx = 2\n")
    assert input_edits.function_label(source, 3) == "`Jitter.apply` (line 2)"
    assert input_edits.function_label(source, 4) == input_edits.function_label(None, 4) == ""
    assert "write `f` (line 2) in TensorFlow" in input_edits.advice_for_kind("work", "`f` (line 2)")[1]
    assert "TensorFlow" not in input_edits.advice_for_kind("work", "`f` (line 2)", on_jax=True)[1]
    assert all(
        "{" not in input_edits.advice_for_kind(k, "", on_jax=j)[1]
        for k in input_edits.ADVICE_BY_KIND
        for j in (True, False)
    )
