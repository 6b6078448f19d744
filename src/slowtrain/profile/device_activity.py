"""Device work as columns: kernels and copies on streams, ops on processors; shapes and formats of an op's operands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field

from slowtrain.columns import intervals
from slowtrain.columns.arrays import NO_FLOATS, NO_INTS, Bools, Floats, Ints, distinct_with_codes
from slowtrain.profile import framework_names
from slowtrain.profile.format import hlo_programs, xplane
from slowtrain.profile.format.event_columns import Stat

KERNEL, H2D, D2H, D2D, MEMSET, COLLECTIVE = range(6)
KIND_NAMES = ("kernel", "h2d", "d2h", "d2d", "memset", "collective")
_COPY_KINDS = {"hd": H2D, "dh": D2H}  # from and to; all other copies stay on one side
UNKNOWN_MEMORY, PAGEABLE, PINNED = range(3)
LINE_STATS = (
    framework_names.CORRELATION_ID, framework_names.MEMCPY_DETAILS, framework_names.TF_OP,
    framework_names.ANNOTATION_STAT, framework_names.HLO_OP,
)  # fmt: skip
_MEMORY_BY_NAME = {"pageable": PAGEABLE, "pinned": PINNED}
# Elements that fill the 16 bytes which a tensor core's operands are read in at once (NVIDIA's guide to the performance
# of matrix products); dimensions that are no multiple of it are read in smaller pieces, or padded.
ALIGNED_ELEMENTS = {"float16": 8, "bfloat16": 8, "tf32": 4}
FORMAT_BY_DTYPE = {"half": "float16", "float": "float32", "double": "float64"}  # of TensorFlow's annotations
_PRODUCT_FORMATS = frozenset({"float16", "bfloat16", "tf32", "float32", "float64"})
_MAX_SHAPES, _MAX_DIMS = 16, 8
ProgramOps: TypeAlias = Mapping[int, Mapping[str, hlo_programs.ProgramOp]]


class Activities(Struct, frozen=True):
    """Device work in order of its start. ``name`` and ``op`` index ``texts`` (-1: none).

    ``bytes`` and ``memory`` are set for copies only; ``memory`` is the kind of the host memory: pageable, pinned or
    unknown.
    """

    start_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    end_ms: Floats = field(default_factory=lambda: NO_FLOATS)
    kind: Ints = field(default_factory=lambda: NO_INTS)
    name: Ints = field(default_factory=lambda: NO_INTS)
    op: Ints = field(default_factory=lambda: NO_INTS)
    stream: Ints = field(default_factory=lambda: NO_INTS)
    correlation: Ints = field(default_factory=lambda: NO_INTS)  # 0: none
    bytes: Floats = field(default_factory=lambda: NO_FLOATS)
    texts: tuple[str, ...] = ()
    memory: Ints = field(default_factory=lambda: NO_INTS)  # empty: unknown for all

    def __len__(self) -> int:
        return len(self.start_ms)

    @property
    def ms(self) -> Floats:
        return self.end_ms - self.start_ms

    def where(self, keep: Bools | Ints) -> Activities:
        if keep.dtype == bool:
            keep = np.flatnonzero(keep)
            if len(keep) == len(self):
                return self
        start = self.start_ms[keep]
        name = _pick_rows(self.name, keep, len(start))
        op = name if self.op is self.name else _pick_rows(self.op, keep, len(start))
        return Activities(
            start, self.end_ms[keep], _pick_rows(self.kind, keep, len(start)), name, op,
            _pick_rows(self.stream, keep, len(start)), _pick_rows(self.correlation, keep, len(start)),
            _pick_rows(self.bytes, keep, len(start)), self.texts,
            _pick_rows(self.memory, keep, len(start)) if len(self.memory) else NO_INTS,
        )  # fmt: skip

    def of(self, *kinds: int) -> Activities:
        if _is_constant_column(self.kind) and self.kind[0] in kinds:
            return self
        return self.where(np.isin(self.kind, kinds))

    def busy(self, *kinds: int) -> intervals.Intervals:
        """Return when anything of these kinds ran, on any stream."""
        if _is_constant_column(self.kind):
            return intervals.union(self.start_ms, self.end_ms) if self.kind[0] in kinds else intervals.EMPTY
        mine = np.flatnonzero(np.isin(self.kind, kinds))
        return intervals.union(self.start_ms[mine], self.end_ms[mine])


def constant_column(value: float, count: int) -> Any:
    """Return a column of ``count`` times the same number, as a broadcast array, which takes no memory.

    Most columns of a processor's ops are constant.
    """
    return np.broadcast_to(np.asarray(value), count)


def _is_constant_column(column: Any) -> bool:
    return len(column) > 0 and column.strides == (0,)


def _pick_rows(column: Any, keep: Any, count: int) -> Any:
    return np.broadcast_to(column[0], count) if _is_constant_column(column) else column[keep]


def _concatenate_columns(columns: list[Any]) -> Any:
    if all(_is_constant_column(c) for c in columns) and len({c[0].item() for c in columns}) == 1:
        return np.broadcast_to(columns[0][0], sum(map(len, columns)))
    return np.concatenate(columns)


def line_activities(
    plane: xplane.Plane, line: xplane.Line, until_ps: int | None, program_ops: ProgramOps
) -> Activities | None:
    """Return the device work of a line, or None. ``program_ops``: the ops of XLA programs, by program and name."""
    events = line.events((*LINE_STATS, framework_names.PROGRAM_ID) if program_ops else LINE_STATS, before_ps=until_ps)
    if not len(events) or events.occurrences is not None:
        return None
    texts, code = plane.event_texts(events.metadata_id)
    idle = np.array([re.fullmatch(framework_names.NO_WORK, t) is not None for t in texts], dtype=bool)[code]
    kinds = np.array([activity_kind(t) for t in texts], dtype=np.int64)
    start = events.start_ps / 1e9
    ops, op = _op_names(events, len(texts))
    if program_ops:
        ops, op = _program_op_names(events, program_ops, (texts, code), ops, op)
    copied, memory = _copy_details(events.stats[framework_names.MEMCPY_DETAILS])
    found = Activities(
        start,
        start + events.duration_ps / 1e9,
        kinds[code],
        code,
        op,
        np.full(len(events), line.id, dtype=np.int64),
        events.stats[framework_names.CORRELATION_ID].per_event(0).astype(np.int64),
        copied,
        texts + ops,
        memory,
    )
    return found.where(~idle)


def activity_kind(name: str) -> int:
    """Return the kind of a device activity by its name."""
    copy = re.search(framework_names.COPY_NAME, name)
    if copy:
        kind = (copy["kind"] or "").lower()
        return _COPY_KINDS.get(kind[:1] + kind[-1:], D2D)
    if re.search(framework_names.MEMSET_NAME, name):
        return MEMSET
    return COLLECTIVE if re.search(framework_names.COLLECTIVE_NAME, name) else KERNEL


def _op_names(events: xplane.Events, offset: int) -> tuple[tuple[str, ...], Ints]:
    """Return the framework's op of each activity, from the first source that has it.

    Ops are text such as "scope/dense/MatMul:MatMul#shape=…".
    """
    result = np.full(len(events), -1, dtype=np.int64)
    texts: list[str] = []
    # An annotation with shapes contains more than the op's name, which newer profiles also have.
    sources = (
        (framework_names.ANNOTATION_STAT, True),
        (framework_names.TF_OP, False),
        (framework_names.ANNOTATION_STAT, False),
        (framework_names.HLO_OP, False),
    )
    for stat, shaped in sources:
        found = events.stats[stat]
        usable = [
            t not in framework_names.NO_OP
            and ("#shape=" in t or not shaped)
            and not re.fullmatch(framework_names.COMMAND_BUFFER, t)
            for t in found.texts
        ]
        labels = found.labels()
        take = (result < 0) & (labels >= 0)
        take[take] = np.array(usable, dtype=bool)[labels[take]]
        result[take] = labels[take] + offset + len(texts)
        texts += [t.rpartition("::")[2] or t for t in found.texts]
    return tuple(texts), result


def _program_op_names(
    events: xplane.Events,
    program_ops: ProgramOps,
    kernels: tuple[tuple[str, ...], Ints],
    ops: tuple[str, ...],
    op: Ints,
) -> tuple[tuple[str, ...], Ints]:
    """Use the ops of XLA programs if they have more detail, by a kernel's instruction or by its name."""
    texts, code = kernels
    hlo, program = events.stats[framework_names.HLO_OP], events.stats[framework_names.PROGRAM_ID].per_event(0)
    label = hlo.labels()
    numbers, of_program = distinct_with_codes(program.astype(np.int64))
    # One number for all three, so that each combination is looked up once.
    rows, which = distinct_with_codes(
        (of_program.astype(np.int64) * (len(hlo.texts) + 1) + label + 1) * len(texts) + code
    )
    found = np.full(len(rows), -1, dtype=np.int64)
    added: dict[str, int] = {}
    for i, row in enumerate(rows.tolist()):
        rest, kernel = divmod(row, len(texts))
        which_program, named = rest // (len(hlo.texts) + 1), rest % (len(hlo.texts) + 1) - 1
        known = program_ops.get(int(numbers[which_program]))
        if known is None:
            continue
        one = known.get(hlo_programs.comparable_name(hlo.texts[named])) if named >= 0 else None
        one = one or known.get(hlo_programs.comparable_name(texts[kernel]))
        if one is None and re.search(framework_names.MATRIX_KERNEL, texts[kernel]):
            one = known.get(hlo_programs.ANY_LIBRARY_PRODUCT)
        if one is not None:
            found[i] = added.setdefault(one.text, len(texts) + len(ops) + len(added))
    better = found[which]
    return (*ops, *added), np.where(better >= 0, better, op)


