"""An MCP server for tests (stdio, JSON-RPC by hand), as bad as it is told to be.

Its one argument is a file with a JSON object: `tools` (as `tools/list` shows them), `noise` (so many lines
on standard output that are no JSON-RPC), `hang` (a method that gets no answer), `die` (a method at which the
process ends), `result` (what a call answers; without it, the arguments as JSON; `times` over).
Protocol: https://modelcontextprotocol.io/specification
"""

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_bytes())
    for _ in range(plan.get("noise", 0)):
        sys.stdout.buffer.write(b"starting up ... {not json \xff\xfe\n")
        sys.stdout.flush()
    for line in sys.stdin:
        question = json.loads(line)
        method = question.get("method")
        if method == plan.get("die"):
            os._exit(3)
        if "id" in question and method != plan.get("hang"):
            said = {"jsonrpc": "2.0", "id": question["id"], **answer(plan, method, question)}
            print(json.dumps(said), flush=True)


def answer(plan: dict[str, Any], method: str, question: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            version = question["params"]["protocolVersion"]
            return {
                "result": {
                    "protocolVersion": version,
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "bad", "version": "1"},
                }
            }
        case "tools/list":
            return {"result": {"tools": plan.get("tools", [])}}
        case "tools/call":
            text = plan.get("result", json.dumps(question["params"].get("arguments"))) * plan.get("times", 1)
            return {"result": {"content": [{"type": "text", "text": text}]}}
    return {"error": {"code": -32601, "message": f"no method {method}"}}


if __name__ == "__main__":
    main()
