"""Writes the folder of a new cause, and its test, with examples that fail until the cause is written.

make cause NAME=family/the-pattern
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
CAUSES, TESTS = ROOT / "src/slowtrain/causes", ROOT / "tests/causes"
NAME = re.compile(r"[a-z]+/[a-z]+(-[a-z]+)*")

CLASS = '''"""TODO: one line: what is slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slowtrain.causes import Cause
from slowtrain.number_text import format_number
from slowtrain.model import Category, Effect, Evidence, Prescription, Signal
from slowtrain.trace import Trace
from slowtrain.whatif import Drop, Remedy

MIN_SHARE = 0.05  # of a step. TODO: a threshold has its reason here.


class {class_name}(Cause[Evidence]):
    """TODO: the first line of page.md."""

    title = "TODO: {words} takes a large part of each step"
    needs = frozenset({{Signal.STEPS}})  # TODO: without which signals can nothing be said?
    symptoms = frozenset({{Category.PYTHON}})  # TODO: the categories of a step that show it in every case
    words = ("TODO",)  # TODO: names one of which stands in each script that has it; without a source side delete this

    def find(self, trace: Trace) -> Evidence | None:
        """TODO: return evidence where the trace has the cause."""
        return None

    def remedies(self, trace: Trace, evidence: Evidence) -> Sequence[Remedy]:
        """TODO: what the cure takes out of a step. The saving is computed from it."""
        return [Drop({{Category.PYTHON: evidence.numbers["python_ms"]}})]

    def cures(self, trace: Trace, evidence: Evidence) -> Iterable[Prescription]:
        yield Prescription("advice", Effect.EXACT, f"TODO: what to do; it takes {{format_number(trace.step_ms)}} ms")
'''

LINT = '''"""Where the cause {name} shows in a script's text. Delete this file if it cannot be seen there."""

from __future__ import annotations

from collections.abc import Iterable

from slowtrain.model import Spot
from slowtrain.script.text.source_file import Source


def find_spots(source: Source) -> Iterable[Spot]:
    """TODO: the places that surely have the cause. A place which may be harmless is not reported."""
    return ()
'''

PAGE = """TODO: one sentence: what is slow.

## What it means
TODO

## How it is recognised
TODO

## What to do
TODO

## Fix safety
TODO

## When it is not worth it
TODO
"""

TRACES = """# How traces are drawn: the docstring of tests/drawn_trace.py.
# A row is a category, a character a millisecond. Text behind "fires:" and "quiet:" says what the trace shows.

fires: TODO: a step with the cause. Draw only what the cause looks at.
    step    1111111111
    python  pppppppp..
    device  ........kk

quiet: TODO: a step that looks alike and has another cause. Add one for each neighbour.
    step    1111111111
    python  p.........
    device  .kkkkkkkkk
"""

EXAMPLE = """import keras
import numpy as np

keras.utils.set_random_seed(0)
x, y = np.random.rand(512, 16).astype("float32"), np.random.rand(512, 1).astype("float32")
model = keras.Sequential([keras.layers.Dense(16), keras.layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y)  # TODO: {what}
"""

TEST = '''"""{name}: what its drawn traces and examples do not hold (tests/causes/test_causes.py runs those)."""

from __future__ import annotations

from slowtrain.causes import cause_by_id

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

CAUSE = cause_by_id("{name}")


def test_nothing_is_left_to_do() -> None:
    for part in ("page", "title"):
        assert "TODO" not in getattr(CAUSE, part), f"write the {{part}}"
    assert "TODO" not in "".join(before + after for before, after in CAUSE.fixes), "write examples/, or delete them"


def test_the_evidence_names_the_line() -> None:
    found = CAUSE.find(parse_drawing(CAUSE.fires[0]))
    assert found is not None, "write find() in __init__.py: it has to find the first trace of traces.txt"
    assert found.where, "evidence names the lines to look at, the costliest first"


def test_the_price_is_bounded_by_what_was_measured() -> None:
    trace = parse_drawing(CAUSE.fires[0])
    evidence = CAUSE.find(trace)
    assert evidence is not None, "write find() first"
    assert CAUSE.remedies(trace, evidence), "write remedies(): what a cure takes out of a step"
'''


def write(name: str) -> list[Path]:
    """Writes the files of a new cause, and returns them. Raises ``ValueError`` or ``FileExistsError``."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no family/the-pattern in small letters")
    family, _, pattern = name.partition("/")
    if not (CAUSES / family).is_dir():
        families = sorted(f.name for f in CAUSES.iterdir() if (f / "__init__.py").is_file())
        raise ValueError(f"there is no family {family!r}; choose one of {', '.join(families)}")
    stem = pattern.replace("-", "_")
    folder = CAUSES / family / stem
    if folder.exists() or folder.with_suffix(".py").exists():
        raise FileExistsError(f"{folder} is there already")
    words = pattern.replace("-", " ")
    texts = {
        folder / "__init__.py": CLASS.format(class_name=words.title().replace(" ", ""), words=words),
        folder / "lint.py": LINT.format(name=name),
        folder / "page.md": PAGE,
        folder / "traces.txt": TRACES,
        folder / "examples/example.before.py": EXAMPLE.format(what="a script that has the cause"),
        folder / "examples/example.after.py": EXAMPLE.format(what="the same without it"),
        TESTS / f"test_{stem}.py": TEST.format(name=name),
    }
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(texts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", metavar="FAMILY/THE-PATTERN")
    try:
        files = write(parser.parse_args().name)
    except (ValueError, FileExistsError) as error:
        print(f"new_cause: {error}", file=sys.stderr)
        return 2
    for file in files:
        print(f"wrote {file.relative_to(ROOT)}")
    print("Next: read CONTRIBUTING.md, 'To add a cause'. These tests say what is left to do:")
    stem = files[0].parent.name
    tests = f"{files[-1].relative_to(ROOT)} tests/causes/test_causes.py tests/lint/test_examples.py"
    print(f"  pytest {tests} -k '{stem} or {stem.replace('_', '-')}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
