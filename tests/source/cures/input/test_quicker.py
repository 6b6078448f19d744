"""Advice for Python that makes input."""

from __future__ import annotations

from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.input import quicker


def test_batches_are_handed_over_where_samples_are_single() -> None:
    assert len(list(quicker.cures(64.0, "work"))) == len(list(quicker.cures(64.0, "samples"))) + 1
    assert len(list(quicker.cures(1.0, "work"))) == len(list(quicker.cures(64.0, "samples")))


def test_the_function_is_named() -> None:
    source = parse_source("train.py", "class Jitter:\n    def apply(self):\n        return 1\nx = 2\n")
    assert quicker.named(source, 3) == "`Jitter.apply` (line 2)"
    assert quicker.named(source, 4) == quicker.named(None, 4) == ""
    assert "write `f` (line 2) in TensorFlow" in quicker.in_words("work", "`f` (line 2)")[1]
    assert "TensorFlow" not in quicker.in_words("work", "`f` (line 2)", on_jax=True)[1]
    assert all("{" not in quicker.in_words(k, "", on_jax=j)[1] for k in quicker.WORDS for j in (True, False))
