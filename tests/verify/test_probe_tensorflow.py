"""A probe of a script that writes in every way that TensorFlow, Keras and h5py have."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from slowtrain.trace.loading import recording_trace

from . import probing

pytestmark = pytest.mark.tensorflow

SCRIPT = """
    import glob, os
    import h5py
    import numpy as np
    import tensorflow as tf
    keras = tf.keras

    def check(what, holds):
        if not holds:
            raise AssertionError(what)

    def fails(call, *args):
        try:
            call(*args)
        except (tf.errors.OpError, OSError):
            return True
        return False

    x, y = np.arange(32, dtype="float32").reshape(16, 2), np.ones((16, 1), "float32")

    # NumPy and h5py
    np.save("array.npy", x); check("np.save", np.array_equal(np.load("array.npy"), x))
    np.savez("arrays.npz", x=x); np.savetxt("text.txt", x); x.tofile("raw.bin")
    check("tofile", np.array_equal(np.fromfile("raw.bin", "float32"), x.ravel()))
    mapped = np.lib.format.open_memmap("mapped.npy", "r+"); mapped[:] = 7; mapped.flush()
    check("memmap", np.load("mapped.npy")[0] == 7)
    with h5py.File("data.h5", "a") as file:
        check("what was there", file["old"][0] == 1); file["old"][0] = 2; file["new"] = x
    with h5py.File("data.h5", "r") as file:
        check("h5py", file["old"][0] == 2 and file["new"].shape == (16, 2))
    check("h5py, exclusive", fails(h5py.File, "data.h5", "w-"))
    with h5py.File("fresh.h5", "x") as file:
        file["a"] = 1

    # gfile
    gfile = tf.io.gfile
    with gfile.GFile("old.txt", "w") as file:
        file.write("new")
    check("GFile", gfile.GFile("old.txt").read() == "new" == open("old.txt").read())
    with gfile.GFile("append.txt", "a") as file:
        file.write("!")
    check("GFile, append", open("append.txt").read() == "old!")
    gfile.makedirs("made/deep"); gfile.mkdir("made/flat"); gfile.makedirs("folder")
    check("makedirs", gfile.isdir("made/deep") and sorted(gfile.listdir("made")) == ["deep", "flat"])
    gfile.copy("old.txt", "copy.txt", overwrite=True); check("copy", open("copy.txt").read() == "new")
    check("copy, not over", fails(gfile.copy, "old.txt", "folder/one.txt"))
    gfile.rename("copy.txt", "folder/renamed.txt"); check("rename", not gfile.exists("copy.txt"))
    check("rename, not over", fails(gfile.rename, "old.txt", "append.txt"))
    check("listdir", sorted(gfile.listdir("folder")) == ["one.txt", "renamed.txt"])
    check("glob", sorted(gfile.glob("folder/*.txt")) == ["folder/one.txt", "folder/renamed.txt"])
    check("glob", gfile.glob(os.path.abspath("folder") + "/re*") == [os.path.abspath("folder/renamed.txt")])
    check("walk", [sorted(f) for _, _, f in gfile.walk("folder")] == [["one.txt", "renamed.txt"]])
    gfile.remove("folder/one.txt"); check("remove", not gfile.exists("folder/one.txt"))
    check("stat", gfile.stat("old.txt").length == 3)
    gfile.rmtree("removed"); check("rmtree", not gfile.exists("removed") and not os.path.exists("removed/in.txt"))
    check("rmtree, nothing", fails(gfile.rmtree, "removed"))
    check("remove, folder", fails(gfile.remove, "folder"))

    # operations, eager and in graphs
    tf.io.write_file("op.txt", "new"); check("write_file", tf.io.read_file("op.txt") == b"new")
    @tf.function
    def in_graph(name):
        tf.io.write_file(name, "new")
        tf.io.write_file("constant.txt", "new")
    in_graph(tf.constant("graph.txt")); in_graph(tf.constant(os.path.abspath("graph2.txt")))
    check("in a graph", all(open(n).read() == "new" for n in ("graph.txt", "graph2.txt", "constant.txt")))
    list(tf.data.Dataset.from_tensor_slices(["map1.txt", "map2.txt"]).map(lambda n: (tf.io.write_file(n, n), n)[1]))
    check("in map", open("map2.txt").read() == "map2.txt")

    # records and data sets
    for name in ("a.tfrecord", "records/b.tfrecord", "records/c.tfrecord"):
        os.makedirs("records", exist_ok=True)
        with tf.io.TFRecordWriter(name) as writer:
            writer.write(name.encode())
    names = [n.numpy() for n in tf.data.TFRecordDataset(["a.tfrecord", "records/b.tfrecord"])]
    check("TFRecordDataset", names == [b"a.tfrecord", b"records/b.tfrecord"])
    files = tf.data.Dataset.list_files("records/*.tfrecord", shuffle=False)
    check("list_files", sorted(n.numpy() for n in files.interleave(tf.data.TFRecordDataset))
          == [b"old", b"records/b.tfrecord", b"records/c.tfrecord"])
    given = tf.data.Dataset.from_tensor_slices(glob.glob("records/*")).interleave(tf.data.TFRecordDataset)
    check("interleave", len(list(given)) == 3)
    given = tf.data.Dataset.from_tensor_slices(["records/old.tfrecord"]).interleave(tf.data.TFRecordDataset)
    check("what was there", [n.numpy() for n in given] == [b"old"])
    numbers = tf.data.Dataset.range(4)
    list(numbers.cache("cache")); list(numbers.map(lambda n: n + 1).cache("folder/fresh"))
    check("a finished cache", [int(n) for n in numbers.map(lambda n: n + 9).cache("filled")] == [5, 6])
    numbers.save("saved"); check("save", len(list(tf.data.Dataset.load("saved"))) == 4)
    list(numbers.snapshot("snapshot"))

    # checkpoints
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    variable = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=variable)
    checkpoint.restore("ckpt/old-1"); check("what was there", float(variable) == 5.0)
    path = checkpoint.save("ckpt/model"); variable.assign(2.0); checkpoint.restore(path)
    check("Checkpoint", float(variable) == 5.0)
    written = checkpoint.write("written"); checkpoint.read(written)
    manager = tf.train.CheckpointManager(checkpoint, "manager", max_to_keep=1)
    check("the last one", manager.latest_checkpoint.endswith("ckpt-3"))
    manager.save(); manager.save(); check("manager", tf.train.latest_checkpoint("manager") == manager.latest_checkpoint)
    check("manager", not gfile.glob("manager/ckpt-4*"))

    # models
    class Module(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def double(self, value):
            return 2 * value
    tf.saved_model.save(Module(), "module")
    check("saved model", float(tf.saved_model.load("module").double(2.0)) == 4.0)
    for name in ("model.keras", "model.h5"):
        model.save(name)
        keras.models.load_model(name, compile=False)
    model.save_weights("model.weights.h5"); model.load_weights("model.weights.h5")

    # callbacks
    K = keras.callbacks
    model.fit(x, y, epochs=2, verbose=0, callbacks=[
        K.ModelCheckpoint("best.keras"), K.ModelCheckpoint("best.weights.h5", save_weights_only=True),
        K.BackupAndRestore("backup"), K.CSVLogger("log.csv", append=True), K.TensorBoard("logs", profile_batch=(1, 2)),
    ])
    check("CSVLogger", open("log.csv").read().startswith("old"))
    check("ModelCheckpoint", os.path.exists("best.keras") and os.path.getsize("best.weights.h5") > 100)
    check("TensorBoard", len(glob.glob("logs/train/events*")) == 1)

    # summaries
    with tf.summary.create_file_writer("summaries").as_default():
        tf.summary.scalar("a", 1.0, step=1)
    with tf.compat.v1.Graph().as_default():
        writer = tf.compat.v1.summary.FileWriter("summaries")
        writer.add_event(tf.compat.v1.Event(step=1)); writer.close()
    check("summaries", len(glob.glob("summaries/events*")) >= 2)
    tf.profiler.experimental.start("profile"); tf.profiler.experimental.stop()
    tf.io.write_graph(tf.Graph().as_graph_def(), "graphs", "graph.pb")
"""

# In the user's folder before: every name that the script writes, of an earlier run.
PREPARING = """
    import os, sys
    import h5py
    import numpy as np
    import tensorflow as tf
    for name in ("made", "folder", "removed", "records", "ckpt", "manager", "module", "backup", "logs/train", "saved",
                 "snapshot", "summaries", "profile", "graphs"):
        os.makedirs(name)
        open(name + "/kept.txt", "w").write("old")
    for name in ("array.npy arrays.npz text.txt raw.bin old.txt append.txt folder/one.txt removed/in.txt op.txt "
                 "model.keras graph.txt graph2.txt constant.txt map1.txt map2.txt a.tfrecord records/b.tfrecord "
                 "model.h5 log.csv model.weights.h5 best.keras best.weights.h5 graphs/graph.pb "
                 "module/saved_model.pb").split():
        open(name, "w").write("old")
    os.remove("made/kept.txt"); os.rmdir("made"); os.remove("folder/kept.txt"); os.remove("records/kept.txt")
    open("records/b.tfrecord", "w").close()
    np.save("mapped.npy", np.zeros(4))
    with h5py.File("data.h5", "w") as file:
        file["old"] = np.ones(1)
    with tf.io.TFRecordWriter("records/old.tfrecord") as writer:
        writer.write(b"old")
    list(tf.data.Dataset.from_tensor_slices(tf.constant([5, 6], tf.int64)).cache("filled"))
    checkpoint = tf.train.Checkpoint(v=tf.Variable(5.0))
    checkpoint.write("ckpt/old-1"); checkpoint.write("written")
    manager = tf.train.CheckpointManager(checkpoint, "manager", max_to_keep=1)
    for _ in range(3):
        manager.save()
"""


def test_nothing_of_the_users_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "project"
    script = probing.write(folder, SCRIPT)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    prepared = probing.plain(probing.write(tmp_path, PREPARING, "prepare.py"))
    assert prepared == ""
    before = probing.state(folder)
    found = probing.probed(script.name, to=tmp_path / "runs", limit_s=600.0)
    assert (found.failed, found.stopped) == (None, False)
    assert probing.state(folder) == before
    trace = recording_trace.load_recording(found.folder)
    assert trace.fact("not_redirected") == []
    assert str(folder / "model.keras") in found.redirected


TEMPORARY = """
    import os, sys, tempfile
    import tensorflow as tf

    start = os.path.join(tempfile.gettempdir(), sys.argv[1])
    made = []
    rows = tf.data.Dataset.range(3).map(lambda i: tf.py_function(lambda: made.append(1) or 0, [], tf.int64))
    for _ in range(2):
        list(rows.cache(start + "-cache"))
    assert len(made) == 3, made  # a full one would have been read
    assert tf.train.latest_checkpoint(start + "-manager") is None
    checkpoint = tf.train.Checkpoint(v=tf.Variable(5.0))
    tf.train.CheckpointManager(checkpoint, start + "-manager", max_to_keep=1).save()
    checkpoint.write(start + "-written")
    tf.io.write_file(start + "-file", "x")
    with tf.summary.create_file_writer(start + "-logs").as_default():
        tf.summary.scalar("x", 1.0, 0)
    tf.data.Dataset.range(3).save(start + "-saved")
"""


def test_the_next_probe_finds_no_cache_and_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    name = f"{tmp_path.name}-{os.getpid()}"
    script = probing.write(tmp_path, TEMPORARY)
    for _ in range(2):
        assert probing.probed(script, name, to=tmp_path / "runs").failed is None
        assert not [*Path(tempfile.gettempdir()).glob(f"{name}*")]
