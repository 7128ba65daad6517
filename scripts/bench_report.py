"""What a benchmark says: figures side by side, then each target with its verdict."""

from dataclasses import dataclass, field


@dataclass
class Report:
    """Prints as it learns. `missed` are the targets that were not met."""

    missed: list[str] = field(default_factory=list)
    _targets: list[str] = field(default_factory=list)

    def title(self, text: str) -> None:
        """A new part begins."""
        print(f"\n{text}", flush=True)

    def figure(self, name: str, value: float, unit: str) -> None:
        """One number that stands alone."""
        print(f"  {name:<44}{_short(value):>10} {unit}", flush=True)

    def pair(self, name: str, floor: float, product: float, unit: str) -> float:
        """The same figure of both; returns product / floor."""
        ratio = product / floor if floor else float("inf")
        print(f"  {name:<44}{_short(floor):>10}{_short(product):>10} {unit:<12} x {ratio:.2f}", flush=True)
        return ratio

    def at_least(self, name: str, value: float, least: float) -> None:
        """A target from below."""
        self._judge(value >= least, f"{name}: {value:.2f}, at least {least:g}")

    def at_most(self, name: str, value: float, most: float) -> None:
        """A target from above."""
        self._judge(value <= most, f"{name}: {value:.2f}, at most {most:g}")

    def verdict(self) -> int:
        """Print every target; the exit status."""
        print("\ntargets")
        print("\n".join(self._targets), flush=True)
        return 1 if self.missed else 0

    def _judge(self, met: bool, text: str) -> None:
        self._targets.append(f"  {'pass' if met else 'MISS'}  {text}")
        if not met:
            self.missed.append(text)


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
