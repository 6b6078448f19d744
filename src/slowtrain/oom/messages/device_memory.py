"""What TensorFlow and JAX log about a GPU at start-up: its memory, how much of it was free, the size of their pool."""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowtrain.oom.text.byte_sizes import SIZE, parse_size

MAX_CARDS = 64
_FOUND = re.compile(rb"Found device (\d{1,3}) with properties")
_TOTAL_AND_FREE = re.compile(rb"totalMemory: " + SIZE + rb" freeMemory: " + SIZE)  # TensorFlow 1.4 to 1.13
_TOTAL = re.compile(rb"\s*Total memory: " + SIZE + rb"\s*\Z")  # until 1.3
_FREE = re.compile(rb"\s*Free memory: " + SIZE + rb"\s*\Z")
_DEVICE = re.compile(rb"deviceMemorySize: " + SIZE)  # 2.1 to 2.6
_CREATED = re.compile(rb"GPU:(\d{1,3}) with (\d{1,9}) MB memory")  # its MB are MiB
_BACKEND = re.compile(rb"XLA backend (?:allocating|will use up to) (\d{1,19}) bytes on device (\d{1,3})")
_INDEX = re.compile(r"(?:GPU|gpu)_(\d{1,3})_bfc")


@dataclass
class DeviceMemory:
    total_bytes: int | None = None
    free_bytes: int | None = None  # before the run allocated any
    pool_bytes: int | None = None


def read_device_line(cards: dict[int, DeviceMemory], current: int | None, line: bytes) -> int | None:
    """Stores what a line says about a card in ``cards``. ``current`` is the card that the previous lines were about."""
    if found := _FOUND.search(line):
        current = int(found[1])
    elif found := _TOTAL_AND_FREE.search(line):
        card = _find_or_add_card(cards, current or 0)
        card.total_bytes, card.free_bytes = parse_size(found[1], found[2]), parse_size(found[3], found[4])
    elif found := _DEVICE.search(line):
        _find_or_add_card(cards, current or 0).total_bytes = parse_size(found[1], found[2])
    elif found := _CREATED.search(line):
        _find_or_add_card(cards, int(found[1])).pool_bytes = int(found[2]) << 20
    elif found := _BACKEND.search(line):
        _find_or_add_card(cards, int(found[2])).pool_bytes = parse_size(found[1])
    elif current is not None and (found := _TOTAL.match(line)):
        _find_or_add_card(cards, current).total_bytes = parse_size(found[1], found[2])
    elif current is not None and (found := _FREE.match(line)):
        _find_or_add_card(cards, current).free_bytes = parse_size(found[1], found[2])
    return current


def card_of_allocator(cards: dict[int, DeviceMemory], allocator: str) -> DeviceMemory | None:
    """The card of an allocator; if its name does not identify one, the only card."""
    index = _INDEX.search(allocator)
    if index is not None:
        return cards.get(int(index[1]))
    return next(iter(cards.values())) if len(cards) == 1 else None


def _find_or_add_card(cards: dict[int, DeviceMemory], index: int) -> DeviceMemory:
    return cards.setdefault(index if len(cards) < MAX_CARDS else next(iter(cards)), DeviceMemory())
