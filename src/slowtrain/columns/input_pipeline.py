"""The input pipeline as it ran: TensorFlow's counters of each tf.data node, joined to the user's lines.

The counters are a ``ModelProto`` (tensorflow/core/framework/model.proto). Processing time is summed over threads and
excludes a node's inputs. TensorFlow rewrites the graph before it runs (it fuses map and batch, makes maps parallel,
adds prefetches). Therefore running nodes are matched to written ones in order, by family.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from slowtrain.columns.arrays import Floats
from slowtrain.model import Place

ASYNC_PREFIXES = tuple(
    "Prefetch ParallelMap MapAndBatch ParallelInterleave ParallelBatch ParallelFilter DataService".split()
)
INFINITE_CARDINALITY, UNKNOWN_CARDINALITY = -1, -2  # tf.data's values for an infinite and an unknown length
PYTHON_OPS = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
RANDOM_OP_PREFIXES = ("Random", "StatelessRandom", "Multinomial", "SampleDistorted")


class WrittenDataset(Struct, frozen=True):
    """A data set as the user wrote it; ``op`` is the Python class, for example ``MapDataset``."""

    op: str
    inputs: tuple[int, ...] = ()
    place: Place | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        return node_family(self.op.removesuffix("Dataset"))

    @property
    def ops(self) -> Mapping[str, int]:
        """Number of ops of each type in the data set's function."""
        found: Mapping[str, int] = self.detail.get("ops") or {}
        return found

    @property
    def python(self) -> bool:
        """Whether the function runs Python for each element."""
        return bool(PYTHON_OPS & set(self.ops)) or (
            self.op in ("FlatMapDataset", "_GeneratorDataset") and "python" in self.detail
        )

    @property
    def random(self) -> bool:
        return any(op.startswith(RANDOM_OP_PREFIXES) for op in self.ops)

    @property
    def element_bytes(self) -> int | None:
        """Bytes of one element; None unless all its shapes are known."""
        total = 0
        for part in self.detail.get("element") or ():
            shape = part.get("shape")
            if shape is None or None in shape:
                return None
            total += prod(shape) * int(part.get("bytes") or 0)
        return total


class Node(Struct, frozen=True):
    """A node of the running pipeline. ``ms`` and ``elements`` are per batch that the pipeline delivers."""

    id: int
    name: str
    inputs: tuple[int, ...]
    ms: float
    elements: float
    parallelism: float | None
    tunable: bool
    buffer_size: float | None
    buffered_bytes: float
    bytes_produced: float
    written: WrittenDataset | None = None

    @property
    def asynchronous(self) -> bool:
        """Whether the node works ahead of its consumer, in threads of its own."""
        return self.name.startswith(ASYNC_PREFIXES)

    @property
    def places(self) -> tuple[Place, ...]:
        """The line of the script that wrote it: one, or none."""
        return (self.written.place,) if self.written and self.written.place else ()

    @property
    def family(self) -> str:
        return node_family(self.name)

    @property
    def function_line(self) -> int | None:
        """The first line of the function of a ``map``."""
        function = self.written.detail.get("function") if self.written else None
        return int(function["line"]) if function and function.get("line") else None

    @property
    def us_per_element(self) -> float:
        return 1e3 * self.ms / self.elements if self.elements else 0.0


class Stage(Struct, frozen=True):
    """Nodes that share one thread or one pool: from an asynchronous node down to the next one."""

    nodes: tuple[Node, ...]
    parallelism: float

    @property
    def ms(self) -> float:
        """Processor time per batch."""
        return sum(n.ms for n in self.nodes)

    @property
    def latency_ms(self) -> float:
        """Time per batch, with the stage's parallelism."""
        return self.ms / max(self.parallelism, 1.0)


