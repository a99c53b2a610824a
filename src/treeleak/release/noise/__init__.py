"""Laws of the noise on counts: what they are, as tables, and whether given noise is of one."""
