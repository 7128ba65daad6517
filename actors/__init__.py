"""Who owns what and who tells whom: the actors that run turns."""
