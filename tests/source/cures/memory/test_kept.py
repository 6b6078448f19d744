"""What grows is limited, or keeps less, only where nothing asks for the whole."""

from __future__ import annotations

import pytest

from slowtrain.causes.memory.host_leak import fix
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source, parse_source

LOOP = "import random\nimport numpy as np\nimport tensorflow as tf\nheld = []\nfor x in ds:\n    held.append(step(x))\n"
AGENT = """class Agent:
    def __init__(self):
        self.held = []

    def add(self, one):
        self.held.append(one)

    def draw(self):
        return {use}
"""
BANK = """def train(ds):
    held = {{}}
    for number, x in enumerate(ds):
        held[number] = step(x)
    return model, held

{got}
{use}
"""
GRADS = "import tensorflow as tf\nheld = []\nfor x in ds:\n    loss, grads = step(x)\n    held.append(grads)\n{use}\n"


def read(text: str) -> Source:
    source = parse_source("train.py", text)
    assert source is not None
    return source


def limit_length(text: str, *, attribute: bool = False, kind: str = "list") -> str | None:
    source = read(text)
    found = fix.limit_length(source, fix.NamedContainer("held", attribute, kind), 700)
    return edits.edited_text(source, found) if found else None


@pytest.mark.parametrize(
    "use",
    [ "print(len(held), held[-1])", "y = random.sample(held, 4)", "z = [np.mean(h) for h in held]",
     "a = np.array(held)", "if held:\n    held.clear()", "x, y = zip(*[h for h in held])"],
)  # fmt: skip
def test_a_list_gets_a_limit(use: str) -> None:
    new = limit_length(LOOP + use + "\n")
    assert new is not None
    assert "held = collections.deque(maxlen=700)\n" in new
    assert new.index("import collections") < new.index("held =")


@pytest.mark.parametrize(
    "use",
    ["y = held[:10]",  "tf.stack(held)", "report(held)", "held = list(held)", "held.sort()",
     "held.pop(0)", "json.dump(held)", "held[0] = 1", "def f(held):\n    pass", "other = held"],
)  # fmt: skip
def test_a_list_that_is_needed_as_a_list_stays(use: str) -> None:
    assert limit_length(LOOP + use + "\n") is None


def test_an_object_forgets_as_well() -> None:
    text = AGENT.format(use="random.sample(self.held, 32)")
    new = limit_length(text, attribute=True)
    assert new is not None
    assert "self.held = collections.deque(maxlen=700)" in new
    assert fix.is_read_in_training(read(text), fix.NamedContainer("held", True, "list"))
    assert limit_length(AGENT.format(use="self.held"), attribute=True) is None


def test_what_nothing_reads_before_the_end_is_no_part_of_the_training() -> None:
    assert not fix.is_read_in_training(read(LOOP + "print(held[-1])\n"), fix.NamedContainer("held", False, "list"))
    assert fix.is_read_in_training(
        read(LOOP + "    y = random.sample(held, 2)\n"), fix.NamedContainer("held", False, "list")
    )


def test_a_dictionary_forgets_its_oldest() -> None:
    new = limit_length(
        BANK.format(got="train(few)\nmodel, held = train(ds)", use="print(held[max(held)])"), kind="dict"
    )
    assert new is not None
    assert "        if len(held) > 700:\n            del held[next(iter(held))]\n    return" in new
    space: dict[str, object] = {"step": float, "ds": range(900), "few": range(3), "model": None}
    exec(compile(new, "train.py", "exec"), space)
    held = space["held"]
    assert isinstance(held, dict)
    assert (len(held), max(held), min(held)) == (700, 899, 200)


@pytest.mark.parametrize(("got", "use"), [("model, held = train(ds)", "print(held[3])"), ("found = train(ds)", "")])
def test_a_dictionary_that_is_read_by_its_keys_stays(got: str, use: str) -> None:
    assert limit_length(BANK.format(got=got, use=use), kind="dict") is None


def reduce_elements(use: str) -> str | None:
    source = read(GRADS.format(use=use))
    found = fix.reduce_elements(source, fix.NamedContainer("held", False, "list"))
    return edits.edited_text(source, found) if found else None


def test_what_is_read_of_each_is_kept_instead() -> None:
    new = reduce_elements("norms = [float(tf.linalg.global_norm(g)) for g in held[::5]]")
    assert new is not None
    assert "held.append(tf.linalg.global_norm(grads))" in new
    assert "[float(g) for g in held[::5]]" in new


@pytest.mark.parametrize(
    "use",
    ["n = [tf.linalg.global_norm(g) + len(g) for g in held]", "n = [norm(g) for g in held]",
     "n = [np.mean(g) for g in held]", "n = [tf.linalg.global_norm(g) for g in held]\nprint(held[0])",
     "n = [tf.linalg.global_norm(g) for g in held if g]", "n = [tf.norm(g, ord=k) for g in held]", ],
)  # fmt: skip
def test_what_is_read_otherwise_stays(use: str) -> None:
    assert reduce_elements(use) is None
