"""Lines, sizes, shapes and tracebacks in the notation of logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from slowtrain.number_text import format_number
from slowtrain.shared.exhaustion import MemoryRequest, Purpose
from slowtrain.shared.vocabulary import Place

SIZE_UNITS = {"": 1, "B": 1, "bytes": 1, "K": 2**10, "KiB": 2**10, "M": 2**20, "MiB": 2**20, "G": 2**30, "GiB": 2**30,
         "T": 2**40, "TiB": 2**40, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}  # fmt: skip
_DTYPE_BYTES = {"float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8, "float64": 8, "int32": 4,
                "int64": 8, "uint8": 1, "int8": 1, "bool": 1, "int16": 2, "uint16": 2, "complex64": 8}  # fmt: skip
MAX_BYTES = 1 << 62
SIZE = rb"([\d.]{1,20}) ?([KMGT]?i?B?|bytes)"


def parse_size(number: str | bytes | None, unit: str | bytes | None = "") -> int | None:
    """Bytes of ``32.00`` and ``MiB``; None if the text is not a size."""
    number = number.decode("ascii", "replace") if isinstance(number, bytes) else number or ""
    unit = unit.decode("ascii", "replace") if isinstance(unit, bytes) else unit or ""
    try:
        found = int(number) if number.isdigit() and unit in ("", "B") else round(float(number) * SIZE_UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        return None
    return found if 0 <= found <= MAX_BYTES else None


def decode_name(text: bytes | None) -> str:
    return (text or b"").decode("utf-8", "replace").strip()[:500]


def parse_dimensions(text: bytes | None) -> tuple[int, ...] | None:
    """Numbers in ``96,96,3``."""
    parts = (text or b"").replace(b" ", b"").rstrip(b",").split(b",")
    if not all(p.isdigit() and len(p) <= 18 for p in parts) or len(parts) > 32:
        return None
    return tuple(map(int, parts))


def tensor_bytes(dims: tuple[int, ...] | None, dtype: str) -> int | None:
    """Bytes of a tensor; None if its type's size is unknown."""
    each = _DTYPE_BYTES.get(dtype)
    if dims is None or each is None:
        return None
    for one in dims:
        each = min(each * one, 1 << 62)
    return each


def format_size(value: int | None) -> str:
    if value is None:
        return "an unknown amount"
    scaled = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if scaled < 1023.5:
            return (
                f"{scaled:.0f} B"
                if unit == "B"
                else f"{format_number(scaled)} {unit}"
                if scaled < 999.5
                else f"{scaled:.0f} {unit}"
            )
        scaled /= 1024
    return f"{format_number(scaled)} EiB"


_OPTIMIZER = re.compile(rb"[/\\]optim(?:izers?)?[/\\]|[/\\](?:base_)?optimizer(?:_v2)?\.py|[/\\]optax[/\\]")
# These compute the gradients first.
_GRADIENT_FUNCTIONS = {b"minimize", b"compute_gradients", b"_compute_gradients", b"get_gradients"}
_INITIALIZER = re.compile(rb"[/\\]initializers?(?:[/\\]|_v\d)|[/\\]init_ops(?:_v2)?\.py")
_VARIABLE_FUNCTIONS = {
    b"build", b"build_wrapper", b"add_weight", b"add_variable", b"_init_from_args", b"load_weights", b"set_weights",
    b"batch_set_value", b"load_own_variables", b"load_model",
}  # fmt: skip
_CONSTANT = re.compile(r"_EagerConst\Z|(?:.*/)?Const(?:_\d+)?\Z")
_STEP_FUNCTIONS = {
    b"fit", b"train_on_batch", b"train_step", b"test_step", b"predict", b"predict_step", b"evaluate", b"call",
    b"_call_impl", b"backward", b"gradient",
}  # fmt: skip
# An optimizer's name is the scope of its ops: adam in Keras 3, Adam in Keras 2 and TensorFlow 1.
_OPTIMIZER_SCOPES = {
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "gradientdescent", "lamb", "lion", "muon",
    "nadam", "rmsprop", "sgd",
}  # fmt: skip
_NUMBER_SUFFIX = re.compile(r"_\d+\Z")
_UPDATE_OP = re.compile(
    r"Resource(?:Sparse)?Apply|(?:Sparse)?Apply(?:Ada|Ftrl|Gradient|Momentum|RMSProp)|Assign\w*Op\Z"
)
_SPARSE_GRADIENT_OP = re.compile(r"Unsorted|Unique|Gather")  # of a sparse gradient, whose number depends on the batch
# A gradient of a weight or of an activation.
_GRADIENT_OP = re.compile(r"MatMul(?:_\d+)?\Z|BackpropFilter")


