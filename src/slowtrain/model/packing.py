"""The nouns of packing: which elements are written, in which form, what that costs and what it saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slowtrain.model import Edit, Saving, Verdict

TFRECORD, ARRAY_RECORD = "tfrecord", "array-record"


@dataclass(frozen=True)
class PackedPart:
    """One tensor of an element; ``key`` is its name in a record.

    ``shape`` is None if the rank is unknown; an axis is None if its length is. ``storage`` is ``raw`` (the bytes of a
    tensor of known shape), ``string`` (a scalar string as it is) or ``tensor`` (a serialised tensor of any shape).
    """

    key: str
    dtype: str
    shape: tuple[int | None, ...] | None
    storage: str


@dataclass(frozen=True)
class ElementForm:
    """How elements are stored in records.

    ``structure`` is Python code with ``{0}``, ``{1}``, … in place of the parts: ``({0}, {1})``. ``block``: elements in
    one record; more than one only if all parts are ``raw``. ``file_format``: of the files that hold the records.
    """

    parts: tuple[PackedPart, ...]
    structure: str
    block: int = 1
    file_format: str = TFRECORD

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> ElementForm:
        """The form from the values of its JSON."""
        parts = tuple(
            PackedPart(one["key"], one["dtype"], None if one["shape"] is None else tuple(one["shape"]), one["storage"])
            for one in values["parts"]
        )
        return cls(parts, values["structure"], int(values["block"]), values["file_format"])


@dataclass(frozen=True)
class PackingSource:
    """Where elements come from.

    ``kind``: ``script`` is the data set that a script builds at ``line`` of ``file``; the others are folders: ``files``
    (one element a file), ``csv`` (one a row), ``npz`` (one a row of the arrays, or one a file if ``rows`` is False).
    ``decoded``: images are stored as pixels. ``digest`` is SHA-256 of the script's files, or of the names, sizes and
    times of the folder's files. ``folder``: the working folder of the script.
    """

    kind: str
    path: str
    digest: str
    folder: str = ""
    arguments: tuple[str, ...] = ()
    module: bool = False
    file: str = ""
    line: int = 0
    decoded: bool = False
    rows: bool = True
    columns: tuple[tuple[str, str], ...] = ()  # of CSV files: name and dtype
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class PackingSample:
    """What a few elements showed.

    ``source_us``: to make an element as the source does now, ``source_cpu_us``: the processor time of that.
    ``read_us``: to read it back in the packed form, from the disk and not from memory. ``write_us``: to write it.
    ``verified``: elements that were read back and are equal, bit for bit. ``work_us``: what is still done for each
    element after reading, such as decoding.
    """

    elements: int
    element_bytes: float
    source_us: float
    source_cpu_us: float
    read_us: float
    write_us: float
    verified: int
    work_us: float = 0.0

    @property
    def ready_us(self) -> float:
        """µs from one packed element that is ready to the next: reading and the rest of the work overlap."""
        return max(self.read_us, self.work_us)


@dataclass(frozen=True)
class PackingPlan:
    """What ``slowtrain pack`` will write.

    ``lengths``: the numbers of elements of the data sets, in the order in which the script builds them at its line; a
    length is None if it is unknown. ``bytes`` is None then too. ``seconds``: predicted time to pack.
    ``marked_edits``: edits of the script in which ``cache()`` stands where the packed elements are read.
    ``content_of``: if contents of files are packed, the number of the part that names the file; ``function_edits``
    then let the script's function take the content. ``saving``: the predicted gain, ``proof`` the one that was measured
    on the sample; None for a folder. ``rejected``: other forms, each with its reason. ``patch``: it has to be applied
    before packing, because the plan is for the script with it; empty if the plan is for the script as it was.
    """

    source: PackingSource
    output: str
    form: ElementForm
    sample: PackingSample
    lengths: tuple[int | None, ...]
    bytes: int | None
    seconds: float | None
    shard_bytes: int
    free_bytes: int
    marked_edits: tuple[Edit, ...] = ()
    content_of: int | None = None
    function_edits: tuple[Edit, ...] = ()
    saving: Saving | None = None
    proof: Verdict | None = None
    rejected: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    patch: str = ""

    @property
    def has_room(self) -> bool:
        """Whether the disk has as much free space as the packed data are predicted to take."""
        return self.bytes is None or self.bytes <= self.free_bytes

    @property
    def elements(self) -> int | None:
        """Of all data sets together; None if a length is unknown."""
        known = [length for length in self.lengths if length is not None]
        return sum(known) if len(known) == len(self.lengths) else None

    @property
    def outputs(self) -> tuple[str, ...]:
        """One folder for each data set."""
        count = len(self.lengths)
        return (self.output,) if count == 1 else tuple(f"{self.output}-{n}" for n in range(1, count + 1))


@dataclass(frozen=True)
class PackedShard:
    """One file of the packed folder."""

    file: str
    elements: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class PackedFolder:
    """What is in a packed folder. ``resumed``: elements that an earlier, ended process had written already."""

    folder: str
    elements: int
    shards: tuple[PackedShard, ...] = field(default=())
    seconds: float = 0.0
    resumed: int = 0
    already_complete: bool = False

    @property
    def bytes(self) -> int:
        return sum(shard.bytes for shard in self.shards)