def _copy_details(details: Stat) -> tuple[Floats, Ints]:
    """Return the bytes of each copy, and the kind of the host memory that it reads or writes."""
    size = [float(m[1]) if (m := re.search(framework_names.COPY_SIZE, t)) else 0.0 for t in details.texts]
    memory = [
        _MEMORY_BY_NAME[m[1]] if (m := re.search(framework_names.HOST_MEMORY, t)) else UNKNOWN_MEMORY
        for t in details.texts
    ]
    label = details.labels()
    return np.array([*size, 0.0])[label], np.array([*memory, UNKNOWN_MEMORY], dtype=np.int64)[label]


def join_activities(parts: list[Activities]) -> Activities:
    """Return all parts as one, in order of their start."""
    if not parts:
        return Activities()
    texts: list[str] = []
    names, ops = [], []
    for part in parts:
        base = len(texts)
        texts += part.texts
        names.append(part.name + base if base else part.name)
        ops.append(names[-1] if part.op is part.name else np.where(part.op >= 0, part.op + base, -1))
    name = _concatenate_columns(names)
    op = name if all(o is n for o, n in zip(ops, names, strict=True)) else _concatenate_columns(ops)
    memory = [p.memory if len(p.memory) else constant_column(UNKNOWN_MEMORY, len(p)) for p in parts]
    columns = {
        key: _concatenate_columns([getattr(p, key) for p in parts])
        for key in ("start_ms", "end_ms", "kind", "stream", "correlation", "bytes")
    }
    found = Activities(**columns, name=name, op=op, texts=tuple(texts), memory=_concatenate_columns(memory))
    if (found.start_ms[1:] >= found.start_ms[:-1]).all():
        return found
    return found.where(np.argsort(found.start_ms, kind="stable"))


