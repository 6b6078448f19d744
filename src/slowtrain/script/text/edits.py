"""Edits of a script, made from syntax nodes and applied to bytes; every other byte stays as it is.

Each function gives :class:`~slowtrain.model.Edit` values for one file. Edits that are applied together must not
overlap. New text takes the file's indentation, line ends and encoding.
"""

from __future__ import annotations

import ast
import difflib
import io
import re
import tokenize
from collections.abc import Iterable, Sequence

from slowtrain.errors import InputError
from slowtrain.model import Edit
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import Source

# A comment that tells a tool something about its own line only.
TOOL_COMMENT = re.compile(
    r"#\s*(?:noqa|nosec|(?:slowtrain|type|mypy|pyright|pylint|fmt|isort|ruff|pragma)\s*:)", re.IGNORECASE
)

PlacedNode = ast.expr | ast.stmt | ast.keyword | ast.arg


def node_start(node: PlacedNode) -> tuple[int, int]:
    """Line (from 1) and column (in bytes) where a node begins."""
    return node.lineno, node.col_offset


def node_end(node: PlacedNode) -> tuple[int, int]:
    """Line (from 1) and column (in bytes) after a node's last character."""
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def insert_text(source: Source, at: tuple[int, int], text: str) -> Edit:
    """``text`` inserted at a line and column."""
    return Edit(source.file, at, at, text)


def replace_node(source: Source, node: PlacedNode, text: str) -> Edit:
    """``text`` in place of ``node``. Comments inside it stay: above a statement, else at the end."""
    if isinstance(node, ast.stmt):
        return replace_statements(source, node, node, text)
    several = isinstance(node, ast.expr) and node.lineno != node.end_lineno
    comments = _lost_comments(source, node_start(node), node_end(node), text) if several else []
    return Edit(source.file, node_start(node), node_end(node), _with_comments(source, node, text, comments))


def _with_comments(source: Source, node: PlacedNode, text: str, comments: Sequence[str]) -> str:
    """``text`` of an expression with comments before its last bracket, or in parentheses of its own."""
    if not comments:
        return text
    row = _line_text(source, node_end(node)[0])
    indent = row[: len(row) - len(row.lstrip())]
    opened, closing = (text[:-1], text[-1]) if text[-1:] in (")", "]", "}") else (f"({text}", ")")
    first, *others = comments
    return "\n".join([f"{opened}  {first}", *(f"{indent}{one}" for one in others), f"{indent}{closing}"])


def replace_statements(source: Source, first: ast.stmt, last: ast.stmt, text: str, moved: str = "") -> Edit:
    """``text`` in place of the statements from ``first`` to ``last``, below the comments that stood between them.

    Comments that ``text`` contains are not repeated, nor those in ``moved``, text that goes elsewhere.
    """
    indent = _line_text(source, first.lineno)[: first.col_offset]
    comments = [] if indent.strip() else _lost_comments(source, node_start(first), node_end(last), text + moved)
    return Edit(source.file, node_start(first), node_end(last), "".join(f"{one}\n{indent}" for one in comments) + text)


def node_text(source: Source, node: PlacedNode) -> str:
    """The node's text in the file, without parentheses around it."""
    if node.end_lineno is None:  # it was made from parts
        return ast.unparse(node)
    return _bytes_between(source.byte_lines, node_start(node), node_end(node)).decode()


def append_to_chain(source: Source, node: ast.expr, text: str) -> list[Edit]:
    """``node`` followed by ``text`` (``.prefetch(2)``), in parentheses if it would bind differently."""
    if isinstance(node, (ast.Call, ast.Name, ast.Attribute, ast.Subscript)):
        return [insert_text(source, node_end(node), text)]
    return [insert_text(source, node_start(node), "("), insert_text(source, node_end(node), f"){text}")]


