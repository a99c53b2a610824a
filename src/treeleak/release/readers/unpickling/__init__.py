"""Turn pickle and joblib files into archives of plain arrays, in a process of its own.

That process finds these modules alone, and standard library and numpy: an isolated interpreter need
not find the package that they belong to.
"""
