"""XLA programs in a profile: for each kernel its op in the user's model, the shapes, and the line.

A kernel that XLA wrote has the name of the instruction it computes; others have that name as a statistic. The program
tells the rest. The result is text in TensorFlow's format (``dense/MatMul:MatMul#shape=(half[32,8];half[8,4])#``), so
that later modules handle only one kind of op.

The schema is xla/service/hlo.proto; unknown fields are skipped, and unreadable programs give nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from math import prod

from msgspec import Struct

from slowtrain.errors import InputError
from slowtrain.model import Place
from slowtrain.profile import framework_names
from slowtrain.profile.format import xplane
from slowtrain.profile.format.wire_format import LEN, VARINT, ProtoFile, field_tag

MAX_PROGRAM_BYTES = 24 << 20  # of all programs in a profile: some seconds of reading; large models have one to five MiB
MAX_PROGRAM_FIELDS = 4_000_000  # of one program; a large model's has a tenth of it
MAX_NESTED_SHAPES, MAX_SHAPE_DIMS, MAX_OPERANDS = 8, 16, 10_000  # nested shapes; dimensions; operands
MAX_EAGER_INSTRUCTIONS = 3  # computing instructions in a program that Python started for a single op
MAX_SCOPE_CHARS = 120  # of a scope
ANY_LIBRARY_PRODUCT = ""  # key of the op that describes all library products of a program, if they are equal

_MODULE = field_tag(1)  # of HloProto
_COMPUTATION, _FRAMES = field_tag(3), field_tag(17)  # of HloModuleProto
_INSTRUCTION, _COMPUTATION_ID = field_tag(2), field_tag(5, VARINT)  # of HloComputationProto
_NAME, _OPCODE, _SHAPE, _METADATA = field_tag(1), field_tag(2), field_tag(3), field_tag(7)  # of HloInstructionProto
_TARGET, _ID, _OPERANDS, _CALLED = field_tag(28), field_tag(35, VARINT), field_tag(36), field_tag(38)
_CONVOLUTION = field_tag(16)  # ConvolutionDimensionNumbers: of the filter input = 3, output = 4, space = 6
_PRECISION = field_tag(51)  # PrecisionConfig: operand_precision = 1, 0 for "as the device likes best"
_ELEMENT, _DIMENSIONS, _PARTS = field_tag(2, VARINT), field_tag(3), field_tag(4)  # of ShapeProto
_OP_NAME, _FRAME = field_tag(2), field_tag(15, VARINT)  # of OpMetadata
# xla/xla_data.proto PrimitiveType, in the notation of TensorFlow's annotations
_DTYPE_BY_CODE = {1: "bool", 4: "int32", 5: "int64", 6: "uint8", 10: "half", 11: "float", 12: "double", 16: "bfloat16"}
_NOT_COMPUTING_OPCODES = frozenset(
    "parameter constant tuple get-tuple-element bitcast bitcast-convert copy copy-start copy-done broadcast reshape "
    "convert iota after-all opt-barrier transpose".split()
)
_LIBRARY_OPS = (  # what a library call computes, by its target and its instruction's name
    (r"(?i)conv.*(?:bw|backward).*filter", "Conv2DBackpropFilter"),
    (r"(?i)conv.*(?:bw|backward).*input", "Conv2DBackpropInput"),
    (r"(?i)conv", "Conv2D"),
    (r"(?i)gemm|matmul|dot", "MatMul"),
    (r"(?i)rnn", "CudnnRNN"),
)
_ELEMENTWISE_OPS = {  # elementwise instructions with TensorFlow's names
    "abs": "Abs", "add": "AddV2", "and": "LogicalAnd", "ceil": "Ceil", "clamp": "ClipByValue", "compare": "Equal",
    "cosine": "Cos", "divide": "RealDiv", "erf": "Erf", "exponential": "Exp", "floor": "Floor", "log": "Log",
    "logistic": "Sigmoid", "maximum": "Maximum", "minimum": "Minimum", "multiply": "Mul", "negate": "Neg",
    "not": "LogicalNot", "or": "LogicalOr", "power": "Pow", "rsqrt": "Rsqrt", "select": "SelectV2", "sign": "Sign",
    "sine": "Sin", "sqrt": "Sqrt", "subtract": "Sub", "tanh": "Tanh",
}  # fmt: skip
_JIT_SCOPE = r"^(?:p?jit\([^()]*\)/)+"  # the compiled function itself
_TRANSFORM_SCOPE = r"\b(?:jvp|vmap|remat|checkpoint|custom_jvp|custom_vjp|p?jit)\(([^()]*)\)"
_BACKWARD_SCOPE = r"\btranspose\(([^()]*)\)"
_CALL_SCOPE = r"(?:^|(?<=/))(?:eval_jaxpr|body|cond|closed_call|core_call)(?:/|$)"
_PACKAGE_FILE = r"site-packages|dist-packages|/lib/python\d|/(?:keras/src|jax/_src|flax|optax)/|^<"
_CONTROL_OPCODES = frozenset(
    "while call conditional async-start".split()
)  # computations whose instructions are kernels


class Shape(Struct, frozen=True):
    dtype: str
    dims: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.dims))}]"


class Instruction(Struct, frozen=True):
    """An instruction of a program. ``frame`` leads to its line, ``called`` to the computations it consists of."""

    name: str
    opcode: str
    shape: Shape | None
    scope: str
    frame: int
    operands: tuple[int, ...]
    called: tuple[int, ...]
    target: str
    filter: tuple[int, ...]  # for a convolution: the filter's dimensions for space, input channels and output channels
    rounded: bool  # operands may be rounded to the device's fastest format


class ProgramOp(Struct, frozen=True):
    """What a kernel computes, as text in TensorFlow's format, and the user's line."""

    text: str
    place: Place | None


def read_programs(space: xplane.Space) -> dict[int, dict[str, ProgramOp]]:
    """Return for each program id the ops of its instructions, by the names of their kernels."""
    found: dict[int, dict[str, ProgramOp]] = {}
    left = MAX_PROGRAM_BYTES
    for plane in space.planes:
        if plane.name != framework_names.METADATA_PLANE:
            continue
        for key, stats in plane.metadata_stats((framework_names.HLO_PROTO,)).items():
            number = re.fullmatch(framework_names.PROGRAM_NAME, plane.event_names.get(key, ""))
            data = stats.get(framework_names.HLO_PROTO)
            if number is None or not isinstance(data, bytes) or len(data) > left:
                continue
            left -= len(data)
            try:
                found[int(number[1])] = _HloProgram(data).ops()
            except InputError:
                continue
    return found


def comparable_name(kernel: str) -> str:
    """Return the name of a kernel or instruction reduced to the characters that both can contain."""
    return re.sub(r"[^A-Za-z0-9]", "_", kernel)


class _HloProgram:
    """One HloProto, decoded as far as needed. Raises ``InputError`` for broken bytes."""

    def __init__(self, data: bytes) -> None:
        self.file = ProtoFile(data, "a program of XLA's", MAX_PROGRAM_FIELDS)
        self.computations: dict[int, list[int]] = {}
        self.instructions: dict[int, Instruction] = {}
        self.frames = _StackFrames()
        modules = (span for tag, *span in self.file.fields(0, len(data)) if tag == _MODULE)
        for tag, begin, end in (field for span in modules for field in self.file.fields(*span)):
            if tag == _COMPUTATION:
                self._computation(begin, end)
            elif tag == _FRAMES:
                self.frames.read_index(self.file, begin, end)

    def _computation(self, start: int, stop: int) -> None:
        inside: list[int] = []
        for tag, value, end in self.file.fields(start, stop):
            if tag == _INSTRUCTION:
                number, one = self._instruction(value, end)
                self.instructions[number] = one
                inside.append(number)
            elif tag == _COMPUTATION_ID:
                self.computations[value] = inside

    def _instruction(self, start: int, stop: int) -> tuple[int, Instruction]:
        name = opcode = scope = target = ""
        number = frame = 0
        shape: Shape | None = None
        operands: tuple[int, ...] = ()
        called: tuple[int, ...] = ()
        filter_: tuple[int, ...] = ()
        rounded = True
        file = self.file
        for tag, value, end in file.fields(start, stop):
            if tag == _NAME:
                name = file.text(value, end)
            elif tag == _OPCODE:
                opcode = file.text(value, end)
            elif tag == _SHAPE:
                shape = self._shape(value, end)
            elif tag == _METADATA:
                scope, frame = self._scope_and_frame(value, end)
            elif tag == _TARGET:
                target = file.text(value, end)
            elif tag == _ID:
                number = value
            elif tag in (_OPERANDS, _CALLED):
                listed = tuple(islice(file.packed_numbers(value, end), MAX_OPERANDS))
                operands, called = (listed, called) if tag == _OPERANDS else (operands, listed)
            elif tag == _CONVOLUTION:
                row = _varint_fields(file, value, end)
                space = [
                    n for t, a, b in file.fields(value, end) if t == field_tag(6) for n in file.packed_numbers(a, b)
                ]
                filter_ = (*space, row.get(3, 0), row.get(4, 0))
            elif tag == _PRECISION:
                rounded = not any(
                    any(file.packed_numbers(a, b))
                    for inner, a, b in file.fields(value, end)
                    if inner == field_tag(1, LEN)
                )
        found = Instruction(name, opcode, shape, scope, frame, operands, called, target, filter_, rounded)
        return number, found

    def _shape(self, start: int, stop: int) -> Shape | None:
        """Return the shape; for a tuple that of its first part, because the result comes before the workspace."""
        for _ in range(MAX_NESTED_SHAPES):
            element = 0
            dims: tuple[int, ...] = ()
            part: tuple[int, int] | None = None
            for tag, value, end in self.file.fields(start, stop):
                if tag == _ELEMENT:
                    element = value
                elif tag == _DIMENSIONS:
                    dims = tuple(islice(self.file.packed_numbers(value, end), MAX_SHAPE_DIMS))
                elif tag == _PARTS and part is None:
                    part = value, end
            if part is None:
                return Shape(_DTYPE_BY_CODE.get(element, "other"), dims) if element else None
            start, stop = part
        return None

    def _scope_and_frame(self, start: int, stop: int) -> tuple[str, int]:
        scope, frame = "", 0
        for tag, value, end in self.file.fields(start, stop):
            if tag == _OP_NAME:
                scope = self.file.text(value, end)
            elif tag == _FRAME:
                frame = value
        return scope, frame

    # -- what it says of kernels

    def ops(self) -> dict[str, ProgramOp]:
        """Return the ops of the program's kernels by name."""
        computing = sum(
            i.opcode not in _NOT_COMPUTING_OPCODES and i.opcode != "fusion" for i in self.instructions.values()
        )
        alone = computing <= MAX_EAGER_INSTRUCTIONS
        parts = {n for i in self.instructions.values() if i.opcode not in _CONTROL_OPCODES for n in i.called}
        inner = {i for number in parts for i in self.computations.get(number, ())}
        alike: dict[tuple[str, ...], set[str]] = {}
        kernels: dict[str, tuple[Instruction, str, tuple[str, ...]]] = {}
        for number, one in self.instructions.items():
            main = self._main(one)
            kind = _op_type(main, alone) if number not in inner else None
            if kind is None:
                continue
            shapes = self._operands(main)
            key = (kind, shapes, str(one.shape), *sorted(i.opcode for i in self._inner_instructions(one)))
            alike.setdefault(key, set()).add(clean_scope(main.scope))
            kernels[comparable_name(one.name)] = main, shapes, key
        found = {}
        for name, (main, shapes, key) in kernels.items():
            scope = _common_scope(alike[key])  # XLA writes one kernel for equal instructions
            text = f"{scope}:{key[0]}" if scope else f"{key[0]}:{key[0]}"
            found[name] = ProgramOp(text + (f"#shape=({shapes})#" if shapes else ""), self.frames.users(main.frame))
        # Library kernels in a command buffer name no instruction. If all of them are equal, no name is needed.
        called = {
            text: main for text, (main, _, _) in kernels.items() if main.opcode == "custom-call" and _product_type(main)
        }
        kinds = {kernels[name][1:2] + kernels[name][2][:1] for name in called}
        if len(kinds) == 1:
            scope = _common_scope({clean_scope(main.scope) for main in called.values()})
            kind, shapes = kinds.pop()[::-1]
            found[ANY_LIBRARY_PRODUCT] = ProgramOp(
                f"{scope or kind}:{kind}" + (f"#shape=({shapes})#" if shapes else ""), None
            )
        return found

    def _inner_instructions(self, one: Instruction) -> Iterator[Instruction]:
        for number in one.called if one.opcode == "fusion" else ():
            yield from (self.instructions[i] for i in self.computations.get(number, ()))

    def _main(self, one: Instruction) -> Instruction:
        """Return the instruction that takes a fusion's time: a product if there is one, else the fusion itself."""
        inside = [i for i in self._inner_instructions(one) if i.opcode not in _NOT_COMPUTING_OPCODES]
        products = [i for i in inside if i.opcode in ("dot", "convolution")]
        if products:
            return max(products, key=lambda i: prod(i.shape.dims) if i.shape else 0)
        if len(inside) == 1:
            return inside[0]
        return one

    def _operands(self, one: Instruction) -> str:
        """Return the inputs of a product in TensorFlow's order, a convolution's filter with its channels last."""
        kind = _product_type(one)
        operand_shapes = [self.instructions[i].shape for i in one.operands[:2] if i in self.instructions]
        shapes = [g for g in operand_shapes if g is not None]
        if kind is None or len(shapes) < 2 or kind == "CudnnRNN":
            return ""
        if kind in ("Conv2D", "Conv2DBackpropInput"):
            filter_ = shapes[1]
            if sorted(one.filter) != list(range(len(filter_.dims))):
                return ""
            shapes[1] = Shape(filter_.dtype, tuple(filter_.dims[i] for i in one.filter))
            shapes = shapes if kind == "Conv2D" else shapes[::-1]
        return ";".join(str(Shape("tf32", s.dims) if s.dtype == "float" and one.rounded else s) for s in shapes)


