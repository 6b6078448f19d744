"""A setting is found where it is written, through whatever hands it on."""

from __future__ import annotations

import ast

import pytest

from slowtrain import source
from slowtrain.source import trees
from slowtrain.source.reading import settings

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
    "changed in a loop": ("every = 5\nfor i in x:\n    every = 6\nask(every)", None),
}


@pytest.mark.parametrize("name", CASES)
def test_where_it_is_written(name: str) -> None:
    script, wanted = CASES[name]
    text = source.parse("train.py", script)
    assert text is not None
    asked = [n for n in trees.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "ask"]
    assert settings.whole(text, asked[0].args[0]) == wanted


@pytest.mark.parametrize(
    ("call", "wanted"),
    [("f(every=5)", 5), ("f(**CFG)", 7), ("f(**CFG, **OTHER)", None), ("f(1)", None), ("f(**made())", None)],
)
def test_what_a_call_is_given(call: str, wanted: int | None) -> None:
    text = source.parse("train.py", f"CFG = {{'every': 7}}\nOTHER = {{}}\n{call}\n")
    assert text is not None
    asked = next(n for n in trees.walk(text.tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "f")
    found = settings.forwarded(text, asked, "every")
    assert (found.value if isinstance(found, ast.Constant) else None) == wanted
