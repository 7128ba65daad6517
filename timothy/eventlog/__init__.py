"""The log: what is written about a session, by whom, and the two ways to read it."""
