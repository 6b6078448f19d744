"""What an expression comes to is worked out where the file tells it, and not known where it does not."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.interpreter.engine import queries
from slowtrain.script.text import source_file, syntax_tree

CLASS = "class C:\n    def __init__(self, n, m=2):\n        self.n, self.m = n, n * m\n"
DATA = "class C:\n    n: int = 5\n    m: int = 6\n"
PARSER = "from argparse import ArgumentParser\np = ArgumentParser()\n"
READING = "    def run(self):\n        ask(self.n)\n"


def asked(script: str) -> tuple[source_file.Source, ast.expr]:
    """What the script's call of ``ask`` is given."""
    text = source_file.parse_source("train.py", f"import numpy as np\n{script}\ndef train(model):\n    model.fit(0)\n")
    assert text is not None
    calls = [n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"]
    return text, calls[0].args[0]


# Name: a script that asks for a number, and which it is; None where the file does not tell.
NUMBERS: dict[str, tuple[str, int | None]] = {
    "computed": ("n = 7\nask((n * 2 + 1) // 4 - n % 4)", 0),
    "by nothing": ("ask(7 // 0)", None),
    "what is true is no number": ("ask(True)", None),
    "a float": ("ask(2.5)", None),
    "of a file": ("n = int(open('n').read())\nask(n)", None),
    "of a function": ("def two(n):\n    return 2 * n\nask(two(4))", 8),
    "of a function by its call": ("def f(n):\n    return n + 1\nf(1)\nask(f(2))", 3),
    "of one with two ends": ("def f(n):\n    if n:\n        return 1\n    return 2\nask(f(0))", 2),
    "of one that is decorated": ("@cached\ndef f():\n    return 2\nask(f())", None),
    "of itself": ("def f(n):\n    return f(n - 1)\nask(f(2))", None),
    "a parameter": ("def f(n):\n    ask(n)\nf(4)\nf(2 + 2)", 4),
    "a parameter of two calls": ("def f(n):\n    ask(n)\nf(4)\nf(5)", None),
    "a parameter of stars": ("def f(n):\n    ask(n)\nf(*sys.argv)", None),
    "a parameter of a mapping": ("def f(n):\n    ask(n)\nf(**{'n': 4})", 4),
    "a default": ("def f(n=3):\n    ask(n)\nf()", 3),
    "handed over": ("def f(n=3):\n    ask(n)\nf()\npool.map(f, range(9))", None),
    "a key": ("C = {'a': {'n': 4}}\nask(C['a']['n'])", 4),
    "a key that is asked for": ("C = {'n': 4}\nask(C.get('n', 9))", 4),
    "a key put in later": ("C = {'n': 4}\nC['n'] = 5\nask(C['n'])", 5),
    "a key put in later with a prefix": ("C = {'n': 4}\nC[u'n'] = 5\nask(C['n'])", 5),
    "a key put in later and asked for": ("C = {'n': 4}\nC['n'] = 5\nask(C.get('n'))", 5),
    "another key put in later": ("C = {'n': 4}\nC['m'] = 5\nask(C['n'])", 4),
    "any key put in later": ("C = {'n': 4}\nfor k, v in given:\n    C[k] = v\nask(C['n'])", None),
    "any key put in by another name": ("C = {'n': 4}\nC[k] = v\ndef f(c):\n    ask(c['n'])\nf(C)", None),
    "a mapping that is updated": ("C = {'n': 4}\nC.update(given)\nask(C['n'])", None),
    "an item": ("s = [3, 4]\nask(s[1])", 4),
    "an item that is changed": ("s = [3, 4]\ns[1] = 5\nask(s[1])", 5),
    "an item that is not there": ("s = [3, 4]\nask(s[2])", None),
    "a list's length": ("s = [3, 4]\nask(len(s))", 2),
    "a longer list's length": ("s = [3, 4]\ns.append(5)\nask(len(s))", 3),
    "a shorter list's length": ("s = [3, 4]\ns.pop()\nask(len(s))", None),
    "a filled mapping's length": ("t = {}\nfor k in given:\n    t[k] = 1\nask(len(t))", None),
    "an object's": (CLASS + "c = C(4)\nask(c.m)", 8),
    "one of two objects'": (CLASS + "a = C(4)\nb = C(5)\nask(b.n)", 5),
    "its own of two objects": (CLASS + READING + "C(4)\nC(5)", None),
    "its own of one object": (CLASS + READING + "C(4).run()", 4),
    "its own of an heir": (CLASS + READING + "class D(C):\n    pass\nC(4)\nD(5)", None),
    "its own of an heir that makes it": (
        CLASS + READING + "class D(C):\n    def __init__(self):\n        super().__init__(6)\nC(4)",
        4,
    ),
    "set again in a method": (CLASS + "    def grow(self):\n        self.n = 9\nask(C(4).n)", 4),
    "set again in a function of a method": (
        CLASS + "    def grow(self):\n        def inner():\n            self.n = 9\nask(C(4).n)",
        4,
    ),
    "set again from outside": (CLASS + "c = C(4)\nother.n = 9\nask(c.n)", 4),
    "set by its name": (CLASS + "c = C(4)\nsetattr(c, 'n', 9)\nask(c.n)", 9),
    "another set by its name": (CLASS + "c = C(4)\nsetattr(c, 'rate', 9)\nask(c.n)", 4),
    "all set at once": (
        "class C:\n    n = 5\n    def __init__(self, **k):\n        self.__dict__.update(k)\nask(C().n)",
        5,
    ),
    "a field": (DATA + "ask(C(7).n)", 7),
    "a field by its default": (DATA + "ask(C(7).m)", 6),
    "a field of a base": (DATA + "class D(C):\n    r: int = 1\nask(D(7, 8, 9).r)", 9),
    "a field that is changed": (DATA + "c = C(7)\nc.n = 8\nask(c.n)", 8),
    "a class's": (DATA + "ask(C.n)", 5),
    "its own where an heir has another": (DATA + READING + "class D(C):\n    n: int = 9\nC()", 5),
    "a base's constructor decides": (
        "class C:\n    def __init__(self, n):\n        self.n = n * 2\nclass D(C):\n    pass\nask(D(4).n)",
        8,
    ),
    "a property": (CLASS + "    @property\n    def two(self):\n        return self.n * 2\nask(C(4).two)", 8),
    "a length of its own": (CLASS + "    def __len__(self):\n        return self.n + 1\nask(len(C(4)))", 5),
    "a namespace": ("from types import SimpleNamespace\nc = SimpleNamespace(n=4)\nask(c.n)", 4),
    "an option's default": (PARSER + "p.add_argument('--n-all', default=4)\nask(p.parse_args().n_all)", 4),
    "an option without one": ("p = ArgumentParser()\np.add_argument('--n', type=int)\nask(p.parse_args().n)", None),
    "an option of two parsers": (
        "p.add_argument('--n', default=4)\nq.add_argument('--n', default=5)\nask(p.parse_args().n)",
        None,
    ),
    "an option with another default": (
        "p.add_argument('--n', default=4)\np.set_defaults(n=5)\nask(p.parse_args().n)",
        None,
    ),
    "an option that is changed": ("p.add_argument('--n', default=4)\na = p.parse_args()\na.n = 5\nask(a.n)", None),
    "the last one": ("n = 4\nn = 5\nask(n)", 5),
    "of a branch that is not taken": ("n = 4\nif 0:\n    n = 5\nask(n)", 4),
    "of a branch that is taken": ("BIG = True\nn = 4\nif BIG:\n    n = 5\nask(n)", 5),
    "of a branch that is not known": ("n = 4\nif given:\n    n = 5\nask(n)", None),
    "of a loop": ("n = 4\nfor i in x:\n    ask(n)\n    n = 5", None),
    "a parameter that may be set": ("def f(n=None):\n    if n is None:\n        n = 5\n    ask(n)\nf(4)", 4),
    "a parameter that is set": ("def f(n):\n    n = 5\n    ask(n)\nf(4)", 5),
    "of a condition": ("ask(4 if 1 else 5)", 4),
    "of a condition that is not known": ("ask(4 if given else 5)", None),
    "global": ("n = 4\ndef f():\n    global n\n    n = 5\nask(n)", 4),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_which_number_it_is(name: str) -> None:
    script, wanted = NUMBERS[name]
    text, node = asked(script)
    assert queries.int_at(text, node) == wanted


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        ("def make(n):\n    x = np.zeros((n, 8))\n    return x, x[:, 0]\nx, y = make(50)\nask(y)", (50,)),
        ("def make(n):\n    return np.zeros((n, 8))\nask(make(50)[:20])", (20, 8)),
        ("(x, y), (t, u) = keras.datasets.mnist.load_data()\nask(t)", None),  # of what keras is, the file says nothing
        ("import keras\n(x, y), (t, u) = keras.datasets.mnist.load_data()\nask(t)", (10_000, 28, 28)),
        ("import keras\nx, y = keras.datasets.mnist.load_data()\nask(x)", None),
        ("x = np.zeros((50, 8))\nx = x / 255.0\nask(x)", (50, 8)),
        ("x = np.zeros((50, 8))\nif given:\n    x = x[:5]\nask(x)", None),
        ("ask([np.zeros(8) for _ in range(50)])", (50, 8)),
        ("ask([np.zeros(8) for _ in range(50) if given])", (None, 8)),
        ("a, *b = np.zeros((3, 4))\nask(a)", (4,)),
        ("x = np.load('x.npy')\nask(x)", None),
    ],
)
def test_which_shape_it_has(script: str, wanted: tuple[int | None, ...] | None) -> None:
    text, node = asked(script)
    assert queries.shape_at(text, node) == wanted


def test_an_object_is_of_its_class() -> None:
    text, node = asked(CLASS + "def make():\n    return C(4)\nask(make())")
    assert queries.object_class_at(text, node) is text.tree.body[1]


def test_what_is_asked_without_end_is_not_known() -> None:
    script = "\n".join(f"def f{n}(x):\n    return f{n + 1}(x) + f{n + 1}(x + 1)" for n in range(100))
    text, node = asked(f"{script}\ndef f100(x):\n    return x\nask(f0(1))")
    assert queries.int_at(text, node) is None


def test_nothing_is_no_number() -> None:
    text, _ = asked("ask(1)")
    assert queries.int_at(text, None) is None
