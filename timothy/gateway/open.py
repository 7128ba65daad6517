"""Where the gateway is: in this process, or behind GATEWAY_URL."""

import os
from collections.abc import Mapping
from pathlib import Path

from timothy.config import Config, chain
from timothy.errors import StartError
from timothy.gateway.base import Gateway
from timothy.gateway.local import LocalGateway
from timothy.gateway.remote import RemoteGateway

URL_VARIABLE = "GATEWAY_URL"
TOKEN_VARIABLE = "TIMOTHY_GATEWAY_TOKEN"


def open_gateway(config: Config, home: Path, environment: Mapping[str, str] = os.environ) -> Gateway:
    """The gateway that `environment` names, else the configured chain in this process.

    Raises StartError for a GATEWAY_URL that cannot be used, ConfigError for an entry that cannot be.
    """
    url = environment.get(URL_VARIABLE, "")
    if not url:
        return LocalGateway(chain(config), home)
    if not url.startswith(("http://", "https://")):
        raise StartError(f"{URL_VARIABLE} must start with http:// or https://, is {url!r}")
    token = environment.get(TOKEN_VARIABLE, "")
    if not token:
        raise StartError(f"{URL_VARIABLE} is set, so {TOKEN_VARIABLE} must be: the gateway asks for it")
    return RemoteGateway(url, token)
