"""How good and how fast attacks, audits and the gate are, beside floors and published figures."""