def _product_type(one: Instruction) -> str | None:
    if one.opcode == "dot":
        return "MatMul"
    if one.opcode == "convolution":
        return "Conv2D"
    if one.opcode == "custom-call":
        return next((kind for pattern, kind in _LIBRARY_OPS if re.search(pattern, f"{one.target} {one.name}")), None)
    return None


def _op_type(one: Instruction, alone: bool) -> str | None:
    """Return the op type in TensorFlow's terms; for a fusion made by XLA a type of its own."""
    if one.opcode in _NOT_COMPUTING_OPCODES:
        return None
    product = _product_type(one)
    if product is not None:
        return product
    if alone and one.opcode in _ELEMENTWISE_OPS:
        return _ELEMENTWISE_OPS[one.opcode]
    return "Xla" + "".join(part.capitalize() for part in one.opcode.split("-"))  # not an op of TensorFlow: XLA made it


def clean_scope(scope: str) -> str:
    """Turn ``jit(train_step)/transpose(jvp(dense))/dot_general`` into ``gradient_tape/dense/dot_general``."""
    text = re.sub(_JIT_SCOPE, "", scope[: 4 * MAX_SCOPE_CHARS])
    for _ in range(4):
        inner = re.sub(_TRANSFORM_SCOPE, r"\1", text)
        if inner == text:
            break
        text = inner
    backward = re.sub(_BACKWARD_SCOPE, r"\1", text)
    text = re.sub(_CALL_SCOPE, "", f"gradient_tape/{backward}" if backward != text else backward)
    return re.sub(r"[^A-Za-z0-9_./>-]", "_", re.sub(r"/{2,}", "/", text)).strip("/")[:MAX_SCOPE_CHARS]


