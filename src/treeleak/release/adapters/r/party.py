"""Conditional inference trees (ctree) of R's party and partykit."""
