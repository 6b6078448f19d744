"""What a trace may have measured; causes name what they need."""

from __future__ import annotations

from enum import Enum


class Text(str, Enum):
    """An enumeration whose members are their own text (``enum.StrEnum`` needs Python 3.11)."""

    def __str__(self) -> str:
        return str(self.value)


class Signal(Text):
    """Something that a trace may have measured; a cause names those that it needs."""

    STEPS = "steps"  # where each step begins and ends
    INPUT = "input"  # how long each step waited for its batch
    PIPELINE = "pipeline"  # the tf.data graph with each node's counters
    WRITTEN = "written"  # data sets as written: lines, ops of all functions, lengths, options
    PYTHON = "python"  # the user's Python between the framework's calls
    LINES = "lines"  # time by line of the user's source
    CALLS = "calls"  # calls of fit, evaluate, predict, compile with their arguments
    CALLBACKS = "callbacks"  # time by callback class and hook
    TRACES = "traces"  # functions traced, with their signatures
    READBACKS = "readbacks"  # tensors read back to the host
    FEEDS = "feeds"  # host data that the script converts to tensors
    KERNELS = "kernels"  # op executions (deep window)
    DEVICE = "device"  # an accelerator's own timeline
    MACHINE = "machine"  # processor, memory, disk over the run, limits of the host
    READS = "reads"  # bytes that the process read over the run
    ENDING = "ending"  # how the run ended
    PHASES = "phases"  # import, preparation, compile, steps, validation, …
    LOSS = "loss"  # the loss as the run reports it
    SUBNORMALS = "subnormals"  # the number of subnormal values in variables, and their cost
    GC = "gc"  # pauses by Python's collector
    MODEL = "model"  # layers, variables, their shapes and dtypes
    MEMORY = "memory"  # memory of the process and of devices, and what the user's names hold, over the steps
    DEVICE_MEMORY = "device_memory"  # memory that the framework's allocator had in use on each device
    ALLOCATOR = "allocator"  # the allocator's own reports: errors, fill level, number of pieces
    CROSSOVER = "crossover"  # the same script measured on two devices
    LINK = "pcie"  # generation and width of the PCIe link, read during steps
    FACTS = "facts"  # what the computer is and allows, as machine/ reads it
    CARD = "card"  # what the driver of a graphics card reports
    BUILD = "build"  # how the framework was built
    LOAD = "load"  # link and clocks of a card under load
    BATCHES = "batches"  # steps at several batch sizes, as measured by slowtrain batch
