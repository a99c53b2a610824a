"""What tests ask again with the same question is answered once in each process."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any

KEPT = 16
"""Answers of each function: those of the fixtures that tests at work share."""


def once(function: Callable[..., Any], *, kept: int = KEPT) -> Callable[..., Any]:
    """Keep the last answers of a function that follow from its arguments alone."""
    answers: OrderedDict[bytes, Any] = OrderedDict()

    @wraps(function)
    def answered(*given: Any, **options: Any) -> Any:
        try:
            question = pickle.dumps((given, options))
        except Exception:  # Some values refuse to leave the process.
            return function(*given, **options)
        if question not in answers:
            answers[question] = function(*given, **options)
        answers.move_to_end(question)
        while len(answers) > kept:
            answers.popitem(last=False)
        return answers[question]

    return answered
