"""How many steps a script's loops will take: as its text says, at most so many, or not known."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

import pytest

from slowtrain.script.locations import trip_counts
from slowtrain.script.locations.trip_counts import StepCount
from slowtrain.script.text import source_file, syntax_tree

STEP = "function train_step"


def said(text: str, step: str = STEP, line: int = 0) -> StepCount | None:
    """Of the line that says so, or that calls ``train_step`` last."""
    parsed = source_file.parse_source("train.py", text)
    assert parsed is not None
    calls = [i for i, one in enumerate(text.splitlines(), 1) if "train_step(" in one and "def " not in one]
    return trip_counts.static_step_count(parsed, step, line or calls[-1])


KNOWN = {
    "a range": ("for i in range(100):\n    train_step(i)\n", 100),
    "its bounds": ("for i in range(10, 100, 4):\n    train_step(i)\n", 23),
    "a range that is empty": ("for i in range(5, 3):\n    train_step(i)\n", 0),
    "two loops": ("for e in range(3):\n    for i in range(100):\n        train_step(i)\n", 300),
    "a name": ("STEPS = 5_000\nfor i in range(STEPS + 1):\n    train_step(i)\n", 5001),
    "computed": ("N, B = 1000, 32\nfor i in range(N // B):\n    train_step(i)\n", 31),
    "a bar": ("for i, x in enumerate(tqdm(range(7), desc='x')):\n    train_step(i)\n", 7),
    "a list": ("for lr in [0.1, 0.01]:\n    for i in range(50):\n        train_step(i)\n", 100),
    "main": ("def main():\n    for i in range(9):\n        train_step(i)\nif __name__ == '__main__':\n    main()\n", 9),
    "a parameter": ("def run(data, steps):\n    for i in range(steps):\n        train_step(i)\nrun(d, steps=40)\n", 40),
    "a default": ("def run(data, steps=30):\n    for i in range(steps):\n        train_step(i)\nrun(d)\n", 30),
    "a method": (
        "class T:\n    def run(self, n):\n        for i in range(n):\n            train_step(i)\nT().run(12)\n",
        12,
    ),
    "called first": ("train_step(0)\nfor i in range(20):\n    train_step(i)\n", 21),
    "in two loops": ("for i in range(20):\n    train_step(i)\nfor i in range(30):\n    train_step(i)\n", 50),
    "under another name": (
        "def train_step(x): ...\nstep = tf.function(train_step)\nfor i in range(8):\n    step(i)  # train_step(\n",
        8,
    ),
    "a break of another loop": ("for i in range(20):\n    for x in y:\n        break\n    train_step(i)\n", 20),
    "behind the step": ("for i in range(20):\n    train_step(i)\n    if i:\n        continue\n    show(i)\n", 20),
    "what is tested": ("for i in range(20):\n    if train_step(i):\n        show(i)\n", 20),
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_the_text_says(name: str) -> None:
    text, turns = KNOWN[name]
    found = said(text)
    assert found is not None
    assert (found.turns, found.at_most, found.head) == (turns, False, None)


AT_MOST = {
    "break": "for i in range(20):\n    if train_step(i) < 1:\n        break\n",
    "the else of an inner loop": (
        "for i in range(20):\n    for x in y:\n        show(x)\n    else:\n        break\n    train_step(i)\n"
    ),
    "continue": "for i in range(20):\n    if bad(i):\n        continue\n    train_step(i)\n",
    "if": "for i in range(20):\n    if i % 2:\n        train_step(i)\n",
    "an if around it": "if wanted:\n    for i in range(20):\n        train_step(i)\n",
    "else": "for i in range(20):\n    if bad(i):\n        show(i)\n    else:\n        train_step(i)\n",
    "return": "def f():\n    for i in range(20):\n        train_step(i)\n        if done(i): return\nf()\n",
    "an early return": "def f():\n    if there(): return\n    for i in range(20):\n        train_step(i)\nf()\n",
    "raise": "for i in range(20):\n    if train_step(i) != 0:\n        raise ValueError\n",
    "exit": "for i in range(20):\n    train_step(i)\n    if late():\n        sys.exit()\n",
    "a function that ends it": (
        "def late():\n    if x:\n        raise StopIteration\nfor i in range(20):\n    train_step(i)\n    late()\n"
    ),
    "try": "try:\n    for i in range(20):\n        train_step(i)\nexcept Enough:\n    pass\n",
    "what is suppressed": (
        "with contextlib.suppress(KeyboardInterrupt):\n    for i in range(20):\n        train_step(i)\n"
    ),
    "and": "for i in range(20):\n    ready(i) and train_step(i)\n",
}


@pytest.mark.parametrize("name", AT_MOST)
def test_what_may_end_a_loop_early_makes_it_at_most(name: str) -> None:
    found = said(AT_MOST[name])
    assert found is not None
    assert (found.turns, found.at_most) == (20, True)


UNKNOWN = {
    "while": "while loss > 1:\n    train_step(i)\n",
    "while in a loop": "for e in range(3):\n    while more():\n        train_step(i)\n",
    "assigned twice": "N = 3\nN = 4\nfor i in range(N):\n    train_step(i)\n",
    "added to": "N = 3\nN += 1\nfor i in range(N):\n    train_step(i)\n",
    "handed over": "run(train_step)\nfor i in range(3):\n    train_step(i)\n",
    "a comprehension": "losses = [train_step(i) for i in range(3)]\n",
    "a lambda": "for i in range(3):\n    call(lambda: train_step(i))\n",
    "a function that is called in unknown ways": (
        "def f():\n    for i in range(3):\n        train_step(i)\nThread(target=f).start()\n"
    ),
    "a decorated one": "@again(3)\ndef f():\n    for i in range(3):\n        train_step(i)\nf()\n",
    "a generator": "def f():\n    for i in range(3):\n        yield train_step(i)\nfor x in f():\n    show(x)\n",
    "two parameters": "def f(n):\n    for i in range(n):\n        train_step(i)\nf(3)\nf(4)\n",
    "of several objects": "for i in range(3):\n    a.train_step(i)\n    b.train_step(i)\n",
    "several at once": "for e in range(3):\n    for x, y in zip(a, b):\n        train_step(x, y)\n",
    "one after the other": "import itertools\nfor x in itertools.chain(a, b):\n    train_step(x)\n",
    "who records itself": "import slowtrain\nfor i in range(3):\n    train_step(i)\n",
    "two data sets": "for x in a:\n    train_step(x)\nfor x in b:\n    train_step(x)\n",
    "it calls itself": "def f():\n    for i in range(3):\n        train_step(i)\n    f()\nf()\n",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_text_does_not_say_is_not_known(name: str) -> None:
    found = said(UNKNOWN[name])
    assert found is None


@pytest.mark.parametrize(
    "bound",
    ["args.steps", "len(x)", "int(sys.argv[1])", "CONFIG['steps']", "float(3)", "5 // 0", "True", "n", "*b", "3.0"],
)
def test_a_bound_from_elsewhere_is_not_known(bound: str) -> None:
    """Also what a command line's parser has for a default: it may have been given otherwise."""
    before = "p.add_argument('--steps', default=7)\nargs = p.parse_args()\n"
    assert said(f"{before}for i in range({bound}):\n    train_step(i)\n") is None


