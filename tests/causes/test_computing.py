"""What is said of a device that computes all the time: which op is nearly all of it, its format, and what must stay."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from slowtrain.causes.compute.compute_bound import ComputeBound
from slowtrain.causes.compute.dense_embedding_update import DenseEmbeddingUpdate
from slowtrain.causes.compute.handwritten_op import CodeKind, HandwrittenOp
from slowtrain.causes.compute.small_batch import SmallBatch
from slowtrain.diagnose import diagnose_trace
from slowtrain.model import Category, Place
from slowtrain.trace import Trace

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package

BUSY = """
step    1111111111
device  kkkkkkkkk.
@fact devices=[{"kind":"GPU"}]
@device busy=9 ms=9 kernels=60 ops={} matrix={"tf32":6} facts={"compute_cap_major":9,"compute_cap_minor":0}
@kernels busy=9 ms=9 ops={"m/dense/dot_general:MatMul": [6, 9], "m/add:Add": [3, 9]}
"""
SCATTER = "gradient_tape/embedding/_take/scatter-add"


def said(trace: Trace) -> str:
    (found,) = diagnose_trace(trace, [ComputeBound()]).diagnoses
    return "; ".join(p.says for p in found.prescriptions)


@pytest.mark.parametrize(
    ("changed", "to", "mixed"),
    [
        ("9", "9", True),
        ('"tf32":6', '"bfloat16":6', False),
        ('"tf32":6', '"tf32":2', False),  # products are a small part of the step
        ('_major":9', '_major":7', False),  # a card without TF32
    ],
)
def test_products_in_tf32_could_be_in_sixteen_bits(changed: str, to: str, mixed: bool) -> None:
    assert ("mixed_bfloat16" in said(parse_drawing(BUSY.replace(changed, to)))) is mixed


def test_one_op_that_is_nearly_all_is_named_with_its_line() -> None:
    op = f'{{"{SCATTER}:XlaFusion": [9, 1]}}'
    drawing = BUSY.replace('{"m/dense/dot_general:MatMul": [6, 9], "m/add:Add": [3, 9]}', op).replace(
        "ops={}", f"ops={op}"
    )
    trace = parse_drawing(drawing.replace(": [9, 1]", ":[9,1]"))
    assert trace.device is not None
    places = {f"{SCATTER}:XlaFusion": (Place("t.py", 5),)}
    trace = replace(trace, device=replace(trace.device, places=places))
    assert SCATTER in said(trace)
    assert "nothing to cure" not in said(trace)
    (found,) = diagnose_trace(trace, [ComputeBound()]).diagnoses
    assert found.evidence.where == (Place("t.py", 5),)


def test_a_product_that_is_nearly_all_is_the_model() -> None:
    trace = parse_drawing(BUSY.replace('[6, 9], "m/add:Add": [3, 9]', "[9, 9]"))
    assert "one op" not in said(trace)


PRODUCTS = """
    step     1111111111
    device   kkkkkkkkkk
    @event trace name=step data={"training": true, "number": 1, "graph": {"ops": 400, "repeated": {"NAME": 80}, \
        "chain": 2, "multiply_adds": 9000000000, "lines": [["train.py", 28, 90, 85]]}}
    @kernels busy=9 ms=9 function=9 step=10 ops={"NAME_1:MatMul": [8, 80], "Sum:Sum": [2, 8]}
"""


@pytest.mark.parametrize("name", ["MatMul", "matmul"])
def test_the_arithmetic_of_many_products_stays_whatever_calls_them(name: str) -> None:
    """`tf.matmul(x, w)` names its op by its type, `x @ w` does not."""
    found = HandwrittenOp().find(parse_drawing(PRODUCTS.replace("NAME", name)))
    assert found is not None
    assert found.kind is CodeKind.UNROLLED_LOOP
    assert found.saved[Category.DEVICE] < 0.1


def test_what_a_penalty_on_a_whole_table_takes_is_the_tables() -> None:
    """L2 on an Embedding: the square, its sum and their gradients stand in no layer's scope, and take most of it."""
    penalty = '"Square:Square": [2, 1], "gradient_tape/Mul:Mul": [2, 1], "Sum:Sum": [1, 1], '
    text = """
    step    1111111111
    device  kkkkkkkkk.
    @event loop name=fit data={"data": {"shape": [9000]}, "weights": [{"class": "Embedding", \
        "shape": [400000, 16], "size": 6400000}]}
    @kernels busy=9 ms=9 ops={PENALTY"AddN/inputs_1:UnsortedSegmentSum": [1, 1], \
        "sgd/AssignSubVariableOp:AssignSubVariableOp": [1, 1], "m/dense/MatMul:MatMul": [2, 3]}
    """
    (whole,) = diagnose_trace(parse_drawing(text.replace("PENALTY", penalty)), [DenseEmbeddingUpdate()]).diagnoses
    assert whole.evidence.numbers["table_share"] == pytest.approx(7 / 9)
    short = '"Square:Square": [0.2, 1], "loss/Mul:Mul": [4, 1], '  # of a batch; of a layer
    (table,) = diagnose_trace(parse_drawing(text.replace("PENALTY", short)), [DenseEmbeddingUpdate()]).diagnoses
    assert table.evidence.numbers["table_share"] == pytest.approx(2 / 8.2)


