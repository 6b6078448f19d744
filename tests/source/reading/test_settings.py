"""A setting is found where it is written, through whatever hands it on."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.navigation import setting_origins
from slowtrain.script.text import source_file, syntax_tree

MADE = (
    "from dataclasses import dataclass, field\n@dataclass\nclass Pipe:\n    every: int = 5\n@dataclass\nclass Job:\n"
    "    pipe: Pipe = field(default_factory=Pipe)\n"
)
# Name: a script whose last line asks for the setting, and what it is; None where the file does not tell.
CASES: dict[str, tuple[str, object]] = {
    "a dictionary": ("CFG = {'train': {'every': 5}}\nask(CFG['train']['every'])", 5),
    "by way of a name": ("CFG = {'train': {'every': 5}}\nt = CFG['train']\nask(t['every'])", 5),
    "put in later": ("CFG = {'every': 5}\nCFG['every'] = 7\nask(CFG['every'])", None),
    "updated by name": ("CFG = {'every': 5}\nCFG.update(every=7)\nask(CFG['every'])", None),
    "another one put in": ("CFG = {'every': 5}\nCFG['name'] = 'a'\nask(CFG['every'])", 5),
    "a copy": ("CFG = dict(every=5)\nmine = dict(CFG)\nask(mine['every'])", 5),
    "a copy with another": ("CFG = dict(every=5)\nmine = dict(CFG, every=6)\nask(mine['every'])", 6),
    "put together": ("A = {'every': 5}\nB = {'rate': 1, **A}\nask(B['every'])", 5),
    "the later one": ("A = {'every': 5}\nB = {**A, 'every': 8}\nask(B['every'])", 8),
    "a key by name": ("A = {'every': 5, key: 7}\nask(A['every'])", None),
    "an object made for the field": (MADE + "cfg = Job()\nask(cfg.pipe.every)", 5),
    "another one given": (MADE + "cfg = Job(Pipe(7))\nask(cfg.pipe.every)", 7),
    "another one somewhere": (MADE + "cfg = Job()\nother = Pipe(7)\nask(cfg.pipe.every)", 5),
    "made by a function": (MADE.replace("=Pipe)", "=lambda: Pipe(7))") + "cfg = Job()\nask(cfg.pipe.every)", None),
    "a field's default": (
        (
            "from dataclasses import dataclass, field\n@dataclass\nclass Job:\n"
            "    every: int = field(default=5)\ncfg = Job()\nask(cfg.every)"
        ),
        5,
    ),
    "a namespace": ("cfg = SimpleNamespace(every=5)\nask(cfg.every)", 5),
    "a namespace that is changed": ("cfg = SimpleNamespace(every=5)\ncfg.every = 6\nask(cfg.every)", None),
    "a data class": ("class C:\n    every: int = 5\ncfg = C()\nask(cfg.every)", 5),
    "a data class with another": ("class C:\n    every: int = 5\ncfg = C(every=6)\nask(cfg.every)", 6),
    "a data class by position": ("class C:\n    rate: int = 1\n    every: int = 5\ncfg = C(1, 6)\nask(cfg.every)", 6),
    "an object's": (
        (
            "class C:\n    every: int = 5\n"
            "class K:\n    def __init__(self, cfg, net):\n        self.cfg, self.net = cfg, net\n"
            "    def tick(self):\n        ask(self.cfg.every)\n"
            "def main(cfg):\n    K(cfg, 1).tick()\nmain(C())\n"
        ),
        5,
    ),
    "two objects'": (
        (
            "class K:\n    def __init__(self, every):\n        self.every = every\n"
            "    def tick(self):\n        ask(self.every)\nK(5).tick()\nK(6).tick()\n"
        ),
        None,
    ),
    "handed over by stars": (
        (
            "CFG = {'k': {'every': 5}}\nclass K:\n    def __init__(self, every):\n        self.every = every\n"
            "    def tick(self):\n        ask(self.every)\nK(**CFG['k']).tick()\n"
        ),
        5,
    ),
    "a default": ("def f(every=5):\n    ask(every)\nf()", 5),
    "a default that one call overrides": ("def f(every=5):\n    ask(every)\nf()\nf(6)", None),
    "an argument of the command line": ("args = parse()\nask(args.every)", None),
    "an option's default": ("p.add_argument('--every', default=5)\nargs = p.parse_args()\nask(args.every)", 5),
    "an option's default, of a function": (
        (
            "def parse():\n    p.add_argument('--every', default=5)\n    return p.parse_args()\n"
            "def main(args):\n    ask(args.every)\nmain(parse())"
        ),
        5,
    ),
    "an option that is changed": (
        "p.add_argument('--every', default=5)\nargs = p.parse_args()\nargs.every = 6\nask(args.every)",
        None,
    ),
    "a class's": ("class C:\n    every = 5\nask(C.every)", 5),
    "a class's, by two names at once": ("class C:\n    rate, every = 1, 5\nask(C.every)", 5),
    "a class's that is changed": ("class C:\n    every = 5\nC.every = 6\nask(C.every)", None),
    "a class's, set by its name": ("class C:\n    every = 5\nsetattr(C, name, 6)\nask(C.every)", None),
    "an object that a function makes": (
        "class C:\n    every: int = 5\ndef made():\n    return C(every=6)\ncfg = made()\nask(cfg.every)",
        6,
    ),
    "its own where an heir has another": (
        "class C:\n    every = 5\n    def tick(self):\n        ask(self.every)\nclass D(C):\n    every = 6\n",
        None,
    ),
    "by a constructor that takes it": (
        "class C:\n    every: int = 5\n    def __init__(self, rate):\n        0\ncfg = C(6)\nask(cfg.every)",
        5,
    ),
    "set by a method, the same whenever": (
        "class K:\n    def build(self):\n        self.every = 5\n    def tick(self):\n        ask(self.every)\n",
        5,
    ),
    "put in with a prefix": ("CFG = {'every': 5}\nCFG[u'every'] = 7\nask(CFG['every'])", None),
    "any key put in": ("CFG = {'every': 5}\nfor k in more:\n    CFG[k] = 1\nask(CFG['every'])", None),
    "any key put in by another name": ("CFG = {'every': 5}\nCFG[k] = 1\ndef f(c):\n    ask(c['every'])\nf(CFG)", None),
    "updated as a whole": ("CFG = {'every': 5}\nCFG.update(more)\nask(CFG['every'])", None),
    "another one updated as a whole": ("CFG = {'every': 5}\nOTHER.update(more)\nask(CFG['every'])", 5),
    "handed over": ("def f(every=5):\n    ask(every)\nf()\nrun(target=f)", None),
    "called without end": ("def f(every):\n    f(every)\n    f(every)\n    ask(every)\nf(5)", None),
    "changed in a loop": ("every = 5\nfor i in x:\n    every = 6\nask(every)", None),
}


@pytest.mark.parametrize("name", CASES)
def test_where_it_is_written(name: str) -> None:
    script, wanted = CASES[name]
    text = source_file.parse_source("train.py", script)
    assert text is not None
    asked = [n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"]
    assert setting_origins.literal_int(text, asked[0].args[0]) == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [("f(every=5)", 5), ("f(**CFG)", 7), ("f(**CFG, **OTHER)", None), ("f(1)", None), ("f(**made())", None)],
)
def test_what_a_call_is_given(call: str, wanted: int | None) -> None:
    text = source_file.parse_source("train.py", f"CFG = {{'every': 7}}\nOTHER = {{}}\n{call}\n")
    assert text is not None
    asked = next(n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "f")
    found = setting_origins.call_argument(text, asked, "every")
    assert (found.value if isinstance(found, ast.Constant) else None) == wanted


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("ask(5)", set()),
        ("every = 5\nask(every)", {"every"}),
        ("n = 5\nCFG = {'every': n}\nask(CFG['every'])", {"every", "n"}),
        ("n = 5\nclass C:\n    every: int = 1\ncfg = C(every=n)\nask(cfg.every)", {"every", "n"}),
        ("n = 5\ndef f(a):\n    ask(a)\nm = n\nf(n)\nf(m)", {"a", "n", "m"}),
    ],
)
def test_all_names_that_it_goes_through(script: str, names: set[str]) -> None:
    text = source_file.parse_source("train.py", script)
    assert text is not None
    asked = next(
        n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"
    )
    found = setting_origins.literal_origin(text, asked.args[0])
    assert found is not None
    assert found.value == 5
    assert found.names == names


def test_what_is_no_literal_has_no_value() -> None:
    text = source_file.parse_source("train.py", "rng = made()\nask(rng)")
    assert text is not None
    asked = text.tree.body[1].value.args[0]  # type: ignore[attr-defined]
    found = setting_origins.value_origin(text, asked)
    assert found is not None
    assert isinstance(found.node, ast.Call)
    assert found.value is None
    assert setting_origins.literal_origin(text, asked) is None
