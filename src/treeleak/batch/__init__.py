"""Many commands, one after another or side by side, each a process of its own."""
