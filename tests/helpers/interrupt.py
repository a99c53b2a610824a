"""A user who interrupts."""

from __future__ import annotations

import signal
from collections.abc import Callable

from treeleak.core.clock import Progress


class Interrupt:
    """Hears of progress, and presses Ctrl-C once."""

    def __init__(self, when: Callable[[Progress], object] = lambda _: True) -> None:
        self.when = when
        self.sent: list[Progress] = []

    def __call__(self, progress: Progress) -> None:
        if not self.sent and self.when(progress):
            self.sent.append(progress)
            signal.raise_signal(signal.SIGINT)
