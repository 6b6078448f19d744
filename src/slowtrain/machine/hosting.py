"""Checks of the host: cores, memory, NUMA, disk, threads. All belong to ``machine/limited-host``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from slowtrain.figures import counted, plain
from slowtrain.machine.choices import CROWDED, LEAST_FREE_SHARE, MOSTLY_CACHED, OFTEN
from slowtrain.machine.reading import Facts, at, builds, card, cards, container, figure, gib, rows
from slowtrain.machine.rules import DOCKER_SHM_BYTES
from slowtrain.model import Signal
from slowtrain.model.sheet import Check, State

CAUSE = "machine/limited-host"
THREADS = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
CROWDING = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SHM = "/dev/shm"  # noqa: S108  # where the system keeps shared memory


def hosting(facts: Facts) -> Iterator[Check]:
    """Checks every part of the host."""
    yield _cores(facts)
    yield from _busy(facts)
    yield from _quota(facts)
    yield from _threads(facts)
    yield _memory(facts)
    yield from _shared(facts)
    yield from _numa(facts)
    yield from _disk(facts)


def _unknown(name: str, says: str) -> Check:
    return Check(CAUSE, name, State.UNCHECKED, says, missing=(Signal.FACTS,))


def _cores(facts: Facts) -> Check:
    board, bound = figure(at(facts, "cpu", "logical_cores")), at(facts, "cpu", "affinity_cores")
    if not board:
        return _unknown("cores", "the number of cores is not told")
    given = float(len(bound)) if isinstance(bound, list) and bound else board
    numbers = {"cores": board, "cores_allowed": given}
    if given == 1 and board > 1:
        says = f"this process is bound to one of {board:g} cores: nothing can run beside the step"
        remedy = f"lift it: `taskset -c 0-{board - 1:g} COMMAND`, or ask the batch system for more (`--cpus-per-task`)"
        return Check(CAUSE, "cores", State.WRONG, says, remedy, numbers)
    if given < board:
        return Check(CAUSE, "cores", State.NOTED, f"bound to {given:g} of {board:g} cores", numbers=numbers)
    return Check(CAUSE, "cores", State.FINE, f"all {counted(board, 'core')} may be used", numbers=numbers)


def _busy(facts: Facts) -> Iterator[Check]:
    """Processor time of other processes while the doctor measured.

    It is only noted, because it changes from moment to moment.
    """
    busy, cores = figure(at(facts, "others", "busy_cores")), figure(at(facts, "others", "cores"))
    if busy is None or not cores:
        return
    says = f"other processes take {plain(busy, 2)} of {counted(cores, 'core')}"
    numbers = {"busy_cores": busy, "cores": cores}
    if busy < OFTEN * cores:
        yield Check(CAUSE, "busy", State.FINE, says, numbers=numbers)
        return
    says += " just now: steps beside them take longer, and what is timed is not what an idle computer gives"
    yield Check(CAUSE, "busy", State.NOTED, says, numbers=numbers, sources=("own-choice",))


def _quota(facts: Facts) -> Iterator[Check]:
    """The container's quota of processor time, and whether it has stopped the container so far."""
    quota, board = figure(at(facts, "cgroup", "cpu_quota_cores")), figure(at(facts, "cpu", "logical_cores"))
    if at(facts, "cgroup", "version") is None:
        if at(facts, "platform", "system") == "Linux":
            yield _unknown("quota", "there are no control groups to read a quota from")
        return
    if quota is None or (board and quota >= board):
        yield Check(CAUSE, "quota", State.FINE, "no quota of processor time")
        return
    periods = figure(at(facts, "cgroup", "periods"))
    stopped, seconds = (
        figure(at(facts, "cgroup", "throttled_periods")),
        figure(at(facts, "cgroup", "throttled_seconds")),
    )
    says = f"a quota of {plain(quota)} cores of {board:g}" if board else f"a quota of {plain(quota)} cores"
    numbers = {"quota_cores": quota, **({"cores": board} if board else {})}
    remedy = f"raise it{_more_cores(facts, board)}, or fit the pools to it: "
    remedy += f"`export TF_NUM_INTRAOP_THREADS={max(int(quota), 1)} OMP_NUM_THREADS={max(int(quota), 1)}`"
    if stopped and periods:
        says += f"; it stopped this container in {stopped / periods:.0%} of its periods"
        says += f", for {plain(seconds)} s in all" if seconds else ""
    if stopped and periods and stopped >= OFTEN * periods:
        says += ", and TensorFlow makes threads for every core"
        yield Check(CAUSE, "quota", State.WRONG, says, remedy, numbers, ("tensorflow-threads", "own-choice"))
    elif stopped is None or (stopped and not periods):
        yield _unknown("quota", f"{says}; how often it stopped the container is not told")
    else:
        says += "" if stopped else ", not reached so far"
        yield Check(CAUSE, "quota", State.NOTED, says, None, numbers, ("tensorflow-threads", "own-choice"))


