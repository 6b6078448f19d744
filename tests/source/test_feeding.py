"""Which lines make a hand-written loop's input, by the text alone."""

from __future__ import annotations

from textwrap import dedent

from slowtrain.script.navigation import step_input
from slowtrain.script.text import source_file

GENERATOR = dedent(
    """\
    def cut(row):
        return row[:4]

    def batches(rows):
        while True:
            yield [cut(row) for row in rows]

    def prepared(rows):
        return list(rows)

    def train(rows, state):
        feed = iter(batches(rows))
        state = prepared(state)
        for _ in range(100):
            x = next(feed)
            state = step(state, x)
    """
)


def lines(text: str, step: str) -> frozenset[int]:
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    at = next(i for i, line in enumerate(text.splitlines(), 1) if step in line)
    found = step_input.input_lines(parsed, at)
    assert found is not None
    return found.lines


def test_a_generator_runs_where_its_next_is_asked_for() -> None:
    """With what it calls; a function whose result was there before the loop is not asked again."""
    assert lines(GENERATOR, "step(state") == {1, 2, 4, 5, 6, 15}


def test_a_loop_over_a_generator_that_has_a_name() -> None:
    text = GENERATOR.replace("for _ in range(100):", "for x in feed:").replace("        x = next(feed)\n", "")
    assert {1, 2, 4, 5, 6} <= lines(text, "step(state")
