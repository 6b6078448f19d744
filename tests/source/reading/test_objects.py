"""What the text says of classes, mappings and a command line, for all who follow a value through them."""

from __future__ import annotations

import ast

import pytest

from slowtrain.script.navigation import class_members
from slowtrain.script.text import source_file, syntax_tree
from slowtrain.script.text.source_file import Source

FAMILY = """class A:
    n = 1
class B(A):
    def __init__(self):
        self.m = 2
class C(B):
    n = 3
class O:
    pass
"""


def parsed(script: str) -> Source:
    text = source_file.parse_source("train.py", script)
    assert text is not None
    return text


def kind(text: Source, name: str) -> ast.ClassDef:
    return next(c for c in class_members.class_definitions(text) if c.name == name)


def function(text: Source, name: str) -> class_members.Function:
    found = (n for n in syntax_tree.walk(text.tree) if isinstance(n, ast.FunctionDef) and n.name == name)
    return next(found)


@pytest.mark.parametrize(
    ("line", "key", "names", "wanted"),
    [
        ("C['n'] = 1", "n", (), True),
        ("C[u'n'] = 1", "n", (), True),
        ("C[('n')] += 1", "n", (), True),
        ('C["""n"""] = 1', "n", (), True),
        ("del C['n']", "n", (), True),
        ("C.update(n=1)", "n", (), True),
        ("C.update({'n': 1})", "n", (), True),
        ("C.setdefault('n', 1)", "n", (), True),
        ("C.pop('n')", "n", (), True),
        ("x = C['n']", "n", ("C",), False),
        ("C['m'] = 1", "n", ("C",), False),
        ("print('n')", "n", ("C",), False),
        ("C[k] = 1", "n", ("C",), True),
        ("self.C[k] = 1", "n", ("C",), True),
        ("T['C'][k] = 1", "n", ("C",), True),
        ("C[k] = 1", "n", ("D",), False),
        ("C[k] = 1", "n", ("",), False),
        ("C.update(given)", "n", ("C",), True),
        ("C.update(**given)", "n", ("C",), True),
        ("C.update({k: 1})", "n", ("C",), True),
        ("C.update(m=1)", "n", ("C",), False),
        ("C[0] = 1", 0, ("C",), True),
        ("C[0] = 1", 1, ("C",), False),
        ("D[0] = 1", 0, ("C",), False),
    ],
)
def test_what_is_put_in_later(line: str, key: object, names: tuple[str, ...], wanted: bool) -> None:
    assert class_members.may_store_key(parsed(line), key, names) is wanted


def test_names_of_what_grows_and_of_what_shrinks() -> None:
    text = parsed("a.append(1)\nself.b.extend(c)\nd += [1]\ne.pop()\nself.f.clear()\ng = sorted(h)\n")
    assert class_members.extended_names(text) == {"a", "b", "d"}
    assert class_members.reduced_names(text) == {"e", "f"}


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("c.n = 1", True),
        ("c.n += 1", True),
        ("del c.n", True),
        ("x = c.n", False),
        ("c.m = 1", False),
        ("setattr(c, 'n', 1)", True),
        ("setattr(c, 'm', 1)", False),
        ("setattr(c, k, 1)", True),
        ("c.__dict__.update(k)", True),
        ("vars(c)[k] = 1", True),
        ("print(vars(c), c.__dict__ == d)", False),
    ],
)
def test_whether_an_attribute_is_assigned(line: str, wanted: bool) -> None:
    assert class_members.is_attribute_assigned(parsed(line), "n") is wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("def __init__(self):\n        self.n = make()", True),
        ("def __init__(self):\n        self.m, self.n = make(), 1", True),
        ("def build(self):\n        self.n = 1", True),  # whenever it is read, it is 1
        ("n = 2\n    def build(self):\n        self.n = 1", False),
        ("def build(self):\n        self.n = make()", False),
        ("def __init__(self):\n        for x in y:\n            self.n = make(x)", False),
        ("def __init__(self):\n        self.n = 1\n    def more(self):\n        self.n = 2", False),
        ("def __init__(self, other):\n        other.n = 1", False),
        ("def __init__(self):\n        self.n = 1\n        setattr(self, k, 2)", False),
        ("def __init__(self):\n        def __init__():\n            self.n = make()", False),
    ],
)
def test_whether_all_objects_get_the_same(body: str, wanted: bool) -> None:
    text = parsed(f"class C:\n    {body}\n")
    one = kind(text, "C")
    assert (
        class_members.single_store(text, one, class_members.class_attribute_stores(text, one, "n")) is not None
    ) is wanted


