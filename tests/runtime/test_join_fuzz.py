"""Random programs that try to trick the proof by which branches and loops are joined.

Beside branches, loops and writes they hold what the trace does not see: Python ints and
lists that change, attributes, closures, aliases, iterators, errors that are caught,
`break`, `continue`, `return`, walrus, `del`, nested functions.  Each compiled function
is called several times and compared with plain Python and with differences.
"""

import linecache
import random
import re
import warnings

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.runtime.cache import SpecializationWarning

HELPERS = """
import numpy as np


class Box:
    def __init__(self, v):
        self.v = v
        self.count = 0

    @property
    def next(self):
        self.count += 1
        return self.count

    def scaled(self, y):
        return self.v * y

    def bumped(self, y):
        self.v = self.v * 1.1
        return y


class Sly:
    def __init__(self):
        self.n = 1.0

    def __mul__(self, other):
        self.n += 1.0
        return other * self.n


def leaky(v):
    if v > 0.0:
        return v
    return 0.1 * v


def clipped(v):
    if v > 0.5:
        return 0.5 + 0.1 * v
    elif v < -0.5:
        w = v * 0.3
    else:
        return v * v
    return w - 0.2


def stored(b, i, v):
    if v > b[0]:
        b[i] = v
    return b[i] * 0.5


def pair(p, q):
    return (p, q) if p > q else (q * 0.5, p)


def grows(items, v):
    items.append(v)
    return v * len(items)


def default(v, seen=[1.0]):
    return v * seen[0]


def counted(n):
    for k in range(n):
        yield k
"""

