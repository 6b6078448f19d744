"""Guesses what a file that is not a profile is, from its first bytes and its name, for the error message.

An XSpace begins with the tag of a field, whose wire type (the low three bits) is 0, 1, 2 or 5, and it contains
control characters from its second field on. Therefore neither JSON nor any text can be an XSpace.
"""

from __future__ import annotations

import codecs
import re

FILE_HEAD_BYTES = 4096
WANTED_HINT = "give a *.xplane.pb, or the log folder that holds it"

_MAGIC_BYTES = (
    (b"\x89HDF\r\n\x1a\n", "HDF5 (Keras weights or a model, .h5)"),
    (b"PK\x03\x04", "a zip archive (.keras, .npz or PyTorch)"),
    (b"SQLite format 3\x00", "an SQLite database (from Nsight Systems, or a Slowtrain recording)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"),
    (b"\xfd7zXZ\x00", "compressed with xz; unpack it first"),
    (b"BZh", "compressed with bzip2; unpack it first"),
    (b"\x7fELF", "a program"),
)
_PICKLE = re.compile(rb"\x80[\x02-\x05](?:\x95|[}\](cq])")
_CHECKPOINT = re.compile(r"\.(?:data-\d{5}-of-\d{5}|index)$")
_SAVED_MODEL = re.compile(r"^(?:saved_model|keras_metadata|fingerprint)\.pb$")
_TRACE_VIEWER = re.compile(r"\.trace\.json(?:\.gz)?$")
# Files that TensorBoard's profiler caches next to the profile, by the names of its tools.
_ANALYSIS = re.compile(
    r"(?:overview_page|input_pipeline\w*|(?:tensorflow|kernel|op)_stats\w*|memory_profile|memory_viewer|hlo_proto|"
    r"hlo_stats|pod_viewer|tf_data_bottleneck_analysis|podcapture|roofline_model|trace_viewer\w*)\.pb$"
)
_LEGACY = re.compile(r"\.trace(?:\.gz)?$")
LEGACY_KIND = "a legacy trace; give the *.xplane.pb in the same folder"
# A message in a file's first field whose content a plane cannot have there: an op of a graph
# ("dense/kernel", then "VarHandleOp"), a kernel of kernel_stats.pb, …
_GRAPH_NODE = re.compile(
    rb"\n[\x00-\x7f\x80-\xff]{1,3}?\n[\x01-\x7f][\w./-]{1,127}\x12[\x01-\x40][A-Z_]\w{1,63}[\x1a\x22\x2a\n]"
)
# The same for a legacy trace: a number, then a device, which is a message with a name.
_OLD_DEVICE = re.compile(rb"\n[\x00-\xff]{1,3}?\x08[\x00-\xff]{1,5}?\x12[\x00-\xff]{1,3}?\n[\x01-\x7f][/\w]")
_NO_WIRE_TYPE = (6, 7)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")


def other_file_kind(head: bytes, name: str) -> str | None:
    """Return what the file certainly is instead of a profile; None if it may be a profile."""
    for magic, kind in _MAGIC_BYTES:
        if head.startswith(magic):
            return kind
    if _PICKLE.match(head):
        return "a Python pickle"
    if b"brain.Event:" in head[:64]:
        return "TensorBoard's event file; the profiles are in plugins/profile in the same folder"
    if head[257:262] == b"ustar":
        return "a tar archive; unpack it first"
    if not _CONTROL.search(head):
        return _text_kind(head, name)
    if _GRAPH_NODE.match(head):
        return "a graph (GraphDef) without times"
    if _OLD_DEVICE.match(head):
        return LEGACY_KIND
    # Decided by the first byte, before gigabytes of zeros are unzipped.
    message = head[0] >> 3 and head[0] & 7 not in _NO_WIRE_TYPE
    return None if message or likely_file_kind(head, name) else "not a protobuf message"


def likely_file_kind(head: bytes, name: str) -> str | None:
    """Return what a file that could not be read as a profile may be; None if unknown."""
    if _CHECKPOINT.search(name):
        return "part of a TensorFlow checkpoint"
    if _LEGACY.search(name):
        return LEGACY_KIND
    if _SAVED_MODEL.search(name) or head.startswith(b"\x08\x01\x12"):
        return "part of a SavedModel"
    if _ANALYSIS.search(name) or b"type.googleapis.com/tensorflow.profiler." in head:
        return "an analysis of a profile, written by TensorBoard's profiler"
    return None


def _text_kind(head: bytes, name: str) -> str | None:
    """Return the kind of a text without control characters. The last character may be cut off."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head).lstrip()
    except UnicodeDecodeError:
        return None
    if text.startswith(("{", "[")):
        trace = '"traceEvents"' in text or '"displayTimeUnit"' in text or _TRACE_VIEWER.search(name)
        return "a trace viewer's JSON" if trace else "JSON"
    return "TensorFlow's list of checkpoints" if text.startswith("model_checkpoint_path:") else "text"
