"""The stories' servers and their fake provider, for checks of the promises at their edges."""

from tests.stories.conftest import forgetful, hasty, provider, server, servers, shared_servers

__all__ = ["forgetful", "hasty", "provider", "server", "servers", "shared_servers"]