class CounterHistory(Struct, frozen=True, eq=False):
    """Totals of each node between consecutive readings of its counters, in order of time.

    ``ms`` and ``elements`` have one row for each node and one column for each stretch between two readings; NaN if
    the node was not read at both ends. ``batches`` is the number of batches delivered in each stretch. One step
    trains on ``a_step`` batches.
    """

    start_ms: Floats
    end_ms: Floats
    batches: Floats
    ms: Floats
    elements: Floats
    a_step: int = 1


class Pipeline(Struct, frozen=True):
    """One data set with its measurements. ``batches`` is the number of batches that it delivered.

    ``gap_ms`` is the mean time from the delivery of a batch to the consumer's next request, None if it was not
    measured. It comes from TensorFlow's record of the gaps between the consumer's calls.
    """

    written: tuple[WrittenDataset, ...]
    nodes: tuple[Node, ...] = ()
    batches: int = 0
    gap_ms: float | None = None
    cpu_budget: float | None = None
    keras: bool = False
    epochs: int = 1  # iterators that delivered batches
    counted: bool = True  # False: the nodes are the written ones, with profiled times
    far_gap_ms: float | None = None  # added by gaps far longer than the rest, which gap_ms excludes; None: unknown
    quiet_ms: float | None = None  # tenth percentile of the gaps: an undisturbed step
    # None: the counters were read only once.
    course: CounterHistory | None = None

    @property
    def output(self) -> Node | None:
        return self.nodes[-1] if self.nodes else None

    def datasets_up_to(self, last: Sequence[WrittenDataset]) -> set[int]:
        """Return the indices in ``written`` of ``last`` and of all their inputs."""
        todo = [i for i, w in enumerate(self.written) if any(w is one for one in last)]
        found = set(todo)
        while todo:
            more = [i for i in self.written[todo.pop()].inputs if i not in found and i < len(self.written)]
            found.update(more)
            todo += more
        return found

    @property
    def ms(self) -> float:
        """Processor time of all nodes per batch."""
        return sum(n.ms for n in self.nodes)

    def stages(self) -> list[Stage]:
        """Return the stages, from the consumer down.

        The first stage is the consumer's own thread; it has no work if the pipeline ends in a prefetch.
        """
        by_id = {n.id: n for n in self.nodes}
        groups: list[list[Node]] = [[]]
        widths: list[float] = [1.0]

        def new_group() -> int:
            groups.append([])
            widths.append(1.0)
            return len(groups) - 1

        todo = [(self.output, 0)] if self.output is not None else []
        while todo:
            node, group = todo.pop()
            group = new_group() if node.asynchronous else group
            groups[group].append(node)
            inputs = [by_id[i] for i in node.inputs if i in by_id]
            if node.parallelism and node.asynchronous:
                widths[group] = node.parallelism
                # Only the node's own work is spread over its threads, except that of an interleave, which read inputs.
                if node.family != "Interleave" and any(n.ms > 0 and not n.asynchronous for n in inputs):
                    group = new_group()
            todo.extend((n, group) for n in inputs)
        return [Stage(tuple(nodes), width) for nodes, width in zip(groups, widths, strict=True)]

    @property
    def exposed_ms(self) -> float:
        """Work per batch in the consumer's own thread, which nothing can hide."""
        return self.stages()[0].ms if self.nodes else 0.0

    @property
    def ahead_ms(self) -> float:
        """Time per batch of the slowest stage that works ahead of the consumer."""
        return max((s.latency_ms for s in self.stages()[1:]), default=0.0)

    @property
    def made_ms(self) -> float:
        """Time per batch of the slowest stage, wherever it runs."""
        return max(self.exposed_ms, self.ahead_ms)

    @property
    def slowest_stage(self) -> Stage | None:
        """The stage that limits how fast batches arrive."""
        return max(self.stages(), key=lambda s: s.latency_ms) if self.nodes else None

    def with_nodes(self, *nodes: Node) -> Pipeline:
        """Return the pipeline with these nodes in place of those with the same id."""
        new = {n.id: n for n in nodes}
        return replace(self, nodes=tuple(new.get(n.id, n) for n in self.nodes))

    def per_execution(self, batches: int) -> Pipeline:
        """Return the pipeline with times and counts per ``batches`` batches, for steps that train on several."""
        if batches <= 1:
            return self
        nodes = tuple(
            replace(n, ms=n.ms * batches, elements=n.elements * batches, bytes_produced=n.bytes_produced * batches)
            for n in self.nodes
        )
        times = ("gap_ms", "far_gap_ms", "quiet_ms")
        gaps = {name: ms * batches for name in times if (ms := getattr(self, name)) is not None}
        course = replace(self.course, a_step=batches) if self.course is not None else None
        return replace(self, nodes=nodes, batches=self.batches // batches, course=course, **gaps)

    def upstream_nodes(self, node: Node) -> list[Node]:
        """Return all nodes that feed ``node``, directly or indirectly."""
        by_id = {n.id: n for n in self.nodes}
        todo, found = list(node.inputs), []
        while todo:
            one = by_id.get(todo.pop())
            if one is not None and one not in found:
                found.append(one)
                todo.extend(one.inputs)
        return found

    @property
    def batch_size(self) -> int:
        """Elements per batch, from the user's last ``batch`` call; 1 without one."""
        sizes = [int(w.detail.get("batch_size") or 0) for w in self.written if w.family == "Batch"]
        return max(sizes[-1] if sizes else 1, 1)

    @property
    def python(self) -> tuple[WrittenDataset, ...]:
        return tuple(w for w in self.written if w.python)

    def find(self, *families: str) -> list[Node]:
        return [n for n in self.nodes if n.family in families or n.name.startswith(families)]

    def wrote(self, *families: str) -> list[WrittenDataset]:
        return [w for w in self.written if w.family in families]


def largest_parallelism(nodes: Iterable[Node]) -> float:
    return max((n.parallelism or 1.0 for n in nodes), default=1.0)


def node_family(name: str) -> str:
    """Return the base type of a node: ``ParallelMapV2`` and ``Map`` are both ``Map``."""
    name = name.split("[", maxsplit=1)[0].rstrip("0123456789").removesuffix("V").removeprefix("_")
    return _FAMILY_BY_NAME.get(name, name)


def repeats_input(name: str) -> bool:
    """Return whether a node of that name repeats its input. TensorFlow fuses ``shuffle`` and ``repeat`` into one."""
    return node_family(name) == "Repeat" or name.startswith("ShuffleAndRepeat")


_NAMES_BY_FAMILY = {
    "Map": "ParallelMap MapAndBatch",
    "Batch": "ParallelBatch PaddedBatch",
    "Interleave": "ParallelInterleave",
    "Filter": "ParallelFilter",
    "Slices": "TensorSlice FromTensorSlices Tensor FromTensor",
    "Repeat": "ForeverRepeat FiniteRepeat",
    "Shuffle": "ShuffleAndRepeat FileShuffle",
    "Cache": "MemoryCache FileCache",
    "Take": "FiniteTake",
    "Skip": "FiniteSkip",
}
_FAMILY_BY_NAME = {name: family for family, names in _NAMES_BY_FAMILY.items() for name in names.split()}


def written_datasets(nodes: Iterable[Mapping[str, Any]]) -> tuple[WrittenDataset, ...]:
    """Convert the recorder's list of data sets (inputs before consumers).

    Invalid inputs of a damaged one are dropped.
    """
    found: list[WrittenDataset] = []
    for node in nodes:
        site = node.get("site")
        place = Place(str(site[0]), int(site[1])) if site else None
        inputs = tuple(i for i in node.get("inputs") or () if isinstance(i, int) and 0 <= i < len(found))
        found.append(WrittenDataset(str(node.get("op", "")), inputs, place, node))
    return tuple(found)
