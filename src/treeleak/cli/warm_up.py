"""``treeleak warm-up``."""

from __future__ import annotations

from treeleak.cli.application import app
from treeleak.cli.files import say

_NONE = (
    "treeleak: nothing was kept, as no folder can be written: let NUMBA_CACHE_DIR name one that can"
)


@app.command("warm-up")
def warm_up() -> None:
    """Compile the loops of all attacks, so that no later command has to."""
    from treeleak.core.compiled import stored_in
    from treeleak.warm_up import compile_all_loops

    say("treeleak: compiling: about 80 s of processor time, unless it was done before")
    compile_all_loops()
    say(
        f"treeleak: what was compiled is kept in folders like {stored_in()}"
        if stored_in()
        else _NONE
    )
