"""Providers: one module per wire format, and the framers that cut bytes into frames."""
