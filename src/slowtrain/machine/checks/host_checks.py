"""Checks of the host: cores, memory, NUMA, disk, threads. All belong to ``machine/limited-host``."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from slowtrain.machine.tables.fact_access import (
    Facts,
    container_kind,
    driver_gpus,
    format_bytes,
    framework_builds,
    gpu_label,
    nested_fact,
    number_or_none,
    object_rows,
)
from slowtrain.machine.tables.rule_table import DOCKER_SHM_BYTES
from slowtrain.machine.tables.thresholds import (
    MAX_THREADS_PER_CORE,
    MIN_FREE_MEMORY_SHARE,
    MIN_STORAGE_READ_SHARE,
    MIN_THROTTLED_SHARE,
)
from slowtrain.model import Signal
from slowtrain.model.inspections import Check, CheckState
from slowtrain.number_text import format_count, format_number

TOPIC = "host"
THREAD_VARIABLES = (
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
)
COMPUTING_THREAD_VARIABLES = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SHARED_MEMORY_FOLDER = "/dev/shm"  # noqa: S108  # where the system keeps shared memory


def check_host(facts: Facts) -> Iterator[Check]:
    """Checks every part of the host."""
    yield _core_check(facts)
    yield from _busy_check(facts)
    yield from _quota_check(facts)
    yield from _thread_check(facts)
    yield _memory_check(facts)
    yield from _shared_memory_check(facts)
    yield from _numa_checks(facts)
    yield from _disk_check(facts)


def _unchecked_result(name: str, says: str) -> Check:
    return Check(TOPIC, name, CheckState.UNCHECKED, says, missing=(Signal.FACTS,))


def _core_check(facts: Facts) -> Check:
    board, bound = (
        number_or_none(nested_fact(facts, "cpu", "logical_cores")),
        nested_fact(facts, "cpu", "affinity_cores"),
    )
    if not board:
        return _unchecked_result("cores", "the number of cores is unknown")
    allowed = float(len(bound)) if isinstance(bound, list) and bound else board
    numbers = {"cores": board, "cores_allowed": allowed}
    if allowed == 1 and board > 1:
        says = f"this process is bound to one of {board:g} cores: nothing can run in parallel with the step"
        remedy = f"lift it: `taskset -c 0-{board - 1:g} COMMAND`, or ask the batch system for more (`--cpus-per-task`)"
        return Check(TOPIC, "cores", CheckState.WRONG, says, remedy, numbers)
    if allowed < board:
        return Check(TOPIC, "cores", CheckState.NOTED, f"bound to {allowed:g} of {board:g} cores", numbers=numbers)
    return Check(
        TOPIC,
        "cores",
        CheckState.FINE,
        f"this process may use all {format_count(board, 'core')}",
        numbers=numbers,
    )


def _busy_check(facts: Facts) -> Iterator[Check]:
    """Processor time of other processes while the doctor measured.

    It is only noted, because it changes from moment to moment.
    """
    busy, cores = (
        number_or_none(nested_fact(facts, "others", "busy_cores")),
        number_or_none(nested_fact(facts, "others", "cores")),
    )
    if busy is None or not cores:
        return
    says = f"other processes use {format_number(busy, 2)} of {format_count(cores, 'core')}"
    numbers = {"busy_cores": busy, "cores": cores}
    if busy < MIN_THROTTLED_SHARE * cores:
        yield Check(TOPIC, "busy", CheckState.FINE, says, numbers=numbers)
        return
    says += " now: steps take longer meanwhile, and timings differ from those of an idle machine"
    yield Check(TOPIC, "busy", CheckState.NOTED, says, numbers=numbers, sources=("own-choice",))


def _quota_check(facts: Facts) -> Iterator[Check]:
    """The container's quota of processor time, and whether it has stopped the container so far."""
    quota, board = (
        number_or_none(nested_fact(facts, "cgroup", "cpu_quota_cores")),
        number_or_none(nested_fact(facts, "cpu", "logical_cores")),
    )
    if nested_fact(facts, "cgroup", "version") is None:
        if nested_fact(facts, "platform", "system") == "Linux":
            yield _unchecked_result("quota", "the system has no control groups to read a quota from")
        return
    if quota is None or (board and quota >= board):
        yield Check(TOPIC, "quota", CheckState.FINE, "no quota of processor time")
        return
    periods = number_or_none(nested_fact(facts, "cgroup", "periods"))
    stopped, seconds = (
        number_or_none(nested_fact(facts, "cgroup", "throttled_periods")),
        number_or_none(nested_fact(facts, "cgroup", "throttled_seconds")),
    )
    says = (
        f"a quota of {format_number(quota)} cores of {board:g}" if board else f"a quota of {format_number(quota)} cores"
    )
    numbers = {"quota_cores": quota, **({"cores": board} if board else {})}
    remedy = f"raise it{_quota_remedy(facts, board)}, or size the thread pools for it: "
    remedy += f"`export TF_NUM_INTRAOP_THREADS={max(int(quota), 1)} OMP_NUM_THREADS={max(int(quota), 1)}`"
    if stopped and periods:
        says += f"; it stopped this container in {stopped / periods:.0%} of the periods"
        says += f", for {format_number(seconds)} s in all" if seconds else ""
    if stopped and periods and stopped >= MIN_THROTTLED_SHARE * periods:
        says += ", and TensorFlow creates threads for every core"
        yield Check(TOPIC, "quota", CheckState.WRONG, says, remedy, numbers, ("tensorflow-threads", "own-choice"))
    elif stopped is None or (stopped and not periods):
        yield _unchecked_result("quota", f"{says}; how often it stopped the container is unknown")
    else:
        says += "" if stopped else ", not reached so far"
        yield Check(TOPIC, "quota", CheckState.NOTED, says, None, numbers, ("tensorflow-threads", "own-choice"))