def _more_cores(facts: Facts, board: float | None) -> str:
    """How to give this kind of container all cores."""
    inside = container(facts)
    if inside in ("docker", "podman") and board:
        return f" (`{inside} run --cpus {board:g} …`)"
    return f" (in the pod: `resources.limits.cpu: {board:g}`)" if inside == "kubernetes" and board else ""


def _threads(facts: Facts) -> Iterator[Check]:
    """Thread settings that leave cores idle, or that start more threads than the cores can run."""
    usable = figure(at(facts, "cpu", "usable_cores"))
    said = {name: at(facts, "environment", name) for name in THREADS}
    pools = at(builds(facts).get("tensorflow") or {}, "threads", "intra_op")
    if pools == 1 and not said["TF_NUM_INTRAOP_THREADS"]:
        said["intra_op_parallelism_threads"] = "1"
    one = [name for name, value in said.items() if str(value or "").strip() == "1"]
    many = [f"{name}={n}" for name in CROWDING if (n := _number(said[name])) > CROWDED * max(usable or n, 1.0)]
    told = ", ".join(f"{name}={value}" for name, value in said.items() if value)
    if usable is None:
        yield _unknown("threads", "the cores that may be used are not told")
    elif one and usable >= 2:
        says = f"{', '.join(one)} = 1 on {counted(usable, 'core')}: what it governs computes with one thread"
        yield Check(CAUSE, "threads", State.WRONG, says, f"`unset {' '.join(one)}`", {"cores_allowed": usable})
    elif many:
        says = f"{', '.join(many)} on {counted(usable, 'core')}: more than twice as many threads take turns on them"
        fit = " ".join(f"{one.partition('=')[0]}={max(int(usable), 1)}" for one in many)
        yield Check(CAUSE, "threads", State.WRONG, says, f"`export {fit}`", {"cores_allowed": usable},
                    ("oversubscription", "own-choice"))  # fmt: skip
    elif told:
        yield Check(CAUSE, "threads", State.NOTED, f"thread settings: {told}, on {counted(usable, 'core')}")
    else:
        yield Check(CAUSE, "threads", State.FINE, "thread pools are left to size themselves")


def _number(value: object) -> int:
    text = str(value or "").strip()
    return int(text) if text.isdecimal() else 0


def _memory(facts: Facts) -> Check:
    limit, used = figure(at(facts, "cgroup", "memory_limit_bytes")), figure(at(facts, "cgroup", "memory_used_bytes"))
    usable, free = figure(at(facts, "memory", "usable_bytes")), figure(at(facts, "memory", "available_bytes"))
    swap, swap_free = figure(at(facts, "memory", "swap_total_bytes")), figure(at(facts, "memory", "swap_free_bytes"))
    if not usable or free is None:
        return _unknown("memory", "the memory is not told")
    if limit is not None and used is not None:
        free = min(free, max(limit - used, 0.0))  # the container's page cache counts as used, but can be reclaimed
    where = "the container's limit" if limit is not None and limit <= usable else "this computer"
    says = f"{gib(free)} free of {gib(usable)} ({where})"
    swapped = (swap - swap_free) if swap and swap_free is not None else 0.0
    says += f", {gib(swapped)} swapped out" if swapped else ""
    numbers = {"free_bytes": free, "usable_bytes": usable}
    if free < LEAST_FREE_SHARE * usable and limit is None:
        remedy = (
            "end what holds the memory (`ps aux --sort=-rss | head`), or read less ahead: smaller shuffle and prefetch"
        )
        return Check(CAUSE, "memory", State.WRONG, f"nearly none left: {says}", remedy, numbers, ("own-choice",))
    if free < LEAST_FREE_SHARE * usable:
        says += "; a part of what is used is cache"
        return Check(CAUSE, "memory", State.NOTED, says, None, numbers, ("own-choice",))
    if swapped:
        return Check(CAUSE, "memory", State.NOTED, f"{says}: what is needed of it has to be read back", None, numbers)
    return Check(CAUSE, "memory", State.FINE, says, None, numbers, ("own-choice",))


def _shared(facts: Facts) -> Iterator[Check]:
    size = figure(at(facts, "memory", "shm_total_bytes"))
    if size is None:
        if at(facts, "platform", "system") == "Linux":
            yield _unknown("shared memory", f"{SHM} is not there or not told of")
        return
    uses = [w for w, here in (("NCCL", len(cards(facts)) > 1), ("PyTorch's loaders", "torch" in builds(facts))) if here]
    if size <= DOCKER_SHM_BYTES and uses:
        says = f"{SHM} has {gib(size)}, and {' and '.join(uses)} need more"
        remedy = f"`{'podman' if container(facts) == 'podman' else 'docker'} run --shm-size=1g …`"
        if container(facts) == "kubernetes":
            remedy = f"mount an emptyDir of medium Memory at {SHM} in the pod"
        yield Check(CAUSE, "shared memory", State.WRONG, says, remedy, {"shm_bytes": size}, ("docker-shm",))
    else:
        small = size <= DOCKER_SHM_BYTES
        state, more = (
            (State.NOTED, ", as Docker gives it; nothing found here that needs more") if small else (State.FINE, "")
        )
        yield Check(CAUSE, "shared memory", state, f"{SHM} has {gib(size)}{more}", sources=("docker-shm",))


