"""treeleak as one of SACRO-ML's attacks. Needs the package sacroml; nothing else here does.

``python -m treeleak.bridges.sacro_attack TARGET ATTACKS.yaml`` runs what ``sacroml run`` runs, and
knows the attack ``treeleak`` besides.
"""

from __future__ import annotations

import sys
from typing import Any

from treeleak.auditing import Audit, audit
from treeleak.bridges.sacro_report import ATTACK_NAME, global_metrics, structural
from treeleak.core.errors import BadInput, TreeleakError
from treeleak.release import to_release

try:
    from sacroml.attacks import factory
    from sacroml.attacks.attack import Attack
except ImportError:
    factory, Attack = None, object

NAME = "treeleak"


class TreeleakAttack(Attack):  # type: ignore[misc]
    """Rebuilds the training rows of a target's tree model, and compares them with the rows.

    Parameters
    ----------
    output_dir : str
        Where the report goes.
    write_report : bool
    time_limit : float
        Seconds.
    seed : int
    """

    def __init__(
        self,
        output_dir: str = "outputs",
        write_report: bool = True,
        time_limit: float = 60,
        seed: int = 0,
    ) -> None:
        super().__init__(output_dir=output_dir, write_report=write_report)
        self.time_limit = time_limit
        self.seed = seed
        self.result: Audit | None = None

    def __str__(self) -> str:
        """Name the attack."""
        return ATTACK_NAME

    @classmethod
    def attackable(cls, target: Any) -> bool:
        """Say whether a target holds a tree model that treeleak knows."""
        if not target.has_model():
            return False
        try:
            to_release(target.model.model)
        except TreeleakError:
            return False
        return True

    def _attack(self, target: Any) -> dict[str, Any]:
        rows = target.X_train is not None
        self.result = audit(
            target.model.model,
            target.X_train,
            target.y_train if rows else None,
            control=target.X_test if rows else None,
            control_y=target.y_test if rows else None,
            time_limit=self.time_limit,
            seed=self.seed,
        )
        output: dict[str, Any] = self._make_report(target)
        self._write_report(output)
        return output

    def _construct_metadata(self) -> None:
        super()._construct_metadata()
        if self.result is not None:
            self.metadata["global_metrics"] = global_metrics(self.result.document())

    def _get_attack_metrics_instances(self) -> dict[str, Any]:
        if self.result is None:
            return {}
        document = self.result.document()
        self.attack_metrics = global_metrics(document) | structural(document)
        return {"attack_instance_logger": {"instance_0": self.attack_metrics}}

    def _make_pdf(self, output: dict[str, Any]) -> None:
        """Leave the report to ``treeleak audit --report``: it is a page."""


def register() -> None:
    """Let SACRO-ML's attack files name the attack ``treeleak``."""
    if factory is None:
        raise BadInput("sacroml is not installed here: treeleak audit reads its target folders")
    factory.registry[NAME] = TreeleakAttack


if __name__ == "__main__":
    register()
    factory.run_attacks(*sys.argv[1:3])
