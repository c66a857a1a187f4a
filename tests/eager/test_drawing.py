"""`graph()`: a picture in which nothing lies on anything else."""

import itertools
import random
import xml.etree.ElementTree as ElementTree

import pytest
from eager.programs import Machine, draw, new, run

import tracegrad.eager as ours
from tracegrad.eager.drawing import _CHAR
from tracegrad.errors import ArgumentError

SVG = "{http://www.w3.org/2000/svg}"


def check(drawing):
    """Assert that boxes are apart, edges lead down and everything is inside."""
    root = ElementTree.fromstring(drawing.svg)
    width, height = (float(root.get(k)) for k in ("width", "height"))
    for box in drawing.boxes:
        assert box.x >= 0 and box.x + box.width <= width
        assert box.y >= 0 and box.y + box.height <= height
        assert all(len(line) * _CHAR <= box.width for line in box.lines)
        for other in box.below:
            assert other.y >= box.y + box.height
    threads = []
    for box in drawing.boxes:
        for step in box.below:
            while not step.kind:
                threads.append(step)
                (step,) = step.below
    for a, b in itertools.combinations([*drawing.boxes, *threads], 2):
        if a.layer == b.layer:
            left, right = (a, b) if a.x < b.x else (b, a)
            assert left.x + left.width < right.x
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert len(texts) == sum(len(b.lines) for b in drawing.boxes)
    return texts


def test_names_and_shapes():
    w = ours.ones(3, 2, requires_grad=True)
    layers = [{"bias": ours.zeros(2, requires_grad=True)}]
    hidden = ours.tanh(ours.ones(4, 3) @ w + layers[0]["bias"])
    loss = (hidden**2).sum() + (w * w).sum()
    texts = check(loss.graph())
    for text in ("w", "(3, 2)", "layers_0_bias", "(2,)", "TanhBackward0", "hidden"):
        assert text in texts
    assert texts[-1] == "loss ()"
    assert sum(t == "w" for t in texts) == 1


def test_saved_and_shown(tmp_path):
    x = ours.ones(3, requires_grad=True)
    drawing = (x * 2).sum().graph()
    path = drawing.save(tmp_path / "graph.svg")
    assert path.read_text() == drawing.svg == drawing._repr_svg_()
    assert "4 boxes" in repr(drawing)
    assert (x * 2).sum().graph().svg == drawing.svg


def test_several_outputs_and_leaves():
    x = ours.ones(4, 2, requires_grad=True)
    a, b = x.chunk(2)
    values, _ = (a * b).max(0)
    check(values.sum().graph())
    check(x.graph())


def test_names_are_escaped():
    x = ours.ones(2, requires_grad=True)
    held = {"<w> & co": x}
    texts = check((held["<w> & co"] * 2).sum().graph())
    assert "x" in texts
    del x
    check((held["<w> & co"] * 2).sum().graph())


def test_without_history():
    with pytest.raises(ArgumentError, match="has no history") as caught:
        ours.ones(2).graph()
    assert len(str(caught.value).splitlines()) == 4


def test_random_graphs():
    for seed in range(15):
        r = random.Random(seed)
        machine = Machine(ours)
        for step in [new(r) for _ in range(3)] + [draw(r) for _ in range(25)]:
            run(machine, step)
        for x in machine.values:
            if x.requires_grad:
                check(x.graph())


def test_long_chain():
    x = y = ours.ones(2, requires_grad=True)
    for _ in range(2000):
        y = y.sin()
    assert len((y + x).sum().graph().boxes) == 2004
