"""What is in the documents that treeleak reads and writes: one module for each, of structs alone.

The JSON Schemas in this folder follow from them: ``python -m treeleak.formats.published``.
"""
