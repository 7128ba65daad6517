"""The promises, one a file, over real HTTP with real server processes."""
