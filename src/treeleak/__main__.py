"""``python -m treeleak``."""

from treeleak.cli import main

if __name__ == "__main__":
    main()
