"""Rates of a device's ops against its peaks, by hand."""

from __future__ import annotations

import pytest

from slowtrain import checkup as page
from slowtrain.trace.signals.device import tensor_cores

from ..drawn_trace import parse_drawing  # noqa: TID252  tests are no package
from .messages import trace as real

CARD = 'facts={"compute_cap_major":7,"compute_cap_minor":0,"memory_bandwidth":900000000000}'


def of(ops: str, facts: str = CARD, kind: str = "GPU") -> dict[str, tuple[float, float | None]]:
    drawing = f"""
    step     1111111111
    device   kkkkkkkkkk
    @fact profile=true devices=[{{"kind":"GPU"}}]
    @device kind={kind} busy=10 ms=10 ops={ops} {facts}
    """
    return {r.what: (r.per_second, r.peak) for r in tensor_cores.device_rates(parse_drawing(drawing))}


@pytest.mark.parametrize(
    ("op", "bytes_"),
    [
        ("m/Mul:Mul#shape=(float[1000,1000];float[])#", 8e6 + 4),
        ("m/Add:AddV2#shape=(half[1000,1000];half[1000,1000])#", 6e6),
        ("m/Ge:GreaterEqual#shape=(float[1000,1000];float[])#", 5e6 + 4),
        ("m/Cast:Cast#shape=(float[1000,1000])#", 4e6),  # at least: what it writes is not told
    ],
)
def test_bytes_of_elementwise_ops(op: str, bytes_: float) -> None:
    ((what, (per_second, peak)),) = of(f'{{"{op}":[10,1]}}').items()
    assert (what, peak) == ("memory", 9e11)
    assert per_second == pytest.approx(bytes_ / 0.01)


@pytest.mark.parametrize(
    ("shapes", "operations"),
    [
        ("half[64,512];half[512,128]", 2 * 64 * 512 * 128),
        ("half[64,512];half[128,512]", 2 * 64 * 512 * 128),  # the second is transposed
        ("half[512,64];half[512,128]", 2 * 64 * 512 * 128),  # the first is
        ("half[8,4,64,512];half[8,4,512,128]", 2 * 32 * 64 * 512 * 128),
    ],
)
def test_operations_of_matrix_products(shapes: str, operations: int) -> None:
    ((what, (per_second, peak)),) = of(f'{{"m/MatMul:MatMul#shape=({shapes})#":[10,2]}}').items()
    assert (what, peak) == ("float16", 125e12)
    assert per_second == pytest.approx(2 * operations / 0.01)


@pytest.mark.parametrize(
    "op",
    ["m/MatMul:MatMul", "m/MatMul:MatMul#shape=(half[64,7];half[9,8])#", "m/MatMul:MatMul#shape=(half[?,7];half[7,8])#",
     "m/Mul:Mul#shape=(variant[3];float[])#", "m/RandomUniform:RandomUniform#shape=(int32[4])#", "fusion.3"],
)  # fmt: skip
def test_what_is_not_told_is_not_guessed(op: str) -> None:
    assert of(f'{{"{op}":[10,1]}}') == {}


def test_a_card_that_is_not_known_has_no_peak() -> None:
    op = '{"m/MatMul:MatMul#shape=(half[64,512];half[512,128])#":[10,2]}'
    assert [peak for _, peak in of(op, "").values()] == [None]
    assert of(op, kind="TPU") == {}


def test_few_shapes_tell_nothing_of_the_device() -> None:
    assert of('{"m/Mul:Mul#shape=(float[9];float[])#":[0.2,1],"m/x:Softmax":[9.8,1]}') == {}


def test_a_real_v100() -> None:
    """565 casts, comparisons and multiplications move 4.37 GB in 10.9 ms (docs/real-profiles.md)."""
    from slowtrain.trace.loading import profile_trace

    found = page.device_use(profile_trace.load_profile([real("tf-v100-bert/worker-0")]))
    assert found is not None
    (memory,) = found.reached
    assert memory.what == "memory"
    assert memory.per_second == pytest.approx(4.01e11, rel=0.01)
    assert memory.peak == 898048000000
