"""Steps of a device that its host runs ahead of, on timelines made by hand; real ones are in test_matrix.py."""

from __future__ import annotations

import numpy as np
import pytest

from slowtrain.profile import profile_steps
from slowtrain.profile.host_threads import HostThread
from slowtrain.profile.profile_steps import StepTimes
from slowtrain.profile.timeline import ProfiledDevice, Timeline

from .test_timeline import device, thread

HOST = StepTimes(np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]), "calls of the function 'f'")


def taken(gpu: ProfiledDevice, *threads: HostThread, found: StepTimes = HOST) -> StepTimes:
    return profile_steps.device_paced_times(found, Timeline((gpu,), threads, 0.0, 100.0), gpu)


def launching(*moments: float) -> HostThread:
    """Calls that start the kernels 1, 2, 3 … at these moments."""
    return thread("python/1", (0, 4, "f"), launches=tuple((m, m + 0.1, i + 1) for i, m in enumerate(moments)))


def test_a_step_lasts_from_its_first_kernel_to_the_nexts() -> None:
    gpu = device(*((5 + 10 * i, 14 + 10 * i, "k", i + 1) for i in range(4)))
    found = taken(gpu, launching(0.5, 1.5, 2.5, 3.5))
    assert found.start_ms.tolist() == [5, 15, 25, 35]
    assert found.end_ms.tolist() == [15, 25, 35, 44]
    assert found.source == "calls of the function 'f', with the times of the device because the host ran ahead of it"
    assert found.on_host.start_ms.tolist() == HOST.start_ms.tolist()
    assert found.where(slice(2)).on_host.end_ms.tolist() == [1, 2]


def test_a_device_that_keeps_up_has_its_hosts_steps() -> None:
    gpu = device(*((i + 0.6, i + 0.9, "k", i + 1) for i in range(4)))
    assert taken(gpu, launching(0.5, 1.5, 2.5, 3.5)) is HOST


def test_a_last_step_that_the_profiles_end_cut_off_is_none() -> None:
    spans = [(5 + 10 * i + 3 * j, 8 + 10 * i + 3 * j, "k", 3 * i + j + 1) for i in range(4) for j in range(3)]
    calls = [i + 0.2 + 0.2 * j for i in range(4) for j in range(3)]
    whole, cut = (taken(device(*some), launching(*calls)) for some in (spans, spans[:-2]))
    assert len(whole) == 4
    assert cut.end_ms.tolist() == [15, 25, 35]
    assert len(cut.on_host) == 3


def test_a_last_step_without_the_wait_for_the_next_is_no_whole_turn() -> None:
    gpu = device(*((5 + 10 * i, 7 + 10 * i, "k", i + 1) for i in range(4)))
    assert taken(gpu, launching(0.5, 1.5, 2.5, 3.5)).end_ms.tolist() == [15, 25, 35]


@pytest.mark.parametrize("found", [StepTimes(HOST.start_ms, HOST.end_ms, "kernels", by_device=True)])
def test_what_the_devices_own_rows_tell_stays(found: StepTimes) -> None:
    gpu = device(*((5 + 10 * i, 14 + 10 * i, "k", i + 1) for i in range(4)))
    assert taken(gpu, launching(0.5, 1.5, 2.5, 3.5), found=found) is found


def test_kernels_of_no_call_tell_nothing() -> None:
    gpu = device(*((5 + 10 * i, 14 + 10 * i, "k", 0) for i in range(4)))
    assert taken(gpu, launching(0.5, 1.5, 2.5, 3.5)) is HOST


def test_work_of_before_the_first_step_is_no_part_of_it() -> None:
    gpu = device((1, 4, "old", 9), *((5 + 10 * i, 14 + 10 * i, "k", i + 1) for i in range(4)))
    early = thread("python/1", (0, 4, "f"), launches=((-0.5, -0.4, 9), *((i + 0.5, i + 0.6, i + 1) for i in range(4))))
    assert taken(gpu, early).start_ms[0] == 5
