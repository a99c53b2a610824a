"""What no attack can exceed: a bound from how many bits a model holds (docs/bound.md)."""

from treeleak.bound.theorem import Bound, bound_of, smallest_excess

__all__ = ["Bound", "bound_of", "smallest_excess"]