def request_purpose(request: MemoryRequest) -> Purpose:
    """Decided by the op if its name is clear, else by the traceback."""
    if is_constant(request):
        return Purpose.VARIABLE if request.within is Purpose.VARIABLE else Purpose.ARRAY
    parts = request.op.split("/")
    last = _NUMBER_SUFFIX.sub("", parts[-1])
    gradient = any(part in ("gradient_tape", "gradients") for part in parts)
    if "Initializer" in parts or last == "initial_value" or (len(parts) == 1 and last == "AssignVariableOp"):
        return Purpose.VARIABLE
    updates = _UPDATE_OP.match(last) is not None or any(_is_optimizer_scope(part) for part in parts[:-1])
    if updates and not gradient:
        return Purpose.UNKNOWN if _SPARSE_GRADIENT_OP.match(last) else Purpose.UPDATE
    if gradient and _GRADIENT_OP.search(parts[-1]):
        return Purpose.UNKNOWN
    return request.within or (Purpose.STEP if len(parts) > 1 else Purpose.UNKNOWN)


def is_constant(request: MemoryRequest) -> bool:
    """Whether the request makes a constant from an array."""
    return request.constant or _CONSTANT.match(request.op) is not None


def _is_optimizer_scope(scope: str) -> bool:
    name = _NUMBER_SUFFIX.sub("", scope).lower()
    return name in _OPTIMIZER_SCOPES or name.endswith("optimizer")


def frame_purpose(file: bytes, function: bytes) -> Purpose | None:
    """The purpose that a library's frame implies; None if it implies none."""
    if _OPTIMIZER.search(file):
        return None if function in _GRADIENT_FUNCTIONS else Purpose.UPDATE
    if _INITIALIZER.search(file) or function in _VARIABLE_FUNCTIONS:
        return Purpose.VARIABLE
    return Purpose.STEP if function in _STEP_FUNCTIONS else None


DOCKER_LINE_PREFIX = b'{"log":'  # Docker's own log files hold one JSON object per line
MAX_LINE_BYTES = 1 << 16  # bytes; no allocator prints longer lines
_COLOUR = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-_])")
# A prefix that names the writer: mpirun, srun -l, torchrun, docker compose, kubectl --prefix, stern.
_RANK = re.compile(
    rb"\[(?P<mpi>\d+,\d+)\]<std(?:err|out)>:? ?"
    rb"|\[(?P<rank>(?:rank|default|worker[-_]?)\d+)\]:? ?"
    rb"|(?P<srun>\d{1,6}): (?=\S)"
    rb"|(?P<compose>[A-Za-z][\w.-]{0,100}) +\| ?"
    rb"|\[(?P<pod>pod/[\w./-]{1,200})\] "
    rb"|\((?P<ray>[\w.]{1,80}(?: pid=\d+)?(?:, ip=[\d.]+)?)\) "
)
# A time that the container runtime puts first: docker -t, kubectl --timestamps, CRI.
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(?:Z|[+-]\d\d:?\d\d) (?:std(?:err|out) [FP] )?")
# The prefix of TensorFlow's logging: "2024-01-31 12:00:00.1: W path/file.cc:1] ", since 2.17 "W0000 00:… 1 file.cc:1]
# ".
MESSAGE_PATTERN = re.compile(
    rb"\b(?:[IWEF]\d{4} [\d:.]{5,30} {1,8}(?P<thread>\d{1,10})|[IWEF]) "
    rb"[^\s\]]{0,300}?(?P<file>\w{1,60}\.(?:cc|h)):\d{1,6}\] ?"
)


def split_lines(block: bytes) -> tuple[list[bytes], bytes]:
    """The complete lines, and the beginning of the next. A carriage return ends a line as well (progress bars)."""
    whole, _, rest = block.rpartition(b"\n")
    if not _:
        return ([block], b"") if len(block) > MAX_LINE_BYTES else ([], block)
    return whole.split(b"\n"), rest


def strip_terminal_codes(line: bytes) -> bytes:
    """The line without colour codes and without text that a progress bar overwrote."""
    line = line[:MAX_LINE_BYTES].rstrip(b"\r\n")
    if line.startswith(DOCKER_LINE_PREFIX):
        line = _unwrap_docker_line(line)
    if b"\x1b" in line:
        line = _COLOUR.sub(b"", line)
    if b"\r" in line:
        line = line.rpartition(b"\r")[2] or line
    return line


def _unwrap_docker_line(line: bytes) -> bytes:
    """The text in a line of Docker's log file; a truncated line is returned as it is."""
    try:
        found = json.loads(line)["log"]
    except (ValueError, KeyError, RecursionError):
        return line
    return found.rstrip("\r\n").encode("utf-8", "replace") if isinstance(found, str) else line


def split_rank_prefix(line: bytes) -> tuple[str, bytes]:
    """The writer of a line ("" if unknown), and the line as the program wrote it."""
    rank = ""
    for _ in range(3):  # a runtime's time may stand before or after the rank
        stamp = _STAMP.match(line)
        if stamp:
            line = line[stamp.end() :]
        found = None if rank else _RANK.match(line)
        if found is None:
            if stamp is None:
                break
            continue
        rank = next(v for v in found.groups() if v).decode("ascii", "replace")
        line = line[found.end() :]
    return rank, line


def decode_utf16(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Converts UTF-16, which PowerShell's redirection writes, to UTF-8; other input is unchanged."""
    import codecs

    first = next(blocks, b"")
    kind = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}.get(first[:2])
    if kind is None:
        yield first
        yield from blocks
        return
    turn = codecs.getincrementaldecoder(kind)("replace")
    yield turn.decode(first[2:]).encode("utf-8", "replace")
    for block in blocks:
        yield turn.decode(block).encode("utf-8", "replace")


