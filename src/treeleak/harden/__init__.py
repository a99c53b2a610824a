"""Changes to a trained model's file that reduce what it gives away, without training again."""

from __future__ import annotations

from treeleak.harden.answers import Answers
from treeleak.harden.retrain import Alternative, Retraining
from treeleak.harden.run import Hardened, Leak, State, harden
from treeleak.harden.steps import DEFAULT, STEPS, Step, parse_steps

__all__ = [
    "DEFAULT",
    "STEPS",
    "Alternative",
    "Answers",
    "Hardened",
    "Leak",
    "Retraining",
    "State",
    "Step",
    "harden",
    "parse_steps",
]
