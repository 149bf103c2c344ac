"""Constraints of tuning spaces, in Python's or muParser's syntax."""

from __future__ import annotations

import ast
import math
import re
from typing import Mapping

_FUNCTIONS = {"min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "mod": math.fmod,
              "ceildiv": lambda a, b: math.ceil(a / b)}
_ALLOWED = (ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Name, ast.Load, ast.Constant,
            ast.operator, ast.unaryop, ast.boolop, ast.cmpop)


def holds(constraint: str, names: Mapping[str, object]) -> bool:
    """Whether a constraint is true. ValueError: it has another construct than arithmetic, comparisons and calls."""
    python = re.sub(r"!(?!=)", " not ", constraint.replace("&&", " and ").replace("||", " or ").replace("^", "**"))
    tree = ast.parse(python.strip(), mode="eval")
    if not all(isinstance(node, _ALLOWED) for node in ast.walk(tree)):
        raise ValueError(f"constraint: {constraint!r} is not made of arithmetic, comparisons and calls")
    try:
        return bool(eval(compile(tree, "constraint", "eval"), {"__builtins__": {}}, {**_FUNCTIONS, **names}))
    except ArithmeticError:
        return False
