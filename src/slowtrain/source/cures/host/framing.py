"""Frames of a signal, cut out and transformed one by one in a loop: all of them at once."""

from __future__ import annotations

import ast
from dataclasses import replace

from slowtrain.model import Edit
from slowtrain.script.evaluators import array_ranks
from slowtrain.script.navigation import call_index, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import comprehended
from slowtrain.source.cures.host.overarrays import Axis, Translator, Unclear, Value

SPECTRA = frozenset("rfft fft irfft ifft hfft".split())  # of the last axis, each row by itself
PARTS = frozenset({"real", "imag"})
ROW = ("", 1)


def framed(source: Source, line: int) -> list[Edit]:
    """``for i in range(n): out[i] = f(wave[i * hop:i * hop + size])`` around ``line``, or in its function, at once.

    ``frames.append(...)`` as well. Of signals of one axis: NumPy raises for others where the loop did not.
    """
    function = source.function_at(line)
    own = set(map(id, scope_names.nodes_in_scope(scope_names.scope_body(function)))) if function is not None else set()
    loops = [n for n in call_index.nodes_of_kind(source, ast.For) if isinstance(n, ast.For) and not n.orelse]
    near = [n for n in loops if n.lineno <= line <= (n.end_lineno or 0) or id(n) in own]
    for loop in near:
        try:
            return _Loop(source, loop).edits()
        except Unclear:
            continue
    return []


