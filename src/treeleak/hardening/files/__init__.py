"""One module for each file format that is hardened as data: what it holds, and what can go."""
