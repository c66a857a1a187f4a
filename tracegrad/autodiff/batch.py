"""Batching: the program for one example made the program for many.

A batch is a new leading axis.  Each node that reads a value with one is replaced by
nodes that work on all examples at once, by the rule of its op (`Op.batch_rule`); the
others stay as they are.  An op without a rule is looped over, which the emitted source
says; `strict` refuses that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracegrad.autodiff.batch_regions import Batching, Turns, batch_regions
from tracegrad.errors import UnsupportedError
from tracegrad.ir.dims import product
from tracegrad.ir.graph import Graph, Node, Value
from tracegrad.ir.region import copied
from tracegrad.ir.types import ArrayType, Dim, Size
from tracegrad.ops.call import Body, Pullback, Pushforward, call, sizes_of
from tracegrad.ops.control import listed, uncounted
from tracegrad.ops.create import zeros_like
from tracegrad.ops.define import Batch, Op
from tracegrad.ops.index import FULL, getitem
from tracegrad.ops.join import looped
from tracegrad.ops.outside import Outside
from tracegrad.ops.record import Builder, Ref
from tracegrad.ops.reduce import sum as reduce_sum
from tracegrad.ops.scatter import scatter_add
from tracegrad.ops.shape import broadcast_to, reshape, transpose

# More turns than this are not written out one after the other.
MAX_TURNS = 64


class Batched:
    """The inputs of one application, some with a batch axis in front.

    Attributes:
        size: of the batch.
        node: the application for one example.
        inputs: the values to compute with, by position.
    """

    def __init__(self, node: Node, inputs: list[Ref], flags: list[bool], size: Size):
        self.node = node
        self.inputs = inputs
        self.size = size
        self._flags = flags

    def has(self, position: int) -> bool:
        """Whether this input has a batch axis."""
        return self._flags[position]

    @property
    def all(self) -> bool:
        """Whether every input has one."""
        return all(self._flags)

    def rank(self, position: int) -> int:
        """The number of axes of this input for one example."""
        return self.node.inputs[position].type.ndim

    def aligned(self, position: int, rank: int) -> Ref:
        """This input with axes of size 1 after the batch axis, up to `rank` in all.

        Without a batch axis it is given back as it is: it broadcasts.
        """
        x = self.inputs[position]
        missing = rank - self.rank(position)
        if not self._flags[position] or missing <= 0:
            return x
        return getitem(x, index=(FULL, *[None] * missing))

    def whole(self, position: int, shape: tuple | None = None) -> Ref:
        """This input with a batch axis, repeated if it had none.

        Args:
            position: of the input.
            shape: what one example is broadcast to as well, if not its own shape.
        """
        x = self.inputs[position]
        own = self.node.inputs[position].type.shape
        wanted = (self.size, *(own if shape is None else shape))
        if self._flags[position]:
            x = self.aligned(position, len(wanted) - 1)
        return x if x.shape == wanted else broadcast_to(x, shape=wanted)

    def example(self, position: int) -> Ref:
        """This input of the first example, for what reads types only."""
        x = self.inputs[position]
        return getitem(x, index=(0,)) if self._flags[position] else x

    def unbatched(self, out: Any) -> Unbatched:
        """Say that the result has no batch axis."""
        return Unbatched(out)


class Unbatched:
    """A result that is the same for all examples."""

    def __init__(self, out: Any) -> None:
        self.out = out


def batch(
    builder: Builder,
    nodes: Sequence[Node],
    batched: dict[Value, Ref],
    size: Size,
    strict: bool = False,
) -> dict[Value, Ref]:
    """Record the program for a whole batch.

    Args:
        builder: receives the nodes; those that read no batched value as they are.
        nodes: the program for one example; not in `builder` yet.
        batched: its inputs that have a batch axis in front.
        size: of the batch.
        strict: refuse loops over the batch.

    Returns:
        The values with a batch axis, by the value for one example.

    Raises:
        UnsupportedError: an op has no rule, and there are too many examples to loop
            over, or `strict`.
    """
    known: dict[Value, Any] = dict(batched)
    before = builder.at, builder.phase, builder.derived
    how = Batching(size, strict, _batch_all)
    _batch_all(builder, nodes, known, size, strict, how)
    builder.at, builder.phase, builder.derived = before
    return {
        v: found.batch if isinstance(found, Turns) else found
        for v, found in known.items()
    }


def _batch_all(
    builder: Builder,
    nodes: Sequence[Node],
    known: dict[Value, Any],
    size: Size,
    strict: bool,
    how: Batching | None = None,
) -> dict[Value, Any]:
    """Record nodes; stacks of turns may be among what is known."""
    how = how or Batching(size, strict, _batch_all)
    for node in nodes:
        if not any(v in known for v in node.inputs):
            builder.nodes.append(node)
            continue
        builder.at, builder.phase, builder.derived = node.at, node.phase, True
        if node.regions and batch_regions(builder, node, known, how):
            continue
        if not _turn(builder, node, known):
            _one(builder, node, known, size, strict)
    return known


def _turn(builder: Builder, node: Node, known: dict[Value, Any]) -> bool:
    """A read of one turn of a stack, what is written there, and zeros like a stack."""
    stack = known.get(node.inputs[0])
    places = node.inputs[2:] if node.op is scatter_add else node.inputs[1:]
    if not isinstance(stack, Turns) or any(v in known for v in places):
        return False
    if node.op is zeros_like:
        known[node.out] = Turns(zeros_like(stack.stack, **node.attrs), made=True)
        return True
    if node.op is scatter_add and len(node.attrs["index"]) == 1:
        return _added_at_turn(builder, node, stack, known)
    single = node.op is getitem and len(node.attrs["index"]) == 1
    if not single or node.out.type.ndim != node.inputs[0].type.ndim - 1:
        return False
    rest = [builder.wrap(v) for v in node.inputs[1:]]
    known[node.out] = getitem(stack.stack, *rest, **node.attrs)
    _take_name(known[node.out].value, node.out, known)
    return True


def _added_at_turn(
    builder: Builder, node: Node, stack: Turns, known: dict[Value, Any]
) -> bool:
    """What is added to one turn of a stack; False if that is not one turn."""
    v = node.inputs[1]
    rank = node.out.type.ndim - 1  # of one turn
    places = [builder.wrap(u) for u in node.inputs[2:]]
    if any(p.ndim for p in places):
        return False
    found = known.get(v)
    added = found.batch if isinstance(found, Turns) else found or builder.wrap(v)
    if found is not None and v.type.ndim < rank:
        added = getitem(added, index=(FULL, *[None] * (rank - v.type.ndim)))
    made = scatter_add(stack.start, added, *places, **node.attrs)
    known[node.out] = Turns(made, made=True)
    _take_name(made.value, node.out, known)
    return True


def _one(
    builder: Builder, node: Node, known: dict[Value, Any], size: Size, strict: bool
) -> None:
    first = len(builder.nodes)
    flags = [v in known for v in node.inputs]
    inputs = [
        builder.wrap(v)
        if (found := known.get(v)) is None
        else found.batch
        if isinstance(found, Turns)
        else found
        for v in node.inputs
    ]
    made = _batch_node(Batched(node, inputs, flags, size), strict)
    fresh = {v for n in builder.nodes[first:] for v in n.outputs}
    plain = isinstance(made, Unbatched)
    outs = made.out if isinstance(made, Unbatched) else made
    outs = outs if type(outs) is tuple else (outs,)
    for v, out in zip(node.outputs, outs, strict=True):
        if plain:
            _same(builder, v, out)
            continue
        known[v] = out
        if out.value in fresh:
            _take_name(out.value, v, known)


def _same(builder: Builder, v: Value, out: Ref) -> None:
    """`v`, which later nodes read, made by what was recorded for it."""
    made = builder.nodes.pop()
    outputs = tuple([v if u is out.value else u for u in made.outputs])
    node = Node(
        made.op, made.inputs, outputs, made.attrs, made.at, made.phase, made.regions
    )
    node.derived = made.derived
    builder.append(node)


def _take_name(new: Value, old: Value, known: dict[Value, Any]) -> None:
    new.hint, new.user, new.prefix = old.hint, old.user, old.prefix
    if old.wrt is not None:
        wrt = getattr(known.get(old.wrt), "value", old.wrt)
        new.wrt = None if wrt is new else wrt


def _batch_node(b: Batched, strict: bool) -> Any:
    op = b.node.op
    if op is call:
        return _call(b, strict)
    rule = op.batch_rule
    if rule is None and len(op.type_only) == len(b.node.inputs):
        return Unbatched(op(*map(b.example, range(len(b.inputs))), **b.node.attrs))
    if rule is None and getattr(op.infer, "ufunc", None) is not None:
        rule = Batch.MAP
    if isinstance(rule, Batch):
        return _FAMILIES[rule](b, op, dict(b.node.attrs))
    made = NotImplemented
    if rule is not None:
        made = rule(b, *b.inputs, **b.node.attrs)
    return _loop(b, op, strict) if made is NotImplemented else made


# ---------------------------------------------------------------------------- calls
def _call(b: Batched, strict: bool) -> Any:
    """The call of a body for the batch; its rules are for the batch too."""
    body: Body = b.node.attrs["body"]
    flags = [b.has(i) for i in range(len(b.inputs))]
    rule: Any = body.rule
    if isinstance(rule, Pullback):
        rule = _batch_pullback(rule, flags, b, strict)
    elif isinstance(rule, Pushforward):
        more = [*flags, *[flags[i] for i in rule.wrt]]
        pushed = _batch_body(rule.body, more, b, strict)
        rule = Pushforward(pushed, rule.wrt, rule.args, rule.used)
    made = _batch_body(body, flags, b, strict, rule)
    return call(*b.inputs, body=made)


def _batch_pullback(rule: Pullback, flags: list, b: Batched, strict: bool) -> Pullback:
    graph = rule.body.graph
    count = len(graph.params) - len(rule.extra)
    more = [True] * count + [flags[i] for i in rule.extra]
    summed = [not flags[i] for i in rule.wrt]
    return Pullback(
        rule.plain,
        _batch_body(rule.primal, flags, b, strict),
        _batch_body(rule.body, more, b, strict, summed=summed),
        rule.wrt,
        rule.args,
        rule.extra,
        rule.used,
    )


def _batch_body(
    body: Body,
    flags: Sequence[bool],
    b: Batched,
    strict: bool,
    rule: Any = None,
    summed: Sequence[bool] = (),
) -> Body:
    """A body whose results all have a batch axis, but for those that are summed."""
    scratch = Builder()
    whole = {
        v: Value(ArrayType((b.size, *v.type.shape), v.type.dtype), v.hint)
        for v, f in zip(body.graph.params, flags, strict=False)
        if f
    }
    params = [whole.get(v, v) for v in body.graph.params]
    known = {v: scratch.wrap(w) for v, w in whole.items()}
    made = batch(scratch, body.graph.nodes, known, b.size, strict)
    scratch.derived = True
    results = []
    for k, v in enumerate(body.graph.results):
        x = made.get(v)
        if x is None:
            shape = (b.size, *v.type.shape)
            x = broadcast_to(scratch.wrap(v), shape=shape)
        if k < len(summed) and summed[k]:
            x = reduce_sum(x, axis=0)
        results.append(x.value)
    name = f"{body.name}_batch"
    graph = Graph(name, params, scratch.nodes, results, sizes_of(params))
    return Body(name, graph, rule, body.doc)


# ------------------------------------------------------------------------- families
def _map(b: Batched, op: Op, attrs: dict[str, Any]) -> Any:
    rank = max(map(b.rank, range(len(b.inputs))))
    return op(*[b.aligned(i, rank) for i in range(len(b.inputs))], **attrs)


def _reduce(b: Batched, op: Op, attrs: dict[str, Any]) -> Any:
    rank, axis = max(map(b.rank, range(len(b.inputs)))), attrs["axis"]
    xs = [b.aligned(i, rank) for i in range(len(b.inputs))]
    moved: Any
    if rank == 0:  # one number, the only one of its example
        xs = [reshape(b.whole(i), shape=(b.size, 1)) for i in range(len(xs))]
        moved = 1
    elif axis is None:
        moved = tuple(range(1, rank + 1)) if rank > 1 else 1
    elif isinstance(axis, tuple):
        moved = tuple([a % rank + 1 for a in axis])
    else:
        moved = axis % rank + 1
    return _shaped(b, op(*xs, **{**attrs, "axis": moved}))


def _shaped(b: Batched, made: Any) -> Any:
    """Results whose examples have the shape that they should have."""
    if type(made) is tuple:
        return made
    shape = (b.size, *b.node.out.type.shape)
    return made if made.ndim == len(shape) else reshape(made, shape=shape)


def _lane(b: Batched, op: Op, attrs: dict[str, Any]) -> Any:
    xs, rank = [b.whole(i) for i in range(len(b.inputs))], b.rank(0)
    axis = attrs["axis"]
    if axis is None or rank == 0:
        flat = product(b.node.inputs[0].type.shape)
        xs = [reshape(x, shape=(b.size, flat)) for x in xs]
        return _shaped(b, op(*xs, **{**attrs, "axis": 1}))
    return op(*xs, **{**attrs, "axis": axis % rank + 1})


def _matrix(b: Batched, op: Op, attrs: dict[str, Any]) -> Any:
    rank = max(map(b.rank, range(len(b.inputs))))
    return op(*[b.aligned(i, rank) for i in range(len(b.inputs))], **attrs)


_FAMILIES = {
    Batch.MAP: _map,
    Batch.REDUCE: _reduce,
    Batch.LANE: _lane,
    Batch.MATRIX: _matrix,
}


# ------------------------------------------------------------------------------ loops
def _loop(b: Batched, op: Op, strict: bool) -> Any:
    """The op once for each example: the last resort."""
    at = b.node.at[-1] if b.node.at else None
    called = b.node.attrs.get("function")
    spelling = f"{called.name}()" if type(called) is Outside else op.spelling
    if strict:
        raise UnsupportedError(
            f"{spelling} has no batching rule",
            op=spelling,
            at=at,
            fix="use another function, or leave out strict=True to loop over the batch",
        )
    if isinstance(b.size, Dim) or b.size > MAX_TURNS or b.size == 0:
        raise UnsupportedError(
            f"{spelling} has no batching rule, and a batch of {b.size} is too large "
            "to write a line for each example",
            op=spelling,
            at=at,
            fix="use another function, or a loop over smaller batches",
        )
    rows = []
    for i in range(b.size):
        args = [
            getitem(x, index=(i,)) if b.has(k) else x for k, x in enumerate(b.inputs)
        ]
        made = _again(b.node, args) if b.node.regions else op(*args, **b.node.attrs)
        rows.append(made if type(made) is tuple else (made,))
    outs = [
        listed(*column) if uncounted(v.type) else looped(*column, of=spelling)
        for v, column in zip(b.node.outputs, zip(*rows, strict=True), strict=True)
    ]
    return outs[0] if len(outs) == 1 else tuple(outs)


def _again(node: Node, args: list[Ref]) -> Any:
    """A node with regions on other inputs."""
    builder = args[0].builder
    outputs = tuple([Value(v.type, v.hint) for v in node.outputs])
    inputs = tuple([x.value for x in args])
    regions = []
    for region in node.regions:
        known = {v: Value(v.type, v.hint) for v in region.params}
        params = list(known.values())
        nodes, results = copied(region.nodes, region.results, known)
        regions.append(Graph(region.name, params, nodes, results))
    made = node.changed(inputs=inputs, outputs=outputs, regions=tuple(regions))
    made.derived = True
    builder.append(made)
    refs = tuple([builder.wrap(v) for v in outputs])
    return refs[0] if len(refs) == 1 else refs


# --------------------------------------------------------------------- in and out of it
def to_front(x: Ref, axis: int) -> Ref:
    """`x` with one axis moved to the front."""
    axes = (axis, *[a for a in range(x.ndim) if a != axis])
    return x if axis == 0 else transpose(x, axes=axes)


def from_front(x: Ref, axis: int) -> Ref:
    """`x` with its first axis moved to another place."""
    axes = list(range(1, x.ndim))
    axes.insert(axis, 0)
    return x if axis == 0 else transpose(x, axes=tuple(axes))