def _quota_remedy(facts: Facts, board: float | None) -> str:
    """How to give this kind of container all cores."""
    inside = container_kind(facts)
    if inside in ("docker", "podman") and board:
        return f" (`{inside} run --cpus {board:g} …`)"
    return f" (in the pod: `resources.limits.cpu: {board:g}`)" if inside == "kubernetes" and board else ""


def _thread_check(facts: Facts) -> Iterator[Check]:
    """Thread settings that leave cores idle, or that start more threads than the cores can run."""
    usable = number_or_none(nested_fact(facts, "cpu", "usable_cores"))
    settings = {name: nested_fact(facts, "environment", name) for name in THREAD_VARIABLES}
    pools = nested_fact(framework_builds(facts).get("tensorflow") or {}, "threads", "intra_op")
    if pools == 1 and not settings["TF_NUM_INTRAOP_THREADS"]:
        settings["intra_op_parallelism_threads"] = "1"
    one = [name for name, value in settings.items() if str(value or "").strip() == "1"]
    many = [
        f"{name}={n}"
        for name in COMPUTING_THREAD_VARIABLES
        if (n := _parse_count(settings[name])) > MAX_THREADS_PER_CORE * max(usable or n, 1.0)
    ]
    setting_list = ", ".join(f"{name}={value}" for name, value in settings.items() if value)
    if usable is None:
        yield _unchecked_result("threads", "the cores that may be used are unknown")
    elif one and usable >= 2:
        says = (
            f"{', '.join(one)} = 1 on {format_count(usable, 'core')}: what this setting controls computes with one "
            "thread"
        )
        yield Check(TOPIC, "threads", CheckState.WRONG, says, f"`unset {' '.join(one)}`", {"cores_allowed": usable})
    elif many:
        says = f"{', '.join(many)} on {format_count(usable, 'core')}: more than two threads share each core"
        fit = " ".join(f"{one.partition('=')[0]}={max(int(usable), 1)}" for one in many)
        yield Check(TOPIC, "threads", CheckState.WRONG, says, f"`export {fit}`", {"cores_allowed": usable},
                    ("oversubscription", "own-choice"))  # fmt: skip
    elif setting_list:
        yield Check(
            TOPIC, "threads", CheckState.NOTED, f"thread settings: {setting_list}, on {format_count(usable, 'core')}"
        )
    else:
        yield Check(TOPIC, "threads", CheckState.FINE, "no setting limits the thread pools")


def _parse_count(value: object) -> int:
    text = str(value or "").strip()
    return int(text) if text.isdecimal() else 0


