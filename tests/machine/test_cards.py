"""Cards by name and sizes as people write them."""

from __future__ import annotations

import pytest

from slowtrain.errors import InputError
from slowtrain.machine import cards


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GiB", 16 << 30), ("16G", 16 << 30), ("16GB", 16_000_000_000), ("512MiB", 512 << 20), ("1.5 GiB", 3 << 29),
        ("T4", None), ("", None), ("16 cats", None),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int | None) -> None:
    assert cards.size_bytes(text) == size


@pytest.mark.parametrize("name", ["T4", "t4", "Tesla T4", "NVIDIA-T4"])
def test_a_card_is_found_however_it_is_written(name: str) -> None:
    assert cards.find(name).name == "T4"


@pytest.mark.parametrize("card", cards.CARDS, ids=lambda c: c.name)
def test_a_card_is_found_by_both_names(card: cards.Card) -> None:
    assert cards.find(card.name) == card == cards.find(card.seen)


@pytest.mark.parametrize(
    ("name", "near"), [("A100", "A100-40GB or A100-80GB"), ("T44", "T4"), ("RTX-3091", "RTX-3090")]
)
def test_an_unknown_card_names_its_neighbours(name: str, near: str) -> None:
    with pytest.raises(InputError, match=near):
        cards.find(name)
