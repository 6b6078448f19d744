"""Notebooks: cells as one text, magics, and fixes that leave every other byte of the file as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slowtrain.lint import documents

from .linting import EAGER, PIPELINE, Folder

PICTURE = {"output_type": "display_data", "data": {"image/png": "iVBOR\u00e9"}, "metadata": {}}


def cell(source: str, *, kind: str = "code", listed: bool = True) -> dict[str, Any]:
    text: Any = source.splitlines(keepends=True) if listed else source
    code = {"execution_count": 3, "outputs": [PICTURE]} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {"source": "not this"}, "source": text, **code}


def notebook(*cells: dict[str, Any], language: str = "python", indent: int | None = 1, **style: Any) -> str:
    about = {"language_info": {"name": language}}
    return json.dumps({"cells": list(cells), "metadata": about, "nbformat": 4}, indent=indent, **style) + "\n"


def test_findings_are_told_by_cell(folder: Folder) -> None:
    folder.put(train__ipynb=notebook(cell("# Title", kind="markdown"), cell("import keras"), cell(EAGER[14:])))
    assert folder.lint() == 1
    assert folder.out.splitlines()[0] == (
        "train.ipynb:cell 3:2:42: host/eager-step: run_eagerly=True runs every step op by op"
    )


def test_names_reach_from_cell_to_cell(folder: Folder) -> None:
    head, body = PIPELINE.split("\n\n\nds = ")
    folder.put(train__ipynb=notebook(cell(head), cell("ds = " + body)))
    (first, second) = folder.document()["findings"]
    assert (first["cell"], first["line"], first["cause"]) == (2, 2, "input/sequential-map")
    assert (second["cell"], second["line"]) == (2, 2)


@pytest.mark.parametrize("style", [{"indent": 1}, {"indent": None}, {"indent": 4, "ensure_ascii": False}])
@pytest.mark.parametrize("listed", [True, False])
def test_a_fix_changes_its_line_only(folder: Folder, style: dict[str, Any], listed: bool) -> None:
    head, body = PIPELINE.replace("load", "läd").split("\n\n\nds = ")
    text = notebook(
        cell("# Ä", kind="markdown"), cell(head, listed=listed), cell("ds = " + body, listed=listed), **style
    )
    folder.put(train__ipynb=text)
    assert folder.lint("--fix") == 0
    old, new = text, folder.text("train.ipynb")
    assert json.loads(new)["cells"][2]["source"] != json.loads(old)["cells"][2]["source"]
    known = json.dumps("ds = ds.map(läd).batch(8)\n", ensure_ascii=style.get("ensure_ascii", True))[1:-1]
    fixed = known.replace(").batch(8)", ", num_parallel_calls=tf.data.AUTOTUNE).batch(8).prefetch(tf.data.AUTOTUNE)")
    assert old.count(known) == 1
    assert new == old.replace(known, fixed)
    assert folder.lint("--fix") == 0
    assert folder.text("train.ipynb") == new


def test_lines_written_otherwise_keep_their_bytes(folder: Folder) -> None:
    text = notebook(cell("é = 1\n" + EAGER + "# ü"), indent=2, ensure_ascii=True).replace("\n", "\r\n")
    text = text.replace("é", "\\u00E9")
    folder.put_bytes("train.ipynb", b"\xef\xbb\xbf" + text.encode())
    assert folder.lint("--unsafe-fixes") == 0
    new = (folder.path / "train.ipynb").read_bytes()
    assert new == b"\xef\xbb\xbf" + text.replace(", run_eagerly=True", "").encode()


@pytest.mark.parametrize(
    "line",
    [
        "!pip install a", "pip install a", "%matplotlib inline", "  %time x = 1", "keras?", "??keras",
        "files = !ls *.png", "x = %timeit -o y", "!pip install a \\\n  b", "%load_ext tensorboard",
    ],
)  # fmt: skip
def test_magics_are_passed_over(folder: Folder, line: str) -> None:
    lead = "if 1:\n" if line.startswith(" ") else ""
    text = notebook(cell(f"import keras\n{lead}{line}\n" + EAGER), cell("%%bash\nls run_eagerly=True"))
    folder.put(train__ipynb=text)
    assert folder.lint("--unsafe-fixes") == 0
    assert folder.err == ""
    assert folder.text("train.ipynb") == text.replace(", run_eagerly=True)", ")")


def test_an_operator_at_the_start_of_a_line_is_no_magic() -> None:
    for text in ("x = (1\n% 2)", 's = """\n!ls\n%time\n"""', "x = a \\\n  % b"):
        assert documents.python_text(text) == text


def test_cell_magics_of_python(folder: Folder) -> None:
    folder.put(train__ipynb=notebook(cell("%%time\n" + EAGER)))
    assert folder.document()["findings"][0]["line"] == 5


def test_a_cell_that_is_no_python_is_told_and_the_rest_goes_on(folder: Folder) -> None:
    folder.put(train__ipynb=notebook(cell("import keras"), cell("x = = 1"), cell(EAGER)))
    assert folder.lint() == 2
    assert folder.err.startswith("slowtrain: train.ipynb:cell 2:1: syntax error: invalid syntax (Python 3.")
    assert "train.ipynb:cell 3:4:42" in folder.out


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [{"source": 3}]}', '{"cells": [1]}', '"x"'])
def test_what_is_no_notebook(folder: Folder, text: str) -> None:
    folder.put(a__ipynb=text + '\n"import keras\\nrun_eagerly"')
    assert folder.lint() == 2
    assert folder.err.startswith("slowtrain: a.ipynb: not a notebook: ")


def test_another_language(folder: Folder) -> None:
    folder.put(a__ipynb=notebook(cell("library(keras) # import keras run_eagerly ("), language="R"))
    assert folder.lint() == 0


def test_empty_cells(folder: Folder) -> None:
    empty = {"cell_type": "code", "source": [], "outputs": []}
    folder.put(a__ipynb=notebook(empty, cell(""), cell(EAGER), cell("", listed=False), empty))
    assert [line for _, _, line in folder.found()] == [4]