@pytest.mark.parametrize(("tables", "found"), [("[[131072, 16, 512, 2]]", True), ("[]", False)])
def test_a_table_in_a_layer_of_layers_is_told_by_the_graph(tables: str, found: bool) -> None:
    """The model tells the outer layer alone, whose class may be any: a tower of an Embedding and of dense layers."""
    text = f"""
    step    1111111111
    device  kkkkkkkkk.
    @event loop name=fit data={{"weights": [{{"class": "Tower", "shape": [131072, 16], "size": 2097152}}, \
        {{"class": "Tower", "shape": [131072, 16], "size": 2097152}}]}}
    @event trace name=step data={{"training": true, "number": 1, "graph": {{"tables": {tables}, "weights": 4228128}}}}
    @kernels busy=9 ms=9 ops={{"adam/Mul_1:Mul": [4, 1], "adam/UnsortedSegmentSum:UnsortedSegmentSum": [4, 1], \
        "m/dense/MatMul:MatMul": [1, 3]}}
    """
    assert bool(diagnose_trace(parse_drawing(text), [DenseEmbeddingUpdate()]).diagnoses) is found


def test_an_optimizer_by_hand_takes_what_its_ops_over_the_table_take() -> None:
    """Adagrad in the script: of its ops only those that assign have an optimizer's kind; the graph names the others."""
    text = """
    step    1111111111
    device  kkkkkkkkk.
    @event trace name=step data={"training": true, "number": 1, "graph": {"tables": [[250000, 32, 512]], \
        "weights": 8000000, "over": [["mul_3", "a.py", 21], ["Sqrt", "a.py", 22]]}}
    @kernels busy=9 ms=9 ops={"ArithmeticOptimizer/ReplaceMulWithSquare_mul_3:Square": [3, 1], "Sqrt:Rsqrt": [2, 1], \
        "UnsortedSegmentSum:UnsortedSegmentSum": [1, 1], "AssignSubVariableOp:AssignSubVariableOp": [2, 1], \
        "mul:Mul": [1, 1]}
    """
    (table,) = diagnose_trace(parse_drawing(text), [DenseEmbeddingUpdate()]).diagnoses
    assert table.evidence.numbers["table_share"] == pytest.approx(8 / 9)
    assert table.evidence.numbers["updating_share"] == pytest.approx(7 / 8)
    assert [(p.file, p.line) for p in table.evidence.where[:2]] == [("a.py", 21), ("a.py", 22)]


@pytest.mark.parametrize(
    ("convolved", "small"),
    [
        pytest.param(1_200_000, True, id="strides: a sixteenth of what kernels and images say"),
        pytest.param(19_000_000, False, id="none"),
    ],
)
def test_convolutions_do_what_the_graph_says_and_not_what_their_kernels_may(convolved: int, small: bool) -> None:
    trace = parse_drawing(f"""
    step     1111111111
    dispatch dddd......
    device   ....kkkkkk
    @steps size=4
    @fact usable_cores=2
    @event loop name=fit data={{"data":{{"shape":[3200,64,64,3]}},"weights":[{{"class":"Conv2D",
    & "shape":[3,3,16,32],"size":4608}}]}}
    @event trace name=train data={{"training":true,"graph":{{"convolved":{convolved}}}}}
    @kernels busy=6 ms=6 ops={{"m/conv/Conv2D:Conv2D": [6, 3]}}
    """)
    assert bool(diagnose_trace(trace, [SmallBatch()]).diagnoses) == small
