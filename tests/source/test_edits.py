"""Edits leave every byte that they do not name as it was, and their diff can be taken back by git."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.model.measurements import ChangedFile
from slowtrain.script.locations.edits import recorded_edits
from slowtrain.script.text import edits
from slowtrain.script.text.source_file import Source
from slowtrain.verify.measurement import edited_files

LINES = (
    "x = 1",
    "s = 'é – 漢字'  # ünï",
    "\x0cdef f(a, b=2):\n\treturn a",
    "if True:\n    y = [1,\n         2]",
    "",
    "\t",
    'text = """a\nb\x0bc"""',
    "t = 'a\u2028b\x85c\x1cd'",
    "z = f( 3 )  ;  w = 4",
    "long = \\\n    5",
)


@st.composite
def sources(draw: st.DrawFn) -> bytes:
    """A source with lines of every kind, line ends of one kind or of both, with and without the last one."""
    lines = draw(st.lists(st.sampled_from(LINES), min_size=1, max_size=8))
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    text = newline.join("\n".join(["x = 0", *lines]).split("\n")) + draw(st.sampled_from(["", newline]))
    kind = draw(st.sampled_from(["utf-8", "utf-8-sig", "latin-1"]))
    if kind == "latin-1":
        text = "# coding: latin-1" + newline + text.encode("latin-1", "ignore").decode("latin-1")
    return text.encode(kind)


def rows(content: bytes) -> list[bytes]:
    """Lines as ast counts them, in UTF-8."""
    text = edited_files.decode_source(content)
    found, at = [], 0
    while at < len(text):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end + 1
        found.append(text[at:end].encode())
        at = end
    return found


@st.composite
def edited(draw: st.DrawFn) -> tuple[bytes, list[Edit]]:
    """A source and edits of it that do not overlap, each between two characters."""
    content = draw(sources())
    table = rows(content)
    places = [
        (number, len(row.decode()[:column].encode()))
        for number, row in enumerate(table, 1)
        for column in range(len(row.decode().rstrip("\r\n")) + 1)
    ]
    chosen = sorted(draw(st.lists(st.sampled_from(places), min_size=2, max_size=6)))
    texts = draw(st.lists(st.sampled_from(["", "new", "a\nb\n", "(", "prefetch(2)"]), min_size=3, max_size=3))
    several = [Edit("f.py", one, two, text) for one, two, text in zip(chosen[::2], chosen[1::2], texts, strict=False)]
    return content, draw(st.permutations(several))


@pytest.mark.fuzz
@given(edited())
def test_all_other_bytes_stay(case: tuple[bytes, list[Edit]]) -> None:
    content, several = case
    result = edits.apply_edits(content, several)
    encoding = "latin-1" if b"coding: latin-1" in content else "utf-8"
    mark = b"\xef\xbb\xbf" if content.startswith(b"\xef\xbb\xbf") else b""
    assert result.startswith(mark)
    # Cut both at the edits: what lies between is the same, byte for byte.
    table, left, at = rows(content), result[len(mark) :], (1, 0)
    newline = "\r\n" if content.count(b"\r\n") * 2 > content.count(b"\n") else "\n"
    for edit in sorted(several, key=lambda e: (e.start, e.end)):
        kept = between(table, at, edit.start).decode().encode(encoding)
        text = edit.text.replace("\n", newline).encode(encoding)
        assert left.startswith(kept + text)
        left, at = left[len(kept) + len(text) :], edit.end
    assert left == between(table, at, (len(table) + 1, 0)).decode().encode(encoding)


def between(table: list[bytes], start: tuple[int, int], end: tuple[int, int]) -> bytes:
    offsets = [0]
    for row in table:
        offsets.append(offsets[-1] + len(row))
    return b"".join(table)[offsets[start[0] - 1] + start[1] : offsets[end[0] - 1] + end[1]]


@pytest.mark.fuzz
@given(edited())
def test_git_applies_the_diff_and_takes_it_back(case: tuple[bytes, list[Edit]]) -> None:
    import tempfile

    content, several = case
    result = edits.apply_edits(content, several)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        there_and_back(folder, content, result)


def there_and_back(folder: Path, before: bytes, after: bytes) -> None:
    file, patch = folder / "f.py", folder / "fix.patch"
    file.write_bytes(before)
    text = edited_files.unified_diff([ChangedFile(file, before, after)], folder)
    patch.write_bytes(text.encode("utf-8", "surrogateescape"))
    if before == after:
        assert text == ""
        return
    for flags, wanted in (([], after), (["-R"], before)):
        command = ["git", "apply", "--whitespace=nowarn", *flags, patch.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert file.read_bytes() == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb", b"a\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"a\r\nb\n", b"a\r\nb\r\n"),
        ("é\nü\n".encode("latin-1"), "é\nö\n".encode("latin-1")),
        (b"\x0ca\n\x0b\n\x1c\n", b"\x0ca\nb\n\x0b\n\x1c\n"),
        (b"", b"a\n"),
    ],
)
def test_what_git_is_particular_about(before: bytes, after: bytes, tmp_path: Path) -> None:
    there_and_back(tmp_path, before, after)


def test_edits_that_overlap() -> None:
    one, two = Edit("f.py", (1, 0), (1, 3), "a"), Edit("f.py", (1, 2), (1, 4), "b")
    for several in ([one, two], [two, one], [one, one]):
        with pytest.raises(InputError, match=r"two edits of f\.py:1 overlap"):
            edits.apply_edits(b"abcdef\n", several)
    with pytest.raises(InputError, match="overlap"):
        edits.apply_edits(b"abcdef\n", [Edit("f.py", (1, 3), (1, 1), "a")])
    # Side by side, and two insertions at one place, in the order in which they were given.
    assert edits.apply_edits(b"abc\n", [Edit("", (1, 1), (1, 2), "X"), Edit("", (1, 0), (1, 1), "Y")]) == b"YXc\n"
    assert edits.apply_edits(b"abc\n", [Edit("", (1, 1), (1, 1), "X"), Edit("", (1, 1), (1, 1), "Y")]) == b"aXYbc\n"


@pytest.mark.parametrize("edit", [((9, 0), (9, 1)), ((1, 0), (1, 99)), ((0, 0), (0, 0)), ((1, 50), (1, 50))])
def test_edits_outside_the_file(edit: tuple[tuple[int, int], tuple[int, int]]) -> None:
    with pytest.raises(InputError, match="outside"):
        edits.apply_edits(b"abc\n", [Edit("f.py", *edit, "x")])


def test_a_character_that_the_encoding_does_not_have() -> None:
    with pytest.raises(InputError, match="has a character that"):
        edits.apply_edits(b"# coding: latin-1\nx = 1\n", [Edit("f.py", (2, 0), (2, 0), "# \u6f22\n")])


def test_bytes_that_are_not_of_the_encoding() -> None:
    with pytest.raises(InputError, match="save it as UTF-8"):
        edits.apply_edits(b"x = 1  # \xff\n", [])


CALLS = (
    "f(a)",
    "f()",
    "f(a, b = 1,)",
    "f(\n    a,\n    b=1,  # why\n)",
    "f((a), *b, **c)",
    "f(a for a in b)",
    "f(é, b=(1, 2))",
    "f(a, b=(\n  1))",
)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("call", CALLS)
def test_a_keyword_is_added_changed_and_removed(call: str, newline: str) -> None:
    if "for" in call:
        pytest.skip("a bare generator takes no second argument")
    text = f"\tx = 1\n\ty = {call}  # kept\n".replace("\t", "").replace("\n", newline)
    for name, value in (("new", "2"), ("b", "9")):
        tree = ast.parse(text)
        node = tree.body[1]
        assert isinstance(node, ast.Assign)
        assert isinstance(node.value, ast.Call)
        source = Source("f.py", text)
        if name == "b" and "**" not in call and "b" not in [k.arg for k in node.value.keywords]:
            continue
        changed = edits.apply_edits(text.encode(), [edits.set_keyword(source, node.value, name, value)]).decode()
        after = ast.parse(changed).body[1]
        assert isinstance(after, ast.Assign)
        assert isinstance(after.value, ast.Call)
        found = {k.arg: ast.unparse(k.value) for k in after.value.keywords}
        assert found == {**{k.arg: ast.unparse(k.value) for k in node.value.keywords}, name: value}
        assert "# kept" in changed
        assert changed.count("#") == text.count("#")
        back = Source("f.py", changed)
        gone = edits.apply_edits(changed.encode(), edits.remove_keyword(back, after.value, name)).decode()
        last = ast.parse(gone).body[1]
        assert isinstance(last, ast.Assign)
        assert isinstance(last.value, ast.Call)
        assert [k.arg for k in last.value.keywords] == [k.arg for k in node.value.keywords if k.arg != name]


def replaced(text: str, new: str) -> str:
    """``text`` with ``new`` in place of its first loop."""
    source = Source("f.py", text)
    loop = next(n for n in ast.walk(source.tree) if isinstance(n, ast.For))
    return edits.apply_edits(text.encode(), [edits.replace_node(source, loop, new)]).decode()


LOOP = """\
def f(a):
    # before
    for i in range(3):  # each turn
        # Grey values: ask Jo – é
        a[i] = '#' * 2  # a text
        a[i] += 1  # noqa: E501
        a[i] += 2  # type: ignore[x]
    # after