def _common_scope(scopes: set[str]) -> str:
    """Return the longest common prefix of scopes, with numeric suffixes removed (``dense_1`` becomes ``dense``)."""
    if len(scopes) == 1:
        return next(iter(scopes))
    without = {re.sub(r"_\d+(?=/|$)", "", scope) for scope in scopes}
    if len(without) == 1:
        return next(iter(without))
    shared: list[str] = []
    for parts in zip(*(scope.split("/") for scope in sorted(without)), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return "/".join(shared)


class _StackFrames:
    """The stack of each op at the time it was traced, which shows where it was written."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.functions: list[str] = []
        self.locations: list[tuple[int, int]] = []  # file's number, line
        self.frames: list[tuple[int, int]] = []  # numbers of location and parent frame, counted from 1

    def read_index(self, file: ProtoFile, start: int, stop: int) -> None:
        for tag, begin, end in file.fields(start, stop):
            if tag == field_tag(1):
                self.files.append(file.text(begin, end))
            elif tag == field_tag(3):
                row = _varint_fields(file, begin, end)
                self.locations.append((row.get(1, 0), row.get(3, 0)))
            elif tag == field_tag(4):
                row = _varint_fields(file, begin, end)
                self.frames.append((row.get(1, 0), row.get(2, 0)))

    def users(self, frame: int) -> Place | None:
        """Return the innermost line that is not in an installed package; None if there is none."""
        for _ in range(200):
            if not 0 < frame <= len(self.frames):
                return None
            location, frame = self.frames[frame - 1]
            if 0 < location <= len(self.locations):
                number, line = self.locations[location - 1]
                name = self.files[number - 1] if 0 < number <= len(self.files) else ""
                if name and line > 0 and not re.search(_PACKAGE_FILE, name):
                    return Place(name, line)
        return None


def _varint_fields(file: ProtoFile, start: int, stop: int) -> Mapping[int, int]:
    return {tag >> 3: value for tag, value, _ in file.fields(start, stop) if tag & 7 == VARINT}