def _numa(facts: Facts) -> Iterator[Check]:
    """Whether this process may run on the GPU's NUMA node, on boards with several nodes."""
    nodes, bound = at(facts, "numa_nodes"), at(facts, "cpu", "affinity_cores")
    if not (isinstance(nodes, list) and nodes) and cards(facts):
        yield _unknown("NUMA", "this computer's memory nodes are not told")
    if not isinstance(nodes, list) or len(nodes) < 2:
        return
    beside = {str(p.get("address", "")).lower(): p.get("numa_node") for p in rows(at(facts, "devices", "pci_gpus"))}
    for gpu in cards(facts):
        address = str(gpu.get("pci_address") or "").lower()
        node = beside.get(address[-12:]) if address else None
        if not isinstance(node, int) or not 0 <= node < len(nodes) or not isinstance(nodes[node], list):
            says = "the memory node that it hangs on is not told"
            yield Check(CAUSE, "NUMA", State.UNCHECKED, says, missing=(Signal.CARD,), where=card(gpu))
        elif isinstance(bound, list) and bound and not set(bound) & set(nodes[node]):
            says = f"it hangs on memory node {node}, and this process may run on none of that node's cores"
            says += _distance(facts, node)
            yield Check(CAUSE, "NUMA", State.WRONG, says, f"`numactl --cpunodebind={node} COMMAND`", where=card(gpu))
        else:
            says = f"it hangs on memory node {node}, whose cores may be used{_distance(facts, node)}"
            yield Check(CAUSE, "NUMA", State.FINE, says, where=card(gpu))


def _distance(facts: Facts, node: int) -> str:
    """The kernel's distance between this node and the others, and within the node."""
    said = at(facts, "numa_distances")
    row = said[node] if isinstance(said, list) and len(said) > node and isinstance(said[node], list) else []
    if len(row) <= node or len(row) < 2:  # the kernel has no distance table
        return ""
    away = sorted({figure(d) or 0.0 for other, d in enumerate(row) if other != node})
    span = f"{away[0]:g}" if len(away) == 1 else f"{away[0]:g} to {away[-1]:g}"
    return f" (distance {row[node]} within it, {span} to the others)"


def _disk(facts: Facts) -> Iterator[Check]:
    """The data folder, if one was named: its kind of storage, and its measured read rate."""
    data = at(facts, "data")
    if data is None:
        says = "how fast the data can be read: name its folder with --data"
        yield _unknown("data folder", says)
        return
    kind, rate = at(data, "kind"), figure(at(data, "bytes_per_second"))
    virtual = at(facts, "cpu", "virtual") is True and kind in ("rotational", "solid-state")
    what = {
        "windows": "a Windows drive, reached from WSL", "network": "a network file system", "memory": "memory",
        "overlay": "the container's own layers", "rotational": "a disk that turns", "solid-state": "a solid-state disk",
    }.get(str(kind), "an unknown kind of disk")  # fmt: skip
    what = "a virtual disk" if virtual else what
    if kind == "windows" and at(facts, "devices", "wsl"):
        says = f"the data lies on {what} ({at(data, 'filesystem')})" + (
            f", read at {plain(rate / 1e6)} MB/s" if rate else ""
        )
        copy = f"`cp -r {shlex.quote(str(at(data, 'folder') or '…'))} ~/data`"
        yield Check(CAUSE, "data folder", State.WRONG, says, f"copy it into WSL's own file system ({copy})",
                    sources=("wsl-files",))  # fmt: skip
        return
    if not rate:
        yield _unknown("data folder", f"on {what} ({at(data, 'filesystem')}); no file in it could be read")
        return
    count, seconds = figure(at(data, "read_files")) or 0.0, figure(at(data, "seconds")) or 0.0
    size, share = figure(at(data, "read_bytes")) or 0.0, figure(at(data, "from_storage_share"))
    each = plain(count / seconds if seconds else 0)
    says = f"{what} ({at(data, 'filesystem')}) gave {plain(rate / 1e6)} MB/s, {each} files/s"
    says += f" ({gib(size)} of {counted(count, 'file')}, one reader)"
    numbers = {"bytes_per_second": rate, "files_per_second": count / seconds if seconds else 0.0}
    if kind != "memory" and (share is None or share < MOSTLY_CACHED):
        yield _unknown("data folder", f"{says}, in part from the page cache: the disk alone may be slower")
        return
    says += "; whether that is enough, `slowtrain run` tells"
    yield Check(CAUSE, "data folder", State.NOTED, says, None, numbers, ("own-choice",))
