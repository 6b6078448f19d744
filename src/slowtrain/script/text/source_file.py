"""One file of a training script: its text and its syntax tree.

Nothing here imports or executes the script. A file that is gone or does not parse gives None, and the causes then
judge without it.
"""

from __future__ import annotations

import ast
import functools
import io
import os
import unicodedata
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from slowtrain.script.text import syntax_tree

RANDOM_CALLS = frozenset(
    "random randn rand randint random_sample normal uniform standard_normal integers shuffle permutation choice "
    "choices sample default_rng RandomState rng binomial beta poisson lognormal gauss".split()
)
FILE_READERS = frozenset(
    "open read fread imread load loadtxt genfromtxt fromfile memmap File read_csv read_file get request urlopen".split()
)
_CACHE_CLEARERS: list[Callable[[], None]] = [syntax_tree.clear_caches]
_P = ParamSpec("_P")
_T = TypeVar("_T")


def cache_recent(
    most: int, ended: Callable[[Any], None] | None = None
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Decorator: caches a function's results for its last ``most`` arguments, until all caches are cleared.

    ``ended`` is called for each cached result when it is cleared. It breaks reference cycles, which otherwise keep
    the result and its tree until the garbage collector runs.
    """

    def keeping(function: Callable[_P, _T]) -> Callable[_P, _T]:
        if ended is None:
            plain = functools.lru_cache(maxsize=most)(function)
            _CACHE_CLEARERS.append(plain.cache_clear)
            return functools.wraps(function)(plain)  # type: ignore[return-value]
        results: deque[_T] = deque(maxlen=most)

        def making(*args: _P.args, **keywords: _P.kwargs) -> _T:
            results.append(function(*args, **keywords))
            return results[-1]

        def end() -> None:
            cached.cache_clear()
            while results:
                ended(results.pop())

        cached = functools.lru_cache(maxsize=most)(making)
        _CACHE_CLEARERS.append(end)
        return functools.wraps(function)(cached)  # type: ignore[return-value]

    return keeping


@cache_recent(2)
def ascii_words(text: bytes) -> frozenset[str]:
    """The words of ASCII letters, digits and underscores in a text, in strings and comments too."""
    return frozenset(text.translate(_ASCII_WORD_TABLE).decode("ascii").split())


def blank_docstrings(text: str) -> str:
    """Python text with strings in triple quotes that begin a line blanked, since examples in docstrings do not run.

    Line numbers stay. Returns the whole text if comments or other quotes make the boundaries uncertain.
    """
    parts = text.split(_TRIPLE_QUOTE)
    for at in range(0, len(parts) - 1, 2):
        before, inside = parts[at : at + 2]
        start = before.rfind("\n") + 1
        line, goes_on = before[start:], before.endswith(("\\\n", "\\\r\n"), 0, start)
        if goes_on or "#" in line or "'" in line or '"' in line or "'''" in before or inside.endswith("\\"):
            return text
        if not line.strip(_DOCSTRING_PREFIX_CHARS):
            parts[at + 1] = "".join(c for c in inside if c in "\r\n") if "\r" in inside else "\n" * inside.count("\n")
    return _TRIPLE_QUOTE.join(parts) if len(parts) % 2 else text


_TRIPLE_QUOTE = '"""'
_DOCSTRING_PREFIX_CHARS = " \t\frRuU"  # may precede a docstring on its line; f-strings hold expressions
_ASCII_WORD_TABLE = bytes(n if n < 128 and (chr(n).isalnum() or chr(n) == "_") else 32 for n in range(256))


def clear_caches() -> None:
    """Clears all caches of results about trees. A tree is freed in half the time while the processor caches it."""
    for clear in _CACHE_CLEARERS:
        clear()


FUNCTION_NODES = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, eq=False)
class Source:
    """One file. The tree is parsed at the first access, which raises ``SyntaxError`` if the text is not Python."""

    file: str
    text: str

    @functools.cached_property
    def tree(self) -> ast.Module:
        return parse_tree(self.text)

    @property
    def is_parsed(self) -> bool:
        """Whether the tree exists already."""
        return "tree" in vars(self)

    @functools.cached_property
    def plain(self) -> str:
        """The text without docstring examples, in NFKC as Python reads names (a ligature becomes two letters)."""
        return blank_docstrings(self.text if self.text.isascii() else unicodedata.normalize("NFKC", self.text))

    @functools.cached_property
    def words(self) -> frozenset[str]:
        """The ASCII words in the text's code."""
        return ascii_words(self.plain.encode("ascii", "replace"))

    @functools.cached_property
    def real_path(self) -> str:
        """The path of the file without symbolic links."""
        return os.path.realpath(self.file)

    @functools.cached_property
    def folder(self) -> str:
        """The absolute path of the file's folder."""
        return os.path.dirname(os.path.abspath(self.file))

    @functools.cached_property
    def byte_lines(self) -> list[bytes]:
        """The lines as ``ast`` counts them, in UTF-8, with their ends. str.splitlines() also splits at form feeds."""
        return [row.encode() for row in io.StringIO(self.text, newline="")]

    def line(self, number: int) -> str:
        """The text of a line (from 1) without surrounding blanks; "" outside the file."""
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def function_at(self, line: int) -> ast.AST | None:
        """The innermost function that holds ``line``."""
        found = [
            n for n in syntax_tree.walk_statements(self.tree) if isinstance(n, FUNCTION_NODES) and holds_line(n, line)
        ]
        return max(found, key=lambda n: n.lineno) if found else None

    def reachable_functions(self, node: ast.AST, depth: int = 5) -> list[ast.AST]:
        """``node`` and the functions of this file that it calls by name, directly or through ``depth`` calls."""
        found, todo = [node], [(node, 0)]
        while todo:
            one, level = todo.pop()
            for target in _called_functions(self, one) if level < depth else ():
                if target not in found:
                    found.append(target)
                    todo.append((target, level + 1))
        return found

    def random_at(self, line: int) -> bool:
        """Whether the function around ``line``, or one that it calls, draws at random."""
        function = self.function_at(line)
        return function is not None and any(RANDOM_CALLS & set(names_in(n)) for n in self.reachable_functions(function))

    @functools.cached_property
    def loops(self) -> list[ast.For | ast.While]:
        """The loops of the file, in the order of the text."""
        return [n for n in syntax_tree.walk_statements(self.tree) if isinstance(n, (ast.For, ast.While))]

    def loop_at_line(self, line: int) -> tuple[ast.For | ast.While | None, int]:
        """The innermost loop around a line, or around a call of the function that holds it; the line in that loop."""
        around = [n for n in self.loops if holds_line(n, line)]
        function = self.function_at(line)
        name = getattr(function, "name", None)
        if around or name is None:
            return max(around, key=lambda n: n.lineno, default=None), line
        calls = [(n, c.lineno) for n in self.loops for c in syntax_tree.walk(n)
                 if isinstance(c, ast.Call) and name in names_in(c.func)]  # fmt: skip
        return max(calls, key=lambda found: found[0].lineno, default=(None, line))


