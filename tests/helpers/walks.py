"""How often a walk of a chain sees each table."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from helpers import examples
from treeleak.attacks import kernels
from treeleak.attacks.posterior import draw_kernels
from treeleak.attacks.posterior.chains import Chain
from treeleak.attacks.posterior.draw_kernels import Prior, room_for_gibbs, walk
from treeleak.attacks.posterior.target import PosteriorTarget
from treeleak.core import compiled
from treeleak.core.compiled import njit


def written(land: PosteriorTarget, atoms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of atoms in the model's columns, a value for each, and their classes."""
    first = np.searchsorted(land.values.atom_of, atoms + land.values.atom_start[:-1])
    X = land.values.rows(first[:, :-1], land.geometry.release.n_features)
    return X, atoms[:, -1].astype(int)


def _counting(sources: str) -> Any:
    """How often a walk sees each table of rows, as a loop that is kept on disk.

    Numba keeps it by what it closes over, too: not by the kernels that it calls, unless they are
    named so. A kernel that has changed is walked as it is now.
    """

    @njit()
    def visits(
        times: int, steps: int, heat: float, gap: float, state: Any, law: Any, ground: Any,
        moves: Any, prior: Any, belief: Any, room: Any, counts: Any,
    ) -> None:  # fmt: skip
        for _ in range(times if len(sources) else 0):
            walk(steps, heat, gap, state, law, ground, moves, prior, belief, room, None)
            number = 0
            for row in state.atoms:
                for a in range(len(row)):
                    number = number * ground.radix[a] + row[a]
            counts[number] += 1

    return visits


def digest(*modules: ModuleType) -> str:
    """What stands in these modules, and in those next to them."""
    files = {file for m in modules for file in Path(m.__file__ or "").parent.glob("*.py")}
    return sha256(b"".join(file.read_bytes() for file in sorted(files))).hexdigest()


_visits = _counting(digest(draw_kernels, kernels, compiled))


def frequencies(
    land: PosteriorTarget, prior: Prior, gap: float, heat: float = 1.0, fresh: float = 0.0,
    times: int = 100_000, enough: Callable[[np.ndarray], bool] | None = None,
) -> np.ndarray:  # fmt: skip
    """How often a long walk sees each table of rows, in the order of their atoms.

    Where only a share of all examples is tried, a walk ends early where it has seen ``enough``.
    Chance takes a short walk away from the posterior: what is near after an eighth of the way is
    no luck, and a walk that goes wrong has to go the whole way.
    """
    chain = Chain.started(land, prior, 1)
    counts = np.zeros(int(np.prod(land.radix)) ** land.n_rows, dtype=np.int64)
    # As many of each kind: an error in one of them shows.
    swaps = 0.3 if land.moves.swaps else 0.0
    jumps = 0.35 if land.moves.jumps else 0.0
    moves = land.moves._replace(swaps=swaps, jumps=jumps, fresh=fresh)
    law = land.likelihood.law
    law = law._replace(every=3 if law.every else 0)
    kernel = (
        chain.state,
        law,
        land.grid,
        moves,
        chain.prior,
        chain.hierarchy._replace(every=0),
        room_for_gibbs(land.radix) if moves.gibbs_share else None,
    )
    done = 0
    for part in (8, 4, 2, 1) if enough and (examples.SHARE < 1 or examples.only_fast) else (1,):
        _visits(times // part - done, 2 * land.n_rows, heat, gap, *kernel, counts)
        done = times // part
        if enough and enough(counts / done):
            break
    return counts / done
