"""The embedded model: its weights, which file is in use, and the process that runs it."""