def set_keyword(source: Source, call: ast.Call, name: str, value: str) -> Edit:
    """``call`` with the keyword ``name`` set to ``value``: changed, or added at the end."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return replace_node(source, keyword.value, value)
    last = _last_argument(call)
    if last is None:  # before the closing parenthesis of an empty call
        line, column = node_end(call)
        return insert_text(source, (line, column - 1), f"{name}={value}")
    return insert_text(source, _end_with_parentheses(source, last, node_end(call)), f", {name}={value}")


def remove_keyword(source: Source, call: ast.Call, name: str) -> list[Edit]:
    """``call`` without the keyword ``name`` and its comma."""
    keyword = next((k for k in call.keywords if k.arg == name), None)
    if keyword is None:
        return []
    others: list[PlacedNode] = sorted([*call.args, *call.keywords], key=node_start)
    at = others.index(keyword)
    if at:
        return [
            Edit(
                source.file,
                _end_with_parentheses(source, others[at - 1], node_start(keyword)),
                _end_with_parentheses(source, keyword, node_end(call)),
                "",
            )
        ]
    if len(others) > 1:
        return [Edit(source.file, node_start(keyword), _start_with_parentheses(source, keyword, others[1]), "")]
    line, column = node_end(call)
    return [Edit(source.file, node_start(keyword), (line, column - 1), "")]


def insert_before(source: Source, statement: ast.stmt, lines: str) -> Edit:
    """``lines`` as statements before ``statement`` and its decorators, with its indentation."""
    first = min([statement, *getattr(statement, "decorator_list", [])], key=node_start)
    line, column = node_start(first)
    if first is not statement:
        column -= 1  # the @
    indent = _line_text(source, line)[:column]
    if indent.strip():  # after a colon or a semicolon: on the same line
        return insert_text(source, (line, column), "".join(f"{one}; " for one in lines.splitlines()))
    return insert_text(source, (line, 0), "".join(f"{indent}{one}\n" if one else "\n" for one in lines.splitlines()))


def insert_after(source: Source, statement: ast.stmt, lines: str) -> Edit:
    """``lines`` as statements after ``statement``, with its indentation."""
    line, column = node_end(statement)
    row = _line_text(source, line)
    indent = _line_text(source, statement.lineno)[: statement.col_offset]
    rest = row.encode()[column:].decode().strip()
    if indent.strip() or (rest and not rest.startswith("#")):
        return insert_text(source, (line, column), "".join(f"; {one}" for one in lines.splitlines()))
    text = "".join(f"\n{indent}{one}" if one else "\n" for one in lines.splitlines())
    return insert_text(source, (line, len(row.encode())), text)


def remove_statement(source: Source, statement: ast.stmt, moved: str = "") -> Edit:
    """The file without the lines of ``statement``, which must not share them; its comments stay.

    Comments in ``moved``, text that goes elsewhere, do not stay.
    """
    line, _ = node_end(statement)
    first = min([statement, *getattr(statement, "decorator_list", [])], key=node_start)
    indent = _line_text(source, statement.lineno)[: statement.col_offset]
    comments = _lost_comments(source, (first.lineno, 0), (line, len(_line_text(source, line).encode())), moved)
    return Edit(source.file, (first.lineno, 0), (line + 1, 0), "".join(f"{indent}{one}\n" for one in comments))


def indentation_unit(source: Source) -> str:
    """One level of indentation as the file has it."""
    for node in syntax_tree.walk_statements(source.tree):
        inner = next(iter(syntax_tree.block_statements(node)), None)
        if isinstance(node, ast.stmt) and isinstance(inner, ast.stmt) and inner.lineno > node.lineno:
            outer, row = (
                _line_text(source, node.lineno)[: node.col_offset],
                _line_text(source, inner.lineno)[: inner.col_offset],
            )
            if not row.strip() and row.startswith(outer):
                return row[len(outer) :]
    return "    "


def add_decorator(source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef, text: str) -> Edit:
    """``function`` with the decorator ``text`` (with its @) nearest to ``def``."""
    column = function.col_offset
    indent = _line_text(source, function.lineno)[:column]
    return insert_text(source, (function.lineno, 0), f"{indent}{text}\n")


def ensure_import(source: Source, module: str, usual: str) -> tuple[str, list[Edit]]:
    """The name by which the file knows ``module``, and the edit that imports it as ``usual`` if it does not."""
    for node in source.tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == module:
                    return alias.asname or alias.name, []
    parent, _, last = module.rpartition(".")
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom) and parent and node.module == parent and not node.level:
            for alias in node.names:
                if alias.name == last:
                    return alias.asname or alias.name, []
    if any(isinstance(n, ast.Name) and n.id == usual for n in syntax_tree.walk(source.tree)):
        usual = f"_{usual}"
    text = f"import {module}" if usual == module else f"import {module} as {usual}"
    return usual, [_insert_after_imports(source, text)]


def _insert_after_imports(source: Source, text: str) -> Edit:
    """A statement after the file's imports; without imports, after its docstring and ``__future__``."""
    body = source.tree.body
    imports = [n for n in body if isinstance(n, (ast.Import, ast.ImportFrom))]
    if imports:
        leading = imports[0]
        for node in body[body.index(imports[0]) :]:
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                break
            leading = node
        return insert_after(source, leading, text)
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return insert_after(source, body[0], text)
    return insert_before(source, body[0], text) if body else insert_text(source, (1, 0), f"{text}\n")


