"""Folders and archives around models: what is in them, layout by layout."""
