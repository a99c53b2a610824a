"""Bits of machine words, in one instruction each, for compiled loops."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def lowest_bit(_typing: Any, x: Any) -> Any:
    """Number of the lowest bit that is set; of no use for 0."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], context.get_constant(types.boolean, 1))

    return types.int64(x), code


@intrinsic  # type: ignore[untyped-decorator]
def count_bits(_typing: Any, x: Any) -> Any:
    """How many bits are set."""

    def code(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(x), code
