"""What causes say of a loop by hand on JAX, where they would speak of TensorFlow elsewhere."""

from __future__ import annotations

from slowtrain.causes.host.elementwise_preprocessing import ElementwisePreprocessing
from slowtrain.causes.host.retracing import Retracing
from slowtrain.causes.transfer.per_step_feed import PerStepFeed
from slowtrain.trace import Trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

TRACED = """
step    1111111111
compile ccccccccc.
device  .........k
@fact jax=true
@steps source=function
"""
RATES = "".join(
    f'@event trace name=step start={10 * i} end={10 * i + 9} data={{"nth":{i + 1},"number":"jax 1",'
    f'"signature":{{"NAME":SAID{i}}}}}\n'
    for i in range(8)
)
HANDED = """
step    1111111111
python  pppppppp..
device  ........kk
@steps source=function line=7
@fact devices=[{"kind":"CPU"}]
"""
LOOP = """
@phase preparation=4000
@fact source={"train.py":"f = MAKER(g)\\nfor row in data:\\n    a = f(row)\\n    out.append(a)\\n"}
@span stack f start=100 end=100 line=3 times=40 every=20 value=12
@span stack append start=900 end=900 line=4 times=40 every=20 value=30
"""


def retraced(name: str, said: str) -> Trace:
    """A function whose argument is another one in each trace; ``#`` in ``said`` is the trace's number."""
    rows = RATES
    for i in range(8):
        rows = rows.replace(f"SAID{i}", said.replace("#", str(i + 1)))
    return parse_drawing(TRACED + rows.replace("NAME", name))


def cure(trace: Trace) -> str:
    cause = Retracing()
    evidence = cause.find(trace)
    assert evidence is not None
    (only,) = cause.cures(trace, evidence)
    assert not only.edits
    return only.says


def test_what_is_traced_again_has_a_cure_in_jaxs_words() -> None:
    number = retraced("rate", '{"kind":"python","type":"float","value":"0.#"}')
    assert cure(number) == "let rate be traced: take it out of static_argnums and static_argnames"
    shape = retraced("x", '{"kind":"tensor","shape":[#,3],"dtype":"float32"}')
    assert cure(shape) == "pad x to one shape, or to a few"


def test_python_that_nobody_divided_by_lines_is_no_feed_on_jax() -> None:
    assert PerStepFeed().find(parse_drawing(HANDED)) is not None
    assert PerStepFeed().find(parse_drawing(HANDED + "@fact jax=true\n")) is None


def test_without_a_step_a_loop_that_calls_compiled_functions_is_no_preprocessing() -> None:
    trace, cause = parse_drawing(LOOP.replace("MAKER", "wrapped")), ElementwisePreprocessing()
    finding = cause.find(trace)
    assert finding is not None
    assert "without any recorded step" in cause.evidence(trace, finding).says
    for maker in ("jax.jit", "partial(jax.jit, static_argnums=0)", "jax.value_and_grad", "tf.function"):
        assert ElementwisePreprocessing().find(parse_drawing(LOOP.replace("MAKER", maker))) is None, maker
