"""Tracebacks in a log: the user's line, and what frames of libraries say about the request.

Reads tracebacks of Python, IPython (in notebooks) and rich, and TensorFlow's lists of frames that defined an op
("defined at").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from slowtrain.model import Place
from slowtrain.model.exhaustion import Purpose
from slowtrain.oom.text import tensor_purpose
from slowtrain.oom.text.byte_sizes import decode_name

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
        self.within = tensor_purpose.frame_purpose(file, function) or self.within
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
