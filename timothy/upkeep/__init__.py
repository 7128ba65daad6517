"""Keeping the log: checking it, copying it, taking it elsewhere."""