"""


def test_comments_of_what_is_replaced_stand_above_the_new_text() -> None:
    kept = "    # each turn\n    # Grey values: ask Jo – é\n    # a text\n"
    behind = "  # type: ignore[x]\n    # after\n"
    assert replaced(LOOP, "a[:] = 3") == f"def f(a):\n    # before\n{kept}    a[:] = 3{behind}"


def test_comments_of_the_new_text_are_not_said_twice() -> None:
    done = replaced(LOOP, "# each turn\n    # a text\n    a[:] = 3")
    assert [done.count(one) for one in ("# each turn", "# a text", "# Grey values")] == [1, 1, 1]


def test_comments_of_a_loop_behind_something_else_have_no_place() -> None:
    assert replaced("if x:\n    y = 1; z = 2\nelse: \n    for i in a: f(i)  # why\n", "g()").endswith(
        "    g()  # why\n"
    )


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_of_an_expression_that_is_replaced_stay_inside_the_new_one(newline: str) -> None:
    rows = [
        "if True:",
        "    y = f(",
        "        1,  # one ünï",
        "        # type: ignore",
        "        2,",
        "        # two",
        "    )[0]",
    ]
    text = Source("f.py", newline.join(rows) + newline)
    call = next(n for n in ast.walk(text.tree) if isinstance(n, ast.Call))
    called = edits.edited_text(text, [edits.replace_node(text, call, "g(3)")])
    assert called == newline.join(["if True:", "    y = g(3  # one ünï", "    # two", "    )[0]", ""])
    named = edits.edited_text(text, [edits.replace_node(text, call, "g")])
    assert named == newline.join(["if True:", "    y = (g  # one ünï", "    # two", "    )[0]", ""])
    said = edits.edited_text(text, [edits.replace_node(text, call, "g(  # one ünï\n4  # two\n)")])
    assert said.count("#") == 2


def test_an_edit_that_loses_a_comment_is_seen() -> None:
    text = Source("f.py", "y = f(  # noqa\n    1,  # the cluster's rule\n)\n")
    lost, kept = (Edit("f.py", (1, 6), (3, 0), one) for one in ("2", "2  # the cluster's rule\n"))
    assert not edits.keeps_comments(text, [lost], edits.edited_text(text, [lost]))
    assert edits.keeps_comments(text, [kept], edits.edited_text(text, [kept]))
    assert not recorded_edits.are_valid_edits(text, [lost])
    assert recorded_edits.are_valid_edits(text, [kept])


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_of_what_is_removed_stay(newline: str) -> None:
    text = "if a:\n  f()\n  limit(\n    1,  # the cluster's rule\n  )  # ask Jo\nx = 1  # noqa\n".replace("\n", newline)
    source = Source("f.py", text)
    block = source.tree.body[0]
    assert isinstance(block, ast.If)
    gone = [edits.remove_statement(source, block.body[1]), edits.remove_statement(source, source.tree.body[1])]
    wanted = "if a:\n  f()\n  # the cluster's rule\n  # ask Jo\n".replace("\n", newline)
    assert edits.apply_edits(text.encode(), gone).decode() == wanted
    moved = [edits.remove_statement(source, block.body[1], moved="limit(1)  # ask Jo")]
    assert "ask Jo" not in edits.apply_edits(text.encode(), moved).decode()


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("x = [\n        1]\nif a:\n  b = 1\n", "  "),
        ("def f():\n\treturn 1\n", "\t"),
        ('"""Words:\n\n  indented\n"""\nclass A:\n   def f(self): pass\n', "   "),
        ("for i in a: f(i)\n", "    "),
        ("x = 1\n", "    "),
    ],
)
def test_a_level_is_indented_as_in_the_file(text: str, unit: str) -> None:
    assert edits.indentation_unit(Source("f.py", text)) == unit
