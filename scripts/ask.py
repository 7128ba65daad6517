#!/usr/bin/env python3
"""Ask a Timothy server one question and print the answer as it comes, with nothing but `requests`.

    scripts/ask.py --token TOKEN "What is the capital of France?"

The session's id goes to standard error first, so that another terminal can watch or stop the turn. Exit
status: 0 for an answer (also one that the model cut short), 1 for a failed or stopped turn, 2 for anything
that kept the question from being asked.
"""

import argparse
import json
import os
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import requests
import urllib3


def main() -> int:
    options = arguments()
    api = requests.Session()
    api.trust_env = False  # a netrc entry would take the token's place
    api.headers["Authorization"] = f"Bearer {options.token}"
    try:
        session = options.session or created(api, options.url)
        print(f"session {session}", file=sys.stderr)
        with asked(api, options, session) as response:
            return shown(events(response))
    except requests.RequestException as error:
        sys.exit(f"{options.url} cannot be reached: {error}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Ask one question and print the answer as it comes.")
    parser.add_argument("message")
    parser.add_argument("--url", default="http://127.0.0.1:8300", help="default: %(default)s")
    parser.add_argument("--token", default=os.environ.get("TIMOTHY_API_TOKEN"), help="or TIMOTHY_API_TOKEN")
    parser.add_argument("--session", metavar="ID", help="go on in this session; default: a new one")
    parser.add_argument("--model", metavar="ID", help="one of GET /v1/models; default: the configured chain")
    options = parser.parse_args()
    if not options.token:
        parser.error("give --token, or set TIMOTHY_API_TOKEN (the server keeps its token in its home)")
    return options


def created(api: requests.Session, url: str) -> str:
    response = api.post(f"{url}/v1/sessions", json={}, timeout=30)
    checked(response)
    return str(response.json()["id"])


def asked(api: requests.Session, options: argparse.Namespace, session: str) -> requests.Response:
    body = {"message": options.message, **({"model": options.model} if options.model else {})}
    response = api.post(
        f"{options.url}/v1/sessions/{session}/messages",
        json=body,
        headers={"Idempotency-Key": str(uuid.uuid4())},
        stream=True,
        timeout=(10, 60),  # a stream that lives says something at least every 20 seconds
    )
    checked(response)
    return response


def shown(stream: Iterator[dict[str, Any]]) -> int:
    """Print the turn; the exit status that its end stands for."""
    for event in stream:
        match event["type"]:
            case "text_delta":
                print(event["text"], end="", flush=True)
            case "status" | "retry" | "failover" | "incomplete":
                print(f"[{event['type']}: {event.get('message') or event}]", file=sys.stderr)
            case "error":
                print(f"\n[{event['code']}: {event['message']}]", file=sys.stderr)
                return 1
            case "done":
                print()
                return 0
    print("\n[the line was cut; the turn goes on: watch it with watch.py]", file=sys.stderr)
    return 1


def events(response: requests.Response) -> Iterator[dict[str, Any]]:
    """The events of a stream. Every one is a single `data:` line; a line that starts with `:` is a ping."""
    rest = b""
    try:
        while chunk := response.raw.read1(65536):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (json.loads(line[5:]) for line in lines if line.startswith(b"data:"))
    except (urllib3.exceptions.HTTPError, OSError) as error:
        print(f"\n[{error}]", file=sys.stderr)


def checked(response: requests.Response) -> None:
    """Leave with the server's own words when it refused."""
    if response.status_code < 300:
        return
    try:
        problem = response.json()
        words = f"{problem['error']}: {problem['message']}"
    except (ValueError, KeyError, TypeError):
        words = f"{response.status_code} {response.reason}: this is not a Timothy server"
    print(words, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.exit(main())
