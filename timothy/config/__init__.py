"""What can be configured, and how it is read."""

from timothy.config.reading import default_home, load, seconds
from timothy.config.tables import (
    EMBEDDED,
    Config,
    DriverName,
    McpServer,
    Notifications,
    ProviderSettings,
    Server,
    Titles,
    Tools,
    chain,
)

__all__ = [
    "Config",
    "DriverName",
    "EMBEDDED",
    "McpServer",
    "Notifications",
    "ProviderSettings",
    "Server",
    "Titles",
    "Tools",
    "chain",
    "default_home",
    "load",
    "seconds",
]
