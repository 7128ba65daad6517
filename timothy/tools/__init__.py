"""What an assistant can do besides talking: one module is one tool, found by its module's name."""
