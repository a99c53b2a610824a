"""The attack on a bootstrap whose draws are known: rows are numbered."""
