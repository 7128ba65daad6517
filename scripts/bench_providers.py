"""Events parsed per second on each provider's wire, against `json.loads` per line in the same run."""

import subprocess
import sys

import environment


def main() -> None:
    """Measure, print, and exit with 1 when a wire is slower than half of the floor."""
    command = [str(environment.prepare("test")), "-m", "tests.providers.parsing_speed"]
    sys.exit(subprocess.run(command, cwd=environment.ROOT).returncode)


if __name__ == "__main__":
    main()
