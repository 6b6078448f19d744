"""Rewrites loops over elements as operations on whole NumPy arrays, for known forms of loops."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from slowtrain.model import Edit
from slowtrain.script.fixes.loops import array_comprehensions, array_expressions
from slowtrain.script.fixes.loops.array_comprehensions import VectorisedCode
from slowtrain.script.fixes.loops.array_expressions import ArrayText, ArrayTranslator, LoopAxis, UntranslatableError
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.queries import SCALAR
from slowtrain.script.navigation import call_arguments, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source, holds_line


def vectorise_loop(source: Source, line: int) -> VectorisedCode | None:
    """Rewrite the outermost loop or comprehension around ``line`` over whole arrays; None for an unknown form."""
    for node in _candidate_loops(source, line):
        try:
            return (
                _LoopTranslator(source, node).translate()
                if isinstance(node, ast.For)
                else array_comprehensions.ArrayCallTranslator(source, node).translate()
            )
        except UntranslatableError:
            continue
    return None


def _candidate_loops(source: Source, line: int) -> list[ast.For | ast.Call]:
    """Return loops and array-building calls that contain the line, or call its function; the outermost first."""
    lines = [line]
    function = source.function_at(line)
    lines += [c.lineno for c in call_arguments.function_calls(source, function)] if function is not None else []
    name = getattr(function, "name", None)
    applied = (n for n in syntax_tree.walk(source.tree) if isinstance(n, ast.Call) and function is not None)
    lines += [c.lineno for c in applied if any(isinstance(a, ast.Name) and a.id == name for a in c.args)]
    found: list[ast.For | ast.Call] = []
    for each in dict.fromkeys(lines):
        around = [n for n in syntax_tree.walk(source.tree) if holds_line(n, each)]
        makers = [n for n in around if isinstance(n, ast.Call) and array_comprehensions.makes_array(source, n)]
        loops = [n for n in around if isinstance(n, ast.For)]
        found += sorted([*loops, *makers], key=lambda n: (n.lineno, n.col_offset))
    return found


class _LoopTranslator:
    """Translates a ``for`` statement over elements."""

    def __init__(self, source: Source, node: ast.For) -> None:
        self.source, self.node = source, node
        self.scope = scope_names.enclosing_scope(source, node)
        self.inside = {id(n) for n in syntax_tree.walk(node)}
        self.lines: list[str] = []
        self.appended: dict[str, str] = {}
        self.sums: set[str] = set()
        self.translator = ArrayTranslator(source, [], {}, array_comprehensions.numpy_alias(source))

    def translate(self) -> VectorisedCode:
        self.translate_loop(self.node)
        self.check_names_unread()
        lists = [self.remove_empty_list(name) for name in self.appended]
        text = "\n".join([*self.lines, *(f"{name} = {value}" for name, value in self.appended.items())])
        if not text:
            raise UntranslatableError("nothing done")
        indent = self.source.text.split("\n")[self.node.lineno - 1][: self.node.col_offset]
        if indent.strip():
            raise UntranslatableError("a loop behind something else on its line")
        edit = edits.replace_node(self.source, self.node, text.replace("\n", f"\n{indent}"))
        return VectorisedCode((*lists, edit), self.translator.exact)

    def translate_loop(self, node: ast.For) -> None:
        self.read_header(node)
        if not self.translate_rows(node.body):
            for one in node.body:
                self.translate_statement(one)

    def translate_rows(self, body: list[ast.stmt]) -> bool:
        """Translate ``row = []``, a loop that appends to it, and ``out.append(row)``."""
        if len(body) != 3 or len(self.translator.axes) != 1:
            return False
        made, inner, kept = body
        if not isinstance(inner, ast.For) or len(inner.body) != 1:
            return False
        item, row = _appended_item(inner.body[0]), _appended_item(kept)
        if item is None or row is None or not isinstance(made, ast.Assign) or not isinstance(row[1], ast.Name):
            return False
        if ast.unparse(made) != f"{item[0]} = []" or row[1].id != item[0] or row[0] in self.appended:
            return False
        self.read_header(inner)
        found = self.translator.translate(item[1])
        if found.rank != SCALAR or not found.varies:
            raise UntranslatableError("rows of another form")
        self.appended[row[0]] = found.text
        self.translator.axes.pop()
        return True

    def read_header(self, node: ast.For) -> None:
        if node.orelse:
            raise UntranslatableError("for with else")
        target, over = node.target, node.iter
        if isinstance(over, ast.Call) and node_lookup.called_name(over) == "range" and isinstance(target, ast.Name):
            self.translator.axes.append(self.counted_axis(target.id, over))
        elif (
            isinstance(over, ast.Call)
            and node_lookup.called_name(over) == "enumerate"
            and isinstance(target, ast.Tuple)
        ):
            index, item = target.elts
            if len(over.args) != 1 or not isinstance(index, ast.Name) or not isinstance(item, ast.Name):
                raise UntranslatableError("enumerate from elsewhere")
            self.add_element_axis(item.id, over.args[0], index.id)
        elif isinstance(target, ast.Name):
            self.add_element_axis(target.id, over, None)
        else:
            raise UntranslatableError("a loop of another form")

    def counted_axis(self, index: str, call: ast.Call) -> LoopAxis:
        given = [edits.node_text(self.source, a) for a in call.args]
        if len(given) > 2 or call.keywords:
            raise UntranslatableError("a step")
        bound = {n.id for n in syntax_tree.walk(call) if isinstance(n, ast.Name)} & scope_names.bound_names(self.node)
        stop = given[-1]
        if bound:  # range(len(a[i])): the columns of the row
            one = call.args[-1]
            row = one.args[0] if isinstance(one, ast.Call) and node_lookup.called_name(one) == "len" else None
            first = self.translator.axes[0].index if len(self.translator.axes) == 1 else None
            if isinstance(row, ast.Name) and row.id in self.translator.known:
                stop = f"{self.translator.known[row.id].text}.shape[1]"
            elif isinstance(row, ast.Subscript) and scope_names.dotted_name(row.slice) == first and first:
                stop = f"{edits.node_text(self.source, row.value)}.shape[1]"
            else:
                raise UntranslatableError("a length that differs between turns")
        if not all(self.is_simple_length(a) for a in call.args):
            raise UntranslatableError("a length that is calculated")
        return LoopAxis(index, given[0] if len(given) == 2 else "0", stop)

    def is_simple_length(self, node: ast.expr) -> bool:
        return all(isinstance(n, ast.expr | ast.Load | ast.operator) for n in syntax_tree.walk(node)) and not any(
            isinstance(n, ast.Call) and node_lookup.called_name(n) not in ("len", "int") for n in syntax_tree.walk(node)
        )

    def add_element_axis(self, name: str, over: ast.expr, index: str | None) -> None:
        """Add the axis of a loop over the items of an array, or of a row of it."""
        if (
            isinstance(over, ast.Name)
            and over.id in self.translator.known
            and over.id in scope_names.bound_names(self.node)
        ):
            row = self.translator.known[over.id]
            if row.rank[0] or row.rank[1] < 1 or not row.atom:
                raise UntranslatableError("items of a row of unknown rank")
            value = ArrayText(row.text, (row.rank[0], row.rank[1] - 1), atom=True)
            self.translator.axes.append(LoopAxis(index, "0", f"{row.text}.shape[{len(self.translator.axes)}]"))
        else:
            if self.translator.axes or not isinstance(over, ast.Name) or not queries.is_array(self.source, over):
                raise UntranslatableError("items of something else than an array")
            found = queries.array_rank(self.source, over)
            if found is None:
                raise UntranslatableError("items of unknown rank")
            value = ArrayText(over.id, (found[0], found[1] - 1), atom=True)
            self.translator.axes.append(LoopAxis(index, "0", f"len({over.id})"))
        self.translator.known[name] = value

    def translate_statement(self, one: ast.stmt) -> None:
        if isinstance(one, ast.For):
            before = list(self.translator.axes)
            if len(self.node.body) != 1 and any(s is not one for s in self.block_of(one)):
                raise UntranslatableError("statements beside an inner loop")
            self.translate_loop(one)
            self.translator.axes = before
        elif isinstance(one, ast.Assign) and len(one.targets) == 1:
            self.translate_assignment(one.targets[0], one.value)
        elif isinstance(one, ast.AugAssign):
            self.translate_augmented(one)
        elif isinstance(one, ast.Expr) and isinstance(one.value, ast.Call):
            self.translate_append(one.value)
        elif isinstance(one, ast.If):
            self.translate_branch(one)
        elif not isinstance(one, ast.Pass):
            raise UntranslatableError(type(one).__name__)

    def block_of(self, one: ast.stmt) -> Sequence[ast.stmt]:
        return scope_names.statement_block(self.source, one)

    def translate_assignment(self, target: ast.expr, value: ast.expr, test: ast.expr | None = None) -> None:
        if isinstance(target, ast.Name):
            found = self.translator.translate(value)
            if test is not None or not found.varies:
                raise UntranslatableError("a name of the last element")
            self.lines.append(f"{target.id} = {found.text}")
            self.translator.known[target.id] = replace(found, text=target.id, kept=None, atom=True)
            return
        place, found = self.target_place(target), self.translator.translate(value)
        text = found.text
        if test is not None:
            text = self.translator.translate_choice(self.translator.translate_condition(test), found, place).text
        self.store_value(place, found, text)

    def target_place(self, target: ast.expr) -> ArrayText:
        if not isinstance(target, ast.Subscript):
            raise UntranslatableError("an attribute")
        place = self.translator.translate_item(target)
        if "None" in place.text or "sliding" in place.text:
            raise UntranslatableError("the same place in several turns")
        self.check_same_place(scope_names.dotted_name(_root_expression(target)), target)
        return place

    def check_same_place(self, name: str, target: ast.Subscript) -> None:
        """Raise if an iteration may read an element that another iteration writes."""
        wanted = ast.dump(_as_loaded(target))
        for node in syntax_tree.walk(self.node):
            if isinstance(node, ast.Subscript) and scope_names.dotted_name(_root_expression(node)) == name:
                inner = isinstance(node_lookup.parents_of(self.source).get(node), ast.Subscript)
                if ast.dump(_as_loaded(node)) != wanted and not inner:
                    raise UntranslatableError("turns that need each other")
                continue
            if isinstance(node, ast.Name) and node.id == name and not self.is_only_measured(node):
                raise UntranslatableError("the whole array is read while it is written")

    def is_only_measured(self, node: ast.Name) -> bool:
        """``len(a)``, ``a.shape``, ``a[…]``."""
        parent = node_lookup.parents_of(self.source).get(node)
        if isinstance(parent, ast.Attribute):
            return parent.attr in ("shape", "ndim")
        return isinstance(parent, ast.Subscript) or (
            isinstance(parent, ast.Call) and node_lookup.called_name(parent) == "len"
        )

    def store_value(self, place: ArrayText, found: ArrayText, text: str) -> None:
        if found.varies and found.rank != place.rank:
            raise UntranslatableError("a target of another rank")
        if not found.varies and found.rank != SCALAR:
            raise UntranslatableError("an array put into elements")
        self.lines.append(f"{place.text if '[' in place.text else f'{place.text}[...]'} = {text}")

    def translate_augmented(self, one: ast.AugAssign) -> None:
        sign = array_expressions.OPERATOR_SIGNS.get(type(one.op))
        if isinstance(one.target, ast.Name) and isinstance(one.op, ast.Add):
            found = self.translator.translate(one.value)
            if (
                one.target.id in self.translator.known
                or not found.varies
                or len(self.translator.axes) != 1
                or found.rank != SCALAR
            ):
                raise UntranslatableError("a sum of another form")
            self.translator.exact = False
            self.sums.add(one.target.id)
            if sum(isinstance(n, ast.Name) and n.id == one.target.id for n in syntax_tree.walk(self.node)) > 1:
                raise UntranslatableError("a sum that is read on its way")
            self.lines.append(f"{one.target.id} += {self.translator.numpy}.sum({found.text})")
            return
        if sign is None or not isinstance(one.target, ast.Subscript):
            raise UntranslatableError("a change of another form")
        place, found = self.target_place(one.target), self.translator.translate(one.value)
        self.translator.exact = False
        if found.varies and found.rank != place.rank:
            raise UntranslatableError("a target of another rank")
        self.lines.append(f"{place.text if '[' in place.text else f'{place.text}[...]'} {sign}= {found.text}")

    def translate_append(self, call: ast.Call) -> None:
        if node_lookup.called_name(call) != "append" or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
            raise UntranslatableError("a call for its effect")
        name = scope_names.dotted_name(call.func.value)
        found = self.translator.translate(call.args[0])
        if not name or "." in name or len(self.translator.axes) != 1 or name in self.appended or not found.varies:
            raise UntranslatableError("a list of another form")
        self.appended[name] = found.text

    def translate_branch(self, one: ast.If) -> None:
        """Translate ``if`` with one assignment or append in each branch."""
        if len(one.body) != 1 or len(one.orelse) > 1:
            raise UntranslatableError("a branch that does several things")
        yes, no = one.body[0], one.orelse[0] if one.orelse else None
        if _is_append(yes) and no is not None:
            self.translate_append(self.merged_append(one))
        elif isinstance(yes, ast.Assign) and len(yes.targets) == 1:
            if no is None:
                self.translate_assignment(yes.targets[0], yes.value, one.test)
                return
            place = self.target_place(yes.targets[0])
            value = self.translator.translate(self.merged_value(one, ast.dump(_as_loaded(yes.targets[0]))))
            self.store_value(place, value, value.text)
        else:
            raise UntranslatableError("a branch of another form")

    def merged_append(self, one: ast.If) -> ast.Call:
        """Return the appends of the branches as one call with a conditional expression."""
        yes, no = one.body[0], one.orelse[0]
        if isinstance(no, ast.If):
            if len(no.body) != 1 or len(no.orelse) != 1:
                raise UntranslatableError("a branch that does several things")
            other: ast.expr = self.merged_append(no)
        elif isinstance(no, ast.Expr):
            other = no.value
        else:
            raise UntranslatableError("a branch of another form")
        first = yes.value if isinstance(yes, ast.Expr) else None
        if not isinstance(first, ast.Call) or not isinstance(other, ast.Call) or not _is_append(yes):
            raise UntranslatableError("a branch of another form")
        if ast.dump(first.func) != ast.dump(other.func) or len(first.args) != 1 or len(other.args) != 1:
            raise UntranslatableError("branches for several lists")
        both = ast.copy_location(ast.IfExp(one.test, first.args[0], other.args[0]), one.test)
        return ast.copy_location(ast.Call(first.func, [both], []), first)

    def merged_value(self, one: ast.If, target: str) -> ast.expr:
        """Return the value that the branches assign to the target, as a conditional expression."""
        yes, no = one.body[0], one.orelse[0] if len(one.orelse) == 1 else None
        if not isinstance(yes, ast.Assign) or len(one.body) != 1 or ast.dump(_as_loaded(yes.targets[0])) != target:
            raise UntranslatableError("branches for several targets")
        if isinstance(no, ast.If):
            other = self.merged_value(no, target)
        elif isinstance(no, ast.Assign) and ast.dump(_as_loaded(no.targets[0])) == target:
            other = no.value
        else:
            raise UntranslatableError("branches for several targets")
        return ast.copy_location(ast.IfExp(one.test, yes.value, other), one.test)

    # -- around the loop

    def check_names_unread(self) -> None:
        """Raise if other code reads a name that the loop binds."""
        for name in scope_names.bound_names(self.node) - self.sums:
            for one in scope_names.scope_body(self.scope):
                for node in syntax_tree.walk(one):
                    if isinstance(node, ast.Name) and node.id == name and id(node) not in self.inside:
                        raise UntranslatableError(f"{name} is used elsewhere")

    def remove_empty_list(self, name: str) -> Edit:
        """Remove ``out = []`` if the list is only converted to an array afterwards."""
        uses = [
            n
            for one in scope_names.scope_body(self.scope)
            for n in syntax_tree.walk(one)
            if isinstance(n, ast.Name) and n.id == name and id(n) not in self.inside
        ]
        made = [n for n in uses if isinstance(n.ctx, ast.Store) and not self.is_rebound_as_array(n)]
        statement = node_lookup.enclosing_statement(self.source, made[0]) if len(made) == 1 else None
        empty = isinstance(statement, ast.Assign) and ast.unparse(statement.value) in ("[]", "list()")
        if statement is None or not empty or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            raise UntranslatableError("a list that was not empty")
        block = scope_names.statement_block(self.source, self.node)
        if statement not in block or block.index(statement) > block.index(self.node):
            raise UntranslatableError("a list made elsewhere")
        for node in uses:
            parent = node_lookup.parents_of(self.source).get(node)
            arrayed = isinstance(parent, ast.Call) and (
                array_comprehensions.makes_array(self.source, parent) or node_lookup.called_name(parent) == "len"
            )
            if isinstance(node.ctx, ast.Load) and not arrayed:
                raise UntranslatableError("the list itself is used")
        return edits.remove_statement(self.source, statement)

    def is_rebound_as_array(self, node: ast.Name) -> bool:
        """``out = np.array(out)``."""
        one = node_lookup.enclosing_statement(self.source, node)
        value = one.value if isinstance(one, ast.Assign) else None
        if not isinstance(value, ast.Call) or not value.args or one is None or one.lineno < self.node.lineno:
            return False
        return (
            array_comprehensions.makes_array(self.source, value) and scope_names.dotted_name(value.args[0]) == node.id
        )


def _appended_item(one: ast.stmt) -> tuple[str, ast.expr] | None:
    """Return the name of the list and the item of ``out.append(item)``."""
    call = one.value if isinstance(one, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or len(call.args) != 1:
        return None
    name = scope_names.dotted_name(call.func.value)
    return (name, call.args[0]) if call.func.attr == "append" and name and "." not in name else None


def _is_append(one: ast.stmt) -> bool:
    return (
        isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and node_lookup.called_name(one.value) == "append"
    )


def _root_expression(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _as_loaded(node: ast.expr) -> ast.expr:
    """Return the expression in load context, for comparison."""
    return ast.parse(ast.unparse(node), mode="eval").body
