"""Code for readers, run with less time: what it says stays the same, how sure it is does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import pytest

import treeleak
from treeleak.attacks.exact import posterior_under_learned_prior
from treeleak.attacks.known_draws import posterior_of_assignments
from treeleak.attacks.posterior import hidden_draws, noisy_counts, walks
from treeleak.auditing.assessors import baselines

SHORT = {"chains": 4, "cooling": 5, "between": 5, "samples": 8}
SECONDS = 3.0
"""Of each attack and audit, on a busy machine, too; answers that are proved take less."""


def hurried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Set a time limit, or cut the one that is asked for."""

    @wraps(function)
    def in_less_time(*given: Any, **options: Any) -> Any:
        asked = options.pop("time_limit", SECONDS)
        return function(*given, time_limit=min(asked, SECONDS), **options)

    return in_less_time


def walk_less(patch: pytest.MonkeyPatch) -> None:
    """Let audits of noise guess a few times from the shape of the trees, and walk half as long.

    A dozen guesses, each as dear as the attack, tell better how much they differ. Longer walks err
    a little less on tables larger than those of tests.
    """
    patch.setattr(baselines, "N_GUESSES", 4)
    short = replace(noisy_counts._PLAN, cooling=8, between=12)
    patch.setattr(noisy_counts, "_PLAN", short)
    few_chains(patch)


def walk_little(patch: pytest.MonkeyPatch) -> None:
    """Let every attack that walks do so for as long as an answer of its kind takes.

    For tests of what is said and written of answers, or of what goes into them: how near rows come
    to the truth is for tests of the attacks.
    """
    walk_less(patch)
    patch.setattr(baselines, "N_GUESSES", baselines.FEWEST)
    patch.setattr(walks, "_TRIAL", 2_000)
    for attack, name, changed in (
        (hidden_draws, "_PLAN", {"chains": 4, "cooling": 6, "fits": 2, "samples": 8}),
        (hidden_draws, "_LONG", {"chains": 4, "cooling": 12, "fits": 2, "samples": 8}),
        (noisy_counts, "_GUESSING", {"chains": 3, "samples": 8}),
        (noisy_counts, "_PLAN", {"chains": 4}),
        (posterior_of_assignments, "_PLAN", {"cooling": 16}),
        (posterior_of_assignments, "_NEAR", {"between": 12}),
        (posterior_under_learned_prior, "PLAN", SHORT),
    ):
        patch.setattr(attack, name, replace(getattr(attack, name), **changed))


def few_chains(patch: pytest.MonkeyPatch) -> None:
    """Let known draws that leave several datasets walk with as few chains as tell of them.

    They take a third of the time. How near rows come to the truth is for tests of that.
    """
    for plan in ("_PLAN", "_NEAR"):
        fewer = replace(
            getattr(posterior_of_assignments, plan), chains=posterior_of_assignments._LEAST_CHAINS
        )
        patch.setattr(posterior_of_assignments, plan, fewer)


def hurry(patch: pytest.MonkeyPatch) -> None:
    """Let what follows ask for less time, and for fewer guesses and chains."""
    for name in ("reconstruct", "audit"):
        patch.setattr(treeleak, name, hurried(getattr(treeleak, name)))
    patch.setattr(baselines, "N_GUESSES", baselines.FEWEST)
    for attack, name in (
        (hidden_draws, "_PLAN"),
        (noisy_counts, "_PLAN"),
        (noisy_counts, "_GUESSING"),
    ):
        patch.setattr(attack, name, replace(getattr(attack, name), chains=2))
