"""Messages of XLA and JAX besides the allocator's: a program's buffers, who allocated, the size of the pool."""

from __future__ import annotations

import re
from dataclasses import replace

from slowtrain.model import Place
from slowtrain.oom.messages.dump_builder import DumpBuilder
from slowtrain.oom.text.byte_sizes import SIZE, decode_name, parse_size
from slowtrain.oom.text.log_tracebacks import is_library_file

# "Out of memory while trying to allocate 20.00GiB."; with XLA_PYTHON_CLIENT_ALLOCATOR=platform (and before jaxlib 0.4)
# "Failed to allocate request for 2.99GiB (3206250496B) on device ordinal 0"; on a CPU
# "Out of memory allocating N bytes".
REQUEST_ERROR = re.compile(
    rb"(?:Out of memory (?:while trying to allocate|allocating) " + SIZE + rb"|[Ff]ailed to allocate request for "
    rb"[\d.]{1,20}[KMGT]?i?B \((\d{1,19})B\)|Failed to allocate (\d{1,19}) bytes for new constant"
    rb"|[Ff]ailed to allocate request for " + SIZE + rb" on device)"
)
JAX_OP_MARK = b'op_name="jit('  # the program's name in JAX's notation
BACKEND = b"XLA backend"
# jaxlib.xla_extension.XlaRuntimeError, jax.errors.JaxRuntimeError. TensorFlow raises its own error instead.
PROGRAM = re.compile(
    rb"reduce memory use below [\d.]{1,20}[KMGT]?i?B \((\d{1,19}) bytes\) by rematerialization; only reduced to "
    rb"[\d.]{1,20}[KMGT]?i?B \((\d{1,19}) bytes\)"
)
SUMMARY = re.compile(
    rb" *Allocator memory summary: rounded request " + SIZE + rb", total free in pool " + SIZE + rb", largest free "
    rb"chunk usable by \w{1,20} end " + SIZE + rb", unallocated bytes " + SIZE + rb", pool size " + SIZE
)
EXECUTABLE = re.compile(rb"executable=([^,}\s]{1,300})")
BUFFER = re.compile(rb"\s*(?:\d{1,4}\. |\s)Size: " + SIZE)
OPERATOR = re.compile(rb"\s+Operator: (?:op_type=\"[^\"]{0,200}\" )?op_name=\"([^\"\[]{1,1000})")
SOURCE = re.compile(rb"source_file=\"([^\"]{1,1000})\" source_line=(\d{1,8})")
BUFFER_LABEL = re.compile(rb"\s+(?:XLA [Ll]abel: %?|Entry Parameter Subshape: )(\S{1,200})")
BUFFER_REST = re.compile(
    rb"\s*$|\s+(?:Buffer \d+:|XLA [Ll]abel|Shape:|Entry Parameter|=====|Allocation type|Unpadded size|Extra memory|"
    rb"deduplicated|Operator:)"
)
ASSIGNED = re.compile(rb"\s+(parameter|constant|maybe_live_out|preallocated temp) allocation: +" + SIZE)
# The parts of a program by the names in XLA's sums: first those of buffer assignment, then those of a TPU's list.
PROGRAM_PART_LABELS = {
    b"parameter": "the program's arguments",
    b"constant": "its constants",
    b"maybe_live_out": "its results",
    b"preallocated temp": "its temporaries",
    b"arguments": "the program's arguments",
    b"global": "its constants",
    b"output": "its results",
    b"HLO temp": "its temporaries",
}


def program_name(annotation: bytes) -> str:
    """The program in ``xla.execute{executable=jit_step}``; else the whole annotation."""
    found = EXECUTABLE.search(annotation)
    return decode_name(found[1] if found else annotation)


def read_xla_error(line: bytes, builder: DumpBuilder) -> bool:
    """Reads the size in XLA's own error; returns whether the line is one."""
    found = REQUEST_ERROR.search(line)
    if found is None:
        return False
    builder.allocator = "XLA"
    told = next((found[i], found[i + 1]) for i in (1, 5) if found[i]) if found[1] or found[5] else None
    builder.ask(parse_size(*told) if told else parse_size(found[3] or found[4]))
    if found[4]:
        builder.request = replace(builder.request, constant=True)
    return True


def program_memory(text: bytes) -> tuple[int, int] | None:
    """The compiler's peak memory of a program, and the limit that it had to keep."""
    found = PROGRAM.search(text)
    needs, limit = (parse_size(found[2]), parse_size(found[1])) if found else (None, None)
    return (needs, limit) if needs and limit else None


def read_allocator_summary(builder: DumpBuilder, text: bytes) -> bool:
    """Reads the allocator's figures in one line, with three digits each (jaxlib 0.11)."""
    found = SUMMARY.match(text)
    if found is None:
        return False
    _, free, largest, growth, pool = (parse_size(found[i], found[i + 1] or b"") for i in range(1, 11, 2))
    builder.told_free_bytes, builder.usable_bytes = free, largest
    builder.growth_bytes, builder.told_pool_bytes = growth, pool
    return True


def read_buffer_line(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the list of buffers that are alive at the memory peak."""
    if sized := BUFFER.match(line):
        builder.stats["buffer"] = parse_size(sized[1], sized[2]) or 0
        builder.listed = True
        return True
    if named := OPERATOR.match(line) or BUFFER_LABEL.match(line):
        bytes_ = builder.stats.pop("buffer", 0)
        if bytes_:
            builder.made(decode_name(named[1]), bytes_)
            source = SOURCE.search(line)
            if source is not None and not is_library_file(source[1]):
                builder.places.setdefault(builder.newest_op, Place(decode_name(source[1]), int(source[2])))
        return True
    return BUFFER_REST.match(line) is not None


def read_program_sum(builder: DumpBuilder, line: bytes) -> bool:
    """Reads a line of the program's own sums (BufferAssignment stats)."""
    found = ASSIGNED.match(line)
    bytes_ = parse_size(found[2], found[3] or b"") if found else None
    if found and bytes_:
        builder.parts[PROGRAM_PART_LABELS[found[1]]] = bytes_
    return found is not None or b" fragmentation: " in line or b"total allocation: " in line
