"""The statements around a gradient tape, taken from source: what runs again, what does not."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from slowtrain.capture.nonfinite import tape_block


class Tape:
    """Stands for a gradient tape: notes the line of the statement that opened it."""

    opened: tuple[CodeType, int] | None = None
    asked: int | None = None

    def __enter__(self) -> Tape:
        frame = sys._getframe(1)
        Tape.opened, Tape.asked = (frame.f_code, frame.f_lineno), None
        return self

    def __exit__(self, *about: object) -> None:
        return

    def gradient(self, loss: Any, weights: Any) -> list[Any]:
        frame = sys._getframe(1)
        if Tape.opened is not None and Tape.opened[0] is frame.f_code:
            Tape.asked = frame.f_lineno
        return [loss * w for w in weights]


def first(folder: Path, text: str, **names: Any) -> tuple[tape_block.TapeBlock, int | None, dict[str, Any]]:
    """Runs a script, and gives what stands around the last tape that it opened."""
    path = folder / "script.py"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    known: dict[str, Any] = {"Tape": Tape, "w": [2.0], "said": [], **names}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), known)
    assert Tape.opened is not None
    return tape_block.find_tape_block(*Tape.opened), Tape.asked, known


def once_more(block: tape_block.TapeBlock, line: int | None, known: dict[str, Any]) -> dict[str, Any]:
    code, _ = block.upto(line)
    names = dict(known)
    exec(code, names)
    return names


def test_the_statement_and_the_line_that_asks_for_gradients(tmp_path: Path) -> None:
    script = """
    for x in (3.0, 4.0):
        with Tape() as tape:
            loss = x * x
        said.append(loss)
        grads = tape.gradient(loss, w)
        w = [w[0] - grads[0]]
    """
    block, line, known = first(tmp_path, script)
    names = once_more(block, line, {**known, "x": 5.0, "w": [2.0]})
    assert (names["loss"], names["grads"], names["w"]) == (25.0, [50.0], [2.0])
    assert len(known["said"]) == 2  # what makes no name that is needed does not run again


def test_what_a_later_line_needs_runs_as_well(tmp_path: Path) -> None:
    script = """
    def step(x):
        with Tape() as tape:
            loss = x * x
        scaled = loss / 2
        said.append(scaled)
        return scaled, tape.gradient(scaled, w)
    step(3.0)
    """
    block, line, known = first(tmp_path, script)
    _, reads = block.upto(line)
    assert once_more(block, line, {**known, "x": 4.0})["scaled"] == 8.0
    assert {"x", "w", "loss"} <= reads
    assert known["said"] == [4.5]


def test_a_loop_s_own_words_are_no_error(tmp_path: Path) -> None:
    script = """
    for x in (3.0, 4.0):
        with Tape() as tape:
            loss = x * x
            if loss > 100:
                continue
            if loss > 1000:
                break
    """
    block, line, known = first(tmp_path, script)
    assert once_more(block, line, {**known, "x": 2.0})["loss"] == 4.0


def test_the_innermost_statement_counts(tmp_path: Path) -> None:
    script = """
    with Tape() as outer:
        kept = 1
        with Tape() as tape, \\
                Tape() as other:
            loss = 3.0
    """
    block, line, known = first(tmp_path, script)
    known.pop("kept")
    names = once_more(block, line, known)
    assert names["loss"] == 3.0
    assert "kept" not in names


@pytest.mark.parametrize(
    "script",
    ["tape = Tape()\ntape.__enter__()\n", "def step():\n    with Tape() as tape:\n        yield 1\nlist(step())\n"],
)
def test_what_cannot_run_again_says_so(tmp_path: Path, script: str) -> None:
    def try_it() -> None:
        block, line, _ = first(tmp_path, script)
        block.upto(line)

    with pytest.raises(tape_block.CannotReplay):
        try_it()


def test_without_its_source_it_says_so() -> None:
    code = compile("x = 1\n", "<nowhere>", "exec")
    with pytest.raises(tape_block.CannotReplay, match="source"):
        tape_block.find_tape_block(code, 1)


def test_annotations_of_the_future_stay_so(tmp_path: Path) -> None:
    script = """
    from __future__ import annotations
    with Tape() as tape:
        def inner(x: NotThere) -> NotThere:
            return x
        loss = inner(2.0)
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script), encoding="utf-8")
    known: dict[str, Any] = {"Tape": Tape}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), known)
    assert Tape.opened is not None
    assert once_more(tape_block.find_tape_block(*Tape.opened), None, known)["loss"] == 2.0
