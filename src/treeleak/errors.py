"""What can go wrong, as users meet it."""

from treeleak.core.errors import *  # noqa: F403
from treeleak.core.errors import __all__  # noqa: F401
