"""Other tools for disclosure control: what they write is read, and what they read is written."""
