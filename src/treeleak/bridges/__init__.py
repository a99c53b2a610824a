"""Other tools for disclosure control: reading and writing their files."""