def test_epochs_over_a_data_set() -> None:
    text = "for epoch in range(5):\n    for x, y in data.map(\n        f\n    ):\n        train_step(x, y)\n"
    assert said(text) == StepCount(5, False, 1, (2, 4))
    inside = "def one():\n    for x in data:\n        train_step(x)\nfor e in range(5):\n    one()\n"
    assert said(inside) == StepCount(5, False, 4, (2, 2))
    own = "def range(n):\n    return data\nfor x in tqdm.tqdm(range(3)):\n    train_step(x)\n"
    assert said(own) == StepCount(1, False, 3, (3, 3))


def test_gradients_and_calls_on_batches() -> None:
    tape = "for i in range(6):\n    with tape:\n        y = f(i)\n    g = tape.gradient(y, w)\n"
    assert said(tape, "gradient", 4) == StepCount(6, False, 1)
    gan = "for i in range(6):\n    d.train_on_batch(a)\n    d.train_on_batch(b)\n    g.train_on_batch(c)\n"
    assert said(gan, "train_on_batch", 3) == StepCount(18, False, 1)
    assert said(gan, "train_on_batch", 1) is None
    assert said(gan, "fit()", 3) is None


def test_nothing_grows_with_a_hostile_text() -> None:
    assert said(f"for i in range({'9' * 400}):\n    train_step(i)\n") is None
    deep = "".join(f"{' ' * i}for a{i} in range(1000):\n" for i in range(18))
    assert said(f"{deep}{' ' * 18}train_step(1)\n") is None
    calls = "".join(f"def f{i}():\n" + f"    f{i + 1}()\n" * 8 for i in range(8))
    assert said(f"{calls}def f8():\n    train_step(1)\nf0()\n") is None
    big = f"a = 0x{'f' * 9000}\nb = a * a\nfor i in range(b - b + 3):\n    train_step(i)\n"
    assert said(big) is None


def test_a_text_is_gone_through_as_often_however_many_calls_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight calls in each of three functions, of each other: 512 ways to the step, and to the number that is given."""
    gone: list[ast.AST] = []

    def counted(node: ast.AST, walk: Callable[[ast.AST], Iterator[ast.AST]] = syntax_tree.walk) -> Iterator[ast.AST]:
        gone.append(node)
        return walk(node)

    step = "def f3(n):\n    for i in range(n):\n        train_step(i)\n        show(i)\n"
    calls = "".join(f"def f{i}(n):\n" + f"    f{i + 1}(n)\n" * 8 for i in range(3))
    monkeypatch.setattr(syntax_tree, "walk", counted)
    found = said(f"{step}{calls}f0(2)\n", line=3)
    assert found is not None
    assert (found.turns, found.at_most) == (1024, False)
    assert sum(isinstance(node, ast.Module) for node in gone) < 10
