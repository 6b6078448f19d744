"""A probe of a script in plain Python: nothing of the user's is changed, and the script sees what it did."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from . import probing

PREPARED = """
    import bz2, glob, gzip, io, json, lzma, os, pathlib, shutil, sys, tempfile, zipfile
    import logging
    names = {}

    def content(name):
        with open(name) as file:
            return file.read()
"""
# Of each line: what a script does, and what it must see then. The user's folder holds old.txt, other.txt, link.txt (to
# other.txt), folder/one.txt, folder/two.txt, folder/sub/three.txt, empty/.
ACTS = {
    "open": "open('old.txt', 'w').write('new'); assert content('old.txt') == 'new'",
    "open, keywords": "open(file='old.txt', mode='w').write('new'); assert content('old.txt') == 'new'",
    "append": "open('old.txt', 'a').write('!'); assert content('old.txt') == 'old!'",
    "update": "f = open('old.txt', 'r+'); f.write('N'); f.close(); assert content('old.txt') == 'Nld'",
    "exclusive": """
        try: open('old.txt', 'x')
        except FileExistsError: pass
        else: raise AssertionError
        open('fresh.txt', 'x').write('new'); assert content('fresh.txt') == 'new'""",
    "bytes path": "open(b'old.txt', 'wb').write(b'new'); assert content('old.txt') == 'new'",
    "absolute": "open(os.path.abspath('old.txt'), 'w').write('new'); assert content('./folder/../old.txt') == 'new'",
    "a link": "open('link.txt', 'w').write('new'); assert content('link.txt') == 'new' == content('other.txt')",
    "io.open": "io.open('old.txt', 'w').write('new'); assert content('old.txt') == 'new'",
    "io.FileIO": """
        f = io.FileIO('old.txt', 'w'); f.write(b'new'); f.close(); assert content('old.txt') == 'new'
        assert isinstance(open('old.txt', 'rb', buffering=0), io.FileIO) and isinstance(f, io.RawIOBase)""",
    "os.open": """
        f = os.open('old.txt', os.O_WRONLY | os.O_TRUNC); os.write(f, b'new'); os.close(f)
        assert content('old.txt') == 'new'""",
    "os.open, append": """
        f = os.open('old.txt', os.O_WRONLY | os.O_APPEND); os.write(f, b'!'); os.close(f)
        assert content('old.txt') == 'old!'""",
    "os.open, folder": """
        d = os.open('folder', os.O_RDONLY); f = os.open('one.txt', os.O_WRONLY | os.O_TRUNC, dir_fd=d)
        os.write(f, b'new'); os.close(f); assert content('folder/one.txt') == 'new'""",
    "os.open, exclusive": """
        try: os.open('old.txt', os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError: pass
        else: raise AssertionError""",
    "truncate": "os.truncate('old.txt', 1); assert content('old.txt') == 'o'",
    "pathlib": """
        p = pathlib.Path('old.txt'); p.write_text('new'); assert p.read_text() == 'new' == content('old.txt')
        q = pathlib.Path('made/deep'); q.mkdir(parents=True, exist_ok=True); (q / 'x').touch()
        assert (q / 'x').exists() and [str(x) for x in q.iterdir()] == ['made/deep/x']
        p.rename('moved.txt'); assert not p.exists() and pathlib.Path('moved.txt').read_text() == 'new'
        pathlib.Path('other.txt').unlink(); assert not pathlib.Path('other.txt').exists()
        assert {x.name for x in pathlib.Path('.').glob('*.txt')} == {'moved.txt', 'link.txt'}""",
    "remove": """
        os.remove('old.txt'); assert not os.path.exists('old.txt') and 'old.txt' not in os.listdir()
        try: open('old.txt')
        except FileNotFoundError: pass
        else: raise AssertionError
        open('old.txt', 'w').write('again'); assert content('old.txt') == 'again' and 'old.txt' in os.listdir('.')
        os.unlink('old.txt'); assert not os.path.exists('old.txt')""",
    "remove twice": """
        os.remove('old.txt')
        try: os.remove('old.txt')
        except FileNotFoundError: pass
        else: raise AssertionError""",
    "remove a folder": """
        for call in (os.remove, os.rmdir):
            try: call('folder')
            except (IsADirectoryError, OSError): pass
            else: raise AssertionError(call)
        os.rmdir('empty'); assert not os.path.isdir('empty')""",
    "rmtree": """
        shutil.rmtree('folder'); assert not os.path.exists('folder') and not os.path.exists('folder/one.txt')
        os.makedirs('folder'); assert os.listdir('folder') == []
        assert glob.glob('folder/**', recursive=True) == ['folder/']
        open('folder/new.txt', 'w').write('new'); assert os.listdir('folder') == ['new.txt']
        shutil.rmtree('folder'); assert not os.path.exists('folder/new.txt')
        shutil.rmtree('folder', ignore_errors=True)
        try: shutil.rmtree('folder')
        except FileNotFoundError: pass
        else: raise AssertionError""",
    "makedirs": """
        os.makedirs('a/b/c', exist_ok=True); os.makedirs('folder', exist_ok=True); assert os.path.isdir('a/b')
        for name in ('folder', 'a'):
            try: os.mkdir(path=name)
            except FileExistsError: pass
            else: raise AssertionError(name)
        try: os.mkdir('no/parent')
        except FileNotFoundError: pass
        else: raise AssertionError""",
    "rename": """
        os.rename('old.txt', 'other.txt'); assert content('other.txt') == 'old' and not os.path.exists('old.txt')
        os.replace('other.txt', 'folder/one.txt'); assert content('folder/one.txt') == 'old'
        os.rename('folder', 'renamed'); assert sorted(os.listdir('renamed')) == ['one.txt', 'sub', 'two.txt']
        assert content('renamed/sub/three.txt') == 'three' and not os.path.exists('folder')""",
    "save beside, then replace": """
        open('old.txt.tmp', 'w').write('new'); os.replace('old.txt.tmp', 'old.txt')
        assert content('old.txt') == 'new' and not os.path.exists('old.txt.tmp')""",
    "from the temporary folder": """
        f = tempfile.NamedTemporaryFile('w', delete=False); f.write('new'); f.close()
        shutil.move(f.name, 'old.txt'); assert content('old.txt') == 'new' and not os.path.exists(f.name)
        with tempfile.TemporaryDirectory() as t:
            shutil.copy('other.txt', t); assert os.listdir(t) == ['other.txt']""",
    "shutil": """
        shutil.copy('other.txt', 'old.txt'); assert content('old.txt') == 'other'
        shutil.copytree('folder', 'copied'); assert content('copied/sub/three.txt') == 'three'
        shutil.copy2('other.txt', 'folder')
        assert sorted(os.listdir('folder')) == ['one.txt', 'other.txt', 'sub', 'two.txt']
        shutil.move('folder/one.txt', 'taken.txt')
        assert not os.path.exists('folder/one.txt') and content('taken.txt') == 'one'
        shutil.move('folder', 'elsewhere')
        assert os.path.exists('elsewhere/other.txt') and not os.path.exists('folder')""",
    "links": """
        os.symlink('other.txt', 'second.txt'); assert content('second.txt') == 'other'
        open('second.txt', 'a').write('?'); assert content('other.txt') == 'other?' and os.path.islink('second.txt')
        os.link('old.txt', 'third.txt'); assert content('third.txt') == 'old'
        os.symlink('folder', 'latest')
        open('latest/one.txt', 'w').write('new'); open('latest/four.txt', 'w').write('x')
        assert content('folder/one.txt') == 'new'
        assert sorted(os.listdir('latest')) == ['four.txt', 'one.txt', 'sub', 'two.txt']
        os.remove('latest'); assert not os.path.lexists('latest') and os.path.exists('folder/four.txt')
        os.symlink('empty', 'latest'); open('latest/x', 'w').write('x'); assert os.listdir('empty') == ['x']
        assert os.path.realpath('latest/x') == os.path.abspath('empty/x')""",
    "metadata": """
        os.chmod('old.txt', 0o600); os.utime('old.txt', (1, 1)); assert os.stat('old.txt').st_mtime == 1
        os.utime('folder', (1, 1))""",
    "walk": """
        open('folder/sub/new.txt', 'w').write('new'); os.remove('folder/one.txt')
        assert [(d, sorted(n), sorted(f)) for d, n, f in os.walk('folder')] == [
            ('folder', ['sub'], ['two.txt']), ('folder/sub', [], ['new.txt', 'three.txt'])]
        assert sorted(glob.glob('folder/**/*.txt', recursive=True)) == [
            'folder/sub/new.txt', 'folder/sub/three.txt', 'folder/two.txt']
        with os.scandir('folder') as found: assert sorted(e.path for e in found if e.is_dir()) == ['folder/sub']
        assert os.listdir(b'folder/sub').__len__() == 2""",
    "chdir": """
        os.makedirs('out/run'); os.chdir('out/run'); open('log.txt', 'w').write('x')
        assert content('../../old.txt') == 'old' and os.listdir('.') == ['log.txt'] and content('log.txt') == 'x'
        open('../../old.txt', 'w').write('new'); assert content('../../old.txt') == 'new'
        os.chdir('../..'); assert content('old.txt') == 'new' and content('out/run/log.txt') == 'x'""",
    "archives": """
        with zipfile.ZipFile('old.txt', 'w') as z: z.writestr('a', 'b')
        assert zipfile.is_zipfile('old.txt')
        gzip.open('other.txt', 'wt').write('x'); bz2.open('folder/one.txt', 'wt').write('x')
        lzma.open('folder/two.txt', 'wt').write('x')
        assert bz2.open('folder/one.txt', 'rt').read() == lzma.open('folder/two.txt', 'rt').read() == 'x'
        shutil.make_archive('packed', 'zip', 'folder'); assert os.path.getsize('packed.zip')""",
    "logging": """
        logging.basicConfig(filename='old.txt', force=True); logging.error('hm')
        logging.shutdown(); assert content('old.txt') == 'oldERROR:root:hm\\n'""",
    "a child by fork": """
        pid = os.fork()
        if not pid:
            open('folder/one.txt', 'w').write('child'); os._exit(0)
        os.waitpid(pid, 0); assert content('folder/one.txt') == 'child'""",
    "what is not there": """
        for call in (open, os.stat, os.listdir, os.remove, os.rmdir, shutil.rmtree):
            try: call('nowhere')
            except FileNotFoundError: pass
            else: raise AssertionError(call)
        try: open('no/where', 'w')
        except FileNotFoundError: pass
        else: raise AssertionError
        try: os.rename('nowhere', 'x')
        except FileNotFoundError: pass
        else: raise AssertionError""",
    "special files": "open(os.devnull, 'w').write('x'); os.fdopen(os.dup(1), 'w').write('out')",
}


def users(folder: Path) -> None:
    """What the script finds."""
    texts = {"old.txt": "old", "other.txt": "other", "folder/one.txt": "one", "folder/two.txt": "two"}
    for name, text in {**texts, "folder/sub/three.txt": "three"}.items():
        probing.write(folder, text, name)
    (folder / "empty").mkdir()
    (folder / "link.txt").symlink_to("other.txt")


def as_cases(acts: dict[str, str]) -> str:
    """A script that does each of them in a folder of its own, in a process of its own, and tells which went wrong."""
    lines = [PREPARED, "    wrong = []"]
    for number, (name, act) in enumerate(acts.items()):
        body = "\n".join(line.removeprefix("        ") for line in act.strip("\n").splitlines())
        lines.append(f"    def act_{number}():\n" + textwrap.indent(body, "        "))
        lines.append(f"    names[act_{number}] = {name!r}")
    return "\n".join(lines) + "\n" + textwrap.indent(RUN, "    ")


RUN = """
for number, (act, name) in enumerate(names.items()):
    process = os.fork()
    if not process:
        os.chdir(f"project-{number}")
        try:
            act()
        except BaseException as error:
            with open(os.path.join(tempfile.gettempdir(), f"wrong-{os.getppid()}"), "a") as file:
                file.write(f"{name}: {type(error).__name__}: {error} in line {error.__traceback__.tb_next.tb_lineno}; ")
        os._exit(0)
    os.waitpid(process, 0)
wrong = os.path.join(tempfile.gettempdir(), f"wrong-{os.getpid()}")
if os.path.exists(wrong):
    said = content(wrong)
    os.remove(wrong)
    sys.exit(said)
"""


def test_nothing_of_the_users_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "all"
    for number in range(len(ACTS)):
        users(folder / f"project-{number}")
    script = probing.write(folder, as_cases(ACTS))
    monkeypatch.chdir(folder)
    before = probing.state(folder)
    found = probing.probed(script.name, to=tmp_path / "runs")
    assert found.failed is None
    assert probing.state(folder) == before


def test_the_acts_do_change_something_where_they_are_no_probe(tmp_path: Path) -> None:
    """That the test above can fail."""
    folder = tmp_path / "all"
    for number in range(len(ACTS)):
        users(folder / f"project-{number}")
    script = probing.write(folder, as_cases(ACTS))
    before = probing.state(folder)
    done = subprocess.run([sys.executable, script.name], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    after = probing.state(folder)
    without = {"remove a folder", "os.open, exclusive", "what is not there", "special files"}
    for number, name in enumerate(ACTS):
        mine = [key for key in before.keys() | after.keys() if key.startswith(f"project-{number}/")]
        assert any(before.get(key) != after.get(key) for key in mine) or name in without, name


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no such folder here")
def test_files_that_were_in_memory_before(tmp_path: Path) -> None:
    old, new = (Path("/dev/shm", f"{tmp_path.name}-{os.getpid()}-{name}") for name in ("old", "new"))
    seen = f"import subprocess\nsubprocess.run(['test', '-f', {str(new)!r}], check=True)"  # for other processes too
    script = probing.write(tmp_path, f"for file in {str(old)!r}, {str(new)!r}:\n    open(file, 'w').close()\n{seen}")
    try:
        old.write_text("a")
        found = probing.probed(script, to=tmp_path / "runs")
        assert (found.failed, old.read_text()) == (None, "a")
        assert not new.exists()
    finally:
        old.unlink()
        new.unlink(missing_ok=True)


MAKES = """
import os, pathlib, sys, tempfile
start = os.path.join(tempfile.gettempdir(), sys.argv[1])
def there(): return [n for n in os.listdir(tempfile.gettempdir()) if n.startswith(sys.argv[1])]
if there() != [sys.argv[1] + "-old"]: sys.exit(f"not the first: {there()}")
open(start + "-old", "a").write("more")
open(start + "-file", "w").write("x")
os.makedirs(start + "-folder/deep"); pathlib.Path(start + "-folder/deep/file").write_text("x")
if not os.fork():
    os.rename(start + "-file", start + "-moved"); os.symlink("/etc", start + "-link"); os._exit(0)
os.wait()
tempfile.mkdtemp(prefix=sys.argv[1])
print(there())
"""


def test_the_next_probe_finds_what_the_first_one_found(tmp_path: Path) -> None:
    name = f"{tmp_path.name}-{os.getpid()}"
    old = Path(tempfile.gettempdir(), f"{name}-old")
    script = probing.write(tmp_path, MAKES)
    try:
        old.write_text("a")
        for _ in range(2):
            assert probing.probed(script, name, to=tmp_path / "runs").failed is None
            assert [*old.parent.glob(f"{name}*")] == [old]
        assert old.read_text() == "a"
    finally:
        old.unlink()
