"""Loops over elements, over whole arrays: the text, and that the numbers are the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import vectorised_loops
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
== a comprehension with math
 import numpy as np, math
 X = np.random.rand(500)
-Y = np.array([math.log(v + 1) for v in X])  # HERE
+Y = np.log(np.asarray(X + 1, float))  # HERE
== vectorize with branches
 import numpy as np
 def relu(v):
     if v > 0:
         return v
     elif v < -1:
         return -0.1
     return 0.0
 X = np.random.randn(500, 20)
-f = np.vectorize(relu)(X)  # HERE
+f = np.where(X > 0, X, np.where(X < -1, -0.1, 0.0))  # HERE
== branches of constants
 import numpy as np
 X = np.random.randn(500, 20)
 out = np.zeros(500)
-for i in range(500):
-    if X[i, 0] > 0.5:
-        out[i] = 1  # HERE
-    else:
-        out[i] = 0
+# HERE
+out[...] = np.where(X[:, 0] > 0.5, 1, 0)
== one branch
 import numpy as np
 X = np.random.randn(500)
 out = np.zeros(len(X))
-for i in range(len(X)):
-    if X[i] > 0.5:
-        out[i] = 1.0 # HERE
+out[...] = np.where(X > 0.5, 1.0, out) # HERE
== each image by its own mean
 import numpy as np
 X = np.random.rand(500, 28, 28)
-for i in range(X.shape[0]):
-    X[i] = (X[i] - X[i].mean()) / X[i].std()  # HERE
+X[...] = (X - np.mean(X, axis=(1, 2), keepdims=True)) / np.std(X, axis=(1, 2), keepdims=True)  # HERE
== a recurrence
 import numpy as np
 X = np.random.rand(500)
 for i in range(1, len(X)):
     X[i] = X[i - 1] * 0.9 + X[i]  # HERE
== neighbours
 import numpy as np
 X = np.random.rand(500)
 d = np.zeros(499)
-for i in range(499):
-    d[i] = X[i + 1] - X[i]  # HERE
+d[...] = X[1:500] - X[:499]  # HERE
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
== norms of rows
 import numpy as np
 X = np.random.rand(500, 3)
-norms = np.array([np.sqrt(np.sum(row * row)) for row in X])  # HERE
+norms = np.sqrt(np.sum(X * X, axis=1))  # HERE
== a function with a default
 import numpy as np
 def f(v, lo=0):
     return v - lo
 X = np.random.rand(500, 3)
-a = np.array([f(v) for v in X])  # HERE
+a = (X - 0)  # HERE
== rows by their own mean
 import numpy as np
 X = np.random.rand(500, 30)
-feats = []
-for row in X:
-    feats.append((row - row.mean()) / (row.std() + 1e-8))  # HERE
+feats = (X - np.mean(X, axis=1, keepdims=True)) / (np.std(X, axis=1, keepdims=True) + 1e-8)  # HERE
 feats = np.array(feats)
== three indices and a name
 import numpy as np
 def preprocess(x):
     y = np.empty(x.shape, dtype=np.float32)
-    for i in range(x.shape[0]):
-        for j in range(x.shape[1]):
-            for k in range(x.shape[2]):
-                v = x[i, j, k] / 255.0
-                y[i, j, k] = v * v if v > 0.5 else 0.0  # HERE
+    v = x / 255.0
+    y[...] = np.where(v > 0.5, v * v, 0.0)  # HERE
     return y
== images of a data set
 import numpy as np
 from tensorflow.keras.datasets import mnist
 (x_train, y_train), _ = mnist.load_data()
-x_train = np.array([image / 255.0 for image in x_train])  # HERE
+x_train = (x_train / 255.0)  # HERE
== lists of rows
 import numpy as np
 X = np.random.rand(50, 3)
-res = []
-for row in X:
-    r = []
-    for v in row:
-        r.append(v * 2 if v > 0.5 else 0.0)  # HERE
-    res.append(r)
+# HERE
+res = np.where(X > 0.5, X * 2, 0.0)
 res = np.array(res)
== a list of some
 import numpy as np
 X = np.random.rand(50, 3)
 names = []
 for row in X:
     if row[0] > 0.5:
         names.append(1)  # HERE
 names = np.array(names)
== a sum
 import numpy as np
 X = np.random.rand(50)
 total = 0.0
-for i in range(len(X)):
-    total += X[i] ** 2  # HERE
+total += np.sum(X ** 2)  # HERE
 mean = np.array([total / 50])
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
        found = vectorised_loops.vectorise_loop(text, line)
        return found.edits if found else ()

    assert_edit(CASES[name], make_edits)


@pytest.mark.parametrize("name", [n for n, (_, after) in CASES.items() if after and "mnist" not in after])
def test_the_numbers_are_the_same(name: str) -> None:
    before, after = CASES[name]
    text = source_file.parse_source("train.py", before)
    assert text is not None
    assert after is not None
    line = next(i for i, row in enumerate(before.splitlines(), 1) if "HERE" in row)
    found = vectorised_loops.vectorise_loop(text, line)
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
            shape = (5, 4, 3) if "x.shape[2]" in text or "y = np.empty" in text else (7, 4)
            names[f"{key} result"] = function(np.ones(shape) * 0.7)  # type: ignore[operator]
        if key == "edges":
            names["maps"] = function(np.eye(5, dtype="float32"), names["k"])  # type: ignore[operator]
        if key == "total_energy":
            names["energy"] = function(names["data"])  # type: ignore[operator]
    return names