def test_stores_of_other_classes_are_not_its_own() -> None:
    text = parsed(FAMILY + "class P:\n    def __init__(self):\n        self.m = 3\n")
    assert len(class_members.attribute_stores(text, "m")) == 2
    assert [len(class_members.class_attribute_stores(text, kind(text, name), "m")) for name in "ABCOP"] == [
        1,
        1,
        1,
        0,
        1,
    ]
    assert (
        class_members.single_store(
            text, kind(text, "A"), class_members.class_attribute_stores(text, kind(text, "A"), "m")
        )
        is None
    )


def test_a_class_stands_between_those_it_derives_from_and_its_heirs() -> None:
    text = parsed(FAMILY)
    assert [c.name for c in class_members.class_ancestry(text, kind(text, "C"))] == ["A", "B", "C"]
    assert [c.name for c in class_members.class_descendants(text, kind(text, "A"))] == ["A", "B", "C"]
    assert [c.name for c in class_members.class_descendants(text, kind(text, "O"))] == ["O"]


@pytest.mark.parametrize(
    ("name", "surely", "line"), [("A", True, 2), ("A", False, None), ("B", True, 2), ("C", False, 7)]
)
def test_which_class_declares_it(name: str, surely: bool, line: int | None) -> None:
    text = parsed(FAMILY)
    found = class_members.class_level_store(text, kind(text, name), "n", surely)
    assert (found.lineno if found is not None else None) == line


def test_fields_of_a_base_come_first() -> None:
    text = parsed(
        "class A:\n    n: int = 1\nclass B(A):\n    m: int = 2\n    n: int = 3\n"
        "class K:\n    n: int\n    def __init__(self): 0"
    )
    assert class_members.dataclass_fields(text, kind(text, "B")) == ["n", "m"]
    assert class_members.dataclass_fields(text, kind(text, "K")) == []


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ("class C:\n    pass\nC(1)\nC(2)", 2),
        ("class C:\n    pass\nclass D(C):\n    pass\nC(1)\nD(2)", 2),
        ("class C:\n    @classmethod\n    def make(cls):\n        return cls(1)\nC(2)", 2),
        ("class C:\n    pass\nclass D(C):\n    def __init__(self):\n        super().__init__(1)\nC(1)", 0),
    ],
)
def test_which_calls_make_its_objects(script: str, calls: int) -> None:
    text = parsed(script)
    assert len(class_members.constructor_calls(text, kind(text, "C"))) == calls


@pytest.mark.parametrize(
    ("script", "calls"),
    [
        ("def f(x): 0\nf(1)\nf(2)", 2),
        ("def f(x): 0\nf(1)\npool.map(f, y)", 0),
        ("def f(x): 0\nf(1)\ng = tf.function(f)", 0),
        ("def f(x): 0\nf(1)\nx.f\ng(f=1)", 1),
        ("class C:\n    def f(self, x): 0\nC().f(1)", 1),
        ("class C:\n    def f(self, x): 0\nc = C()\nc.f(1)\nThread(target=c.f)", 0),
        ("class C:\n    def f(self, x): 0\nf = 1\nC().f(f)", 1),
    ],
)
def test_which_calls_run_it(script: str, calls: int) -> None:
    text = parsed(script)
    assert len(class_members.running_calls(text, function(text, "f"))) == calls


@pytest.mark.parametrize(
    ("script", "places", "method"),
    [
        ("def f(a, /, b, *, c): 0", ["a", "b"], False),
        ("class C:\n    def f(self, a): 0", ["a"], True),
        ("class C:\n    @staticmethod\n    def f(a): 0", ["a"], True),
        ("class C:\n    def g(self):\n        def f(a): 0", ["a"], False),
    ],
)
def test_what_a_call_gives_by_place(script: str, places: list[str], method: bool) -> None:
    text = parsed(script)
    made = function(text, "f")
    assert class_members.positional_parameters(text, made) == places
    assert class_members.is_method(text, made) is method


def test_the_class_around_a_function_in_a_method() -> None:
    text = parsed("class C:\n    n = 1\n    def f(self):\n        def g():\n            self.n = 2\ndef h(): 0")
    assert [class_members.enclosing_class(text, s) for s in class_members.attribute_stores(text, "n")] == [
        kind(text, "C")
    ]
    assert class_members.enclosing_class(text, function(text, "h")) is None


def test_defaults_of_options() -> None:
    text = parsed(
        "p.add_argument('--n-all', '-n', default=1)\np.add_argument('rate', default=2)\n"
        "p.add_argument('-q', default=3)\np.add_argument('--x', dest='y', default=4)\n"
        "p.add_argument('--none')\np.add_argument('--on', action='store_true')\n"
        "p.add_argument('--twice', default=5)\nq.add_argument('--twice', default=6)\n"
    )
    assert {k: ast.literal_eval(v) for k, v in class_members.option_defaults(text).items()} == {
        "n_all": 1,
        "rate": 2,
        "q": 3,
        "y": 4,
    }
    assert class_members.option_defaults(parsed("p.add_argument('--n', default=1)\np.set_defaults(n=2)")) == {}
