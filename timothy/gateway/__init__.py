"""The gateway: chain, failover, cooling; in this process or behind HTTP."""