# Each is a block of lines; X, Y stand for numbers, A for an array, T for a test, N and
# M for fresh names.
PIECES = """
if T:
    X = X * 0.5
else:
    Y = Y - 0.3 * X

if T:
    N = 1
    X = X + 0.1
else:
    N = 2
X = X * N * 0.5

N = 0
while abs(X) < 0.9 and N < 5:
    X = 1.4 * X + 0.15
    N += 1
Y = Y + 0.1 * N

N = []
while abs(X) < 0.8 and len(N) < 4:
    X = 1.3 * X + 0.2
    N.append(X)
Y = Y + 0.1 * sum(N)

N = None
M = X
while abs(M) > 0.05:
    N = M if N is None else 0.5 * (M + N)
    M = 0.4 * M
Y = Y + 0.1 * (M if N is None else N)

N = A
if T:
    N = A * 0.5
N[1] = X
Y = Y + A[1] * 0.5

N = A[::-1]
if T:
    N[0] = X
    X = A[3] * 0.5
X = X + 0.1 * A[3]

N = A
M = A
if T:
    M = np.sin(A)
else:
    N = np.cos(A)
M[2] = 0.3 * X
X = 0.5 * X + 0.1 * N[2]

box.v = 0.7
if T:
    box.v = 0.4
    X = X * 0.5
X = X + 0.2 * box.scaled(Y)

box.v = 0.5
if T:
    X = box.bumped(X) * 0.9
else:
    X = X * 0.3
X = X + 0.2 * box.v

N = iter([0.1, 0.2, 0.3, 0.4])
if T:
    X = X + next(N)
else:
    X = X * 0.5
X = X + next(N)

for N in counted(3):
    if T:
        continue
    X = 0.6 * X + 0.1 * N

for N in range(4):
    if X * X > 0.5:
        X = X * 0.3
        break
    X = X + 0.2
else:
    Y = Y * 0.5

while True:
    X = 0.6 * X + 0.05 * Y
    if abs(X) < 0.3:
        break
    Y = Y * 0.9

N = 0
while True:
    N += 1
    X = 0.7 * X
    if abs(X) < 0.2 or N > 3:
        Y = Y + 0.01 * N
        break

try:
    if T:
        raise KeyError("no")
    X = X * 0.5
except KeyError:
    X = X * 0.25

if (N := X * 0.5) > 0.1:
    X = N + 0.3
Y = Y + 0.1 * N

if T:
    N = X
    del N
else:
    X = X * 0.9

def N(v):
    return v * X

if T:
    X = X * 0.5
Y = 0.3 * Y + 0.2 * N(Y)

def N(v):
    nonlocal s
    s = s * 0.9
    return v * 0.5

if T:
    Y = N(Y)
else:
    Y = Y * 0.4

N = lambda v: v * 0.5 if v > 0.2 else v * v
X = N(X) + 0.1 * N(Y)

X = leaky(X) - 0.3 * leaky(Y)

X = clipped(X) + 0.1 * clipped(Y) * leaky(X)

X, Y = pair(X, Y)

X = 0.5 * stored(A, 2, X)

N = [0.5]
if T:
    X = grows(N, X) * 0.3
else:
    Y = Y * 0.5
X = X * 0.5 * len(N)

N = {"k": X}
if T:
    N["k"] = Y * 0.5
X = 0.5 * N["k"]

N = [X, Y]
if T:
    N = [Y, X]
X = N[0] * 0.5 + 0.1 * N[1]

N = Sly()
if T:
    X = N * X * 0.3
X = X * 0.2 * N.n

if T:
    X = X + 0.01 * box.next
X = X * 0.9 + 0.01 * box.count

X = X * 0.5 if T else Y

X = (X if Y > 0.1 else Y) * (0.5 if T else 0.25)

if X > 0.1 and Y > 0.1 or not T:
    X = X * 0.6
elif X < Y < 0.8:
    X = X - 0.1
else:
    A[1:3] *= 0.5

X = max(X, Y) * 0.5 - min(X, 0.1, Y)

if T:
    if X > Y:
        return X * 0.5
    Y = X * 0.3
else:
    A[0] += Y

N = 0.0
M = 1
while N < 0.7 and abs(X) < 2.0:
    N += 0.25
    M *= 2
    X = X + 0.05 * M
Y = Y + 0.1 * N

N = A
while np.sum(A * A) > 0.5:
    A *= 0.6
    A[0] = A[0] + 0.01
Y = Y + N[1]

N = A.copy()
M = N
while abs(X) < 0.7:
    N = N * 0.9 + 0.05
    X = X * 1.2 + 0.1 * N[1] + 0.1
M[0] = 0.3
Y = 0.5 * Y + N[0] - 0.2 * M[0]

N = M = X
while abs(N) > 0.3:
    M, N = N, 0.5 * N - 0.1 * M
X = 0.5 * X + 0.3 * M

if T:
    X = default(X) * 0.5
    N = X.sum() if hasattr(X, "sum") else X

N = "up" if X > Y else "down"
X = X * 0.5 if N == "up" else X * 0.7

N = X > 0.1
M = N and Y > 0.1
if not M:
    X = X * 0.8

N = abs(X) > 0.4
while N:
    X = 0.5 * X
    N = abs(X) > 0.4

if T:
    for N in range(2):
        X = 0.5 * X + 0.1 * A[N]
else:
    X = sum([v * 0.1 for v in [X, Y]])

for N in range(6):
    X = 0.7 * X + 0.1 * Y
    if abs(X) < 0.2:
        break
Y = Y + 0.05 * N

for N in range(5):
    if T:
        return X * 0.5 + N
    X = X * 0.8

for N, M in enumerate(A):
    X = X + 0.2 * M * N
    if X > 0.5:
        break
    Y = Y * 0.9 + 0.1 * M

for N, M in zip(A, range(1, 9, 2)):
    X = 0.5 * X + 0.1 * N * M
    if T:
        X = X - 0.1
        break
    A[1] = X

for N in counted(3):
    X = 0.6 * X + 0.1 * N
    if X > 0.2:
        break
    box.v = box.v * 0.9
X = X + 0.1 * box.v

for N in [0.3, 0.1, -0.2]:
    X = X * 0.5 + N
    if X < Y:
        break
else:
    Y = 0.5 * Y + X

for N in range(4):
    for M in range(3):
        X = 0.7 * X - 0.1 * A[M]
        if abs(X) < 0.15:
            break
    else:
        Y = Y * 0.9
        continue
    if Y > X:
        Y = Y * 0.5
        break
    X = X + 0.3

N = 0
while N < 6 and abs(X) < 0.9:
    X = 1.2 * X + 0.1
    if Y > X:
        break
    N += 1
    Y = 0.9 * Y
X = 0.5 * X + 0.01 * N

N = False
M = 0
while not N and M < 7:
    N = abs(X) < 0.25
    X = 0.6 * X + 0.02 * Y
    M += 1
if N:
    Y = 0.5 * Y

N = None
for M in range(5):
    X = 0.7 * X + 0.1
    if X < 0.3:
        N = X
        break
X = X if N is None else 0.5 * N

N = True
for M in range(3):
    X = 0.6 * X + 0.1 * M
    if T:
        N = not N
        break
X = X + 0.1 * N

M = A
for N in range(4):
    A[N] = 0.5 * A[N] + 0.1 * X
    if A[N] > 0.3:
        M = A * 0.5
        break
X = 0.5 * X + M[0]

for N in range(8):
    M = 0.5 * X + 0.1 * N
    if M > 0.4:
        if Y > 0:
            X = M
            break
        Y = Y + 0.3
    X = X * 0.9
Y = 0.5 * Y + 0.2 * M

for N in A.reshape(2, 2)[::-1]:
    N *= 0.5
    X = 0.5 * X + N[0]
    if X > 0.3:
        N[...] = 0.1
        break

while True:
    X = 0.6 * X + 0.05 * Y
    if abs(X) < 0.3:
        break
    if T:
        Y = Y * 0.5
        break
    Y = Y * 0.9

N = 3
while N > 0 and X < 1.5:
    X = X + 0.1 * A[N]
    N = N - 1
X = X * 0.5 + 0.01 * N
""".strip().split("\n\n")


