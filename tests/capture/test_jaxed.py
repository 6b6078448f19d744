"""Loops of the script's own on JAX: what a step is, what it waits for, and that nothing of the script changes."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from slowtrain.capture.core import patching
from slowtrain.capture.core.recorder import Recorder
from slowtrain.capture.core.thread_state import Progress, new_thread_state
from slowtrain.capture.jax import custom_loops, jit_arguments, keras_backend

from . import running
from .kept import spans

HEADER = """
from functools import partial
import jax, jax.numpy as jnp, numpy as np

x = np.random.default_rng(0).random((640, 32), dtype="float32")
y = x.sum(1)
params = {"w": jnp.zeros((32, 64)), "v": jnp.ones(64)}

def loss_fn(p, a, b):
    return jnp.mean((jnp.tanh(a @ p["w"]) @ p["v"] - b) ** 2)
"""
LOOP = (
    HEADER
    + """
@partial(jax.jit, donate_argnums=0)
def update(p, a, b):
    loss, g = jax.value_and_grad(loss_fn)(p, a, b)
    return jax.tree.map(lambda q, d: q - 0.01 * d, p, g), loss

small = jax.jit(lambda a: a * 2)
for i in range(3000):
    rows = slice(i % 20 * 32, i % 20 * 32 + 32)
    a = jnp.asarray(x[rows])
    b = jax.device_put(y[rows])
    small(a)
    params, loss = update(params, a, b)  # the step
    if i % 4 == 0:
        float(loss)
jax.block_until_ready(params)
print(float(loss))
"""
)
STATIC = (
    HEADER
    + """
class Trainer:
    @partial(jax.jit, static_argnums=0, static_argnames="rate")
    def update(self, p, rate, scale, key, a):
        g = jax.grad(loss_fn)(p, a, jnp.zeros(a.shape[0]))
        return jax.tree.map(lambda q, d: q - scale * rate * d, p, g)

