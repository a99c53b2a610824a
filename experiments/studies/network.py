"""A small network for tables of zeros and ones, as the reconstructor network of DRAFT-DP's authors.

Hidden layers are linear, then ReLU, then a layer norm; the last is linear and gives logits. It is
trained by AdamW on the mean cross-entropy of all outputs, in batches. Weights begin as PyTorch's
linear layers do: uniform within one over the root of the number of inputs. NumPy is enough, since
the networks of the paper train in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treeleak.core.private import dataclass

Floats = NDArray[np.float32]
HIDDEN = (1024, 512, 256)
_EPSILON = 1e-5
"""Added to variances, so that nothing is divided by zero."""


@dataclass(frozen=True)
class Training:
    """How a network is trained; defaults are the paper's, and AdamW's."""

    epochs: int = 5
    batch: int = 32
    rate: float = 1e-3
    decay: float = 1e-4
    memories: tuple[float, float] = (0.9, 0.999)
    least: float = 1e-8


@dataclass(eq=False)
class Network:
    """Layers of a network.

    Attributes
    ----------
    weights : list of arrays
        Of each layer its matrix and its shift; of hidden layers also the norm's scale and shift.
    """

    weights: list[Floats] = field(default_factory=list)

    @classmethod
    def start(cls, sizes: Sequence[int], rng: np.random.Generator) -> Network:
        """Draw the first weights: of inputs, hidden layers, outputs."""
        weights: list[Any] = []
        for layer, (n, m) in enumerate(pairwise(sizes), 2):
            most = 1 / np.sqrt(n)
            weights += [rng.uniform(-most, most, (n, m)), rng.uniform(-most, most, m)]
            if layer < len(sizes):
                weights += [np.ones(m), np.zeros(m)]
        return cls([w.astype(np.float32) for w in weights])

    def logits(self, inputs: Floats) -> Floats:
        """Give the log odds of each output being 1."""
        return self._forward(inputs)[0]

    def gradients(self, inputs: Floats, outputs: Floats) -> list[Floats]:
        """Differentiate the mean cross-entropy of these rows by each of the weights."""
        logits, steps = self._forward(inputs)
        back = (_sigmoid(logits) - outputs) / outputs.size
        last = len(self.weights) - 2
        found = [steps[-1][0].T @ back, back.sum(0)]
        for layer in range(len(steps) - 2, -1, -1):
            at = 4 * layer
            entered, active, normal, spread = steps[layer]
            back = back @ self.weights[min(at + 4, last)].T
            of_norm = [(back * normal).sum(0), back.sum(0)]
            back = back * self.weights[at + 2]
            mean = back.mean(1, keepdims=True)
            slope = (back * normal).mean(1, keepdims=True)
            back = (back - mean - normal * slope) / spread * active
            found = [entered.T @ back, back.sum(0), *of_norm, *found]
        return found

    def _forward(self, inputs: Floats) -> tuple[Floats, list[Any]]:
        """Give the logits, and of each layer what entered, which units were on, and the norm."""
        steps: list[Any] = []
        now = inputs
        for at in range(0, len(self.weights) - 2, 4):
            matrix, shift, scale, offset = self.weights[at : at + 4]
            made = now @ matrix + shift
            active = made > 0
            made = np.where(active, made, np.float32(0))
            apart = made - made.mean(1, keepdims=True)
            spread = np.sqrt((apart**2).mean(1, keepdims=True) + np.float32(_EPSILON))
            normal = apart / spread
            steps.append((now, active, normal, spread))
            now = normal * scale + offset
        steps.append((now,))
        return now @ self.weights[-2] + self.weights[-1], steps


def train(
    inputs: Floats,
    outputs: Floats,
    rng: np.random.Generator,
    hidden: Sequence[int] = HIDDEN,
    how: Training | None = None,
) -> Network:
    """Train a network on pairs of inputs and outputs of zeros and ones.

    Parameters
    ----------
    inputs : array, shape (n_pairs, n_inputs)
    outputs : array, shape (n_pairs, n_outputs)
    rng : Generator
        For the first weights and the order of the pairs.
    hidden : sequence of int
        Units of each hidden layer.
    how : Training, optional
    """
    how = how or Training()
    inputs, outputs = inputs.astype(np.float32), outputs.astype(np.float32)
    network = Network.start((inputs.shape[1], *hidden, outputs.shape[1]), rng)
    means = [np.zeros_like(w) for w in network.weights]
    squares = [np.zeros_like(w) for w in network.weights]
    step = 0
    for _ in range(how.epochs):
        order = rng.permutation(len(inputs))
        for at in range(0, len(order), how.batch):
            part, step = order[at : at + how.batch], step + 1
            gradients = network.gradients(inputs[part], outputs[part])
            _step(network.weights, gradients, means, squares, step, how)
    return network


def _step(
    weights: list[Floats],
    gradients: list[Floats],
    means: list[Floats],
    squares: list[Floats],
    step: int,
    how: Training,
) -> None:
    """Take one step of AdamW: weights shrink by themselves, not through the gradient."""
    first, second = how.memories
    rate, unbiased = how.rate / (1 - first**step), 1 / np.sqrt(1 - second**step)
    for weight, slope, mean, square in zip(weights, gradients, means, squares, strict=True):
        # In place: new memory for each product takes longer than the products.
        mean *= first
        mean += np.multiply(slope, 1 - first, out=(scratch := np.empty_like(slope)))
        np.multiply(slope, slope, out=scratch)
        scratch *= 1 - second
        square *= second
        square += scratch
        np.sqrt(square, out=scratch)
        scratch *= np.float32(unbiased)
        scratch += how.least
        np.divide(mean, scratch, out=scratch)
        scratch *= rate
        weight *= 1 - how.rate * how.decay
        weight -= scratch


def _sigmoid(logits: Floats) -> Floats:
    """Odds as shares, without overflow."""
    return ((1 + np.tanh(logits / 2)) / 2).astype(np.float32)
