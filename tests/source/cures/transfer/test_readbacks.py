"""Values read back in every turn are kept as tensors, or read rarely."""

from __future__ import annotations

import pytest

from slowtrain.script.fixes.loops import deferred_readbacks
from tests.source.cures.edit_cases import assert_edit, edit_cases

CASES = edit_cases("""
== a list of each item's values
 import tensorflow as tf
 history = []
 for epoch in range(16):
     seen = []
     for images, labels in ds:
         loss, per_sample = train_step(images, labels)
-        for value in per_sample:
-            seen.append(float(value))  # HERE
+        seen.append(per_sample)  # HERE
+    seen = tf.concat(seen, 0).numpy().tolist() if seen else []
     history.append(seen)
     print(f"epoch {epoch} mean {np.mean(seen):.4f} worst {max(seen):.4f}")
== a print with a value
 import tensorflow as tf
 for epoch in range(3):
     for i, (x, y) in enumerate(ds):
         loss = step(x, y)
-        value = loss.numpy()
-        print(f"step {i} loss {value:.3f}")  # HERE
+        if i % 100 == 0:
+            value = loss.numpy()
+            print(f"step {i} loss {value:.3f}")  # HERE
== several lines that report
 import tensorflow as tf
 step = 0
 for epoch in range(16):
     for x, y in data:
         loss, gnorms, wnorms = train(x, y)
         step += 1
-        text = " ".join("%.3f/%.3f" % (g.numpy(), w.numpy()) for g, w in zip(gnorms, wnorms))
-        print("step", step, "loss", loss.numpy(), text, file=log, flush=True) # HERE
-        worst = max(tf.reduce_max(tf.abs(v)).numpy() for v in model.trainable_variables)
-        if worst > 1e4:
-            raise SystemExit("diverged")
+        if step % 100 == 0:
+            text = " ".join("%.3f/%.3f" % (g.numpy(), w.numpy()) for g, w in zip(gnorms, wnorms))
+            print("step", step, "loss", loss.numpy(), text, file=log, flush=True) # HERE
+            worst = max(tf.reduce_max(tf.abs(v)).numpy() for v in model.trainable_variables)
+            if worst > 1e4:
+                raise SystemExit("diverged")
     print("epoch", epoch, "loss %.4f" % loss.numpy())
== a value that decides
 import tensorflow as tf
 best = 9.0
 for epoch in range(3):
     for x, y in ds:
         loss = step(x, y)
         value = float(loss)   # HERE
         if value < best:
             best = value
         print(value)
== a loop that ends by a value
 import tensorflow as tf
+turn = -1
 for x, y in ds:
+    turn += 1
     loss = step(x, y)
     if float(loss) < 0.1:  # HERE
         break
-    print(float(loss))
+    if turn % 100 == 0:
+        print(float(loss))
== a list that is cut
 import tensorflow as tf
 def train(ds):
     recent = []
     for x, y in ds:
         loss = step(x, y)
         recent.append(float(loss))  # HERE
         recent = recent[-100:]
     return recent
== a print an epoch
 import tensorflow as tf
 for epoch in range(EPOCHS):
     for x, y in ds:
         loss = step(x, y)
     print(epoch, float(loss))  # HERE
== a loop over values beside it
 import tensorflow as tf
 for i in range(100):
     out = step(i)
     for name, value in zip(names, out):
         writer.add_scalar(name, value.numpy(), i)
-    print(float(out[0]))  # HERE
+    if i % 100 == 0:
+        print(float(out[0]))  # HERE
""")


@pytest.mark.parametrize("name", CASES)
def test_edit(name: str) -> None:
    assert_edit(CASES[name], deferred_readbacks.defer_readbacks)
