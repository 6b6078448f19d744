"""Cards by name and sizes as people write them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slowtrain.cli import _measuring
from slowtrain.errors import InputError
from slowtrain.machine.host import gpu_devices
from slowtrain.machine.tables import card_memory, rule_table

FIXTURES = Path(__file__).with_name("fixtures")
MIB = 1 << 20
DRAWN: dict[str, Any] = {
    "name": "Drawn 9000",
    "memory_total_bytes": 32_000 * MIB,
    "memory_used_bytes": 500 * MIB,
    "compute_capability": "12.0",
    "mig_mode": False,
}


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GiB", 16 << 30), ("16G", 16 << 30), ("16GB", 16_000_000_000), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29),
        ("T4", None), ("", None), ("16 cats", None),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    assert card_memory.size_bytes(text) == size


@pytest.mark.parametrize("name", ["T4", "t4", "Tesla T4", "NVIDIA-T4"])
def test_a_card_is_found_however_it_is_written(name: str) -> None:
    assert card_memory.find_card(name).name == "T4"


@pytest.mark.parametrize("card", card_memory.CARD_TABLE, ids=lambda c: c.name)
def test_a_card_is_found_by_both_names(card: card_memory.Card) -> None:
    assert card_memory.find_card(card.name) == card == card_memory.find_card(card.seen)


@pytest.mark.parametrize(
    ("name", "near"), [("A100", "A100-40GB or A100-80GB"), ("T44", "T4"), ("RTX-3091", "RTX-3090")]
)
def test_an_unknown_card_names_its_neighbours(name: str, near: str) -> None:
    with pytest.raises(InputError, match=near):
        card_memory.find_card(name)


@pytest.mark.parametrize("fixture", ["h100_vm", "healthy_t4"])
def test_the_only_card_here_is_taken_with_what_the_table_says_of_it(fixture: str) -> None:
    (device,) = json.loads((FIXTURES / f"{fixture}.json").read_text())["gpu"]["devices"]
    name, size, source = card_memory.local_gpu_memory([device]) or ("", 0, "")
    assert (name, size) == (device["name"], card_memory.find_card(name).usable_mib * MIB)
    assert "according to its own log" in source
    used = {**device, "memory_used_bytes": device["memory_total_bytes"] // 2}
    assert (card_memory.local_gpu_memory([used]) or ("", 0, ""))[1] < device["memory_total_bytes"] // 2


def test_a_card_outside_the_table_has_what_its_driver_shows_free_less_what_is_kept_back() -> None:
    found = card_memory.local_gpu_memory([DRAWN])
    assert found is not None
    assert found[:2] == ("Drawn 9000", (32_000 - 500 - 1800 - card_memory.DRIVER_CONTEXT_MIB) * MIB)
    assert "31,500 MiB are free according to its driver" in found[2]
    older = card_memory.local_gpu_memory([{**DRAWN, "compute_capability": "5.2"}])
    assert older is not None
    assert older[1] - found[1] == (1800 - 500) * MIB


@pytest.mark.parametrize(
    "devices",
    [[], [DRAWN, DRAWN], [{**DRAWN, "mig_mode": True}], [{**DRAWN, "memory_total_bytes": None}]],
    ids=["none", "several", "MIG", "nothing told"],
)
def test_nothing_is_taken_where_it_is_not_sure(devices: list[dict[str, Any]]) -> None:
    assert card_memory.local_gpu_memory(devices) is None


def test_no_device_named_is_the_only_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gpus:
        devices: tuple[dict[str, Any], ...] = (DRAWN,)

        def facts(self) -> dict[str, Any]:
            return {"devices": self.devices}

    monkeypatch.setattr(gpu_devices, "Gpus", Gpus)
    found = _measuring.find_device(None)
    assert found is not None
    assert found.name == "this computer's Drawn 9000"
    assert (_measuring.find_device("T4") or found).name == "a T4"
    assert (_measuring.find_device("RTX 4090") or found).name == "an RTX-4090"
    Gpus.devices = ()
    assert _measuring.find_device(None) is None


def test_every_row_and_rule_says_where_it_is_from_and_when_it_was_read_there() -> None:
    dated = re.compile(r"2026-\d\d-\d\d")
    assert dated.fullmatch(card_memory.LOGS_READ)
    for card in card_memory.CARD_TABLE:
        assert re.fullmatch(r"gpu_device\.cc:\d+, PCI [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.0", card.log), card.name
        assert card.log in card_memory.source_sentence(card)
    for source in rule_table.SOURCES.values():
        assert dated.fullmatch(source.date), source.key
        assert source.where.strip(), source.key
