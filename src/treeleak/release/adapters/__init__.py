"""Models of other libraries made releases: one module for each library."""
