#!/usr/bin/env python3
"""Stop the turn that runs in a session, from any terminal, with nothing but `requests`.

    scripts/stop.py --token TOKEN SESSION

Exit status: 0 when the turn was stopped (or is stopping), 1 when nothing runs in the session, 2 when the
server refuses or cannot be reached.
"""

import argparse
import os
import sys

import requests


def main() -> int:
    options = arguments()
    api = requests.Session()
    api.trust_env = False  # a netrc entry would take the token's place
    api.headers["Authorization"] = f"Bearer {options.token}"
    try:
        response = api.post(
            f"{options.url}/v1/sessions/{options.session}/stop",
            json={"turn_id": options.turn} if options.turn else {},
            timeout=30,
        )
        answer = response.json()
    except requests.RequestException as error:  # an answer that is no JSON is one of these too
        print(f"{options.url} cannot be reached, or is not a Timothy server: {error}", file=sys.stderr)
        return 2
    if response.status_code < 300:
        print(f"turn {answer['turn_id']}: {answer.get('outcome') or answer['state']}")
        return 0
    print(f"{answer.get('error')}: {answer.get('message')}", file=sys.stderr)
    return 1 if answer.get("error") == "no_active_turn" else 2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Stop the turn that runs in a session.")
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("--turn", metavar="ID", help="only if this is the turn that runs")
    parser.add_argument("--url", default="http://127.0.0.1:8300", help="default: %(default)s")
    parser.add_argument("--token", default=os.environ.get("TIMOTHY_API_TOKEN"), help="or TIMOTHY_API_TOKEN")
    options = parser.parse_args()
    if not options.token:
        parser.error("give --token, or set TIMOTHY_API_TOKEN (the server keeps its token in its home)")
    return options


if __name__ == "__main__":
    sys.exit(main())
