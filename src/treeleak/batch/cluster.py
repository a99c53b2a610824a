"""Calls on a cluster of Dask; a call whose worker dies is sent to another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from treeleak.core.errors import BadInput

PATIENCE = 20.0
"""Seconds to wait for a scheduler."""


def on_cluster(
    function: Callable[..., Any], arguments: Sequence[Sequence[Any]], address: str, stack: ExitStack
) -> Iterator[tuple[int, Any, str | None]]:
    """Send calls to a cluster, and give what they return as it comes.

    Parameters
    ----------
    function : callable
    arguments : sequence of sequences
        Of each call.
    address : str
        Of the scheduler.
    stack : ExitStack
        When it is left, what has not begun is taken back.

    Yields
    ------
    tuple
        Number of the call, what it returned, and why it returned nothing.

    Raises
    ------
    BadInput
        If Dask is not installed, or no scheduler answers.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise BadInput("a cluster needs Dask: pip install 'treeleak[cluster]'") from None
    try:
        client = stack.enter_context(Client(address, timeout=PATIENCE))
    except (OSError, ValueError) as error:
        raise BadInput(f"{address}: no Dask scheduler answers there ({error})") from error
    # Pure, so that a call that was made twice after a lost worker is the same call.
    columns = list(map(list, zip(*arguments, strict=True)))
    futures = client.map(function, *columns, pure=True) if columns else []
    number_of = {future.key: k for k, future in enumerate(futures)}

    def results() -> Iterator[tuple[int, Any, str | None]]:
        for future in as_completed(futures):
            k = number_of[future.key]
            if future.status == "finished":
                yield k, future.result(), None
            else:
                yield k, None, str(future.exception())

    stack.callback(lambda: _cancelled(client, futures))
    return results()


def _cancelled(client: Any, futures: Sequence[Any]) -> None:
    with suppress(Exception):
        client.cancel([f for f in futures if not f.done()])
