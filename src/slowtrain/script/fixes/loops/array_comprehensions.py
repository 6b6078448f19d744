"""Rewrites comprehensions and mapped functions that build arrays as operations on whole arrays."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from slowtrain.model import Edit
from slowtrain.script.fixes.loops.array_expressions import ArrayText, ArrayTranslator, LoopAxis, UntranslatableError
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.interpreter.engine.queries import SCALAR
from slowtrain.script.navigation import node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source


@dataclass(frozen=True)
class VectorisedCode:
    """The edits, and whether results stay bit-identical."""

    edits: tuple[Edit, ...]
    exact: bool


def makes_array(source: Source, call: ast.Call) -> bool:
    whole = scope_names.resolved_name(source, call.func)
    if whole in ("numpy.array", "numpy.asarray", "numpy.stack"):
        return bool(call.args)
    return isinstance(call.func, ast.Call) and scope_names.resolved_name(source, call.func.func) == "numpy.vectorize"


def numpy_alias(source: Source) -> str:
    for node in source.tree.body:
        for alias in node.names if isinstance(node, ast.Import) else ():
            if alias.name == "numpy":
                return alias.asname or "numpy"
    raise UntranslatableError("NumPy is not imported")


class ArrayCallTranslator:
    """``np.array([f(x) for x in a])``, ``np.array(list(map(f, a)))``, ``np.vectorize(f)(a)``."""

    def __init__(self, source: Source, call: ast.Call) -> None:
        self.source, self.call = source, call
        self.translator = ArrayTranslator(source, [], {}, numpy_alias(source))

    def translate(self) -> VectorisedCode:
        given = self.call.args[0]
        if isinstance(self.call.func, ast.Call):
            found = self.translate_map(self.call.func.args[0], given)
        elif (
            isinstance(given, ast.Call) and node_lookup.called_name(given) in ("list", "tuple") and len(given.args) == 1
        ):
            inner = given.args[0]
            if not isinstance(inner, ast.Call) or node_lookup.called_name(inner) != "map" or len(inner.args) != 2:
                raise UntranslatableError("a list of another form")
            found = self.translate_map(inner.args[0], inner.args[1])
        elif isinstance(given, (ast.ListComp, ast.GeneratorExp)):
            found = self.translate_comprehension(given)
        else:
            raise UntranslatableError("an array of something else")
        typed = node_lookup.argument_value(self.call, "dtype")
        text = found.text
        if typed is not None:
            text = f"{found.safe}.astype({edits.node_text(self.source, typed)})"
        if len(self.call.args) > 1 or any(k.arg != "dtype" for k in self.call.keywords):
            raise UntranslatableError("arguments of another form")
        return VectorisedCode(
            (edits.replace_node(self.source, self.call, text if found.atom else f"({text})"),), self.translator.exact
        )

    def array_items(self, over: ast.expr) -> ArrayText:
        if not isinstance(over, ast.Name) or not queries.is_array(self.source, over):
            raise UntranslatableError("items of something else than an array")
        found = queries.array_rank(self.source, over)
        if found is None:
            raise UntranslatableError("items of unknown rank")
        self.translator.axes.append(LoopAxis(None, "0", f"len({over.id})"))
        return ArrayText(over.id, (found[0], found[1] - 1), atom=True)

    def translate_map(self, function: ast.expr, over: ast.expr) -> ArrayText:
        vectorize = isinstance(self.call.func, ast.Call)
        value = self.array_items(over)
        if vectorize:
            value = replace(value, rank=SCALAR)  # np.vectorize works on elements of any rank
        if isinstance(function, ast.Lambda) and len(scope_names.parameter_names(function)) == 1:
            self.translator.known[scope_names.parameter_names(function)[0]] = value
            return self.check_varies(self.translator.translate(function.body))
        name = ast.copy_location(ast.Name("_element", ast.Load()), function)
        self.translator.known["_element"] = value
        return self.check_varies(
            self.translator.translate_call(ast.copy_location(ast.Call(function, [name], []), function))
        )

    def translate_comprehension(self, node: ast.ListComp | ast.GeneratorExp) -> ArrayText:
        one = node.generators[0]
        if len(node.generators) != 1 or one.ifs or isinstance(node, ast.GeneratorExp):
            raise UntranslatableError("a comprehension of another form")
        over, target = one.iter, one.target
        if isinstance(over, ast.Call) and node_lookup.called_name(over) == "range" and isinstance(target, ast.Name):
            given = [edits.node_text(self.source, a) for a in over.args]
            if len(given) != 1 or any(
                isinstance(n, ast.Call) and node_lookup.called_name(n) != "len" for n in syntax_tree.walk(over.args[0])
            ):
                raise UntranslatableError("a range of another form")
            self.translator.axes.append(LoopAxis(target.id, "0", given[0]))
        elif isinstance(target, ast.Name):
            self.translator.known[target.id] = self.array_items(over)
        else:
            raise UntranslatableError("items that are taken apart")
        if isinstance(node.elt, ast.ListComp):
            return self.translate_nested(node.elt)
        return self.check_varies(self.translator.translate(node.elt))

    def translate_nested(self, node: ast.ListComp) -> ArrayText:
        """``[[f(v) for v in row] for row in a]`` of an array of rank 2."""
        one = node.generators[0]
        row = self.translator.known.get(scope_names.dotted_name(one.iter))
        if (
            len(node.generators) != 1
            or one.ifs
            or row is None
            or row.rank != ("", 1)
            or not isinstance(one.target, ast.Name)
        ):
            raise UntranslatableError("rows of another form")
        self.translator.axes.append(LoopAxis(None, "0", f"{row.text}.shape[1]"))
        self.translator.known[one.target.id] = ArrayText(row.text, SCALAR, atom=True)
        return self.check_varies(self.translator.translate(node.elt))

    def check_varies(self, found: ArrayText) -> ArrayText:
        if not found.varies:
            raise UntranslatableError("the same for all elements")
        return found
