"""`loss.graph()`: the graph behind a tensor as a picture, an SVG made of plain text.

Layers from the leaves down: a node stands one layer below the lowest of its inputs.  An
edge over several layers gets a place of its own in each of them, so that it passes
between boxes.  Within a layer, boxes are ordered by the middle of their neighbours, a
few times up and down, and then moved as near to it as their widths allow.
"""

from __future__ import annotations

import os
from html import escape
from itertools import pairwise
from pathlib import Path

from tracegrad.eager.loop import collect
from tracegrad.eager.naming import Found, look_around
from tracegrad.eager.nodes import (
    ATTRS,
    INPUTS,
    META,
    PULL,
    SEQ,
    Node,
    name_of,
    pull_output,
)
from tracegrad.eager.tensor import Tensor
from tracegrad.errors import ArgumentError
from tracegrad.trace.frames import calling_line

_CHAR, _LINE, _PAD = 7.3, 15.0, 9.0  # of a monospace font of 12 px
_GAP_X, _GAP_Y, _MARGIN = 18.0, 38.0, 12.0
_THREAD = 6.0  # width that an edge takes where it passes a layer
_SWEEPS = 6

_STYLE = """
    text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1c2430; }
    .name { font-weight: 600; }
    rect { stroke-width: 1.2; }
    .leaf { fill: #dcecff; stroke: #3b7dd8; }
    .op { fill: #f4f5f7; stroke: #8a94a3; }
    .result { fill: #dff5e3; stroke: #2f9e53; }
    path { fill: none; stroke: #8a94a3; stroke-width: 1.2; }
""".strip("\n")


class Box:
    """A box of the picture, or the place where an edge passes a layer.

    Attributes:
        lines: its text.
        kind: "leaf", "op", "result", or "" for an edge that passes.
        layer: from the top.
        above, below: its neighbours.
        x, y: its upper left corner.
        width, height: in pixels.
    """

    def __init__(self, lines: list[str], kind: str, layer: int) -> None:
        self.lines = lines
        self.kind = kind
        self.layer = layer
        self.above: list[Box] = []
        self.below: list[Box] = []
        self.x = self.y = 0.0
        longest = max(map(len, lines), default=0)
        self.width = longest * _CHAR + 2 * _PAD if kind else _THREAD
        self.height = len(lines) * _LINE + _PAD if kind else 0.0

    @property
    def middle(self) -> float:
        """Where edges meet it."""
        return self.x + self.width / 2


class Drawing:
    """A picture of a graph; notebooks show it.

    Attributes:
        svg: its text.
        boxes: what is drawn, with coordinates.
    """

    def __init__(self, boxes: list[Box], svg: str) -> None:
        self.boxes = boxes
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<drawing of a graph: {len(self.boxes)} boxes>"

    def save(self, path: str | os.PathLike) -> Path:
        """Write the SVG to a file.

        Args:
            path: of the file; its folder must exist.

        Returns:
            The path.
        """
        path = Path(path)
        path.write_text(self.svg, encoding="utf-8")
        return path


def graph(self: Tensor) -> Drawing:
    """A picture of the graph that made this tensor.

    Operations are called as their `grad_fn`; leaves show their shapes, and the names
    that variables and attributes of the caller's give to them.

    Returns:
        An object with `.svg` and `.save(path)`, which notebooks draw.

    Raises:
        ArgumentError: the tensor has no history.

    Example:
        >>> import tracegrad.eager as torch
        >>> w = torch.ones(3, requires_grad=True)
        >>> loss = (w * w).sum()
        >>> "MulBackward0" in loss.graph().svg
        True
    """
    if self._node is None:
        raise ArgumentError(
            f"the tensor of shape {list(self.shape)} has no history",
            op="graph",
            at=calling_line(),
            fix="call it on the result of operations on a tensor that requires grad",
        )
    found = look_around()
    boxes = _boxes(self, found)
    layers = _layers(boxes)
    _order(layers)
    _place(layers)
    shown = [b for b in boxes if b.kind]
    return Drawing(shown, _svg(layers))


def _boxes(tensor: Tensor, found: Found) -> list[Box]:
    """A box for each node, inputs before what reads them, and one for the result."""
    root: Node = tensor._node  # type: ignore[assignment]
    nodes, ready = collect([root])
    leaves = {leaf[SEQ]: leaf for some in ready.values() for leaf in some}
    made: dict[int, Box] = {}
    for seq in sorted(leaves, reverse=True):
        made[seq] = Box(_leaf_text(leaves[seq], found), "leaf", 0)
    for seq in sorted(nodes):
        node = nodes[seq]
        sources = [made[s[SEQ]] for s in node[INPUTS] if s is not None]
        if node[PULL] is pull_output:
            made[seq] = sources[0]  # one of several outputs is the op itself
            continue
        layer = 1 + max([s.layer for s in sources], default=0)
        name, _ = found.nodes.get(seq, ("", ()))
        lines = [name_of(node), *([name] if name else [])]
        box = made[seq] = Box(lines, "op", layer)
        _connect(sources, box)
    end = made[root[SEQ]]
    name = found.tensors.get(id(tensor), "result")
    result = Box([f"{name} {_shape(tensor._data.shape)}"], "result", end.layer + 1)
    _connect([end], result)
    return [*dict.fromkeys(made.values()), result]


def _connect(sources: list[Box], box: Box) -> None:
    for source in sources:
        source.below.append(box)
        box.above.append(source)


def _leaf_text(leaf: Node, found: Found) -> list[str]:
    tensor = leaf[ATTRS]()
    shape = leaf[META][0] if tensor is None else tensor._data.shape
    name, _ = found.nodes.get(leaf[SEQ], ("leaf", ()))
    return [name, _shape(shape)]


