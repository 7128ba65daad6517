"""The floor of the benchmark: a server that passes the provider's bytes on, and does nothing else.

As a process: `bench_floor.py PROVIDER_PORT` prints its port and serves until it is killed. It stands on what
the product stands on: Flask under gevent's server, requests for the provider.
"""

from gevent import monkey

monkey.patch_all()

import sys  # noqa: E402
from collections.abc import Iterator  # noqa: E402

import requests  # noqa: E402
from flask import Flask, Response, request  # noqa: E402
from gevent.pywsgi import WSGIServer  # noqa: E402


def create_app(provider: str) -> Flask:
    """`POST /stream` pipes the provider's answer to the request's body."""
    app = Flask("floor")

    @app.post("/stream")
    def stream() -> Response:
        answer = requests.post(provider, data=request.get_data(), stream=True, timeout=300)
        return Response(_pipe(answer), content_type="text/event-stream")

    @app.get("/health")
    def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def _pipe(answer: requests.Response) -> Iterator[bytes]:
    while data := answer.raw.read1(65536):
        yield data


def main() -> None:
    """Print the port, then serve."""
    app = create_app(f"http://127.0.0.1:{sys.argv[1]}/v1/chat/completions")
    server = WSGIServer(("127.0.0.1", 0), app, log=None)
    server.start()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