_FRAME = re.compile(rb"File \"([^\"]{1,1000})\", line (\d{1,8})(?:, in (\S{1,200}))?")
# IPython 8: "File ~/train.py:12, in main(args)", "Cell In[3], line 5", "Input In [3], in <cell line: 5>()".
_IPYTHON = re.compile(rb"File ([^\s:][^:\"]{0,500}\.pyx?):(\d{1,8})(?:, in ([\w.<>]{1,200}))?")
_CELL = re.compile(rb"(?:Cell|Input) In ?\[(\d{1,6})\](?:, line (\d{1,8})|, in <(?:cell line: )?(\w{1,20}))")
# IPython 7: "~/train.py in main(args)"; the line with the arrow gives the number.
_HEADING = re.compile(rb"(<ipython-input-[\w-]{1,60}>|[~/A-Za-z][^\s:\"]{0,500}\.py|[A-Za-z]:\\[^\"]{0,500}\.py) in "
                      rb"([\w.<>]{1,200})")  # fmt: skip
_ARROW = re.compile(rb"\s{0,8}-{1,8}> {0,4}(\d{1,8})\b")
_RICH = re.compile(rb"(?:\xe2\x94\x82|\|) (\S{1,500}\.py):(\d{1,8}) in (\S{1,200})")
_LIBRARY = re.compile(
    rb"site-packages|\.egg[/\\]|build[/\\]bdist\.|dist-packages|[/\\]lib(?:64)?[/\\]python\d|<frozen|\A<(?!ipython-input|stdin)|[/\\]Lib[/\\]\w+\.py\Z"
    rb"|[/\\]\.?(?:bazel-out|runfiles)[/\\]|\Atensorflow[/\\]python[/\\]"
)
# The frames that follow defined an op; they did not run it.
DEFINED_AT = re.compile(
    rb"Caused by op u?'?(\S{1,500}?)'?, defined at:|Original stack trace for u?'?(\S{1,500}?)'?:?\s*\Z"
)
DETECTED_AT = re.compile(rb"Detected at node:? ?'?(\S{1,500}?)'? defined at")
INLINE_DEFINITION = re.compile(rb"\(defined at ([^()]{1,500}?):(\d{1,8})\)")
_ARRAY_FILES = re.compile(rb"[/\\]jax[/\\](?:_src[/\\])?numpy[/\\]|[/\\]constant_op\.py|[/\\]tensor_conversion\w*\.py")
_ARRAY_FUNCTIONS = frozenset((
    b"convert_to_eager_tensor", b"constant", b"_constant_impl", b"_constant_eager_impl", b"from_tensor_slices",
    b"array", b"asarray", b"convert_to_tensor",
))  # fmt: skip


@dataclass
class TracebackState:
    """State of the newest traceback. ``node`` is the op whose frames it lists."""

    place: Place | None = None
    within: Purpose | None = None
    constant: bool = False
    tracing: bool = False
    node: str = ""
    heading: tuple[bytes, bytes] | None = None  # IPython 7: file and function, until the arrow gives the line

    def begin(self) -> None:
        self.clear()
        self.tracing = True

    def clear(self) -> None:
        self.place, self.within, self.node, self.heading = None, None, "", None
        self.constant = self.tracing = False

    def frame(self, line: bytes) -> bool:
        """Reads a line of a traceback; returns whether it is a frame."""
        found = _FRAME.search(line) or _IPYTHON.search(line) or _RICH.search(line)
        if found is not None:
            self._add_frame(found[1], int(found[2]), found[3] or b"")
            return True
        if cell := _CELL.search(line):
            number = cell[2] or (cell[3] if (cell[3] or b"").isdigit() else None)
            self.heading = (b"notebook cell %s" % cell[1], b"")
            if number is not None:
                self._add_frame(self.heading[0], int(number), b"")
            return True
        if heading := _HEADING.match(line):
            self.heading = (heading[1], heading[2])
            return True
        arrow = _ARROW.match(line) if self.heading is not None else None
        if arrow is not None and self.heading is not None:
            self._add_frame(self.heading[0], int(arrow[1]), self.heading[1])
            self.heading = None
        return arrow is not None

    def _add_frame(self, file: bytes, line: int, function: bytes) -> None:
        if not is_library_file(file):
            self.place = Place(decode_name(file), line)
            return
        self.within = frame_purpose(file, function) or self.within
        self.constant |= function in _ARRAY_FUNCTIONS and _ARRAY_FILES.search(file) is not None


def is_library_file(file: bytes) -> bool:
    """Whether a file belongs to a library, not to the user."""
    return _LIBRARY.search(file) is not None


def inline_place(line: bytes) -> Place | None:
    """The line that defined an op, from TensorFlow's ``[[node X (defined at FILE:LINE) ]]``."""
    places = [
        Place(decode_name(found[1]), int(found[2]))
        for found in INLINE_DEFINITION.finditer(line)
        if not is_library_file(found[1])
    ]
    return places[-1] if places else None
