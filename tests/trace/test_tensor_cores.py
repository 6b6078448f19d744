"""Cards and their peaks, number formats, shapes of ops."""

from __future__ import annotations

import pytest

from slowtrain.columns.device import Device
from slowtrain.profile import device_activity
from slowtrain.profile.device_activity import Operand
from slowtrain.trace import Trace
from slowtrain.trace.signals.device import tensor_cores


def gpu(**facts: object) -> Trace:
    return Trace(device=Device("/device:GPU:0", "GPU", facts))


def test_a_profile_names_its_card() -> None:
    card = tensor_cores.find_card(gpu(compute_cap_major=8, compute_cap_minor=0, device_vendor="Nvidia"))
    assert card is not None
    assert (card.vendor, card.capability) == ("nvidia", (8, 0))
    assert (card.peaks, card.double) == (tensor_cores.NVIDIA_PEAKS[8, 0].matrix, 19.5)


def test_amds_numbers_are_not_nvidias() -> None:
    card = tensor_cores.find_card(gpu(compute_cap_major=9, compute_cap_minor=4, device_vendor="AMD"))
    assert card is not None
    assert (card.peaks, card.double) == (tensor_cores.AMD_PEAKS[9, 4].matrix, 163.4)


@pytest.mark.parametrize(("major", "minor", "some"), [(6, 1, False), (7, 5, True), (8, 7, True), (3, 5, False)])
def test_cards_without_tensor_cores_have_no_peaks(major: int, minor: int, some: bool) -> None:
    card = tensor_cores.find_card(gpu(compute_cap_major=major, compute_cap_minor=minor))
    assert card is not None
    assert (card.peaks is not None) is some


def test_of_a_card_not_listed_the_kin_that_gains_least_counts() -> None:
    card = tensor_cores.find_card(gpu(compute_cap_major=8, compute_cap_minor=7))
    assert card is not None
    assert card.peaks is not None
    kin = [row.matrix for (major, _), row in tensor_cores.NVIDIA_PEAKS.items() if major == 8]
    assert card.peaks[2] / card.peaks[0] == min(p[2] / p[0] for p in kin)
    assert card.double is None


@pytest.mark.parametrize(
    "row", [*tensor_cores.NVIDIA_PEAKS.values(), *tensor_cores.AMD_PEAKS.values()], ids=lambda row: row.name
)
def test_each_cards_peaks_say_where_they_were_read_and_rise_as_formats_shrink(row: tensor_cores.CardPeaks) -> None:
    plain, tf32, half = row.matrix
    assert plain <= (tf32 or plain) < half
    assert row.double <= plain
    assert "." in row.read or "paper" in row.read


def test_the_driver_tells_what_a_recording_computed_on() -> None:
    device = Device("/device:GPU:0", "GPU")
    facts = {"machine": {"gpu": {"devices": [{"compute_capability": "9.0"}]}}}
    card = tensor_cores.find_card(Trace(device=device, facts=facts))
    assert card is not None
    assert card.capability == (9, 0)
    two = {"machine": {"gpu": {"devices": [{"compute_capability": "9.0"}, {"compute_capability": "7.0"}]}}}
    assert tensor_cores.find_card(Trace(device=device, facts=two)) is None
    assert tensor_cores.find_card(Trace(device=device)) is None


def test_a_tpu_is_no_gpu() -> None:
    assert tensor_cores.find_card(Trace(device=Device("/device:TPU:0", "TPU", {"compute_cap_major": 8}))) is None


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        ("a/MatMul:MatMul#shape=(half[4,384,1024];half[1024,16])#",
         (Operand("float16", (4, 384, 1024)), Operand("float16", (1024, 16)))),
        ("a/Mul:Mul#shape=(float[4];float[])#", (Operand("float32", (4,)), Operand("float32", ()))),
        ("a/Cast:Cast#shape=(double[?,3])#", (Operand("float64", (0, 3)),)),
        ("a/Cast:Cast#shape=(weird[99999999999999999999,x])#", (Operand("weird", (0, 0)),)),
        ("a/Cast:Cast", ()),
        ("a/Cast:Cast#shape=(", ()),
    ],
)  # fmt: skip
def test_shapes_are_read_from_annotations(text: str, inputs: tuple[Operand, ...]) -> None:
    assert device_activity.parse_operands(text) == inputs


@pytest.mark.parametrize(
    ("matrix", "told"), [({}, True), ({"unknown": 1.0}, False), ({"unknown": 1.0, "float16": 2.0}, True)]
)
def test_formats_are_told_where_most_names_tell_them(matrix: dict[str, float], told: bool) -> None:
    assert tensor_cores.is_format_known(Device("/device:GPU:0", "GPU", matrix_ms=matrix)) is told
