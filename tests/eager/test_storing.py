"""Files, pickles, copies, and memory shared with other libraries."""

import copy
import io
import pickle
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from eager.both import agree

import tracegrad.eager as ours


def stored(t, x):
    file = io.BytesIO()
    t.save(x, file)
    file.seek(0)
    return t.load(file, weights_only=True)


def leaf(t):
    return t.tensor([1.0, 2.0], requires_grad=True)


def everything(t):
    x = leaf(t)
    numbers = [1, 2.5, float("inf"), -0.0, 3 + 4j, 10**30, True, None, "text", ""]
    tensors = [
        x,
        x * 2,
        x[:1].detach(),
        t.ones(2, dtype=t.bool),
        t.arange(3),
        t.ones(()),
    ]
    nested = {"a": [x, (x, numbers)], 3: {"b": ()}, (1, "k"): [], None: tensors}
    made = stored(t, nested)
    assert list(made) == list(nested)
    return [made["a"], made[3], made[1, "k"], made[None]]


def kinds(t):
    made = stored(
        t,
        [OrderedDict(b=1, a=2), {1, 2}, t.ones(2, 3).shape, t.float64, t.device("cpu")],
    )
    return [type(x).__name__ for x in made], list(made[0]), repr(made[1:])


def parameters(t):
    p = stored(t, t.nn.Parameter(t.ones(2)))
    q = stored(t, t.nn.Parameter(t.ones(2), requires_grad=False))
    return type(p).__name__, p, type(q).__name__, q


def one_tensor_twice(t):
    x = leaf(t)
    a, b = stored(t, [x, x])
    return a is b


def no_gradient_stored(t):
    x = leaf(t)
    x.grad = t.ones(2)
    return stored(t, x).grad


def pickles(t):
    x = leaf(t)
    v = t.arange(4.0)[1:3]
    p = pickle.loads(pickle.dumps([x, x * 2, t.nn.Parameter(t.ones(2)), v]))
    return p, [type(a).__name__ for a in p]


def copies(t):
    x = leaf(t)
    x.grad = t.ones(2)
    x.note = [3]
    y = copy.deepcopy(x)
    z = copy.deepcopy([x, x])
    w = copy.copy(x)
    p = copy.deepcopy(t.nn.Parameter(t.ones(2)))
    with pytest.raises(RuntimeError, match="deepcopy protocol"):
        copy.deepcopy(x * 2)
    flags = z[0] is z[1], y.note == x.note, y.note is x.note, w is x
    return y, y.grad, w, p, type(p).__name__, flags


def parameter(t):
    p = t.nn.Parameter(t.ones(2))
    q = t.nn.Parameter(t.ones(2), requires_grad=False)
    made = [p, p.data, p.clone(), p.detach(), p * 2]
    return (
        [type(x).__name__ for x in made],
        [isinstance(x, t.nn.Parameter) for x in made],
        isinstance(p, t.Tensor),
        repr(p),
        repr(q),
        p.is_leaf,
        t.nn.Parameter(leaf(t) * 2),
    )


def parameter_of_integers(t):
    t.nn.Parameter(t.arange(2))


def numpy_from(t):
    x = t.ones(2)
    a = np.from_dlpack(x)
    x[0] = 7
    return a, x.__dlpack_device__() == (1, 0)


def into_numpy_and_back(t):
    a = np.ones((2, 3))
    x = t.from_dlpack(a)
    x[0, 0] = 5
    y = t.from_dlpack(x.t())
    y[0, 1] = 6
    return x, y, a


def export_with_a_gradient(t):
    np.from_dlpack(leaf(t))


PROGRAMS = [
    everything,
    kinds,
    parameters,
    one_tensor_twice,
    no_gradient_stored,
    pickles,
    copies,
    parameter,
    parameter_of_integers,
    numpy_from,
    into_numpy_and_back,
    export_with_a_gradient,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same(program):
    torch = pytest.importorskip("torch")
    if program is kinds:
        agree(lambda t: program(t) if t is ours else _plain_kinds(torch))
    else:
        agree(program)


def _plain_kinds(torch):
    # PyTorch's loader refuses sets, and shows its own names.
    shown = repr([{1, 2}, torch.Size([2, 3]), torch.float64, torch.device("cpu")])
    return ["OrderedDict", "set", "Size", "dtype", "device"], ["b", "a"], shown


def test_pickles_share_memory():
    v = ours.arange(4.0)
    a, b = pickle.loads(pickle.dumps([v, v[1:3]]))
    a[1] = 9
    assert b.tolist() == [9, 2]


def test_memory_shared_with_torch():
    torch = pytest.importorskip("torch")
    theirs = torch.zeros(2, 3)
    x = ours.from_dlpack(theirs)
    x[0, 0] = 1
    y = torch.from_dlpack(x)
    y[1, 2] = 2
    assert theirs.tolist() == x.tolist() == [[1, 0, 0], [0, 0, 2]]


def test_a_path(tmp_path):
    path = tmp_path / "tensors.pt"
    ours.save({"w": ours.ones(2)}, path)
    assert [p.name for p in tmp_path.iterdir()] == ["tensors.pt"]
    assert ours.load(str(path))["w"].tolist() == [1, 1]
    with np.load(path) as file:
        assert set(file.files) == {"structure", "tensor0"}


class Evil:
    """Unpickling it runs code."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


def test_strangers_run_no_code(tmp_path):
    with pytest.raises(TypeError, match="must not run code"):
        ours.save([Evil()], tmp_path / "a")
    (tmp_path / "pickle").write_bytes(pickle.dumps(Evil()))
    np.savez(tmp_path / "b.npz", structure=np.array([Evil()], object))
    np.savez(tmp_path / "c.npz", other=np.ones(2))
    np.save(tmp_path / "d.npy", np.ones(2))
    with zipfile.ZipFile(tmp_path / "torch.zip", "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps(Evil()))
    for name in ("pickle", "b.npz", "c.npz", "d.npy", "torch.zip"):
        with pytest.raises(ValueError, match=r"load\(\) reads files that save"):
            ours.load(tmp_path / name)
