"""``predict`` for one row in each turn of a loop, as one ``predict`` of all rows in front of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import field

from slowtrain.model import Edit
from slowtrain.script.evaluators import array_ranks, literal_sizes
from slowtrain.script.interpreter.engine import interpreter
from slowtrain.script.navigation import name_bindings, node_lookup, scope_names
from slowtrain.script.properties import row_wise_models, side_effects
from slowtrain.script.text import edits, syntax_tree
from slowtrain.script.text.source_file import Source
from slowtrain.source.cures.host import kerascalls
from slowtrain.values import dataclass

# Between the call and its statement: whatever else stands there may leave the call out.
THROUGH = (ast.Subscript, ast.Attribute, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List)
SIZES = (ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.operator, ast.expr_context)
PURE = (*SIZES, ast.Subscript, ast.Slice, ast.Tuple, ast.UnaryOp, ast.unaryop)
ALL, ONE, EACH = "predictions", "predicted", "each_row"


@dataclass(frozen=True)
class Turns:
    """A loop or a comprehension, and what its names go through.

    ``counted`` counts the turns within ``bounds``, which are as ``range`` takes them. ``rows``: names that hold
    another row of an array in each turn.
    """

    node: ast.For | ast.ListComp
    target: ast.expr
    over: ast.expr
    body: Sequence[ast.stmt | ast.expr]
    counted: str = ""
    bounds: tuple[str, ...] = ()
    rows: dict[str, ast.expr] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """The text of all rows that are predicted, and of what is false where there are none; "" where there are some.

    ``first``: a line that comes before.
    """

    text: str
    asked: str
    first: str = ""


def at_once(source: Source, line: int) -> list[Edit]:
    """``model.predict(x[i : i + 1])`` at ``line``, in a loop, as a row of what ``model.predict(x)`` gives before it.

    Nothing where a turn may need what another one has done, or change the model or the rows, or where the model's
    answer to a row may depend on others.
    """
    call = node_lookup.single_call(source, line, "predict")
    return of_call(source, call) if call is not None else []


def of_call(source: Source, call: ast.Call) -> list[Edit]:
    """The same of a call that was found."""
    given, turns = node_lookup.argument_value(call, "x", 0), _turns(source, call)
    if turns is None or given is None or not kerascalls.plainly_predicts(call) or {ALL, ONE, EACH} & source.words:
        return []
    assert isinstance(call.func, ast.Attribute)
    asked = _Asked(source, turns, call)
    rows = asked.rows(given)
    owner = scope_names.dotted_name(call.func.value)
    if (
        rows is None
        or not owner
        or not asked.unchanged(owner)
        or not row_wise_models.answers_by_row(source, call.func.value)
    ):
        return []
    return asked.written(rows)


# -- the loop


def _turns(source: Source, call: ast.Call) -> Turns | None:
    """The loop that comes to ``call`` in each of its turns, once."""
    above = node_lookup.parents_of(source)
    child: ast.AST = call
    at = above.get(call)
    while isinstance(at, THROUGH):
        child, at = at, above.get(at)
    if isinstance(at, ast.ListComp):
        one = at.generators[0]
        plain = at.elt is child and len(at.generators) == 1 and not one.ifs and not one.is_async
        return _gone_through(source, Turns(at, one.target, one.iter, [at.elt])) if plain else None
    statement = at if isinstance(at, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)) else None
    loop = above.get(statement) if statement is not None else None
    if not isinstance(loop, ast.For) or loop.orelse or statement not in loop.body:
        return None
    return _gone_through(source, Turns(loop, loop.target, loop.iter, loop.body))


def _gone_through(source: Source, turns: Turns) -> Turns | None:
    """With what its names hold; None where none of them leads to rows."""
    over = turns.over
    if isinstance(over, ast.Call) and name_bindings.qualified_name(source, over.func).startswith("tqdm.") and over.args:
        over = over.args[0]
    rows = dict(_items(source, turns.target, over))
    counted = ""
    bounds: tuple[str, ...] = ()
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and not over.keywords:
        if over.func.id == "range" and isinstance(turns.target, ast.Name) and len(over.args) < 3:
            counted, bounds = turns.target.id, tuple(edits.node_text(source, one) for one in over.args)
        elif over.func.id == "enumerate" and isinstance(turns.target, ast.Tuple) and len(over.args) == 1:
            first = turns.target.elts[0]
            if isinstance(first, ast.Name) and _has_length(source, over.args[0]):
                counted, bounds = first.id, (f"len({scope_names.dotted_name(over.args[0])})",)
    if not rows and not counted:
        return None
    return Turns(turns.node, turns.target, turns.over, turns.body, counted, bounds, rows)


def _items(source: Source, target: ast.expr, over: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names, and the arrays whose rows they go through: ``for i, (row, y) in enumerate(zip(x, labels))``."""
    if isinstance(target, ast.Name):
        if _is_array(source, over):
            yield target.id, over
        return
    if not isinstance(target, ast.Tuple) or not isinstance(over, ast.Call) or not isinstance(over.func, ast.Name):
        return
    if over.func.id == "enumerate" and len(target.elts) == 2 and over.args:
        yield from _items(source, target.elts[1], over.args[0])
    elif over.func.id == "zip" and len(target.elts) == len(over.args) and all(map(scope_names.dotted_name, over.args)):
        for one, each in zip(target.elts, over.args, strict=True):
            yield from _items(source, one, each)


