"""Telling a person who watches nothing: a webhook or an ntfy topic, when a turn ends or waits."""

import logging

import requests

from actors.base import BaseActor
from actors.messages import Notify
from timothy.config import Notifications

logger = logging.getLogger(__name__)

TIMEOUT_S = 10
_TITLES = {
    "completed": "Timothy answered",
    "incomplete": "Timothy's answer was cut short",
    "waiting": "Timothy waits for you",
    "stopped": "Timothy was stopped",
}


class Notifier(BaseActor):
    """Calls the configured addresses; a failure is logged and costs no turn anything."""

    def __init__(self, settings: Notifications) -> None:
        super().__init__()
        self._settings = settings

    def on_receive(self, message: Notify) -> None:
        if self._settings.webhook:
            body = {name: getattr(message, name) for name in message.__slots__}
            self._call(self._settings.webhook, json=body)
        if self._settings.ntfy:
            title = _TITLES.get(message.event, "A turn of Timothy failed")
            self._call(self._settings.ntfy, data=message.text.encode(), headers={"Title": title})

    def _call(self, address: str, **request: object) -> None:
        try:
            answer = requests.post(address, timeout=TIMEOUT_S, **request)  # type: ignore[arg-type]
            answer.raise_for_status()
        except requests.RequestException as error:
            logger.warning("the notification to %s failed: %s", address, error)