def _memory_check(facts: Facts) -> Check:
    limit, used = (
        number_or_none(nested_fact(facts, "cgroup", "memory_limit_bytes")),
        number_or_none(nested_fact(facts, "cgroup", "memory_used_bytes")),
    )
    usable, free = (
        number_or_none(nested_fact(facts, "memory", "usable_bytes")),
        number_or_none(nested_fact(facts, "memory", "available_bytes")),
    )
    swap, swap_free = (
        number_or_none(nested_fact(facts, "memory", "swap_total_bytes")),
        number_or_none(nested_fact(facts, "memory", "swap_free_bytes")),
    )
    if not usable or free is None:
        return _unchecked_result("memory", "the memory is unknown")
    if limit is not None and used is not None:
        free = min(free, max(limit - used, 0.0))  # the container's page cache counts as used, but can be reclaimed
    where = "the container's limit" if limit is not None and limit <= usable else "this computer"
    says = f"{format_bytes(free)} free of {format_bytes(usable)} ({where})"
    swapped = (swap - swap_free) if swap and swap_free is not None else 0.0
    says += f", {format_bytes(swapped)} swapped out" if swapped else ""
    numbers = {"free_bytes": free, "usable_bytes": usable}
    if free < MIN_FREE_MEMORY_SHARE * usable and limit is None:
        remedy = (
            "stop what uses the memory (`ps aux --sort=-rss | head`), or read less ahead: smaller shuffle and "
            "prefetch buffers"
        )
        return Check(TOPIC, "memory", CheckState.WRONG, f"almost none left: {says}", remedy, numbers, ("own-choice",))
    if free < MIN_FREE_MEMORY_SHARE * usable:
        says += "; part of the used memory is cache"
        return Check(TOPIC, "memory", CheckState.NOTED, says, None, numbers, ("own-choice",))
    if swapped:
        says += ": swapped pages have to be read back when they are needed"
        return Check(TOPIC, "memory", CheckState.NOTED, says, None, numbers)
    return Check(TOPIC, "memory", CheckState.FINE, says, None, numbers, ("own-choice",))


def _shared_memory_check(facts: Facts) -> Iterator[Check]:
    size = number_or_none(nested_fact(facts, "memory", "shm_total_bytes"))
    if size is None:
        if nested_fact(facts, "platform", "system") == "Linux":
            yield _unchecked_result("shared memory", f"{SHARED_MEMORY_FOLDER} is missing or unknown")
        return
    uses = [
        w
        for w, here in (
            ("NCCL", len(driver_gpus(facts)) > 1),
            ("PyTorch's loaders", "torch" in framework_builds(facts)),
        )
        if here
    ]
    if size <= DOCKER_SHM_BYTES and uses:
        says = f"{SHARED_MEMORY_FOLDER} has {format_bytes(size)}, and {' and '.join(uses)} need more"
        remedy = f"`{'podman' if container_kind(facts) == 'podman' else 'docker'} run --shm-size=1g …`"
        if container_kind(facts) == "kubernetes":
            remedy = f"mount an emptyDir of medium Memory at {SHARED_MEMORY_FOLDER} in the pod"
        yield Check(TOPIC, "shared memory", CheckState.WRONG, says, remedy, {"shm_bytes": size}, ("docker-shm",))
    else:
        small = size <= DOCKER_SHM_BYTES
        state, more = (
            (CheckState.NOTED, ", Docker's default; nothing here needs more") if small else (CheckState.FINE, "")
        )
        yield Check(
            TOPIC,
            "shared memory",
            state,
            f"{SHARED_MEMORY_FOLDER} has {format_bytes(size)}{more}",
            sources=("docker-shm",),
        )


