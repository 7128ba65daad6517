"""The tool that calculates: an expression's tree, evaluated over a short list of operations, each bounded."""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from timothy.cancel import Cancel
from timothy.tools.base import Context, Danger, ToolError

Number = int | float

MAX_LENGTH = 1_000
MAX_BITS = 10_000
MAX_COUNT = 1_000


class Calculate:
    """Arithmetic, exact for whole numbers up to about three thousand digits."""

    name = "calculate"
    description = (
        "The value of an arithmetic expression. Has + - * / // % ** (^ is a power too), parentheses, pi, e,"
        " tau; sqrt, cbrt, exp, log (natural, or log(x, base)), log2, log10, sin, cos, tan, asin, acos, atan,"
        " atan2, sinh, cosh, tanh, degrees, radians, floor, ceil, trunc, round, abs, min, max, sum, hypot,"
        " gcd, lcm, factorial, comb, perm. Angles are in radians."
    )
    danger: Danger = "read"
    native = True
    schema = {
        "type": "object",
        "properties": {
            "expression": {
                "type": "string",
                "description": "Such as (3 + 4) * 2 ** 10 / sqrt(2)",
                "minLength": 1,
                "maxLength": MAX_LENGTH,
            }
        },
        "required": ["expression"],
        "additionalProperties": False,
    }

    def subject(self, input: dict[str, Any]) -> str:
        return "numbers"

    def rationale(self, input: dict[str, Any]) -> str:
        return f"Calculates {input['expression'][:200]}, which changes nothing."

    def run(self, input: dict[str, Any], context: Context, cancel: Cancel) -> str:
        if cancel.cancelled:
            raise ToolError("cancelled")
        return shown(evaluate(input["expression"]))


def evaluate(expression: str) -> Number:
    """The value of `expression`. Raises ToolError for anything but bounded arithmetic."""
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
        return _value(tree.body)
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ToolError(f"{expression[:200]!r} is no arithmetic expression that can be read") from error
    except ZeroDivisionError as error:
        raise ToolError("a division by zero") from error
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(f"cannot be calculated: {error}") from error


def shown(value: Number) -> str:
    """Whole numbers in full, others with 15 digits, so that 0.1 + 0.2 is 0.3."""
    return str(value) if isinstance(value, int) else f"{value:.15g}"


def _bounded(value: Number) -> Number:
    if isinstance(value, complex):
        raise ToolError("the result is no real number")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ToolError(f"the number has more than {MAX_BITS * 3 // 10} digits")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and base.bit_length() * abs(exponent) > MAX_BITS * 2
    ):
        raise ToolError(f"the power has more than {MAX_BITS * 3 // 10} digits")
    result: Number = base**exponent
    return result


def _divided(dividend: Number, divisor: Number) -> Number:
    if isinstance(dividend, int) and isinstance(divisor, int) and divisor and dividend % divisor == 0:
        return dividend // divisor
    return dividend / divisor


def _counted(function: Callable[..., int]) -> Callable[..., int]:
    """`function` for arguments up to MAX_COUNT only: its cost grows with them, not with their digits."""

    def limited(*values: int) -> int:
        if any(value > MAX_COUNT for value in values):
            raise ToolError(f"{function.__name__} is limited to arguments up to {MAX_COUNT}")
        return function(*values)

    return limited


def _round(value: Number, digits: int = 0) -> Number:
    """Python's round, whose cost grows with the number of digits; with none given, a whole number."""
    if abs(digits) > MAX_COUNT:
        raise ToolError(f"round is limited to {MAX_COUNT} digits")
    return round(value, digits) if digits else round(value)


def _sum(*values: Number) -> Number:
    return sum(values)


_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_UNARY: dict[type, Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_BINARY: dict[type, Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divided,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_PLAIN = """
    sqrt cbrt exp log log2 log10 sin cos tan asin acos atan atan2 sinh cosh tanh degrees radians floor
    ceil trunc hypot gcd lcm
"""
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    **{name: getattr(math, name) for name in _PLAIN.split()},
    **{name: _counted(getattr(math, name)) for name in ("factorial", "comb", "perm")},
    "abs": abs,
    "round": _round,
    "min": min,
    "max": max,
    "sum": _sum,
}


def _value(node: ast.expr) -> Number:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return _bounded(value)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*_arguments(args)))
    raise ToolError(
        f"{ast.unparse(node)[:100]!r} is not offered here; only arithmetic and the named functions are"
    )


def _arguments(nodes: list[ast.expr]) -> list[Number]:
    """The call's arguments; one list or tuple is taken for its elements, as in sum([1, 2])."""
    if len(nodes) == 1 and isinstance(nodes[0], ast.List | ast.Tuple):
        nodes = nodes[0].elts
    return [_value(node) for node in nodes]


TOOL = Calculate()