# -- applied


def apply_edits(content: bytes, edits: Iterable[Edit]) -> bytes:
    """The file's bytes with ``edits``. Raises ``InputError`` if they overlap or lie outside the file."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = content.decode(encoding)
    except (UnicodeDecodeError, SyntaxError) as error:
        raise InputError(f"the source is not text of the encoding that it says ({error}); save it as UTF-8") from error
    # Lines as ast counts them: str.splitlines() also splits at form feeds.
    rows = [row.encode() for row in io.StringIO(text, newline="")]
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    ordered = sorted(enumerate(edits), key=lambda e: (e[1].start, e[1].end, e[0]))
    done, at = [], (1, 0)
    for _, edit in ordered:
        if not (_is_inside(rows, edit.start) and _is_inside(rows, edit.end)):
            raise InputError(f"an edit of {edit.file}:{edit.start[0]} lies outside the file")
        if edit.start < at or edit.end < edit.start:
            raise InputError(f"two edits of {edit.file}:{edit.start[0]} overlap")
        done.append(_bytes_between(rows, at, edit.start))
        done.append(edit.text.replace("\n", newline).encode())
        at = edit.end
    done.append(_bytes_between(rows, at, (len(rows) + 1, 0)))
    try:
        return b"".join(done).decode().encode(encoding)
    except UnicodeEncodeError as error:
        raise InputError(f"the edit has a character that {error.encoding} has not; save the source as UTF-8") from error


def _is_inside(rows: Sequence[bytes], place: tuple[int, int]) -> bool:
    line, column = place
    return place == (len(rows) + 1, 0) or (0 < line <= len(rows) and 0 <= column <= len(rows[line - 1]))


def edited_text(source: Source, edits: Iterable[Edit]) -> str:
    """The text of ``source`` with ``edits``."""
    return apply_edits(source.text.encode(), edits).decode()


def keeps_comments(source: Source, edits: Iterable[Edit], text: str) -> bool:
    """Whether ``text``, the source with ``edits``, keeps the comments inside the edited ranges."""
    return not any(_lost_comments(source, edit.start, edit.end, text) for edit in edits if edit.start != edit.end)


def file_diff(file: str, old: str, new: str, *, added: bool = False) -> str:
    """A unified diff for ``git apply`` and ``patch -p1``; ``file`` is relative to the folder they run in."""
    # Lines as git counts them: str.splitlines() also splits at form feeds.
    before_rows, after_rows = (re.findall(r"[^\n]*\n|[^\n]+", text) for text in (old, new))
    rows = difflib.unified_diff(before_rows, after_rows, "/dev/null" if added else f"a/{file}", f"b/{file}")
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def _bytes_between(rows: Sequence[bytes], start: tuple[int, int], end: tuple[int, int]) -> bytes:
    if start[0] == end[0]:
        return _row_bytes(rows, start[0])[start[1] : end[1]]
    middle = b"".join(rows[start[0] : end[0] - 1])
    return _row_bytes(rows, start[0])[start[1] :] + middle + _row_bytes(rows, end[0])[: end[1]]


def _row_bytes(rows: Sequence[bytes], number: int) -> bytes:
    return rows[number - 1] if 0 < number <= len(rows) else b""


def _line_text(source: Source, number: int) -> str:
    rows = source.text.split("\n")
    return rows[number - 1].rstrip("\r") if 0 < number <= len(rows) else ""


def _lost_comments(source: Source, start: tuple[int, int], end: tuple[int, int], new_text: str) -> list[str]:
    """The comments between two places that are not in ``new_text``, except those addressed to a tool."""
    if not any("#" in _line_text(source, number) for number in range(start[0], end[0] + 1)):
        return []
    tokens = [t.string for t in _tokens_between(source, start, end) if t.type == tokenize.COMMENT]
    found = [one.encode("latin-1").decode().rstrip() for one in tokens]
    return [one for one in found if one not in new_text and not TOOL_COMMENT.match(one)]


def _last_argument(call: ast.Call) -> PlacedNode | None:
    arguments: list[PlacedNode] = [*call.args, *call.keywords]
    return max(arguments, key=node_end, default=None)


def _end_with_parentheses(source: Source, node: PlacedNode, limit: tuple[int, int]) -> tuple[int, int]:
    """The end of ``node`` with the parentheses around it, at most ``limit``."""
    depth = 0 if isinstance(node, ast.keyword) else _parenthesis_depth(source, node)  # a keyword ends after them
    line, column = node_end(node)
    for found in _tokens_between(source, (line, column), limit):
        if depth and found.string == ")":
            depth -= 1
            line, column = found.end
        elif found.type not in (tokenize.NL, tokenize.COMMENT):
            break
    return line, column


def _parenthesis_depth(source: Source, node: PlacedNode) -> int:
    """The number of pairs of parentheses directly around ``node``."""
    line, column = node_start(node)
    rows = source.text.split("\n")
    text = "\n".join([*rows[: line - 1], _line_text(source, line).encode()[:column].decode()])
    depth = 0
    stripped = text.rstrip()
    while stripped.endswith("("):
        inner = stripped[:-1].rstrip()
        if inner[-1:].isalnum() or inner[-1:] in ("_", ")", "]"):
            word = inner.split()[-1] if inner.split() else ""
            if word not in {"in", "return", "not", "and", "or", "if", "else", "yield", "await", "lambda", "is"}:
                break  # the parenthesis of a call
        depth, stripped = depth + 1, inner
    return depth


def _start_with_parentheses(source: Source, first: PlacedNode, second: PlacedNode) -> tuple[int, int]:
    """Where the argument ``second`` begins, with the parentheses around it."""
    line, column = node_start(second)
    comma = False
    for found in _tokens_between(source, node_end(first), node_start(second)):
        if found.string == ",":
            comma = True
        elif comma and found.string == "(":
            return found.start
    return line, column


def _tokens_between(source: Source, start: tuple[int, int], end: tuple[int, int]) -> list[tokenize.TokenInfo]:
    """The tokens between two places; columns are in bytes."""
    rows = source.text.encode().split(b"\n")[start[0] - 1 : end[0]]
    if not rows:
        return []
    if len(rows) == end[0] - start[0] + 1:
        rows[-1] = rows[-1][: end[1]]
    # One character per byte, so that columns stay bytes.
    text = (b" " * start[1] + rows[0][start[1] :]).decode("latin-1")
    text = "\n".join([text, *(row.decode("latin-1") for row in rows[1:])]).lstrip("\n")
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(f"({text}").readline):
            line, shift = token.start[0], 1 if token.start[0] == 1 else 0
            begun = (line + start[0] - 1, token.start[1] - shift)
            ended = (token.end[0] + start[0] - 1, token.end[1] - (1 if token.end[0] == 1 else 0))
            found.append(token._replace(start=begun, end=ended))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # the cut-out text ends here
    return found[1:]