def _is_array(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return array_ranks.is_regular_array(source, node)
    return (
        isinstance(node, ast.Attribute)
        and bool(scope_names.dotted_name(node))
        and interpreter.value_at(source, node).kind == "array"
    )


def _has_length(source: Source, node: ast.expr) -> bool:
    """An array or a list by its name; what is gone through once has none."""
    made = name_bindings.single_assignment(source, node) if isinstance(node, ast.Name) else None
    listed = isinstance(made, ast.Call) and scope_names.dotted_name(made.func) in ("list", "sorted")
    return listed or isinstance(made, (ast.List, ast.Tuple, ast.ListComp)) or _is_array(source, node)


class _Asked:
    """What a call predicts in each turn, and what that is of all of them."""

    def __init__(self, source: Source, turns: Turns, call: ast.Call) -> None:
        self.source, self.turns, self.call = source, turns, call
        self.used: set[str] = set()  # names from outside that the rows are made of
        self.apart: ast.Assign | None = None  # where a turn gives the call's row a name
        self.of = ""  # the array, or its part, whose rows the turns take as they are

    def rows(self, given: ast.expr) -> Rows | None:
        given = self.meant(given)
        text = self.whole(given)
        if text:
            bare = text[1:-1] if isinstance(ast.parse(text, mode="eval").body, ast.BinOp) else text
            text = bare if text.startswith("(") else text
            return Rows(text, f"len({self.of})" if not self.some(given) else "")
        return self.gathered(given)

    def meant(self, node: ast.expr) -> ast.expr:
        """What the turn's one assignment in front of the call gives a name."""
        if not isinstance(node, ast.Name) or not isinstance(self.turns.node, ast.For):
            return node
        every = [
            n for s in self.turns.node.body for n in syntax_tree.walk(s) if isinstance(n, ast.Name) and n.id == node.id
        ]
        stored = [n for n in every if not isinstance(n.ctx, ast.Load)]
        made = node_lookup.enclosing_statement(self.source, stored[0]) if len(stored) == 1 else None
        if not isinstance(made, ast.Assign) or made.targets != stored or made not in self.turns.node.body:
            return node
        if made.lineno >= self.call.lineno or self.apart is not None:
            return node
        self.apart = made
        return made.value

    # All rows, of which the turns take one each.

    def whole(self, node: ast.expr) -> str:
        """All rows as one array, where ``node`` is a batch of one of them in each turn; "" of anything else."""
        if isinstance(node, ast.Subscript):
            first, *others = node.slice.elts if isinstance(node.slice, ast.Tuple) and node.slice.elts else [node.slice]
            if name_bindings.is_new_axis(self.source, first) and all(_everything(one) for one in others):
                return self.row(node.value)  # row[None], x[i][None, :]
            counted = isinstance(first, ast.Slice) and self.next_one(first)
            listed = isinstance(first, ast.List) and [scope_names.dotted_name(e) for e in first.elts] == [
                self.turns.counted
            ]
            return self.array(node.value) if (counted or listed) and not others else ""
        if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
            return self.changed(node, self.whole(node.left))
        return self.called(node) if isinstance(node, ast.Call) else ""

    def called(self, node: ast.Call) -> str:
        name, method = node_lookup.called_name(node), isinstance(node.func, ast.Attribute)
        whole = name_bindings.qualified_name(self.source, node.func)
        if whole == "numpy.expand_dims" and len(node.args) + len(node.keywords) == 2:
            axis = node_lookup.argument_value(node, "axis", 1)
            return self.row(node.args[0]) if isinstance(axis, ast.Constant) and axis.value == 0 else ""
        if whole in ("numpy.array", "numpy.asarray", "numpy.stack") and len(node.args) == 1 and not node.keywords:
            listed = node.args[0]
            return self.row(listed.elts[0]) if isinstance(listed, ast.List) and len(listed.elts) == 1 else ""
        if whole or not method or node.keywords or not isinstance(node.func, ast.Attribute):
            return ""
        if name == "astype":
            return self.changed(node, self.whole(node.func.value))
        sizes = node.args[0].elts if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple) else node.args
        if name != "reshape" or not sizes or ast.unparse(sizes[0]) != "1" or not self.outside(*sizes):
            return ""
        rows = self.row(node.func.value)
        rest = "".join(f", {edits.node_text(self.source, one)}" for one in sizes[1:])
        return f"{rows}.reshape(len({rows}){rest})" if rows and rest else ""

    def row(self, node: ast.expr) -> str:
        """All rows, where ``node`` is one of them in each turn."""
        node = self.meant(node)
        if isinstance(node, ast.Name) and node.id in self.turns.rows:
            over = self.turns.rows[node.id]
            self.used |= scope_names.read_names(over)
            self.of = scope_names.dotted_name(over)
            return self.of
        if (
            isinstance(node, ast.Subscript)
            and self.turns.counted
            and scope_names.dotted_name(node.slice) == self.turns.counted
        ):
            return self.array(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant):
            return self.changed(node, self.row(node.left))
        plain = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords
        if plain and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "astype":
            return self.changed(node, self.row(node.func.value))
        return ""

    def changed(self, node: ast.BinOp | ast.Call, rows: str) -> str:
        """The same done to all rows: ``x / 255.0``, ``x.astype("float32")``."""
        if not rows:
            return ""
        if isinstance(node, ast.BinOp):
            inner, sign = edits.node_text(self.source, node.left), edits.node_text(self.source, node)
            return f"({rows}{sign[len(inner) :]})" if sign.startswith(inner) else ""
        if not self.outside(*node.args):
            return ""
        return f"{rows}.astype({', '.join(edits.node_text(self.source, a) for a in node.args)})"

    def next_one(self, part: ast.Slice) -> bool:
        """``i : i + 1``."""
        name = self.turns.counted
        known = part.lower is not None and part.upper is not None and part.step is None and bool(name)
        return known and ast.unparse(part) == f"{name}:{name} + 1"

    def array(self, node: ast.expr) -> str:
        """Those rows of an array that the count comes to."""
        name, bounds = scope_names.dotted_name(node), self.turns.bounds
        if not _is_array(self.source, node) or not self.counts():
            return ""
        self.used |= scope_names.read_names(node)
        every = bounds in ((f"len({name})",), (f"{name}.shape[0]",))
        part = ":".join(bounds) if len(bounds) == 2 else f":{bounds[0]}"
        self.of = name if every else f"{name}[{part}]"
        return self.of

    def counts(self) -> bool:
        """Whether the count begins at a place that is not counted from the end, and its bounds stay as they are."""
        given = _bounds(self.turns.over)
        first = given[0] if len(given) == 2 else None
        begins = first is None or (
            isinstance(first, ast.Constant) and isinstance(first.value, int) and first.value >= 0
        )
        self.used |= {name for one in given for name in scope_names.read_names(one)} - {"len"}
        return begins and all(_size(n) for one in given for n in syntax_tree.walk(one))

    def some(self, given: ast.expr) -> bool:
        """Whether the text shows that there is a row."""
        number = [literal_sizes.literal_int(self.source, one) for one in _bounds(self.turns.over)]
        if self.turns.bounds and number and None not in number:
            return len(range(*[n for n in number if n is not None])) > 0
        arrays = [self.turns.rows[n] for n in scope_names.read_names(given) if n in self.turns.rows]
        return bool(arrays) and all((literal_sizes.row_count(self.source, one) or 0) > 0 for one in arrays)

    # Rows that are worked out.

    def gathered(self, given: ast.expr) -> Rows | None:
        """``(a[k - n : k, j]).reshape(1, n)`` of each turn of a ``range``, one behind the other."""
        over = self.turns.over
        counted = isinstance(over, ast.Call) and scope_names.dotted_name(over.func) == "range" and self.counts()
        if not counted or not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
            return None
        sizes = given.args[0].elts if len(given.args) == 1 and isinstance(given.args[0], ast.Tuple) else given.args
        plain = given.func.attr == "reshape" and not given.keywords and len(sizes) > 1
        fixed = all(isinstance(s, (ast.Constant, ast.Name)) for s in sizes) and self.outside(*sizes)
        if not plain or not fixed or ast.unparse(sizes[0]) != "1":
            return None
        inner = given.func.value
        arrays = [n.value for n in syntax_tree.walk(inner) if isinstance(n, ast.Subscript)]
        pure = all(isinstance(n, PURE) for n in syntax_tree.walk(inner)) and bool(arrays)
        if not pure or not all(_is_array(self.source, one) for one in arrays):
            return None
        self.used |= scope_names.read_names(given) - {self.turns.counted}
        target, text = edits.node_text(self.source, self.turns.target), edits.node_text(self.source, over)
        numpy = scope_names.module_alias(self.source, "numpy")
        if not numpy:
            return None
        each = f"[{edits.node_text(self.source, given)} for {target} in {text}]"
        some = self.some(given)
        if isinstance(self.turns.node, ast.ListComp):
            return Rows(f"{numpy}.concatenate({each})", "" if some else f"len({text})")
        return Rows(f"{numpy}.concatenate({EACH})", "" if some else EACH, f"{EACH} = {each}\n")

    # What stays as it is.

    def outside(self, *several: ast.expr) -> bool:
        """Whether expressions are the same in each turn: constants, and names from outside the loop."""
        nodes = [n for one in several for n in syntax_tree.walk(one)]
        self.used |= {name for one in several for name in scope_names.read_names(one)}
        return all(isinstance(n, (*SIZES, ast.UnaryOp, ast.unaryop)) for n in nodes)

    def unchanged(self, owner: str) -> bool:
        """Whether the turns leave the model and the rows as they are, and the loop's names too."""
        own = scope_names.bound_names(self.turns.target)
        named = scope_names.dotted_name(self.apart.targets[0]) if self.apart is not None else ""
        used = {*self.used, owner.partition(".")[0], *scope_names.read_names(self.turns.over)}
        settings = [k.value for k in self.call.keywords if k.arg not in ("x", "batch_size")]
        if not self.outside(*settings) or (used | self.used) & {*own, named}:
            return False
        return side_effects.preserves_arguments(
            self.source, self.turns.body, self.call, {*used, *self.used, *own}, named
        )

    # The text.

    def written(self, rows: Rows) -> list[Edit]:
        assert isinstance(self.call.func, ast.Attribute)
        others = [f", {k.arg}={edits.node_text(self.source, k.value)}" for k in self.call.keywords
                  if k.arg not in ("x", "batch_size")]  # fmt: skip
        every = f"{edits.node_text(self.source, self.call.func.value)}.predict({rows.text}{''.join(others)})"
        if isinstance(self.turns.node, ast.ListComp):
            return self.comprehended(f"{every}[:, None]", rows.asked)
        gone = [edits.remove_statement(self.source, self.apart)] if self.apart is not None and self.needless() else []
        if self.turns.counted and len(self.turns.bounds) == 1:
            name = self.turns.counted
            made = f"{rows.first}{ALL} = {every}" + (f" if {rows.asked} else None" if rows.asked else "")
            one = edits.replace_node(self.source, self.call, f"{ALL}[{name} : {name} + 1]")
            return [edits.insert_before(self.source, self.turns.node, made), *gone, one]
        made = f"{rows.first}{ALL} = {every}[:, None]" + (f" if {rows.asked} else ()" if rows.asked else "")
        heads = self.paired(ALL)
        return [edits.insert_before(self.source, self.turns.node, made), *heads, *gone, self.one()]

    def one(self) -> Edit:
        return edits.replace_node(self.source, self.call, ONE)

    def comprehended(self, every: str, asked: str) -> list[Edit]:
        every = f"({every} if {asked} else ())" if asked else every
        names = scope_names.bound_names(self.turns.target)
        inside = {id(n) for n in syntax_tree.walk(self.call)}
        left = [
            n for one in self.turns.body for n in syntax_tree.walk(one) if isinstance(n, ast.Name) and n.id in names
        ]
        below = any("-" in bound for bound in self.turns.bounds)  # zero: no turns, but x[:-2] has rows
        if any(id(n) not in inside for n in left) or below or isinstance(self.turns.target, ast.Tuple):
            return [self.one(), *self.paired(every)]
        target = edits.replace_node(self.source, self.turns.target, ONE)
        return [self.one(), target, edits.replace_node(self.source, self.turns.over, every)]

    def paired(self, every: str) -> list[Edit]:
        """The loop's head with one prediction more in each turn."""
        target, over = self.turns.target, self.turns.over
        bare = isinstance(target, ast.Tuple) and not edits.node_text(self.source, target).startswith("(")
        return [
            *([edits.insert_text(self.source, edits.node_start(target), "(")] if bare else []),
            edits.insert_text(self.source, edits.node_end(target), f"), {ONE}" if bare else f", {ONE}"),
            edits.insert_text(self.source, edits.node_start(over), "zip("),
            edits.insert_text(self.source, edits.node_end(over), f", {every})"),
        ]

    def needless(self) -> bool:
        """Whether nothing else reads the name of the row, and its line holds nothing else."""
        assert self.apart is not None
        name = scope_names.dotted_name(self.apart.targets[0])
        lines = self.source.text.split("\n")[self.apart.lineno - 1 : self.apart.end_lineno]
        alone = not any(";" in line for line in lines) and not lines[0][: self.apart.col_offset].strip()
        return alone and len(name_bindings.reads_of(self.source, name)) == 1


def _bounds(over: ast.expr) -> list[ast.expr]:
    """What ``range`` is given; nothing of other loops."""
    while isinstance(over, ast.Call) and scope_names.dotted_name(over.func) != "range" and over.args:
        over = over.args[0]
    return over.args if isinstance(over, ast.Call) else []


def _size(node: ast.AST) -> bool:
    """What a number may be worked out of without anything being done: names, constants, lengths."""
    length = isinstance(node, ast.Call) and scope_names.dotted_name(node.func) == "len" and len(node.args) == 1
    shape = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return length or shape or isinstance(node, SIZES)


def _everything(node: ast.expr) -> bool:
    """``:`` or ``...``."""
    whole = isinstance(node, ast.Slice) and not (node.lower or node.upper or node.step)
    return whole or (isinstance(node, ast.Constant) and node.value is Ellipsis)
