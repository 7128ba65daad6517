"""One turn as a machine without IO: what it is fed, what it asks for, and what it leaves."""
