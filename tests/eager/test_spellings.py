"""Arguments under NumPy's names and by keyword, live beside PyTorch."""

import pytest
from eager.both import agree

BY_AXIS = """
x.sum(axis=0) | x.sum(axis=0, keepdims=True) | t.sum(x, axis=(0, 1), keepdims=True)
t.sum(input=x, axis=1) | x.mean(axis=0, keepdims=True) | x.max(axis=0) | x.var(axis=0)
x.min(axis=0, keepdims=True) | x.std(axis=0, keepdims=True) | x.argmax(axis=0)
x.argmin(axis=0, keepdims=True) | x.cumsum(axis=0) | x.cumprod(axis=0)
x.softmax(axis=0) | t.softmax(x, axis=0) | t.log_softmax(x, axis=0) | t.cat([x], axis=0)
t.sum(x, 0, keepdims=True) | t.cat(tensors=[x], axis=0) | t.stack([x], axis=0)
x.unsqueeze(axis=0) | x.squeeze(axis=0) | x.prod(axis=0) | x.any(axis=0)
x.all(axis=0, keepdims=True) | x.logsumexp(axis=0) | x.amax(axis=0, keepdims=True)
x.median(axis=0) | x.sort(axis=0) | x.argsort(axis=0) | x.topk(1, axis=0)
x.gather(axis=0, index=i[None]) | x.index_select(axis=0, index=i) | x.unbind(axis=0)
x.chunk(1, axis=0) | x.select(axis=0, index=0) | x.nansum(axis=0)
x.quantile(0.5, axis=0) | x.diff(axis=0) | x.count_nonzero(axis=0) | x.split(1, axis=0)
x.repeat_interleave(2, axis=0) | x.sum(dim=0, axis=0) | (x * 1).cumsum_(axis=0)
"""
BY_KEYWORD = """
t.exp(input=x) | t.sin(input=x) | t.add(input=x, other=2) | t.maximum(input=x, other=y)
t.pow(input=x, exponent=2) | t.pow(2, exponent=x) | t.eq(input=x, other=1)
t.abs(input=x) | t.neg(input=x) | t.isnan(input=x) | t.atan2(input=x, other=y)
t.logical_and(input=x, other=y) | t.exp(input=x.detach(), out=y * 0)
t.floor_divide(input=y, other=2) | t.mean(input=x) | x.eq(other=y)
t.mul(input=x, other=y)
"""


def listed(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split(" | ")]


@pytest.mark.parametrize("expression", listed(BY_AXIS + BY_KEYWORD))
def test_the_same_by_keyword(expression):
    def program(t):
        x = t.tensor([[0.5, -1.0, 2.0], [3.0, 0.1, -0.2]], requires_grad=True)
        names = {"t": t, "x": x, "y": t.ones(2, 3), "i": t.tensor([1, 0, 1])}
        made = eval(expression, names)
        first = made[0] if isinstance(made, tuple) else made
        if first.requires_grad:
            (first * first).sum().backward()
        return made, x.grad

    agree(program, text="split" not in expression)


OF_OLD = """
x.type(t.float64) | x.type(t.LongTensor) | x.type("torch.DoubleTensor") | x.type()
isinstance(x, t.autograd.Variable) | isinstance(1, t.autograd.Variable)
t.LongTensor([1, 2]) | t.DoubleTensor([1, 2]) | t.FloatTensor([1, 2])
t.FloatTensor(2, 3).shape | t.IntTensor([1.5]) | t.BoolTensor([True])
t.ByteTensor([1]) | isinstance(x, t.FloatTensor) | t.HalfTensor([0.5])
isinstance(x, t.LongTensor) | t.LongTensor([2**53 + 1]) | t.nn.parameter.Parameter(x)
t.autograd.Variable(x, requires_grad=True) | t.autograd.Variable(1)
"""


@pytest.mark.parametrize("expression", listed(OF_OLD))
def test_types_of_old(expression):
    agree(lambda t: eval(expression, {"t": t, "x": t.ones(2)}))