@cache_recent(4)
def _functions_by_name(source: Source) -> dict[str, ast.AST]:
    """The file's functions by name, the last one of each name; also ``step`` of ``step = tf.function(one)``."""
    found: dict[str, ast.AST] = {}
    wrapped: list[ast.Assign] = []
    for node in syntax_tree.walk_statements(source.tree):
        if isinstance(node, FUNCTION_NODES):
            found[node.name] = node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.args:
            wrapped.append(node)
    for node in wrapped:
        call = node.value
        function = found.get(last_name(call.args[0])) if isinstance(call, ast.Call) else None
        if function is not None and isinstance(call, ast.Call) and last_name(call.func) == "function":
            for target in node.targets:
                found.setdefault(last_name(target), function)
    return found


def last_name(node: ast.AST) -> str:
    """``fit`` of ``model.fit`` and of ``fit``; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


@functools.lru_cache(maxsize=32)
def parse_source(file: str, text: str) -> Source | None:
    """``text`` as the source of ``file``; None if it is not Python."""
    try:
        source = Source(file, text)
        _ = source.tree
    except SyntaxError:
        return None
    return source


def parse_tree(text: str) -> ast.Module:
    """The syntax tree. Raises ``SyntaxError``, also for text that is too deep or too large for Python's parser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the script's own: invalid escapes, "is" with a literal
        try:
            return ast.parse(text)
        except (RecursionError, MemoryError) as error:
            raise SyntaxError("nested too deeply for Python's parser") from error
        except ValueError as error:  # a null character
            raise SyntaxError(str(error)) from error


def read_source(file: str) -> Source | None:
    """The source of ``file`` on disk; None if it cannot be read or parsed."""
    try:
        return parse_source(file, Path(file).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def holds_line(node: ast.AST, line: int) -> bool:
    """Whether a node is on a line, or spans it."""
    start, end = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0) or 0
    return bool(start <= line <= end)


def names_in(node: ast.AST) -> Iterator[str]:
    """The names and attributes in a node."""
    for one in syntax_tree.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


@cache_recent(1024)
def _called_functions(source: Source, node: ast.AST) -> tuple[ast.AST, ...]:
    """Functions of the file that ``node`` calls by name, or passes by name (``map(fetch, ids)``)."""
    names: list[str] = []
    for call in syntax_tree.nodes_inside(node, ast.Call):
        callee: ast.AST = call.func
        while isinstance(callee, ast.Attribute):
            names.append(callee.attr)
            callee = callee.value
        names += [callee.id] if isinstance(callee, ast.Name) else names_in(callee)
        names += [one.id for one in call.args if isinstance(one, ast.Name)]
    by_name = _functions_by_name(source)
    return tuple(by_name[name] for name in dict.fromkeys(names) if name in by_name)
