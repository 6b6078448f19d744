"""Which of a loop's steps the cure makes graphs of."""

from __future__ import annotations

import itertools
import textwrap

import pytest
from msgspec.structs import replace

from slowtrain.causes import all_causes
from slowtrain.model import Prescription
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source

from ..drawn_trace import DRAWN_FILE, parse_drawing  # noqa: TID252  tests are no package

DRAWING = """
step     1111111111
dispatch ddddddddd.
device   .........k
@fact eager_step=true
@kernels busy=0 count=0 eager_ops=600 eager_ms=1.5 step=14
"""
STEPS = """
import tensorflow as tf

class Trainer:
    def first(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.a(x) ** 2)
        grads = tape.gradient(loss, self.a.trainable_variables)
        self.opt_a.apply_gradients(zip(grads, self.a.trainable_variables))
        return loss

    def second(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.b(x) ** 2)
        grads = tape.gradient(loss, self.b.trainable_variables)
        self.opt_b.apply_gradients(zip(grads, self.b.trainable_variables))
        return loss

    def third(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.c(x) ** 2)
        grads = tape.gradient(loss, self.c.trainable_variables)
        self.opt_c.apply_gradients(zip(grads, self.c.trainable_variables))
        return loss

def main(trainer, data):
    for x in tf.data.Dataset.from_tensor_slices(data).batch(64):
        trainer.first(x)
        trainer.second(x)
        trainer.third(x)
"""
LINES = (7, 14, 21)
PRINTS = ("(self.b(x) ** 2)\n", "(self.b(x) ** 2)\n        print(float(loss))\n")  # no graph can do that


def prescribed(text: str, *times: int, lines: tuple[int, ...] = LINES) -> tuple[Prescription, str]:
    """The cure, and what becomes of ``text`` where its gradients are taken so often."""
    text = textwrap.dedent(text).lstrip()
    spans = "".join(
        f"@span gradient g{line} start=3 end=5 line={line} times={n} every=10\n"
        for line, n in zip(lines, times, strict=True)
    )
    trace = parse_drawing(DRAWING + spans)
    trace = replace(trace, facts={**trace.facts, "sources": {DRAWN_FILE: text}})
    cause = next(c for c in all_causes() if c.id == "host/eager-step")
    evidence = cause.find(trace)
    assert evidence is not None
    (cure,) = cause.cures(trace, evidence)
    source = parse_source(DRAWN_FILE, text)
    assert source is not None
    return cure, edits.edited_text(source, cure.edits)


def graphs(text: str) -> list[str]:
    rows = [row.strip() for row in text.split("\n")]
    return [name.partition("(")[0][4:] for row, name in itertools.pairwise(rows) if row == "@tf.function"]


def test_every_step_of_a_turn() -> None:
    """Three: more places than evidence names, with the lines of the functions."""
    cure, text = prescribed(STEPS, 40, 40, 40)
    assert graphs(text) == ["first", "second", "third"]
    assert cure.says == (
        "put @tf.function on the functions that take the gradients and apply them: first, second, third"
    )


def test_those_that_may_be_graphs_and_words_about_the_other() -> None:
    cure, text = prescribed(STEPS.replace(*PRINTS), 40, 40, 40, lines=(7, 15, 22))
    assert graphs(text) == ["first", "third"]
    assert ": first, third; second as well, by hand: " in cure.says


def test_the_only_one_that_may_be_a_graph() -> None:
    cure, text = prescribed(STEPS.replace(*PRINTS), 40, 40, lines=(7, 15))
    assert graphs(text) == ["first"]
    assert cure.says == (
        "put @tf.function on the function that takes the gradient and applies it; second as well, by hand: "
        "the text does not show that it may be a graph"
    )


def test_what_is_taken_by_the_way_is_no_step() -> None:
    cure, text = prescribed(STEPS, 40, 3, 4)
    assert graphs(text) == ["first", "third"]
    assert "second" not in cure.says


def test_a_step_alone() -> None:
    cure, text = prescribed(STEPS, 40, lines=(7,))
    assert graphs(text) == ["first"]
    assert cure.says == "put @tf.function on the function that takes the gradient and applies it"


@pytest.mark.parametrize("also", ["first", ""])
def test_lines_of_a_loop_become_one_function_at_most(also: str) -> None:
    """Each would get the same name."""
    loop = """
    def {}(data, model, opt):
        for x in tf.data.Dataset.from_tensor_slices(data).batch(64):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(model(x) ** 2)
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables))
    """
    text = STEPS + textwrap.dedent(loop.format("one")) + (textwrap.dedent(loop.format("other")) if not also else "")
    lines = (7, 34) if also else (34, 41)
    cure, cured = prescribed(text, 40, 40, lines=lines)
    assert graphs(cured) == (["first", "train_step"] if also else ["train_step"])
    assert ("first, lines of one" if also else "; other as well, by hand") in cure.says
