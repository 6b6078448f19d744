"""Keras models whose output for a row depends on that row alone, so that many rows may be predicted at once."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from slowtrain.script.evaluators import value_kinds
from slowtrain.script.navigation import call_index, class_members, name_bindings, node_lookup, scope_names
from slowtrain.script.text import syntax_tree
from slowtrain.script.text.source_file import FUNCTION_NODES, Source

# Layers that in inference treat each row alone and draw no random numbers.
ROW_WISE_LAYERS = frozenset(
    "Input InputLayer Dense Activation ReLU LeakyReLU PReLU ELU Softmax Dropout SpatialDropout1D SpatialDropout2D "
    "SpatialDropout3D GaussianNoise GaussianDropout AlphaDropout ActivityRegularization BatchNormalization "
    "LayerNormalization GroupNormalization UnitNormalization Normalization Rescaling Flatten Reshape Permute "
    "RepeatVector Cropping1D Cropping2D ZeroPadding1D ZeroPadding2D UpSampling1D UpSampling2D Conv1D Conv2D Conv3D "
    "DepthwiseConv1D DepthwiseConv2D SeparableConv1D SeparableConv2D Conv1DTranspose Conv2DTranspose MaxPooling1D "
    "MaxPooling2D MaxPooling3D MaxPool1D MaxPool2D AveragePooling1D AveragePooling2D AvgPool1D AvgPool2D "
    "GlobalMaxPooling1D GlobalMaxPooling2D GlobalAveragePooling1D GlobalAveragePooling2D GlobalMaxPool1D "
    "GlobalAvgPool1D GlobalAvgPool2D GlobalMaxPool2D Embedding LSTM GRU SimpleRNN Bidirectional TimeDistributed "
    "Concatenate Add Subtract Multiply Average Maximum Minimum Dot Attention AdditiveAttention MultiHeadAttention "
    "Identity RandomFlip RandomRotation RandomZoom RandomContrast RandomTranslation".split()
)
MERGE_FUNCTIONS = frozenset("add concatenate multiply average maximum minimum subtract".split())
# Classes whose first argument may be an axis.
AXIS_FIRST_LAYERS = frozenset("Softmax BatchNormalization LayerNormalization UnitNormalization Concatenate".split())
SEQUENTIAL_CLASSES = frozenset({"keras.Sequential", "keras.models.Sequential"})
FUNCTIONAL_CLASSES = frozenset({"keras.Model", "keras.models.Model"})
CLONE_FUNCTIONS = frozenset({"keras.models.clone_model", "keras.clone_model"})
INPUT_FUNCTIONS = frozenset({"keras.Input", "keras.layers.Input"})
# Functions of tf.nn that are activations; others normalise over the batch.
ACTIVATIONS = frozenset(
    "crelu elu gelu leaky_relu log_softmax relu relu6 selu sigmoid silu softmax softplus softsign swish tanh".split()
)
STATE_OPTIONS = frozenset({"stateful", "return_state"})  # options that keep state, or give more than one output
NUMBER_BUILTINS = frozenset("int float len max min round tuple".split())
ARITHMETIC_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)

Question = Callable[[ast.expr], bool]


def answers_by_row(source: Source, model: ast.expr) -> bool:
    """Whether every model that ``model`` may be is built in this file of row-wise layers, with one output.

    False for models from files or other modules, and for those with layers of the script's own.
    """
    switched = call_index.index_of(source).called("set_learning_phase") or class_members.is_attribute_assigned(
        source, "stateful"
    )
    return not switched and _RowCheck(source).surely(model)


@dataclass
class _RowCheck:
    """Asks a question about a model, then about its parts; a single "no" is the answer.

    Each question is asked once, so recursive definitions (``h = Dense(n)(h)``) and shared layers terminate.
    """

    source: Source
    todo: list[tuple[Question, ast.expr]] = field(default_factory=list)
    seen: set[tuple[str, object]] = field(default_factory=set)

    def surely(self, model: ast.expr) -> bool:
        self.ask(self.model, [model])
        while self.todo:
            question, node = self.todo.pop()
            if not question(node):
                return False
        return True

    def ask(self, question: Question, nodes: Iterable[ast.expr]) -> bool:
        """Queues a question about each node; whether there are any."""
        several = list(nodes)
        self.todo += [(question, one) for one in several if self.first(question, one)]
        return bool(several)

    def first(self, question: Question, what: object) -> bool:
        """Whether this question is asked for the first time."""
        before = len(self.seen)
        self.seen.add((question.__name__, what))
        return len(self.seen) > before

    def every(self, node: ast.expr, question: Question) -> bool:
        """Whether all possible values of a name or attribute are known; queues the question for each."""
        if isinstance(node, ast.Name) and not self.first(
            question, (value_kinds.binding_function(self.source, node), node.id)
        ):
            return True
        return self.ask(question, possible_values(self.source, node))

    def returned(self, call: ast.Call, question: Question) -> bool:
        """Whether all return values of a plain function of this file are known; queues the question for each."""
        made = node_lookup.function_named(self.source, node_lookup.called_name(call), call)
        own = isinstance(call.func, ast.Name) or scope_names.dotted_name(call.func).startswith("self.")
        if made is None or made.decorator_list or not own:
            return False
        found = [
            n for n in scope_names.nodes_in_scope(made.body) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))
        ]
        given = [n.value for n in found if isinstance(n, ast.Return) and n.value is not None]
        return len(given) == len(found) and self.ask(question, given)

    def model(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return self.every(node, self.model)
        name = name_bindings.qualified_name(self.source, node.func)
        if name in SEQUENTIAL_CLASSES:
            return self.stacked(node)
        if name in FUNCTIONAL_CLASSES:
            given = node_lookup.argument_value(node, "outputs", 1)
            return given is not None and self.ask(self.single, [given])
        if name in CLONE_FUNCTIONS:
            return len(node.args) == 1 and not node.keywords and self.ask(self.model, node.args)
        return not name and self.returned(node, self.model)

    def stacked(self, call: ast.Call) -> bool:
        """Queues the layers of ``Sequential([...])`` and of every ``add`` in the file, unless of a set."""
        given = node_lookup.argument_value(call, "layers", 0)
        first = given.elts if isinstance(given, (ast.List, ast.Tuple)) else [given] if given is not None else []
        parts = [one.value if isinstance(one, ast.Starred) else one for one in first]
        parts = [one.elt if isinstance(one, (ast.ListComp, ast.GeneratorExp)) else one for one in parts]
        self.ask(self.layer, [*parts, *(self.added() if self.first(self.layer, "added") else ())])
        return True

    def added(self) -> Iterator[ast.expr]:
        for one in call_index.index_of(self.source).called("add"):
            owner = one.func.value if isinstance(one.func, ast.Attribute) else None
            made = name_bindings.single_assignment(self.source, owner) if isinstance(owner, ast.Name) else None
            if not isinstance(made, ast.Set) and not (
                isinstance(made, ast.Call) and node_lookup.called_name(made) == "set"
            ):
                yield from one.args

    def layer(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return self.every(node, self.layer)
        name = name_bindings.qualified_name(self.source, node.func)
        if name in INPUT_FUNCTIONS or (name.startswith("keras.layers.") and name.rpartition(".")[2] in ROW_WISE_LAYERS):
            return self.plain(node, name.rpartition(".")[2])
        return self.model(node)

    def plain(self, call: ast.Call, kind: str) -> bool:
        """Whether no argument makes a layer use the batch axis, keep state, or run the script's code."""
        if any(k.arg is None for k in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args):
            return False
        named = {k.arg: k.value for k in call.keywords}
        axes = [v for n, v in named.items() if n and n.endswith(("axis", "axes"))]
        axes += call.args[:1] if kind in AXIS_FIRST_LAYERS else []
        functions = [v for n, v in named.items() if n and n.endswith("activation")]
        functions += call.args[1:2] if kind == "Dense" else call.args[:1] if kind == "Activation" else []
        if not all(_is_falsy(v) for n, v in named.items() if n in STATE_OPTIONS) or _is_none(named.get("merge_mode")):
            return False
        if not all(_excludes_batch_axis(axis) for axis in axes) or not all(self.known(one) for one in functions):
            return False
        return all(self.harmless(n) for one in (*call.args, *named.values()) for n in syntax_tree.walk(one))

    def known(self, function: ast.expr) -> bool:
        """Whether it is an activation function of a library."""
        whole = name_bindings.qualified_name(self.source, function)
        ours = whole.startswith("tensorflow.nn.") and whole.rpartition(".")[2] in ACTIVATIONS
        return isinstance(function, ast.Constant) or ours or whole.startswith("keras.activations.")

    def harmless(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            whole = name_bindings.qualified_name(self.source, node.func)
            if whole.startswith("keras.layers."):
                return self.ask(self.layer, [node])
            return whole.startswith("keras.") or (isinstance(node.func, ast.Name) and node.func.id in NUMBER_BUILTINS)
        if isinstance(node, (ast.Name, ast.Attribute)):
            last = scope_names.dotted_name(node).rpartition(".")[2]
            return node_lookup.function_named(self.source, last) is None and last not in _class_names(self.source)
        return not isinstance(node, ast.Lambda)

    # -- tensors of functional models

    def single(self, node: ast.expr) -> bool:
        """Whether ``node`` is one tensor of a functional model whose rows depend on the same input rows only."""
        if isinstance(node, ast.BinOp):
            sides = [s for s in (node.left, node.right) if not isinstance(s, ast.Constant)]
            return isinstance(node.op, ARITHMETIC_OPERATORS) and self.ask(self.single, sides)
        if isinstance(node, ast.Subscript):
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
            whole = isinstance(first, ast.Slice) and not (first.lower or first.upper or first.step)
            return whole and self.ask(self.single, [node.value])
        if isinstance(node, ast.Attribute) and node.attr in ("input", "output"):
            return self.ask(self.model, [node.value])
        return self.applied(node) if isinstance(node, ast.Call) else self.every(node, self.single)

    def applied(self, call: ast.Call) -> bool:
        """The same for ``Dense(8)(h)``, ``shared(h)``, ``concatenate([a, b])``, ``block(h, 64)`` of this file."""
        name = name_bindings.qualified_name(self.source, call.func)
        if name in INPUT_FUNCTIONS:
            return True
        if name.startswith("keras.layers.") and name.rpartition(".")[2] in MERGE_FUNCTIONS:
            axis = node_lookup.argument_value(call, "axis", 1)
            return (axis is None or _excludes_batch_axis(axis)) and self.inputs(call.args[:1])
        if name:
            return False
        if isinstance(call.func, ast.Call) or not node_lookup.function_named(
            self.source, node_lookup.called_name(call), call
        ):
            return not call.keywords and self.ask(self.layer, [call.func]) and self.inputs(call.args)
        return self.returned(call, self.single)

    def inputs(self, given: list[ast.expr]) -> bool:
        parts = [p for one in given for p in (one.elts if isinstance(one, (ast.List, ast.Tuple)) else [one])]
        return self.ask(self.single, parts)


def possible_values(source: Source, node: ast.expr) -> list[ast.expr]:
    """All expressions whose values a name or an attribute of ``self`` may hold; empty if not all are visible."""
    if isinstance(node, ast.Name):
        return _values_of_name(source, node)
    if (
        not isinstance(node, ast.Attribute)
        or not class_members.is_self_attribute(node)
        or class_members.may_set_by_name(source, node.attr)
    ):
        return []
    stored = class_members.attribute_stores(source, node.attr)
    kind = class_members.enclosing_class(source, node)
    bases = [scope_names.dotted_name(b).rpartition(".")[2] for b in kind.bases] if kind is not None else []
    if not stored and node.attr == "model" and "Callback" in bases:  # set by Keras: the model that is being trained
        fits = call_index.index_of(source).called("fit")
        return [c.func.value for c in fits if isinstance(c.func, ast.Attribute)]
    found = [name_bindings.assigned_value(source, one) for one in stored]
    return [one for one in found if one is not None] if None not in found else []


def _values_of_name(source: Source, name: ast.Name) -> list[ast.expr]:
    scope = value_kinds.binding_function(source, name)
    if scope is None or name.id in name_bindings.global_names(source):
        return []
    if isinstance(scope, FUNCTION_NODES) and name.id in scope_names.parameter_names(scope):
        calls = call_index.index_of(source).called(scope.name)
        given = [value_kinds.argument_in(scope, call, name.id) for call in calls]
        named = [n for n in name_bindings.reads_of(source, scope.name) if n not in [c.func for c in calls]]
        given += [
            name_bindings.assigned_value(source, one)
            for one in name_bindings.bindings_of(scope, name.id)
            if isinstance(one, ast.Name)
        ]
        return [one for one in given if one is not None] if calls and None not in given and not named else []
    found = [
        name_bindings.assigned_value(source, one) if isinstance(one, ast.Name) else None
        for one in name_bindings.bindings_of(scope, name.id)
    ]
    return [one for one in found if one is not None] if None not in found else []


def _class_names(source: Source) -> set[str]:
    return {kind.name for kind in class_members.class_definitions(source)}


def _is_falsy(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _excludes_batch_axis(axis: ast.expr) -> bool:
    """Whether an axis, or each of several, surely is not the batch axis."""
    if isinstance(axis, (ast.List, ast.Tuple)):
        return bool(axis.elts) and all(_excludes_batch_axis(one) for one in axis.elts)
    if isinstance(axis, ast.UnaryOp) and isinstance(axis.op, ast.USub):
        return isinstance(axis.operand, ast.Constant) and axis.operand.value == 1
    return isinstance(axis, ast.Constant) and isinstance(axis.value, int) and axis.value >= 1