trainer = Trainer()
for i in range(40):
    params = trainer.update(params, rate=0.1 / (i // 8 + 1), scale=0.5 + i, key=jax.random.key(i), a=x[:16])
print(float(params["v"].sum()))
"""
)
EAGER = (
    HEADER
    + """
compiled = jax.jit(loss_fn)
for i in range(60):
    loss, g = jax.value_and_grad(compiled)(params, x[:32], y[:32])  # the gradient
    params = jax.tree.map(lambda q, d: q - 0.01 * d, params, g)
print(float(loss))
"""
)
TRANSPARENT = (
    HEADER
    + """
import copy, inspect, pickle, weakref, warnings
from jax import jit, lax, vmap

@jit
def f(a, /, b=2.0):
    "Twice."
    return a * b

@jax.jit(static_argnames="n")
def power(a, n):
    return a ** n

class Model:
    @jax.jit
    def twice(self, a=1.0): return self.c * a
    @staticmethod
    @jax.jit
    def thrice(a): return 3 * a

jax.tree_util.register_pytree_node(Model, lambda m: ((m.c,), None), lambda _, c: built(*c))
def built(c):
    made = Model()
    made.c = c
    return made

print(repr(f)[:12], f.__name__, f.__doc__, inspect.signature(f), isinstance(f, type(jit(abs))), callable(f.lower))
print(f == f, {f: 1}[f], weakref.ref(f)() is f, f.__wrapped__(3.0), copy.copy(f)(2.0), copy.deepcopy(f)(2.0))
print(f(1.0), f(jnp.ones(2), b=3), power(2.0, n=3), built(2.0).twice(4.0), Model.twice(built(2.0)), Model.thrice(2))
print(f.lower(1.0).compile()(1.0), f.trace(1.0).jaxpr, f.eval_shape(1.0), f._cache_size() > 0, f.clear_cache())
print(jax.eval_shape(power, 1.0, n=2), jax.make_jaxpr(f)(1.0), jit(f)(2.0), jax.jvp(f, (1.0,), (1.0,)))
print(vmap(f)(jnp.arange(3.0)), jax.grad(f)(1.0), jax.hessian(lambda a: f(a) ** 2)(1.0), jax.jacrev(f)(1.0))
print(lax.scan(jit(lambda c, a: (f(c), a)), 1.0, jnp.arange(3.0)), lax.cond(True, f, f, 1.0), jax.vjp(f, 2.0)[1](1.0))
gradient = jax.value_and_grad(loss_fn)
print(gradient.__class__, gradient.__name__, inspect.signature(gradient), jit(gradient)(params, x, y)[0])
try:
    pickle.dumps(f)
except Exception as error:
    print(type(error), str(error).partition(" at ")[0])
try:
    power([1], n=[])
except Exception as error:
    print(type(error), str(error)[:80])
with jax.disable_jit():
    print(f(5.0))
print(jnp.asarray([1, 2]), jnp.array(3.0, dtype="int32"), jax.block_until_ready({"a": 1}))
print(jnp.ones(1).block_until_ready())
print(jax.pmap(lambda a: a + 1)(jnp.ones((1, 2))))
text = jit(lambda a: f(jnp.sin(a))).lower(1.0).as_text(debug_info=True)
print("_bootstrap" in text, "script.py" in text)
"""
)


SCRIPTS = {"loop": LOOP, "static": STATIC, "eager": EAGER, "transparent": TRANSPARENT}
Runs = dict[str, running.Done]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed here")
    scripts = {f"plain {name}": running.Script(text, recorded=False) for name, text in SCRIPTS.items()}
    scripts |= {name: running.Script(text, name == "loop") for name, text in SCRIPTS.items()}
    return running.run_series(tmp_path_factory.mktemp("jaxed"), scripts)


def test_a_call_of_a_compiled_function_that_takes_a_gradient_is_a_step(runs: Runs) -> None:
    trace = running.loaded(runs["loop"])
    assert runs["loop"].out == runs["plain loop"].out
    assert (trace.steps.source, len(trace.steps), trace.steps.training) == ("function update", 3000, True)
    assert trace.steps.place is not None
    assert trace.steps.place.line == running.line(LOOP, "# the step")
    assert set(trace.steps.size) == {32}, "the batch, not the weights"
    assert trace.on_jax
    assert {n.text for n in trace.names if n.lane == "feed"} == {"asarray", "device_put"}
    assert len(trace.lane("feed")) == 6000
    assert len(trace.lane("readback")) == 751
    assert [trace.names[int(n)].text for n in trace.lane("sync").name].count("block_until_ready") == 1
    assert trace.kernels is not None
    assert trace.kernels.eager_ops == 0, "two compiled calls a step are no ops"
    assert sum(map(trace.mean, trace.categories)) == pytest.approx(trace.step_ms)
    update, small = (next(e for e in trace.events_of("trace") if n in e.name) for n in ("update", "lambda"))
    assert (update.data["training"], small.data["training"]) == (True, False)
    assert (update.data["nth"], update.data["line"]) == (1, running.line(LOOP, "@partial"))


def test_what_a_trace_was_given_tells_why_it_was_traced_again(runs: Runs) -> None:
    from slowtrain.causes.host.retracing import signature_changes
    from slowtrain.trace.signals.host.retraces import traces_by_function

    trace = running.loaded(runs["static"])
    assert (trace.steps.source, len(trace.steps)) == ("function update", 40)
    assert set(trace.steps.size) == {16}
    (found,) = traces_by_function(trace)
    assert len(found.events) == 5
    ((name, count, text),) = signature_changes(found.events)
    assert (name, count) == ("rate", 4), "neither a number nor a key that is traced"
    assert "a Python float" in text


def test_a_gradient_outside_of_any_compiled_function_is_an_eager_step(runs: Runs) -> None:
    trace = running.loaded(runs["eager"])
    assert runs["eager"].out == runs["plain eager"].out
    assert (trace.steps.source, len(trace.steps), trace.eager) == ("gradient", 60, True)
    assert trace.steps.place is not None
    assert trace.steps.place.line == running.line(EAGER, "# the gradient")
    assert not trace.lane("function"), "inside a gradient it is a part of that"


def test_what_is_compiled_is_as_it_would_be(runs: Runs) -> None:
    running.loaded(runs["transparent"])
    assert runs["plain transparent"].code == 0, runs["plain transparent"].err
    assert runs["transparent"].out == runs["plain transparent"].out
    assert runs["transparent"].out.splitlines()[-1] == "False True"


# -- without JAX


class Shaped:
    def __init__(self, *shape: int, dtype: str = "float32") -> None:
        self.shape, self.dtype = shape, dtype


@pytest.fixture(autouse=True)
def _trees(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """As far as JAX's trees are asked: lists, tuples and dictionaries."""

    def leaves(given: Any) -> list[Any]:
        if isinstance(given, dict):
            given = [given[k] for k in sorted(given)]
        return [leaf for one in given for leaf in leaves(one)] if isinstance(given, (list, tuple)) else [given]

    monkeypatch.setattr(jit_arguments, "tree_leaves", leaves)


NONE = jit_arguments.StaticArguments(frozenset(), frozenset())


def test_the_batch_is_the_first_argument_that_is_not_given_back() -> None:
    params, rows, key = {"b": Shaped(8), "w": Shaped(4, 8)}, Shaped(64, 4), Shaped(2, dtype="uint32")
    loss = Shaped()
    again = jit_arguments.find_batch((params, key, 3, {"x": rows, "y": Shaped(64)}), {}, NONE, (params, loss))
    assert again == jit_arguments.BatchPlace(3, 0)
    assert jit_arguments.batch_samples(again, (params, key, 3, {"x": Shaped(32, 4), "y": Shaped(32)}), {}) == 32
    assert jit_arguments.batch_samples(again, (params,), {}) == 0
    assert jit_arguments.find_batch((params, key), {}, NONE, (params, loss)) is None
    named = jit_arguments.find_batch((params,), {"rows": rows}, NONE, ((params, params), loss))
    assert named == jit_arguments.BatchPlace("rows", 0)
    assert jit_arguments.batch_samples(named, (params,), {"rows": rows}) == 64
    assert jit_arguments.batch_samples(named, (params,), {}) == 0
    ragged = [Shaped(3), Shaped(4)]
    assert jit_arguments.find_batch((ragged,), {}, NONE, loss) is None, "not as long as each other"
    assert jit_arguments.batch_samples(None, (rows,), {}) == 0


def test_static_arguments_are_known_by_place_and_name() -> None:
    def step(p: Any, rate: float, mode: str) -> None: ...

    assert jit_arguments.static_arguments(step, {"static_argnums": -1}) == (frozenset({2}), frozenset({"mode"}))
    assert jit_arguments.static_arguments(step, {"static_argnames": ("rate",)}) == (frozenset({1}), frozenset({"rate"}))
    assert jit_arguments.static_arguments(step, {}) == NONE
    both = jit_arguments.StaticArguments(frozenset({1}), frozenset({"rate"}))
    assert jit_arguments.find_batch((1, Shaped(5)), {}, both, None) is None


def installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[custom_loops.JaxLoops, types.ModuleType, Recorder]:
    """Patches of something with JAX's names: what is compiled is called, a gradient is what the function gives."""
    monkeypatch.setattr(keras_backend, "has_custom_loops", [])
    module = types.ModuleType("jax")
    module.jit = lambda fun=None, **_: fun or (lambda f: f)  # type: ignore[attr-defined]
    module.value_and_grad = lambda fun: fun  # type: ignore[attr-defined]
    recorder = Recorder(tmp_path)
    loops = custom_loops.JaxLoops(recorder, new_thread_state(), Progress())
    loops._patch(module)
    return loops, module, recorder


def lanes(recorder: Recorder) -> list[str]:
    lane = {number: lane for number, lane, _, _ in recorder._new_names}
    return [lane[span[0]] for span in spans(recorder)]


def test_calls_are_noted_outside_of_keras_and_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops, module, recorder = installed(tmp_path, monkeypatch)
    gradient = module.value_and_grad(lambda a: (a, a))
    outer = module.jit(lambda a: gradient(module.jit(lambda b: b)(a)))
    assert outer(1) == (1, 1)
    assert lanes(recorder) == ["function"], "what is in it is its own"
    assert outer(2) == (2, 2)
    assert loops.progress.kind == 3, "a gradient was taken in it"
    loops.state.me.loops = 1
    assert outer(3) == (3, 3)
    loops.state.me.loops = 0
    loops._clean = lambda: False
    assert gradient(4) == (4, 4)
    loops._clean = lambda: True
    assert lanes(recorder) == ["function"] * 2
    assert gradient(5) == (5, 5)
    assert lanes(recorder) == ["function"] * 2 + ["gradient"]
    patching.restore_originals()
    assert not isinstance(module.jit(abs), custom_loops.TransparentWrapper)


def test_what_jax_and_keras_make_is_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, module, _ = installed(tmp_path, monkeypatch)
    for name, ours in (("keras.src.backend.jax.trainer", False), ("jax.experimental", False), ("flax.nnx", True)):
        made = eval("jit(abs)", {"__name__": name, "jit": module.jit})
        assert isinstance(made, custom_loops.TransparentWrapper) is ours
    patching.restore_originals()


def test_once_recording_has_ended_functions_stay_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, module, recorder = installed(tmp_path, monkeypatch)
    recorder.active = False
    assert not isinstance(module.jit(abs), custom_loops.TransparentWrapper)
    patching.restore_originals()


def test_an_error_of_the_scripts_reaches_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loops, module, recorder = installed(tmp_path, monkeypatch)

    def failing(a: int) -> None:
        raise ValueError(a)

    with pytest.raises(ValueError, match="7"):
        module.jit(failing)(7)
    with pytest.raises(ValueError, match="8"):
        module.value_and_grad(failing)(8)
    assert loops.state.me.busy == 0
    assert recorder.faults == []
    patching.restore_originals()


def test_a_gradient_says_that_jax_is_at_work_beside_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", types.ModuleType("jax"))
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", types.SimpleNamespace(_backends={"cpu": 1}))
    monkeypatch.setitem(sys.modules, "tensorflow", types.ModuleType("tensorflow"))
    monkeypatch.delitem(sys.modules, keras_backend.TRAINER_MODULE, raising=False)
    _, module, _ = installed(tmp_path, monkeypatch)
    module.jit(lambda a: a)(1)
    assert keras_backend.active_jax() is None
    module.value_and_grad(lambda a: (a, a))(1)
    assert keras_backend.active_jax() is not None
    patching.restore_originals()
