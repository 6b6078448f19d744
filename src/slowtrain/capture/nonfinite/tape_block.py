"""Extracts the statements around a gradient tape from the source, so that they can run again.

A loop that runs op by op has no function that could be called again. It has a ``with`` statement, the line that
requests gradients from the tape, and the names that both read.
"""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType

# Bits of ``co_flags`` for ``from __future__`` imports.
FUTURE_FLAGS = sum({getattr(__future__, n).compiler_flag for n in __future__.all_feature_names} - {0, 0x10})


class CannotReplay(Exception):
    """The reason why the statements cannot run by themselves, in a few words."""


@dataclass(frozen=True)
class TapeBlock:
    """A ``with`` statement and the statements after it in the same suite."""

    file: str
    flags: int
    statement: ast.With
    after: tuple[ast.stmt, ...]

    def upto(self, line: int | None) -> tuple[CodeType, frozenset[str]]:
        """Returns the code of the statement and the names it reads. Includes the later statement that contains
        ``line``.

        Of the statements between the two, only those run that assign a name that is read later. Raises
        ``CannotReplay``.
        """
        statements: list[ast.stmt] = [self.statement]
        if line is not None and line > (self.statement.end_lineno or 0):
            upto = [i for i, s in enumerate(self.after) if s.lineno <= line <= (s.end_lineno or s.lineno)]
            statements += _needed_statements(self.after[: upto[0] + 1]) if upto else []
        names = frozenset(name for s in statements for name in _names_in(s))
        transformer = _ReturnsToExpressions()
        body = [transformer.visit(copy.deepcopy(s)) for s in statements]
        # ``break`` and ``continue`` of the script's own loop need a loop around them.
        once = ast.For(
            target=ast.Name("_slowtrain_once", ast.Store()),
            iter=ast.Tuple([ast.Constant(0)], ast.Load()),
            body=body,
            orelse=[],
        )
        module = ast.fix_missing_locations(ast.Module([ast.copy_location(once, self.statement)], []))
        try:
            return compile(module, self.file, "exec", self.flags, dont_inherit=True), names
        except (SyntaxError, ValueError) as error:
            raise CannotReplay(f"the statements around its tape cannot run alone: {error}") from error


def find_tape_block(code: CodeType, line: int) -> TapeBlock:
    """Returns the innermost ``with`` statement whose head contains a line of ``code``. Raises ``CannotReplay``."""
    text = "".join(linecache.getlines(code.co_filename))
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise CannotReplay("its source cannot be read") from error
    found: tuple[ast.With, tuple[ast.stmt, ...]] | None = None
    for node in ast.walk(tree):
        for suite in (getattr(node, field, None) for field in ("body", "orelse", "finalbody")):
            for i, one in enumerate(suite if isinstance(suite, list) else ()):
                if isinstance(one, ast.With) and one.lineno <= line <= _head_end_line(one):
                    found = one, tuple(suite[i + 1 :])  # type: ignore[index]
    if found is None:
        raise CannotReplay("its tape is not opened by a with statement whose source is at hand")
    return TapeBlock(code.co_filename, code.co_flags & FUTURE_FLAGS, *found)


def _head_end_line(statement: ast.With) -> int:
    return max(i.context_expr.end_lineno or statement.lineno for i in statement.items)


def _names_in(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _needed_statements(statements: Sequence[ast.stmt]) -> list[ast.stmt]:
    """Returns the last statement, and those before that assign a name that a later one reads."""
    needed = [statements[-1]]
    wanted = _names_in(needed[0])
    for one in reversed(statements[:-1]):
        assigned = {n.id for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if assigned & wanted:
            needed.insert(0, one)
            wanted |= _names_in(one)
    return needed


class _ReturnsToExpressions(ast.NodeTransformer):
    """Replaces ``return x`` by ``x``, because there is no caller. Nested functions keep their returns."""

    def visit_Return(self, node: ast.Return) -> ast.AST:
        statement: ast.stmt = ast.Expr(node.value) if node.value is not None else ast.Pass()
        return ast.copy_location(statement, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node
