"""Random layers and ops in the script's own training step, for a whole batch."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from slowtrain.causes.input.host_augmentation.mapped_augmentation import AugmentedMap, is_layer_call
from slowtrain.causes.input.host_augmentation.model_front import layer_text
from slowtrain.model import Edit
from slowtrain.script.interpreter.engine import queries
from slowtrain.script.navigation import class_members, node_lookup, scope_names
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source


@dataclass(frozen=True)
class StepAugmentation:
    """The calls of ``found`` in a step. ``line``: the line of the module that runs the step."""

    source: Source
    found: AugmentedMap
    line: int

    def edits_in_loop(self, loop: ast.For) -> list[Edit]:
        """Insert the calls into the step function that ``loop`` calls, or else at the start of each iteration."""
        if "jit_compile" in self.source.words:
            return []  # XLA cannot compile all random layers
        target = loop.target
        if isinstance(loop.iter, ast.Call) and node_lookup.called_name(loop.iter) == "enumerate":
            target = target.elts[1] if isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
        image = target if self.found.whole else _first_part(target)
        batch = image if isinstance(image, ast.Name) else target
        step = self._single_step(loop)
        parameter = self._parameter_for(loop, *step, batch) if step is not None else None
        if step is not None and parameter is not None:
            return self.edits_in_function(step[0], parameter, unpacked=batch is not image)
        return self._inserted(loop.body[0], image.id) if isinstance(image, ast.Name) else []

    def edits_in_function(self, function: ast.FunctionDef, parameter: str, *, unpacked: bool) -> list[Edit]:
        """Insert the calls at the start of a step; ``unpacked``: after its ``x, y = parameter``."""
        if "jit_compile" in self.source.words:
            return []
        body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if not unpacked or self.found.whole:
            return self._inserted(body[0], parameter)
        reads = [n for n in syntax_tree.walk(function) if _is_read(n, parameter)]
        for at, one in enumerate(body[:-1]):
            if isinstance(one, ast.Assign) and len(one.targets) == 1 and reads == [one.value]:
                image = _first_part(one.targets[0])
                return self._inserted(body[at + 1], image.id) if isinstance(image, ast.Name) else []
        return []

    def _single_step(self, loop: ast.For) -> tuple[ast.FunctionDef, ast.Call] | None:
        """The function with the gradient tape that each iteration calls once, and that nothing else calls."""
        for call in syntax_tree.nodes_inside(loop.body, ast.Call):
            function = queries.called_function(self.source, call)
            inside = syntax_tree.walk(function) if isinstance(function, ast.FunctionDef) else ()
            if any(isinstance(n, ast.With) and node_lookup.is_gradient_tape(n) for n in inside):
                assert isinstance(function, ast.FunctionDef)
                return (function, call) if queries.calls_running(self.source, function) == [call] else None
        return None

    def _parameter_for(self, loop: ast.For, function: ast.FunctionDef, call: ast.Call, given: ast.expr) -> str | None:
        """The parameter of the step that gets ``given``, which the loop uses for nothing else."""
        names = scope_names.parameter_names(function)[class_members.is_method(self.source, function) :]
        inside = [n for s in loop.body for n in syntax_tree.walk(s)]
        reads = [n for n in inside if isinstance(given, ast.Name) and _is_read(n, given.id)]
        at = next((n for n, one in enumerate(call.args) if reads == [one]), None)
        starred = any(isinstance(one, ast.Starred) for one in call.args)
        return names[at] if at is not None and at < len(names) and not starred else None

    def _inserted(self, before: ast.stmt, image: str) -> list[Edit]:
        """``image = layer(image, training=True)`` for each call, before a statement."""
        rows: list[str] = []
        moved = [call.func for call in self.found.calls]
        for call in self.found.calls:
            if not is_layer_call(self.source, call):
                rows.append(f"{image} = {_text_for(self.source, call, image)}")
                continue
            named = layer_text(self.source, call.func, before, self.line, moved)
            if named is None or named[1] or isinstance(call.func, ast.Call):
                return []  # a step makes no layers
            rows.append(f"{image} = {named[0]}({image}, training=True)")
        return [edits.insert_before(self.source, before, "\n".join(rows))]


def _first_part(target: ast.expr) -> ast.expr | None:
    return target.elts[0] if isinstance(target, (ast.Tuple, ast.List)) and target.elts else None


def _is_read(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)


def _text_for(source: Source, call: ast.Call, image: str) -> str:
    """The text of an op with ``image`` as its first argument."""
    function, others = edits.node_text(source, call.func), [edits.node_text(source, one) for one in call.args[1:]]
    named = [edits.node_text(source, one) for one in call.keywords]
    return f"{function}({', '.join([image, *others, *named])})"
