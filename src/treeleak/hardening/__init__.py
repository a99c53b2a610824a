"""Changes to a trained model's file that reduce what it discloses, without training again."""

from __future__ import annotations

from treeleak.hardening.answers import Answers
from treeleak.hardening.files.document import Step
from treeleak.hardening.folders import HardenedFolder, harden_folder
from treeleak.hardening.result import Hardened, Leak, State
from treeleak.hardening.run import harden
from treeleak.hardening.steps import DEFAULT, STEPS, parse_steps

__all__ = [
    "DEFAULT",
    "STEPS",
    "Answers",
    "Hardened",
    "HardenedFolder",
    "Leak",
    "State",
    "Step",
    "harden",
    "harden_folder",
    "parse_steps",
]
