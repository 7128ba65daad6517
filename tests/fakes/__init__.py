"""Stand-ins for what Timothy talks to: real sockets, behaviour on order, and a log to assert on."""
