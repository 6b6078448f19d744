"""What XLA's programs tell of kernels, on programs made by hand; real ones are in test_matrix.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.model import Place
from slowtrain.profile.format import hlo_programs, xplane

from .messages import entry, nested, number, raw_varint

FLOAT, BFLOAT16 = 11, 16


def packed(field: int, *values: int) -> bytes:
    return nested(field, b"".join(map(raw_varint, values)))


def shape(element: int, *dims: int) -> bytes:
    return number(2, element) + packed(3, *dims)


def one(name: str, opcode: str, id_: int, *more: bytes, of: bytes = b"") -> bytes:
    return nested(2, nested(1, name.encode()), nested(2, opcode.encode()), nested(3, of), number(35, id_), *more)


def op_name(text: str, frame: int = 0) -> bytes:
    return nested(7, nested(2, text.encode()), number(15, frame))


def frames() -> bytes:
    """A user's line, called from a package's."""
    files = nested(1, b"/home/me/train.py") + nested(1, b"/usr/lib/python3.12/site-packages/keras/src/ops.py")
    places = nested(3, number(1, 1), number(3, 42)) + nested(3, number(1, 2), number(3, 7))
    stack = nested(4, number(1, 1)) + nested(4, number(1, 2), number(2, 1))
    return nested(17, files, places, stack)


def program(*computations: tuple[int, list[bytes]], more: bytes = b"") -> bytes:
    found = [nested(3, nested(1, b"c"), *inside, number(5, id_)) for id_, inside in computations]
    return nested(1, nested(1, b"jit_step"), *found, more)


def told(data: bytes, name: str = "jit_step(77)") -> dict[int, dict[str, hlo_programs.ProgramOp]]:
    plane = nested(1, nested(2, b"/host:metadata"), entry(4, 1, name, nested(5, number(1, 1), nested(6, data))),
                   entry(5, 1, "Hlo Proto"))  # fmt: skip
    return hlo_programs.read_programs(xplane.parse_space(plane))


def product(scope: str, *more: bytes, element: int = FLOAT, opcode: str = "dot") -> list[bytes]:
    return [
        one("a", "parameter", 1, of=shape(element, 32, 100)),
        one("b", "parameter", 2, of=shape(element, 100, 10)),
        one("dot.3", opcode, 3, packed(36, 1, 2), op_name(scope, 2), *more, of=shape(element, 32, 10)),
    ]


def test_a_product_has_its_layer_its_shapes_and_its_line() -> None:
    found = told(program((1, product("jit(step)/jvp(dense)/dot_general")), more=frames()))
    text = "dense/dot_general:MatMul#shape=(tf32[32,100];tf32[100,10])#"
    assert found == {77: {"dot_3": hlo_programs.ProgramOp(text, Place("/home/me/train.py", 42))}}


def test_float32_that_may_not_be_rounded_is_float32() -> None:
    exact = nested(51, packed(1, 2, 2))
    inside = product("jit(step)/transpose(jvp(dense_1))/dot_general", exact)
    assert told(program((1, inside)))[77]["dot_3"].text.startswith(
        "gradient_tape/dense_1/dot_general:MatMul#shape=(float["
    )
    half = told(program((1, product("x", element=BFLOAT16))))[77]["dot_3"].text
    assert half == "x:MatMul#shape=(bfloat16[32,100];bfloat16[100,10])#"


def test_a_fusion_is_the_product_in_it_and_what_is_in_it_is_no_kernel() -> None:
    outside = [one("gemm_fusion_dot.9", "fusion", 9, packed(38, 5), of=shape(FLOAT, 32, 10))]
    found = told(program((5, product("jit(step)/jvp(lstm)/while/body/lstm_cell/dot")), (6, outside)))[77]
    assert {name: op.text.partition("#")[0] for name, op in found.items()} == {
        "gemm_fusion_dot_9": "lstm/while/lstm_cell/dot:MatMul"
    }


def test_a_convolutions_filter_has_its_channels_last() -> None:
    dimensions = nested(16, number(3, 3), number(4, 0), packed(6, 1, 2))
    inside = [
        one("x", "parameter", 1, of=shape(FLOAT, 8, 96, 96, 3)),
        one("w", "parameter", 2, of=shape(FLOAT, 64, 5, 5, 3)),
        one("cudnn-conv.1", "custom-call", 3, packed(36, 1, 2), nested(28, b"__cudnn$convForward"), dimensions,
            op_name("jit(f)/jvp(conv2d)/conv"), nested(51, packed(1, 2, 2)), of=shape(FLOAT, 8, 96, 96, 64)),
    ]  # fmt: skip
    found = told(program((1, inside)))[77]
    assert found["cudnn_conv_1"].text == "conv2d/conv:Conv2D#shape=(float[8,96,96,3];float[5,5,3,64])#"
    assert found[hlo_programs.ANY_LIBRARY_PRODUCT] == hlo_programs.ProgramOp(found["cudnn_conv_1"].text, None), (
        "all that a library does here"
    )


def test_only_an_op_that_python_started_is_elementwise() -> None:
    """XLA made one kernel of what it saw together; of what Python started by itself it saw no more."""
    single = [one("wrapped_tanh", "tanh", 1, op_name("jit(tanh)/tanh"), of=shape(FLOAT, 9))]
    assert told(program((1, single)))[77]["wrapped_tanh"].text == "tanh:Tanh"
    several = [one(f"tanh.{i}", "tanh", i, op_name("jit(f)/tanh"), of=shape(FLOAT, 9)) for i in range(5)]
    assert told(program((1, several)))[77]["tanh_0"].text == "tanh:XlaTanh"


def test_kernels_that_xla_writes_once_bear_what_their_layers_share() -> None:
    inside = [*product("jit(f)/jvp(dense_1)/dot"), one("dot.4", "dot", 4, packed(36, 1, 2),
              op_name("jit(f)/jvp(dense_2)/dot"), of=shape(FLOAT, 32, 10))]  # fmt: skip
    found = told(program((1, inside)))[77]
    assert {op.text.partition(":")[0] for op in found.values()} == {"dense/dot"}


@pytest.mark.parametrize(
    ("scope", "clean"),
    [
        ("jit(train_step)/jvp(sequential)/dense/dot_general", "sequential/dense/dot_general"),
        ("jit(f)/transpose(jvp(dense))/dot_general", "gradient_tape/dense/dot_general"),
        ("jit(f)/jvp(bn)/jit(_var)/reduce_sum", "bn/_var/reduce_sum"),
        ("jit(f)/jvp(lstm)/while/body/eval_jaxpr/lstm_cell/add", "lstm/while/lstm_cell/add"),
        ("pjit(step)/sgd/mul", "sgd/mul"),
        ("a b<x", "a_b_x"),
    ],
)
def test_a_scope_reads_as_tensorflows(scope: str, clean: str) -> None:
    assert hlo_programs.clean_scope(scope) == clean


def test_what_is_no_program_tells_nothing() -> None:
    data = program((1, product("x")))
    assert told(data, "jit_step") == {}, "a name without a number"
    assert told(data[: len(data) // 2]) == {}
    assert told(b"\xff" * 40) == {}
    assert told(b"") == {77: {}}


def test_a_shape_within_a_shape_is_followed_so_far_only() -> None:
    deep = shape(FLOAT, 4)
    for _ in range(5000):
        deep = nested(4, deep)
    assert told(program((1, [one("x", "tanh", 1, of=deep)])))[77]["x"].text == "Tanh:Tanh"


@given(st.binary(max_size=300), st.integers(0, 300))
@pytest.mark.fuzz
def test_whatever_a_program_holds_it_is_read_or_left(noise: bytes, at: int) -> None:
    data = program((1, product("jit(step)/jvp(dense)/dot_general")), more=frames())
    for broken in (noise, data[:at] + noise + data[at:], data[:at] + noise):
        for ops in told(broken).values():
            assert all(isinstance(op.text, str) for op in ops.values())
