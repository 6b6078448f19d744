"""Letters that a table turns into columns: marked at once, with the numbers and the errors of the loop."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.script.text import edits
from slowtrain.script.text.source_file import parse_source
from slowtrain.source.cures.host import tabled

HEAD = 'import numpy as np\nTABLE = {"A": 0, "C": 1, "G": 2}\n'
FUNCTION = """\
def marked(text):
    x = np.zeros((len(text), 3), "float32")
    for i, c in enumerate(text):  #@
        x[i, TABLE[c]] = 1.0
    return x
"""


def _edited(text: str) -> str | None:
    source = parse_source("train.py", text.replace("  #@", ""))  # a comment would stay
    assert source is not None
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "#@" in row)
    found = tabled.at_once(source, line)
    return edits.edited_text(source, found) if found else None


ALIKE = {
    "a table's column": FUNCTION,
    "a column for all others": FUNCTION.replace("i, c", "place, letter").replace(
        "x[i, TABLE[c]]", "x[place, TABLE.get(letter, 2)]"
    ),
    "only letters that it has": FUNCTION.replace("x[i,", "if c in TABLE:\n            x[i,"),
    "a row of several texts": FUNCTION.replace("(len(text), 3)", "(2, len(text), 3)").replace("x[i,", "x[1, i,"),
}


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
@pytest.mark.parametrize("letters", ["GAAC", "", "GATTACA"])
def test_the_same_numbers_and_errors(text: str, letters: str) -> None:
    new = _edited(HEAD + text)
    assert new is not None
    assert "enumerate(text):" not in new
    assert _outcome(new, letters) == _outcome(HEAD + text, letters)


def _outcome(text: str, letters: str) -> str:
    scope: dict[str, object] = {}
    exec(text, scope)  # of this file alone
    made = scope["marked"]
    assert callable(made)
    try:
        return np.array_repr(made(letters))
    except (KeyError, IndexError) as error:
        return repr(error)


SETTINGS = {
    "counted": 'TABLE = {c: i for i, c in enumerate("ACG")}\n',
    "zipped": 'TABLE = dict(zip("ACG", range(3)))\n',
}


@pytest.mark.parametrize("table", SETTINGS.values(), ids=SETTINGS)
def test_however_the_table_is_made(table: str) -> None:
    text = "import numpy as np\n" + table + FUNCTION
    new = _edited(text)
    assert new is not None
    assert _outcome(new, "GAAC") == _outcome(text, "GAAC")


OTHERS = {
    "several columns for a letter": 'TABLE = {"A": [0], "C": [1], "N": [0, 1]}\n',
    "some for one": 'TABLE = {c: [i] for i, c in enumerate("ACG")}\n',
    "who knows": "from letters import TABLE\n",
    "fractions": 'TABLE = {"A": 0.0}\n',
}


@pytest.mark.parametrize("table", OTHERS.values(), ids=OTHERS)
def test_tables_of_anything_else_are_left_alone(table: str) -> None:
    assert _edited("import numpy as np\n" + table + FUNCTION) is None


OTHER = {
    "the place is used otherwise": FUNCTION.replace("= 1.0", "= i"),
    "another place": FUNCTION.replace("x[i,", "x[i + 1,"),
    "more than this": FUNCTION.replace("= 1.0", "= 1.0\n        print(c)"),
    "needed afterwards": FUNCTION.replace("return x", "return x, c"),
    "no array": FUNCTION.replace('np.zeros((len(text), 3), "float32")', "{}"),
    "a call of one's own": FUNCTION.replace("TABLE[c]", "column(c)"),
    "what can be gone through once": FUNCTION.replace("len(text)", "9").replace(
        "x[i,", "if c in TABLE:\n            x[i,"
    ),
    "asked of another table": FUNCTION.replace("x[i,", "if c in OTHER:\n            x[i,"),
    "counted from one": FUNCTION.replace("enumerate(text)", "enumerate(text, 1)"),
}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER)
def test_other_loops_stay(text: str) -> None:
    assert _edited(HEAD + text) is None
