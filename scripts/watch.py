#!/usr/bin/env python3
"""Watch the turn that runs in a session, from any terminal, with nothing but `requests`.

    scripts/watch.py --token TOKEN SESSION

A line that breaks is taken up again after the last event seen. Exit status: 0 when the turn was seen to its
end, 1 when nothing runs in the session, 2 when the server refuses or cannot be reached.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import requests
import urllib3

TRIES = 5


def main() -> int:
    options = arguments()
    api = requests.Session()
    api.trust_env = False  # a netrc entry would take the token's place
    api.headers["Authorization"] = f"Bearer {options.token}"
    cursor, failures, seen = "", 0, False
    while failures < TRIES:
        try:
            for event in live(api, f"{options.url}/v1/sessions/{options.session}/live", cursor):
                cursor, failures, seen = f"{event['turn_id']}:{event['seq']}", 0, True
                show(event)
                if event["type"] in ("done", "error"):
                    return 0
        except LookupError:
            print("the turn is over" if seen else "nothing runs in this session", file=sys.stderr)
            return 0 if seen else 1
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing left to flush to
            return 0  # whoever read the output has had enough
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            print(f"[the line broke: {error}]", file=sys.stderr)
        time.sleep(0.5 * 2**failures)
        failures += 1
    print(f"{options.url} cannot be reached", file=sys.stderr)
    return 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Watch the turn that runs in a session.")
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--url", default="http://127.0.0.1:8300", help="default: %(default)s")
    parser.add_argument("--token", default=os.environ.get("TIMOTHY_API_TOKEN"), help="or TIMOTHY_API_TOKEN")
    options = parser.parse_args()
    if not options.token:
        parser.error("give --token, or set TIMOTHY_API_TOKEN (the server keeps its token in its home)")
    return options


def live(api: requests.Session, url: str, cursor: str) -> Iterator[dict[str, Any]]:
    """The events after `cursor`, until the connection ends. Raises LookupError when no turn runs."""
    with api.get(
        url,
        params={"after": cursor} if cursor else {},
        stream=True,
        timeout=(10, 60),  # a stream that lives says something at least every 20 seconds
    ) as response:
        refuse(response)
        rest = b""
        while chunk := response.raw.read1(65536):
            # Every event is a single `data:` line; a line that starts with `:` is a ping.
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(line[5:]) for line in lines if line.startswith(b"data:"))


def refuse(response: requests.Response) -> None:
    """Leave with the server's own words when it refused; a proxy whose server is away is a broken line."""
    if response.status_code < 300:
        return
    try:
        problem = response.json()
        code, words = problem["error"], problem["message"]
    except (ValueError, KeyError, TypeError):
        if response.status_code >= 500:
            response.raise_for_status()
        code, words = str(response.status_code), "this is not a Timothy server"
    if code == "no_active_turn":
        raise LookupError(code)
    print(f"{code}: {words}", file=sys.stderr)
    sys.exit(2)


def show(event: dict[str, Any]) -> None:
    """Text as it comes; everything else as a line of its own on standard error."""
    if event["type"] == "text_delta":
        print(event["text"], end="", flush=True)
        return
    rest = {name: value for name, value in event.items() if name not in ("type", "seq", "turn_id")}
    print(f"[{event['type']} {json.dumps(rest, ensure_ascii=False)}]", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
