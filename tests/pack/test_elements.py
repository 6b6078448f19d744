"""Every kind of element comes back as it was: bit for bit, in the same order, with the same structure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from slowtrain.errors import InputError

from . import packing

pytestmark = pytest.mark.tensorflow

NUMBERS = (
    *"bool uint8 int8 uint16 int16 uint32 int32 uint64 int64".split(),
    *"float16 bfloat16 float32 float64 complex64 complex128".split(),
)
COUNT = 300


def dataset(name: str) -> Any:
    import tensorflow as tf

    data = tf.data.Dataset
    rng = np.random.default_rng(1)
    if name in NUMBERS:
        bits = rng.integers(0, 256, (COUNT, 3, 16), np.uint8)  # also NaNs of all kinds
        if name == "bool":
            return data.from_tensor_slices(bits % 2 == 0)
        return data.from_tensor_slices(tf.bitcast(bits.reshape(COUNT, -1, tf.as_dtype(name).size), name))
    words = [b"", b"\0\xff", "grün".encode(), b"x" * 5000]
    made = {
        "scalars": lambda: data.range(COUNT),
        "pairs": lambda: data.from_tensor_slices((rng.random((COUNT, 4)).astype("f4"), np.arange(COUNT))),
        "single": lambda: data.from_tensor_slices((np.arange(COUNT),)),
        "strings": lambda: data.from_tensor_slices(words * 20),
        "words": lambda: data.from_tensor_slices([words, words[::-1]]).repeat(9),
        "dictionary": lambda: data.from_tensor_slices({"y": np.arange(COUNT), "a b{0}": np.arange(COUNT) / 7}),
        "nested": lambda: data.from_tensor_slices(
            ({"b": np.arange(9), "a": (np.arange(9), words[:1] * 9)}, np.arange(9))
        ),
        "batches": lambda: data.from_tensor_slices(np.arange(COUNT, dtype="i2")).batch(7),
        "lengths": lambda: data.range(COUNT).map(lambda n: tf.range(n % 5)),
        "unknown rank": lambda: data.from_generator(
            lambda: (np.zeros([2] * (n % 3)) + n for n in range(20)), output_signature=tf.TensorSpec(None, tf.float64)
        ),
        "no values": lambda: data.from_tensor_slices(np.zeros((5, 0, 3), "f4")),
        "large": lambda: data.from_tensor_slices(rng.integers(0, 255, (20, 300, 300, 3), np.uint8)),
        "generator": lambda: data.from_generator(
            _generated, output_signature=(tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.string))
        ),
    }
    return made[name]()


def _generated() -> Iterator[tuple[list[int], str]]:
    for n in range(COUNT):
        yield [n, -n], str(n)


STRUCTURES = (
    *"scalars pairs single strings words dictionary nested batches lengths large generator".split(),
    "unknown rank",
    "no values",
)


def same(one: Any, two: Any) -> bool:
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, tuple):
        return isinstance(two, tuple) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, bytes):
        return bool(one == two)
    one, two = np.asarray(one), np.asarray(two)
    if one.dtype == object:
        return bool(one.shape == two.shape and one.tolist() == two.tolist())
    return bool(one.dtype == two.dtype and one.shape == two.shape and one.tobytes() == two.tobytes())


@pytest.mark.parametrize("name", [*NUMBERS, *STRUCTURES])
def test_elements_come_back(name: str, tmp_path: Path) -> None:
    from slowtrain.capture.packing import element_records, packing_job

    source = dataset(name)
    form = element_records.describe_elements(source.element_spec)
    folder = packing.packed(source, tmp_path / "packed", shard_bytes=20_000)
    wanted, found = list(source.as_numpy_iterator()), packing.read(form, folder)
    assert folder.elements == len(wanted) == len(found)
    assert all(map(same, wanted, found))
    again = packing_job.reading_dataset(form, folder)
    assert int(again.cardinality()) == len(wanted)
    known = [None if s.shape.rank is None else s.shape.as_list() for s in _specs(source)]
    assert [None if s.shape.rank is None else s.shape.as_list() for s in _specs(again)] == known


def test_the_length_is_known_if_the_original_knows_it(tmp_path: Path) -> None:
    import tensorflow as tf

    from slowtrain.capture.packing import element_records, packing_job

    source = dataset("pairs")
    form, folder = element_records.describe_elements(source.element_spec), packing.packed(source, tmp_path / "packed")
    unsized = source.filter(lambda *_: True)
    for original, length in ((source, COUNT), (unsized, tf.data.UNKNOWN_CARDINALITY)):
        assert int(packing_job.reading_dataset(form, folder, original).cardinality()) == length


def test_a_shape_that_all_sampled_elements_have(tmp_path: Path) -> None:
    import tensorflow as tf

    from slowtrain.capture.packing import packing_job

    def elements(last: int) -> Any:
        rows = [np.full((3, 2), n, np.float32) for n in range(40)] + [np.zeros((last, 2), np.float32)]
        return tf.data.Dataset.from_generator(lambda: iter(rows), output_signature=tf.TensorSpec([None, 2], tf.float32))

    job = packing_job.PackingJob(str(tmp_path / "sample"), "plan", limit=40, equal_shapes=True)
    found = packing_job.sample_dataset(elements(3), job)
    assert [(p.shape, p.storage) for p in found.form.parts] == [((3, 2), "raw")]
    assert found.form.block > 1
    packed = packing_job.pack_datasets([elements(3)], replace(job, output=str(tmp_path / "packed"), form=found.form))
    assert all(map(same, elements(3).as_numpy_iterator(), packing.read(found.form, packed)))
    with pytest.raises(InputError, match=r"cannot be made: .*not compatible with expected shape"):
        packing_job.pack_datasets([elements(4)], replace(job, output=str(tmp_path / "other"), form=found.form))
    unlike = packing_job.sample_dataset(elements(4), replace(job, output=str(tmp_path / "unlike"), limit=None))
    assert [p.storage for p in unlike.form.parts] == ["tensor"]


def _specs(source: Any) -> list[Any]:
    import tensorflow as tf

    found: list[Any] = tf.nest.flatten(source.element_spec)
    return found


@pytest.mark.parametrize("block", [1, 7, 300, 1000])
def test_blocks_of_any_size_hold_the_same_elements(block: int, tmp_path: Path) -> None:
    source = dataset("pairs")
    job = packing.job_for(source, tmp_path / "packed", block=block)
    from slowtrain.capture.packing import element_records, packing_job, shard_writer

    form = element_records.describe_elements(source.element_spec)
    assert form.block > 1
    with shard_writer.ShardWriter(tmp_path / "packed", "plan", {}) as writer:
        for values, count in packing_job.made_rows(source, job.form):
            writer.write(element_records.encode_record(job.form, values), count)
        folder = writer.finish()
    assert all(map(same, source.as_numpy_iterator(), packing.read(job.form, folder)))
    assert folder.elements == COUNT


class Point(NamedTuple):
    x: list[int]
    y: list[int]


def refused(name: str) -> Any:
    import tensorflow as tf

    data = tf.data.Dataset
    made = {
        "ragged": lambda: data.from_tensor_slices(tf.ragged.constant([[1], [2, 3]])),
        "sparse": lambda: data.from_tensor_slices(tf.sparse.from_dense([[0, 1], [1, 0]])),
        "objects": lambda: data.range(9).window(3),
        "named": lambda: data.from_tensor_slices(Point([1, 2], [3, 4])),
        "endless": lambda: data.range(3).repeat(),
        "empty": lambda: data.range(0),
        "random": lambda: data.range(20).map(lambda n: tf.random.uniform([2])),
        "shuffled": lambda: data.range(2000).shuffle(2000),
    }
    return made[name]()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ragged", "ragged tensors, which records do not hold"),
        ("sparse", "sparse tensors, which records do not hold"),
        ("objects", "which records do not hold"),
        ("named", "the data set yields objects"),
        ("endless", "the data set has no end"),
        ("empty", "the data set is empty"),
        ("random", "element 0 differs between two passes, so packing it would change training"),
        ("shuffled", "element 0 differs between two passes"),
    ],
)
def test_what_records_cannot_hold_is_one_line(name: str, said: str, tmp_path: Path) -> None:
    from slowtrain.capture.packing import packing_job

    job = packing_job.PackingJob(str(tmp_path / "packed"), "plan")
    with pytest.raises(InputError, match=said) as error:
        packing_job.sample_dataset(refused(name), job)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_a_source_that_fails_keeps_what_is_written(tmp_path: Path) -> None:
    import tensorflow as tf

    def half() -> Iterator[int]:
        yield from range(50)
        raise OSError("the database is gone")

    numbers = tf.data.Dataset.from_generator(half, output_signature=tf.TensorSpec([], tf.int64))
    with pytest.raises(InputError, match="element 50 cannot be made: OSError: the database is gone"):
        packing.packed(numbers.map(lambda n: tf.fill([30_000], n)), tmp_path / "packed", shard_bytes=1 << 20)
    assert not (tmp_path / "packed").exists()
    assert len(list((tmp_path / "packed.part").glob("*.tfrecord"))) > 3
    with pytest.raises(
        InputError, match="one of the elements 0 to 1,023 cannot be made: OSError: the database is gone"
    ):
        packing.packed(numbers, tmp_path / "numbers")


def test_a_sample_is_compared_and_timed(tmp_path: Path) -> None:
    from slowtrain.capture.packing import packing_job

    job = packing_job.PackingJob(str(tmp_path / "packed"), "sample")
    found = packing_job.sample_dataset(dataset("pairs"), job)
    assert (found.sample.elements, found.sample.verified, found.elements, found.is_whole) == (COUNT, COUNT, COUNT, True)
    assert min(found.sample.source_us, found.sample.read_us, found.sample.write_us, found.sample.element_bytes) > 0


def test_a_difference_is_found(tmp_path: Path) -> None:
    from slowtrain.capture.packing import packing_job

    source, job = dataset("large"), packing.job_for(dataset("large"), tmp_path / "packed")
    folder = packing_job.pack_datasets([source], job)
    rows = list(packing_job.made_rows(source, job.form))

    def read() -> Any:
        return packing_job.made_rows(packing_job.reading_dataset(job.form, folder), job.form)

    assert packing_job.count_equal_elements(rows, read()) == 20
    changed = [*rows[:7], ((rows[7][0][0] + 1,), 1), *rows[8:]]
    assert packing_job.count_equal_elements(changed, read()) == 7
    assert packing_job.count_equal_elements(rows[:19], read()) < 19