def _shape(shape: tuple) -> str:
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


# -------------------------------------------------------------------------- layout
def _layers(boxes: list[Box]) -> list[list[Box]]:
    """The boxes by layer; long edges are cut into threads, one for each layer."""
    for box in boxes:
        if box.kind == "leaf" and box.below:
            box.layer = min(b.layer for b in box.below) - 1
    count = max(b.layer for b in boxes) + 1
    layers: list[list[Box]] = [[] for _ in range(count)]
    for box in boxes:
        layers[box.layer].append(box)
    for box in boxes:
        for k, target in enumerate(list(box.below)):
            if target.layer > box.layer + 1:
                box.below[k] = _thread(box, target, layers)
    return layers


def _thread(box: Box, target: Box, layers: list[list[Box]]) -> Box:
    place = target.above.index(box)
    first = last = box
    for layer in range(box.layer + 1, target.layer):
        made = Box([], "", layer)
        layers[layer].append(made)
        made.above.append(last)
        if last is box:
            first = made
        else:
            last.below.append(made)
        last = made
    last.below.append(target)
    target.above[place] = last
    return first


def _order(layers: list[list[Box]]) -> None:
    """Order each layer by the middle of its neighbours, down and up in turn."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        sequence = layers[1:] if down else layers[-2::-1]
        for layer in sequence:
            before = layers[layer[0].layer + (-1 if down else 1)]
            rank = {id(b): k / max(len(before), 1) for k, b in enumerate(before)}
            own = {id(b): k / len(layer) for k, b in enumerate(layer)}

            def centre(b: Box, down=down, rank=rank, own=own) -> float:
                near = [rank[id(n)] for n in (b.above if down else b.below)]
                return sum(near) / len(near) if near else own[id(b)]

            layer.sort(key=centre)


def _place(layers: list[list[Box]]) -> None:
    """Coordinates: side by side first, then towards the neighbours."""
    y = _MARGIN
    for layer in layers:
        height = max(b.height for b in layer)
        x = 0.0
        for box in layer:
            box.x, box.y = x, y + (height - box.height) / 2
            x += box.width + _GAP_X
        y += height + _GAP_Y
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer in layers[1:] if down else layers[-2::-1]:
            _pull_together(layer, down)
    left = min(b.x for layer in layers for b in layer)
    for layer in layers:
        for box in layer:
            box.x += _MARGIN - left


def _pull_together(layer: list[Box], down: bool) -> None:
    """Move boxes towards the middle of their neighbours, without overlap.

    From left to right each goes where it wants, or as far left as those before it
    allow; then the same from the right; the mean of both keeps the distances.
    """
    wanted = []
    for box in layer:
        near = [n.middle for n in (box.above if down else box.below)]
        wanted.append(sum(near) / len(near) - box.width / 2 if near else box.x)
    rightward, leftward = list(wanted), list(wanted)
    for k in range(1, len(layer)):
        least = rightward[k - 1] + layer[k - 1].width + _GAP_X
        rightward[k] = max(rightward[k], least)
    for k in range(len(layer) - 2, -1, -1):
        most = leftward[k + 1] - layer[k].width - _GAP_X
        leftward[k] = min(leftward[k], most)
    for box, a, b in zip(layer, rightward, leftward):
        box.x = (a + b) / 2


# -------------------------------------------------------------------------- the text
def _svg(layers: list[list[Box]]) -> str:
    boxes = [b for layer in layers for b in layer]
    width = max(b.x + b.width for b in boxes) + _MARGIN
    height = max(b.y + b.height for b in boxes) + _MARGIN
    size = f'width="{width:.0f}" height="{height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
        f'viewBox="0 0 {width:.0f} {height:.0f}">',
        f"  <style>\n{_STYLE}\n  </style>",
        '  <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M 0 0 L 8 4 L 0 8 z" '
        'style="fill: #8a94a3; stroke: none"/></marker>',
        f'  <rect {size} style="fill: white; stroke: none"/>',
    ]
    for box in boxes:
        if box.kind:
            lines.extend(
                f'  <path d="{p}" marker-end="url(#head)"/>' for p in _edges(box)
            )
    for box in boxes:
        if box.kind:
            lines.extend(_box(box))
    return "\n".join([*lines, "</svg>", ""])


def _edges(box: Box) -> list[str]:
    """The curves from a box to what reads it."""
    found = []
    for target in box.below:
        points = [(box.middle, box.y + box.height)]
        while not target.kind:
            points.append((target.middle, target.y))
            (target,) = target.below
        points.append((target.middle, target.y - 1))
        text = f"M {points[0][0]:.1f} {points[0][1]:.1f}"
        for (x, y), (u, v) in pairwise(points):
            half = (y + v) / 2
            text += f" C {x:.1f} {half:.1f} {u:.1f} {half:.1f} {u:.1f} {v:.1f}"
        found.append(text)
    return found


def _box(box: Box) -> list[str]:
    at = f'x="{box.x:.1f}" y="{box.y:.1f}"'
    size = f'width="{box.width:.1f}" height="{box.height:.1f}"'
    lines = [f'  <rect class="{box.kind}" {at} {size} rx="5"/>']
    for k, text in enumerate(box.lines):
        y = box.y + _PAD / 2 + (k + 0.78) * _LINE
        named = ' class="name"' if (k == 0) == (box.kind != "op") else ""
        lines.append(
            f'  <text{named} x="{box.middle:.1f}" y="{y:.1f}" text-anchor="middle">'
            f"{escape(text)}</text>"
        )
    return lines


Tensor.graph = graph  # type: ignore[attr-defined]
