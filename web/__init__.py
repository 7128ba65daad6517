"""HTTP and the page."""
