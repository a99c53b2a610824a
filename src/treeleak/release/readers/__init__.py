"""Files, read as data: nothing that is in them runs. One module for each format."""