def _numa_checks(facts: Facts) -> Iterator[Check]:
    """Whether this process may run on the GPU's NUMA node, on boards with several nodes."""
    nodes, bound = nested_fact(facts, "numa_nodes"), nested_fact(facts, "cpu", "affinity_cores")
    if not (isinstance(nodes, list) and nodes) and driver_gpus(facts):
        yield _unchecked_result("NUMA", "this machine's memory nodes are unknown")
    if not isinstance(nodes, list) or len(nodes) < 2:
        return
    node_by_address = {
        str(p.get("address", "")).lower(): p.get("numa_node")
        for p in object_rows(nested_fact(facts, "devices", "pci_gpus"))
    }
    for gpu in driver_gpus(facts):
        address = str(gpu.get("pci_address") or "").lower()
        node = node_by_address.get(address[-12:]) if address else None
        if not isinstance(node, int) or not 0 <= node < len(nodes) or not isinstance(nodes[node], list):
            says = "its memory node is unknown"
            yield Check(TOPIC, "NUMA", CheckState.UNCHECKED, says, missing=(Signal.CARD,), where=gpu_label(gpu))
        elif isinstance(bound, list) and bound and not set(bound) & set(nodes[node]):
            says = f"it is attached to memory node {node}, and this process may not run on that node's cores"
            says += _describe_distance(facts, node)
            yield Check(
                TOPIC, "NUMA", CheckState.WRONG, says, f"`numactl --cpunodebind={node} COMMAND`", where=gpu_label(gpu)
            )
        else:
            says = f"it is attached to memory node {node}, whose cores may be used{_describe_distance(facts, node)}"
            yield Check(TOPIC, "NUMA", CheckState.FINE, says, where=gpu_label(gpu))


def _describe_distance(facts: Facts, node: int) -> str:
    """The kernel's distance between this node and the others, and within the node."""
    distances = nested_fact(facts, "numa_distances")
    row = (
        distances[node]
        if isinstance(distances, list) and len(distances) > node and isinstance(distances[node], list)
        else []
    )
    if len(row) <= node or len(row) < 2:  # the kernel has no distance table
        return ""
    away = sorted({number_or_none(d) or 0.0 for other, d in enumerate(row) if other != node})
    span = f"{away[0]:g}" if len(away) == 1 else f"{away[0]:g} to {away[-1]:g}"
    return f" (distance {row[node]} within it, {span} to the others)"


def _disk_check(facts: Facts) -> Iterator[Check]:
    """The data folder, if one was named: its kind of storage, and its measured read rate."""
    data = nested_fact(facts, "data")
    if data is None:
        says = "its read speed is not measured; give the folder with --data"
        yield _unchecked_result("data folder", says)
        return
    kind, rate = nested_fact(data, "kind"), number_or_none(nested_fact(data, "bytes_per_second"))
    virtual = nested_fact(facts, "cpu", "virtual") is True and kind in ("rotational", "solid-state")
    what = {
        "windows": "a Windows drive, accessed from WSL", "network": "a network file system", "memory": "memory",
        "overlay": "the container's own layers", "rotational": "a hard disk", "solid-state": "a solid-state disk",
    }.get(str(kind), "a disk of unknown type")  # fmt: skip
    what = "a virtual disk" if virtual else what
    if kind == "windows" and nested_fact(facts, "devices", "wsl"):
        says = f"the data is on {what} ({nested_fact(data, 'filesystem')})" + (
            f", read at {format_number(rate / 1e6)} MB/s" if rate else ""
        )
        copy = f"`cp -r {shlex.quote(str(nested_fact(data, 'folder') or '…'))} ~/data`"
        yield Check(TOPIC, "data folder", CheckState.WRONG, says, f"copy it into WSL's own file system ({copy})",
                    sources=("wsl-files",))  # fmt: skip
        return
    if not rate:
        yield _unchecked_result(
            "data folder", f"on {what} ({nested_fact(data, 'filesystem')}); no file in it could be read"
        )
        return
    count, seconds = (
        number_or_none(nested_fact(data, "read_files")) or 0.0,
        number_or_none(nested_fact(data, "seconds")) or 0.0,
    )
    size, share = (
        number_or_none(nested_fact(data, "read_bytes")) or 0.0,
        number_or_none(nested_fact(data, "from_storage_share")),
    )
    each = format_number(count / seconds if seconds else 0)
    says = f"{what} ({nested_fact(data, 'filesystem')}) delivered {format_number(rate / 1e6)} MB/s, {each} files/s"
    says += f" ({format_bytes(size)} of {format_count(count, 'file')}, one reader)"
    numbers = {"bytes_per_second": rate, "files_per_second": count / seconds if seconds else 0.0}
    if kind != "memory" and (share is None or share < MIN_STORAGE_READ_SHARE):
        yield _unchecked_result("data folder", f"{says}, partly from the page cache: the disk itself may be slower")
        return
    says += "; `slowtrain run` shows whether that is enough"
    yield Check(TOPIC, "data folder", CheckState.NOTED, says, None, numbers, ("own-choice",))
