"""Sums: exact where they can be, and nothing else."""

import pytest

from timothy.tools.calculate import evaluate, shown


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("6*7", "42"),
        ("0.1 + 0.2", "0.3"),
        ("2^10", "1024"),
        ("2**-1", "0.5"),
        ("-2**2", "-4"),
        ("10**20 / 10", "10000000000000000000"),
        ("7 / 2", "3.5"),
        ("7 // 2", "3"),
        ("-7 % 3", "2"),
        ("6 / 3", "2"),
        ("(3 + 4) * 2 ** 10 / sqrt(2)", "5068.54140754517"),
        ("sqrt(16) + cbrt(27)", "7"),
        ("sin(pi / 2)", "1"),
        ("degrees(pi)", "180"),
        ("log(8, 2)", "3"),
        ("round(2.567, 2)", "2.57"),
        ("round(1234, -2) + round(2.5)", "1202"),
        ("max(1, 2, 3) - min([4, 5])", "-1"),
        ("sum([1, 2, 3.5])", "6.5"),
        ("factorial(20)", "2432902008176640000"),
        ("comb(52, 5)", "2598960"),
        ("gcd(12, 18) + lcm(4, 6)", "18"),
        ("1e3", "1000"),
        ("0xff + 0b11", "258"),
        ("1_000_000", "1000000"),
        (" 1 +\t1 ", "2"),
        ("2**9999", str(2**9999)),
    ],
)
def test_a_sum_has_its_value(expression: str, value: str) -> None:
    assert shown(evaluate(expression)) == value