class Operand(Struct, frozen=True):
    """One input of an op; an unknown dimension is 0."""

    dtype: str
    shape: tuple[int, ...]


def parse_operands(text: str) -> tuple[Operand, ...]:
    """Parse ``scope/MatMul:MatMul#shape=(half[32,100];half[100,10])#`` to its inputs; empty without shapes."""
    found = re.search(framework_names.ANNOTATED_SHAPES, text)
    result = []
    for part in found[1].split(";")[:_MAX_SHAPES] if found else ():
        dtype, _, rest = part.strip().partition("[")
        dims = rest.rstrip("]").split(",", _MAX_DIMS)[:_MAX_DIMS] if rest.strip("]") else []
        shape = tuple(int(d) if d.isascii() and d.isdigit() and len(d) < 10 else 0 for d in dims)
        result.append(Operand(FORMAT_BY_DTYPE.get(dtype, dtype), shape))
    return tuple(result)


def product_format(text: str) -> str | None:
    """Return the number format of a matrix product or convolution from its operands; None for other ops."""
    parsed = framework_names.graph_op(text.partition("#")[0])
    if parsed is None or not (
        re.match(framework_names.MATMUL_OP, parsed[1]) or re.match(framework_names.CONV_OP, parsed[1])
    ):
        return None
    formats = [o.dtype for o in parse_operands(text) if o.dtype in _PRODUCT_FORMATS]
    return formats[0] if formats else None
