"""Edits that enlarge the batch size where a script defines it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from slowtrain.model import Edit
from slowtrain.script.navigation import call_index, name_bindings, setting_origins
from slowtrain.script.navigation import node_lookup as find
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import RANDOM_CALLS, Source

BATCH_NAME = re.compile(r"batch|^bs$|^mb(?:_?size)?$|_bs$", re.IGNORECASE)
BATCHING_METHODS = ("batch", "padded_batch", "ragged_batch")  # of a data set. The first argument is the batch size.
FIT_METHODS = ("fit", "fit_generator")
# Functions that take a shape. A literal batch size in it would be wrong for another batch size.
SHAPE_FUNCTIONS = ("TensorSpec", "set_shape", "ensure_shape", "reshape", "zeros", "ones", "placeholder")
STEP_COUNT_NAMES = frozenset(
    "range trange ceil floor int float max min len print format round arange info debug str divmod islice".split()
)
LAYERS = frozenset(
    "Dense Embedding LSTM GRU SimpleRNN Conv1D Conv2D Conv3D Input InputLayer Reshape RepeatVector SeparableConv2D "
    "Conv2DTranspose MultiHeadAttention add_weight".split()
)


def enlarge_batches(source: Source, lines: Iterable[int], size: int, goal: int) -> tuple[Edit, ...]:
    """Replace the batch size ``size`` of the steps at ``lines`` by ``goal``.

    Empty if other code depends on the number.
    """
    if size < 1 or goal <= size or _is_fixed(source, size):
        return ()
    wanted = tuple(lines)
    written = [e for line in wanted for e in _batch_arguments(source, line)]
    if written:
        done = _enlarge_origins(source, written, size, goal)
    else:
        done = _enlarge_strides(source, wanted, size, goal) or _enlarge_by_name(source, size, goal)
    if done is None:
        return ()
    if not done or _counts_steps(source, wanted):
        return ()
    return tuple({(e.start, e.end): e for e in done}.values())


def _batch_arguments(source: Source, line: int) -> list[ast.expr]:
    """Return the batch size arguments of calls at ``line``."""
    takers = [c for c in find.calls_at_line(source, line, *BATCHING_METHODS) if isinstance(c.func, ast.Attribute)]
    found = [find.argument_value(call, "batch_size", 0) for call in takers]
    for call in find.calls_at_line(source, line, *FIT_METHODS):
        found.append(find.argument_value(call, "batch_size", 2 if find.called_name(call) == "fit" else None))  # noqa: PERF401
    return [e for e in found if e is not None and not (isinstance(e, ast.Constant) and e.value is None)]


def _enlarge_origins(source: Source, expressions: list[ast.expr], size: int, goal: int) -> list[Edit] | None:
    """Replace each expression of this size at its origin. None if an origin is unknown."""
    done = []
    for expression in expressions:
        origin = setting_origins.literal_origin(source, expression)
        if origin is None:
            return None
        if origin.value == size and not isinstance(origin.value, bool):
            if not all(_counts_batches_only(source, name, goal) for name in origin.names):
                return None
            done.append(edits.replace_node(source, origin.node, str(goal)))
    # Other calls of fit with the same number train the same model.
    if any(isinstance(e, ast.Constant) and e.value == size for e in expressions):
        for call in (n for n in call_index.nodes_of_class(source, ast.Call) if find.called_name(n) in FIT_METHODS):
            other = find.argument_value(call, "batch_size")
            if isinstance(other, ast.Constant) and other.value == size:
                done.append(edits.replace_node(source, other, str(goal)))
    return done


def _enlarge_strides(source: Source, lines: tuple[int, ...], size: int, goal: int) -> list[Edit] | None:
    """Enlarge the stride of ``for i in range(0, n, BATCH)`` around the step where it is defined."""
    for line in (*lines, *_other_call_lines(source, lines)):
        step = _range_stride(_stride_loop(source, line))
        if step is not None:
            return None if isinstance(step, ast.Constant) else _enlarge_origins(source, [step], size, goal) or None
    return None


def _other_call_lines(source: Source, lines: tuple[int, ...]) -> Iterator[int]:
    """Yield other lines that call the same functions as ``lines``, such as one step before the loop."""
    everything = call_index.nodes_of_class(source, ast.Call)
    names = {find.called_name(n) for n in everything if n.lineno in lines}
    own = {
        name
        for name in names
        if find.function_named(source, name) is not None or name in ("train_on_batch", "train_step")
    }
    return (n.lineno for n in everything if find.called_name(n) in own and n.lineno not in lines)


def _stride_loop(source: Source, line: int) -> ast.For | None:
    """Return the innermost loop with a stride that contains ``line``."""
    loops = [n for n in call_index.nodes_of_class(source, ast.For) if n.lineno <= line <= (n.end_lineno or 0)]
    strided = [n for n in loops if _range_stride(n) is not None]
    return max(strided, key=lambda n: n.lineno, default=None)


def _range_stride(loop: ast.For | None) -> ast.expr | None:
    """Return the third argument of the ``range`` of a loop, also inside a call such as ``tqdm``."""
    if loop is None:
        return None
    ranges = [
        n for n in syntax_tree.walk(loop.iter) if isinstance(n, ast.Call) and find.called_name(n) in ("range", "trange")
    ]
    return ranges[0].args[2] if len(ranges) == 1 and len(ranges[0].args) == 3 else None


def _enlarge_by_name(source: Source, size: int, goal: int) -> list[Edit] | None:
    """Replace the batch size by its name, if one place defines all names of batch sizes with this value."""
    named: list[setting_origins.Origin] = []
    for node in syntax_tree.walk(source.tree):
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and BATCH_NAME.search(name):
            origin = setting_origins.literal_origin(source, node)
            if origin is not None and origin.value == size and not isinstance(origin.value, bool):
                named.append(origin)
    same = {id(o.node) for o in named}
    names = {name for o in named for name in o.names}
    if len(same) != 1 or not all(_counts_batches_only(source, name, goal) for name in names):
        return None
    return [edits.replace_node(source, named[0].node, str(goal))]


def _counts_batches_only(source: Source, name: str, goal: int) -> bool:
    """Whether all uses of a name or key are batch sizes, and stay valid with ``goal``."""
    read: list[ast.expr] = list(name_bindings.reads_of(source, name))
    read += [n for n in call_index.nodes_of_class(source, ast.Attribute) if n.attr == name
             and isinstance(n.ctx, ast.Load)]  # fmt: skip
    read += [n for n in call_index.nodes_of_class(source, ast.Subscript) if isinstance(n.ctx, ast.Load)
             and isinstance(n.slice, ast.Constant) and n.slice.value == name]  # fmt: skip
    return all(
        _is_batch_use(source, node, bool(BATCH_NAME.search(name))) and _keeps_divisors(source, node, goal)
        for node in read
    )


def _keeps_divisors(source: Source, node: ast.expr, goal: int) -> bool:
    """Whether ``goal`` divides every constant that the file divides by the batch size."""
    holder = find.parents_of(source).get(node)
    if not isinstance(holder, ast.BinOp) or holder.right is not node or not isinstance(holder.op, ast.FloorDiv):
        return True
    whole = setting_origins.literal_int(source, holder.left)
    return whole is None or (whole >= goal and whole % goal == 0)


def _is_batch_use(source: Source, node: ast.expr, batchlike: bool) -> bool:
    """Whether one use is a batch size. A name like ``batch_size`` may be used for anything but the size of a layer."""
    above = find.parents_of(source)
    child: ast.AST = node
    holder = above.get(node)
    divided = False
    while holder is not None and not isinstance(holder, ast.stmt):
        if isinstance(holder, ast.BinOp):
            divided = divided or isinstance(holder.op, (ast.FloorDiv, ast.Div, ast.Mod))
        elif isinstance(holder, ast.keyword):
            call = above.get(holder)
            counted = bool(BATCH_NAME.search(holder.arg or "")) or holder.arg in ("steps_per_epoch", "validation_steps")
            drawn = holder.arg in ("shape", "size") and _draws_numbers(call)
            whole = above.get(node)
            parts = divided and isinstance(whole, ast.BinOp) and whole.right is node
            return counted or drawn or ((batchlike or parts) and not _makes_layer(call))
        elif isinstance(holder, (ast.Slice, ast.FormattedValue)):
            return True
        elif isinstance(holder, ast.Call):
            return _is_batch_argument(source, holder, child, batchlike)
        child, holder = holder, above.get(holder)
    return batchlike or divided or isinstance(holder, (ast.Assert, ast.If))


def _is_batch_argument(source: Source, call: ast.Call, argument: ast.AST, batchlike: bool) -> bool:
    """Whether a positional argument of ``call`` is a batch size or depends on it."""
    name = find.called_name(call)
    if (
        name in STEP_COUNT_NAMES
        or (name in BATCHING_METHODS and call.args[:1] == [argument])
        or _draws_numbers(call)
        or name in FIT_METHODS
    ):
        return True
    return find.function_named(source, name) is None and batchlike and not _makes_layer(call)


def _makes_layer(node: ast.AST | None) -> bool:
    """Whether a call makes a layer. The number is then no batch size."""
    return isinstance(node, ast.Call) and find.called_name(node) in LAYERS


def _draws_numbers(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Call) and find.called_name(node) in RANDOM_CALLS


def _is_fixed(source: Source, size: int) -> bool:
    """Whether a shape, state between batches or windows of a data set depend on the batch size."""
    for node in syntax_tree.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg == "stateful" and not _is_false(node.value):
            return True
        if (
            isinstance(node, ast.keyword)
            and node.arg in ("batch_shape", "batch_input_shape")
            and _is_first_axis(node.value, size)
        ):
            return True
        if isinstance(node, ast.Call):
            name = find.called_name(node)
            if name in ("window", "unbatch", "rebatch") and isinstance(node.func, ast.Attribute):
                return True
            if name in ("Input", "InputLayer") and _is_number(find.argument_value(node, "batch_size"), size):
                return True
            arguments = (*node.args, *(k.value for k in node.keywords))
            if name in SHAPE_FUNCTIONS and size > 1 and any(_is_first_axis(a, size) for a in arguments):
                return True
    return False


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


def _is_number(node: ast.expr | None, size: int) -> bool:
    return isinstance(node, ast.Constant) and node.value == size


def _is_first_axis(node: ast.expr, size: int) -> bool:
    return isinstance(node, (ast.Tuple, ast.List)) and bool(node.elts) and _is_number(node.elts[0], size)


def _counts_steps(source: Source, lines: tuple[int, ...]) -> bool:
    """Whether the script counts the steps of an epoch, so that larger ones would take more samples."""
    for line in lines:
        for call in find.calls_at_line(source, line, *BATCHING_METHODS):
            later = [c for c in find.chain_calls(find.chain_end(source, call)) if c.lineno >= call.lineno]
            behind = later[: later.index(call)] if call in later else later
            if any(find.called_name(c) in ("take", "skip", "shard") for c in behind):
                return True
        for call in find.calls_at_line(source, line, *FIT_METHODS):
            steps = find.argument_value(call, "steps_per_epoch")
            if steps is not None and not _is_false(steps):
                return True
    return False