def joined_pieces() -> list[str]:
    """The pieces, blank lines inside of one allowed after a `def`."""
    made: list[str] = []
    for piece in PIECES:
        if made and made[-1].startswith("def "):
            lines = made[-1].splitlines()
            if all(line.startswith((" ", "def")) for line in lines):
                made[-1] += "\n" + piece
                continue
        made.append(piece)
    return made


ALL = joined_pieces()


def program(seed: int) -> str:
    """The text of one function of an array of four elements and a float."""
    rng = random.Random(seed)
    lines = ["def f(x, t):", "    a = x * 1.0", "    s = t * 0.5", "    u = x[1] * 0.4"]
    lines += ["    box = Box(0.5)"]
    fresh = 0
    for _ in range(rng.randint(2, 5)):
        text = rng.choice(ALL)
        fresh += 2
        x, y = rng.sample(["s", "u"], 2)
        number = f"{rng.uniform(-0.6, 0.6):.2f}"
        test = rng.choice(
            [f"{x} > {number}", f"a[{rng.randrange(4)}] < {number}", f"{y} >= {x}"]
        )
        names = {"X": x, "Y": y, "A": "a", "T": f"({test})"}
        names |= {"N": f"n{fresh}", "M": f"n{fresh + 1}"}
        made = re.sub(r"\b[XYATNM]\b", lambda m: names[m[0]], text)  # noqa: B023
        lines += ["    " + line for line in made.splitlines()]
    lines += ["    return np.tanh(s + 0.5 * u) + np.sum(np.sin(a)) * 0.3"]
    return HELPERS + "\n\n" + "\n".join(lines) + "\n"


def function(seed: int):
    text = program(seed)
    name = f"<tricks {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict = {"__name__": "tricks"}
    exec(compile(text, name, "exec"), space)
    return space["f"], text


def slopes(f, x: np.ndarray, t: float, step: float) -> np.ndarray:
    """Central differences in all arguments."""
    at = np.append(x, t)
    found = []
    for e in step * np.eye(5):
        up, down = at + e, at - e
        found.append((f(up[:4], up[4]) - f(down[:4], down[4])) / (2 * step))
    return np.array(found)


def run(seed: int) -> int:
    """Check one program at several points; the number of gradients compared."""
    f, text = function(seed)
    g = tg.value_and_grad(f, argnums=(0, 1))
    rng = np.random.default_rng(seed)
    compared = 0
    for _ in range(3):
        x, t = rng.normal(size=4) * 0.7, float(rng.normal() * 0.7)
        try:
            want = f(x, t)
        except UnboundLocalError:
            continue
        value, (d_x, d_t) = g(x, t)
        np.testing.assert_allclose(value, want, rtol=1e-9, err_msg=text)
        fine, coarse = slopes(f, x, t, 1e-6), slopes(f, x, t, 1e-5)
        if not np.allclose(fine, coarse, rtol=1e-4, atol=1e-5):
            continue  # at a jump
        found = np.append(d_x, d_t)
        np.testing.assert_allclose(found, fine, rtol=1e-3, atol=1e-4, err_msg=text)
        compared += 1
    return compared


def check(seeds: range) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SpecializationWarning)
        assert sum(map(run, seeds)) > len(seeds)


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_programs(first: int) -> None:
    check(range(first, first + 10))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 2100, 100))
def test_many_programs(first: int) -> None:
    check(range(first, first + 100))


@pytest.mark.parametrize("index", range(len(ALL)), ids=str)
def test_each_piece_runs(index: int, monkeypatch) -> None:
    """No piece is text that Python or the trace refuses for another reason."""
    monkeypatch.setitem(globals(), "ALL", [ALL[index]])
    assert run(10_000 + index) >= 0
