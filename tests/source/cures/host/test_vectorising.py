"""Loops over elements, over whole arrays: the text, and that the numbers are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import array_loops
from slowtrain.script.text import source_file
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== two indices
 import numpy as np
 def preprocess_data(data):
-    for i in range(len(data)):
-        for j in range(data.shape[1]):
-            data[i, j] = np.sqrt(data[i, j])  # HERE
+    data[...] = np.sqrt(data)  # HERE
     return data
== one index
 import numpy as np
 def preprocess(data):
-    for i in range(len(data)):
-        data[i] = np.sqrt(data[i])  # HERE
+    data[...] = np.sqrt(data)  # HERE
     return data
 x = np.random.rand(100, 3)
 preprocess(x)
== a list of sums
 import numpy as np
 def total_energy(data):
-    out = []
-    for element in data:
-        out.append(np.sum(element ** 2))  # HERE
+    out = np.sum(data ** 2, axis=1)  # HERE
     return np.array(out)
 data = np.random.rand(1000, 20).astype("float32")
 total_energy(data)
== windows
 import numpy as np
 def edges(a, k):
     out = np.zeros_like(a)
     p = np.pad(a, ((1, 1), (1, 1)))
-    for i in range(a.shape[0]):  # HERE
-        for j in range(a.shape[1]):
-            out[i, j] = np.sum(p[i:i + 3, j:j + 3] * k)
+    # HERE
+    out[...] = np.sum(np.lib.stride_tricks.sliding_window_view(p, (3, 3))[:a.shape[0], :a.shape[1]] * k, axis=(2, 3))
     return out
 digits = np.random.rand(15, 28, 28).astype(np.float32)
 k = np.array([[-1, -1, -1], [-1, 8, -1], [-1, -1, -1]], np.float32)
 maps = np.stack([edges(d, k) for d in digits])
== a recurrence
 import numpy as np
 X = np.random.rand(500)
 for i in range(1, len(X)):
     X[i] = X[i - 1] * 0.9 + X[i]  # HERE
== a list of unknown items
 import numpy as np
 rows = load()
 out = []
 for r in rows:
     out.append(np.sum(r))  # HERE
 out = np.array(out)
== columns by their means
 import numpy as np
 X = np.random.rand(500, 3)
 m = np.random.rand(3)
 Z = np.zeros((500, 3))
-for i in range(X.shape[0]):
-    for j in range(X.shape[1]):
-        Z[i][j] = (X[i][j] - m[j]) / 2  # HERE
+Z[:X.shape[0], :X.shape[1]] = (X - m[None, :X.shape[1]]) / 2  # HERE
== a list of some
 import numpy as np
 X = np.random.rand(50, 3)
 names = []
 for row in X:
     if row[0] > 0.5:
         names.append(1)  # HERE
 names = np.array(names)
== the last element
 import numpy as np
 X = np.random.rand(50)
 last = 0.0
 for v in X:
     last = v * 2  # HERE
 print(last)
== another order
 import numpy as np
 X = np.random.rand(50)
 Y = np.zeros(50)
 for i in range(50):
     Y[49 - i] = X[i]  # HERE
== what a function of the script loads
 import numpy as np
 def load_data():
     return ([[1.0, 2.0]], [0]), None
 (x_train, y_train), _ = load_data()
 x_train = np.array([np.sqrt(row) for row in x_train])  # HERE
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    def make_edits(text: source_file.Source, line: int) -> Sequence[Edit]:
        found = array_loops.vectorise_loop(text, line)
        return found.edits if found else ()

    assert_edit(CASES[name], make_edits)


@pytest.mark.parametrize("name", [name for name, (_, after) in CASES.items() if after])
def test_the_numbers_are_the_same(name: str) -> None:
    before, after = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    assert after is not None
    line = next(i for i, row in enumerate(before.splitlines(), 1) if "HERE" in row)
    found = array_loops.vectorise_loop(text, line)
    assert found is not None
    old, new = run(before), run(after)
    results = [k for k, v in old.items() if isinstance(v, np.ndarray) and k in new]
    assert results
    for key in results:
        assert np.asarray(new[key]).dtype == np.asarray(old[key]).dtype
        if found.exact:
            np.testing.assert_array_equal(new[key], old[key])
        else:
            np.testing.assert_allclose(np.asarray(new[key]), np.asarray(old[key]), rtol=1e-5, atol=1e-6)


def run(text: str) -> dict[str, object]:
    """The script's names after it ran, its functions called on data of their own."""
    names: dict[str, object] = {}
    np.random.seed(0)  # noqa: NPY002
    exec(compile(text, "train.py", "exec"), names)
    for key, function in list(names.items()):
        if key.startswith("preprocess"):
            names[f"{key} result"] = function(np.ones((7, 4)) * 0.7)  # type: ignore[operator]
        if key == "edges":
            names["maps"] = function(np.eye(5, dtype="float32"), names["k"])  # type: ignore[operator]
        if key == "total_energy":
            names["energy"] = function(names["data"])  # type: ignore[operator]
    return names
