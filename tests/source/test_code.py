"""What lint looks for words in: a text without its documentation, of which nothing else is missing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slowtrain
from slowtrain.script.text.source_file import Source, blank_docstrings

CAUSES = sorted(Path(slowtrain.__file__).parent.glob("causes/**/*.py"))  # half documentation


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('def f():\n    """Calls\n    fit()."""\n    fit()\n', 'def f():\n    """\n"""\n    fit()\n'),
        ('a = fit("one", """two""")\n', None),
        ('r"""\\d"""\r\n"""1\r\n2"""\r\n', 'r""""""\r\n"""\r\n"""\r\n'),
        ('f"""{fit()}"""\n"""fit"""\n', 'f"""{fit()}"""\n""""""\n'),
        ('# """\nfit()\n# """\n', None),
        ("a = '\"\"\"'\nfit()\nb = '\"\"\"'\n", None),
        ("a = 'one \\\n\"\"\"'\nfit()\nb = 'two \\\n\"\"\"'\n", None),
        ("a = '''\n\"\"\"\n'''\nfit()\nb = '''\n\"\"\"\n'''\n", None),
        ('a = """one \\""" two"""\n', None),
        ('a = """not closed\n', None),
    ],
)  # fmt: skip
def test_what_stands_between_triple_quotes_is_left_out_where_that_is_sure(text: str, left: str | None) -> None:
    assert blank_docstrings(text) == (text if left is None else left)


@pytest.mark.parametrize("file", CAUSES, ids=lambda file: file.stem)
def test_nothing_else_is_missing(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    left = blank_docstrings(text)
    assert left.count("\n") == text.count("\n")
    assert _nodes(left) == _nodes(text)


def test_an_example_in_documentation_is_no_code() -> None:
    source = Source("train.py", '"""How to:\n\n    model.fit(x)\n"""\nimport keras\n')
    assert source.words >= {"keras"}
    assert "fit" not in source.words


def _nodes(text: str) -> list[tuple[str, int | None, str]]:
    """Kind, line and name of all that stands in a text."""
    return [
        (type(n).__name__, getattr(n, "lineno", None), getattr(n, "id", getattr(n, "attr", getattr(n, "name", ""))))
        for n in ast.walk(ast.parse(text))
    ]
