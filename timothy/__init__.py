"""What a turn is: the domain of a self-hosted AI assistant that never loses one."""

__version__ = "0.1.0"