class _Loop(Translator):
    """A loop over frames, with what it does to each of them."""

    def __init__(self, source: Source, node: ast.For) -> None:
        over = node.iter
        if (
            not isinstance(over, ast.Call)
            or scope_names.dotted_name(over.func) != "range"
            or not isinstance(node.target, ast.Name)
        ):
            raise Unclear("no loop over numbers")
        if over.keywords or len(over.args) not in (1, 3):
            raise Unclear("a loop that begins elsewhere")
        self.node, self.given, self.count = node, over.args, node.target.id
        super().__init__(source, [Axis(node.target.id, "0", "")], {}, comprehended.numpy(source))
        self.found = 0

    def edits(self) -> list[Edit]:
        *before, last = self.node.body
        lines = []
        for one in before:
            if not isinstance(one, ast.Assign) or len(one.targets) != 1 or not isinstance(one.targets[0], ast.Name):
                raise Unclear("a statement of another form")
            value, name = self.value(one.value), one.targets[0].id
            if not value.varies:
                raise Unclear("what is the same for all frames")
            lines.append(f"{name} = {value.text}")
            self.known[name] = replace(value, text=name, kept=None, atom=True)
        lines.append(self.kept(last))
        if not self.found or self.read_later(before):
            raise Unclear("no frames, or the last one is used after the loop")
        indent = self.source.text.split("\n")[self.node.lineno - 1][: self.node.col_offset]
        if indent.strip():
            raise Unclear("a loop behind something else on its line")
        return [edits.replace_node(self.source, self.node, f"\n{indent}".join(lines))]

    def kept(self, last: ast.stmt) -> str:
        """``out[i] = value``, or ``frames.append(value)`` of a list that was empty."""
        if isinstance(last, ast.Assign) and len(last.targets) == 1 and isinstance(last.targets[0], ast.Subscript):
            place = last.targets[0]
            if (
                scope_names.dotted_name(place.slice) != self.count
                or len(self.given) != 1
                or not isinstance(place.value, ast.Name)
            ):
                raise Unclear("another place")
            stop = edits.node_text(self.source, self.given[0])
            return f"{place.value.id}[:{stop}] = {self.row(last.value).text}"
        call = last.value if isinstance(last, ast.Expr) else None
        if not isinstance(call, ast.Call) or node_lookup.called_name(call) != "append" or len(call.args) != 1:
            raise Unclear("kept in another way")
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        block = scope_names.statement_block(self.source, self.node)
        first = block[block.index(self.node) - 1] if block.index(self.node) else None
        empty = isinstance(first, ast.Assign) and isinstance(first.value, ast.List) and not first.value.elts
        if not isinstance(owner, ast.Name) or not empty or not isinstance(first, ast.Assign):
            raise Unclear("a list of another form")
        if [scope_names.dotted_name(t) for t in first.targets] != [owner.id]:
            raise Unclear("another list")
        return f"{owner.id} += list({self.row(call.args[0]).text})"

    def row(self, node: ast.expr) -> Value:
        value = self.value(node)
        if not value.varies:
            raise Unclear("the same for all frames")
        return value

    def read_later(self, before: list[ast.stmt]) -> bool:
        names = {n for s in before for n in scope_names.bound_names(s)} | {self.count}
        inside = {id(n) for n in syntax_tree.walk(self.node)}
        body = scope_names.scope_body(scope_names.enclosing_scope(self.source, self.node))
        return any(
            isinstance(n, ast.Name) and n.id in names and id(n) not in inside for s in body for n in syntax_tree.walk(s)
        )

    # -- expressions

    def value(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Attribute) and node.attr in PARTS:
            one = self.value(node.value)
            return replace(one, text=f"{one.safe}.{node.attr}", kept=None, atom=True)
        same = not any(
            isinstance(n, ast.Name) and (n.id in self.known or n.id == self.count) for n in syntax_tree.walk(node)
        )
        if same and isinstance(node, (ast.Name, ast.Attribute)):
            return self.constant(node)
        return super().value(node)

    def constant(self, node: ast.Name | ast.Attribute) -> Value:
        """A number or an array of one axis, as long as a frame; of another one NumPy says so."""
        if isinstance(node, ast.Name) and node.id in scope_names.bound_names(self.node):
            raise Unclear("a name of the turn before")
        found = array_ranks.array_rank(self.source, node) if isinstance(node, ast.Name) else None
        if found is not None and not found[0] and found[1] > 1:
            raise Unclear("an array of several axes")
        return Value(edits.node_text(self.source, node), ROW, False, atom=True)

    def joined(self, values: list[Value], write: object, atom: bool = False) -> Value:
        """Rows of all frames; numbers and arrays that are the same for all stand beside them as they are."""
        assert callable(write)
        if any(v.varies and v.rank != ROW for v in values):
            raise Unclear("numbers of frames beside rows")
        texts = [v.text if atom else v.safe for v in values]
        return Value(write(*texts), ROW, any(v.varies for v in values), None, atom)

    def operation(self, node: ast.BinOp) -> Value:
        if not isinstance(node.op, ast.MatMult):
            return super().operation(node)
        return self.product(node.left, node.right)

    def product(self, left: ast.expr, right: ast.expr) -> Value:
        """A frame times a matrix, whichever of them stands first."""
        self.exact = False
        one, other = self.factor(left), self.factor(right)
        if one.varies == other.varies or (one if one.varies else other).rank != ROW:
            raise Unclear("a product of another form")
        text = f"{one.safe} @ {other.safe}" if one.varies else f"{other.safe} @ {one.safe}.T"
        return Value(text, ROW)

    def factor(self, node: ast.expr) -> Value:
        names = scope_names.read_names(node)
        if names & set(self.known) or self.count in names:
            return self.value(node)
        if not isinstance(node, (ast.Name, ast.Attribute)):
            raise Unclear("a matrix that is worked out")
        return Value(edits.node_text(self.source, node), ("", 2), False, atom=True)

    def of_numpy(self, call: ast.Call, name: str) -> Value:
        if name in SPECTRA and len(call.args) == 1 and all(k.arg == "n" for k in call.keywords):
            one = self.row(call.args[0])
            given = "".join(f", n={edits.node_text(self.source, k.value)}" for k in call.keywords)
            return replace(
                one, text=f"{edits.node_text(self.source, call.func)}({one.text}{given})", kept=None, atom=True
            )
        if name in ("dot", "matmul") and len(call.args) == 2 and not call.keywords:
            return self.product(*call.args)
        if name in ("angle", "conj", "conjugate") and len(call.args) == 1 and not call.keywords:
            one = self.row(call.args[0])
            return replace(one, text=f"{edits.node_text(self.source, call.func)}({one.text})", kept=None, atom=True)
        return super().of_numpy(call, name)

    def item(self, node: ast.Subscript) -> Value:
        """A frame of the signal, or a part of each frame."""
        part = node.slice
        if scope_names.read_names(node.value) & set(self.known) or not isinstance(
            node.value, (ast.Name, ast.Attribute)
        ):
            one = self.row(node.value)
            if one.rank != ROW or not isinstance(part, ast.Slice) or self.count in scope_names.read_names(part):
                raise Unclear("an element of a frame")
            return Value(f"{one.safe}[:, {edits.node_text(self.source, part)}]", ROW, atom=True)
        if not isinstance(part, ast.Slice) or part.step is not None:
            raise Unclear("no frame")
        if (
            self.count in scope_names.read_names(node.value)
            or part.lower is None
            or not isinstance(part.upper, ast.BinOp)
        ):
            raise Unclear("no frame")
        hop, size = self.hop(part.lower), self.size_of(part.lower, part.upper)
        signal = edits.node_text(self.source, node.value)
        stop = "" if len(self.given) == 3 else f"[:{edits.node_text(self.source, self.given[0])}]"
        if len(self.given) == 3:
            self.whole(signal, size)
        self.found += 1
        return Value(
            f"{self.numpy}.lib.stride_tricks.sliding_window_view({signal}, ({size},))[::{hop}]{stop}", ROW, atom=True
        )

    def hop(self, start: ast.expr) -> str:
        """How far apart frames begin: ``hop`` of ``i * hop``, or the step of the range."""
        if len(self.given) == 3:
            if scope_names.dotted_name(start) != self.count or scope_names.read_names(
                self.given[2]
            ) & scope_names.bound_names(self.node):
                raise Unclear("another start")
            return edits.node_text(self.source, self.given[2])
        if isinstance(start, ast.BinOp) and isinstance(start.op, ast.Mult):
            for ours, other in ((start.left, start.right), (start.right, start.left)):
                if scope_names.dotted_name(ours) == self.count and not scope_names.read_names(
                    other
                ) & scope_names.bound_names(self.node):
                    return edits.node_text(self.source, other)
        raise Unclear("another start")

    def size_of(self, lower: ast.expr, upper: ast.BinOp) -> str:
        if not isinstance(upper.op, ast.Add) or ast.dump(upper.left) != ast.dump(lower):
            raise Unclear("another end")
        if scope_names.read_names(upper.right) & scope_names.bound_names(self.node):
            raise Unclear("a length of its own for each frame")
        return edits.node_text(self.source, upper.right)

    def whole(self, signal: str, size: str) -> None:
        """``range(0, len(wave) - size + 1, hop)``: frames that lie in the signal, and all of these."""
        start, stop = self.given[0], edits.node_text(self.source, self.given[1])
        if not isinstance(start, ast.Constant) or start.value != 0 or stop != f"len({signal}) - {size} + 1":
            raise Unclear("frames that begin or end elsewhere")
