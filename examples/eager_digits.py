"""A network that reads digits, trained as one does in PyTorch, on NumPy alone.

The data are 1,797 scans of 8 x 8 pixels that come with scikit-learn.  The program is
PyTorch code with another import; `--torch` runs the very same on PyTorch, from the same
weights, and shows the same losses.  From the second step on, `backward` runs generated
code.  At the end the program of a step is printed and the picture of its graph saved.

    python examples/eager_digits.py [--epochs 20] [--torch] [--graph FILE]
"""

import argparse
import importlib
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

HIDDEN, BATCH, RATE, MOMENTUM = 48, 64, 0.08, 0.9


def data() -> tuple[np.ndarray, ...]:
    """Pixels from 0 to 1 and labels, two thirds to learn from and one to try."""
    pixels, labels = load_digits(return_X_y=True)
    pixels = (pixels / 16.0).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(labels))
    first, rest = np.split(order, [1200])
    return pixels[first], labels[first], pixels[rest], labels[rest]


class Network:
    """64 pixels, one hidden layer, 10 scores."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        rng = np.random.default_rng(1)

        def weights(*shape: int) -> Any:
            scale = (2.0 / shape[0]) ** 0.5
            drawn = (scale * rng.standard_normal(shape)).astype(np.float32)
            return torch.from_numpy(drawn).requires_grad_()

        self.w1, self.b1 = weights(64, HIDDEN), torch.zeros(HIDDEN, requires_grad=True)
        self.w2, self.b2 = weights(HIDDEN, 10), torch.zeros(10, requires_grad=True)

    def parameters(self) -> list[Any]:
        """What is trained."""
        return [self.w1, self.b1, self.w2, self.b2]

    def __call__(self, x: Any) -> Any:
        hidden = self.torch.relu(x @ self.w1 + self.b1)
        return hidden @ self.w2 + self.b2


def train(torch: Any, epochs: int) -> tuple[list[float], float, Network]:
    """Train by gradient descent with momentum.

    Returns:
        The mean loss of each epoch, the share of digits read rightly, the network.
    """
    pixels, labels, new_pixels, new_labels = data()
    x, y = torch.from_numpy(pixels), torch.from_numpy(labels)
    network = Network(torch)
    speeds = [torch.zeros_like(p) for p in network.parameters()]
    rng = np.random.default_rng(2)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in np.split(rng.permutation(len(labels))[: 18 * BATCH], 18):
            rows = torch.from_numpy(batch)
            loss = torch.nn.functional.cross_entropy(network(x[rows]), y[rows])
            loss.backward()
            with torch.no_grad():
                for p, speed in zip(network.parameters(), speeds, strict=True):
                    speed.mul_(MOMENTUM).add_(p.grad)
                    p -= RATE * speed
                    p.grad = None
            total += loss.item()
        losses.append(total / 18)
    with torch.no_grad():
        guessed = network(torch.from_numpy(new_pixels)).argmax(1)
    right = (guessed == torch.from_numpy(new_labels)).float().mean().item()
    return losses, right, network


def main() -> None:
    """Train, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--torch", action="store_true", help="run on PyTorch instead")
    parser.add_argument("--graph", help="save the picture of a step's graph here")
    options = parser.parse_args()
    torch = importlib.import_module("torch" if options.torch else "tracegrad.eager")
    if not options.torch:
        torch.autograd.set_compiled_backward(True)
    losses, right, network = train(torch, options.epochs)
    for epoch, mean in enumerate(losses, 1):
        print(f"epoch {epoch:2}  loss {mean:.4f}")
    print(f"{right:.1%} of the new digits read rightly")
    if not options.torch:
        pixels, labels = map(torch.from_numpy, data()[:2])
        scores = network(pixels)
        loss = torch.nn.functional.cross_entropy(scores, labels)
        print(loss.source())
        if options.graph:
            loss.graph().save(options.graph)


if __name__ == "__main__":
    main()
