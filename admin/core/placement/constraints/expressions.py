"""Expressions: texts such as `cost_per_node_hour * job.nodes`, read and checked once and evaluated for many clusters.

They are written as in Python and evaluated by simpleeval, which walks the syntax tree. Only what `_NODES` lists is
read: there are no loops, assignments, attributes or calls but those of `FUNCTIONS`, so that the length bounds the work.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from simpleeval import EvalWithCompoundTypes

from admin.core.problems import closest, did_you_mean, shorten

Value = bool | int | float | str
MOST_CHARACTERS = 500
MOST_NESTED = 24
#: Larger numbers are refused, so that what follows from them stays finite.
LARGEST = 1e300
#: Names whose fields are named with a dot, or in brackets where they are no words.
_PREFIXES = ("job", "properties")


class ExpressionError(Exception):
    """Why an expression cannot be read, or has no value for a cluster."""


class WrongType(ExpressionError):
    """An operator or function was given something that it does not take."""


class NotKnown(ExpressionError):
    """A value that is not known was calculated with."""


@dataclass(frozen=True)
class Expression:
    """An expression that was read."""

    text: str
    tree: ast.expr
    names: tuple[str, ...]  #: all that it names, in their order; fields as `job.nodes`


class Function(NamedTuple):
    """A function of expressions."""

    call: Callable[..., Value | None]
    least: int  #: arguments
    most: int
    meaning: str


class _Library(Protocol):
    """What is used of simpleeval, which ships no types."""

    names: Mapping[str, Value | None]

    def eval(self, expr: str, previously_parsed: ast.expr) -> object: ...


def type_of(value: object) -> str:
    """The type of a value, as messages name it."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
    return "a list"


def _number(value: object) -> int | float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    if value is None:
        raise NotKnown
    raise WrongType(f"{type_of(value)} is used as a number")


def _arithmetic(
    function: Callable[[int | float, int | float], int | float],
) -> Callable[[object, object], int | float]:
    return lambda left, right: function(_number(left), _number(right))


def _comparison(function: Callable[..., bool]) -> Callable[[object, object], bool]:
    def compare(left: object, right: object) -> bool:
        if isinstance(left, str) and isinstance(right, str):
            return function(left, right)
        if None not in (left, right) and type_of(left) != type_of(right):
            raise WrongType(f"{type_of(left)} is compared with {type_of(right)}")
        return function(_number(left), _number(right))

    return compare


def _equals(left: object, right: object) -> bool:
    return type_of(left) == type_of(right) and left == right


def _contains(item: object, items: object) -> bool:
    if isinstance(items, str) and isinstance(item, str):
        return item in items
    if not isinstance(items, list | tuple):
        raise WrongType("the right side of `in` is neither a list nor text")
    return any(_equals(item, other) for other in items)


def _truth(value: object) -> bool:
    if value is None:
        raise NotKnown
    if not isinstance(value, bool):
        raise WrongType(f"{type_of(value)} is used as true or false")
    return value


_OPERATORS: Mapping[type[ast.AST], Callable[..., object]] = {
    ast.Add: _arithmetic(operator.add),
    ast.Sub: _arithmetic(operator.sub),
    ast.Mult: _arithmetic(operator.mul),
    ast.Div: _arithmetic(operator.truediv),
    ast.FloorDiv: _arithmetic(operator.floordiv),
    ast.Mod: _arithmetic(operator.mod),
    ast.USub: lambda value: -_number(value),
    ast.UAdd: _number,
    ast.Not: lambda value: not _truth(value),
    ast.Eq: _equals,
    ast.NotEq: lambda left, right: not _equals(left, right),
    ast.Lt: _comparison(operator.lt),
    ast.LtE: _comparison(operator.le),
    ast.Gt: _comparison(operator.gt),
    ast.GtE: _comparison(operator.ge),
    ast.In: _contains,
    ast.NotIn: lambda item, items: not _contains(item, items),
}
FUNCTIONS: Mapping[str, Function] = {
    "min": Function(lambda *values: min(map(_number, values)), 1, 10, "the least of some numbers"),
    "max": Function(lambda *values: max(map(_number, values)), 1, 10, "the largest of some numbers"),
    "abs": Function(lambda value: abs(_number(value)), 1, 1, "a number without its sign"),
    "floor": Function(lambda value: math.floor(_number(value)), 1, 1, "a number rounded down"),
    "ceil": Function(lambda value: math.ceil(_number(value)), 1, 1, "a number rounded up"),
    "default": Function(
        lambda value, other: other if value is None else value, 2, 2, "a value, or the other where it is not known"
    ),
}
_WORDS: Mapping[str, bool] = {"true": True, "false": False}
_NODES = (
    *(ast.Constant, ast.Name, ast.Load, ast.Call, ast.List, ast.Tuple),
    *(ast.UnaryOp, ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.And, ast.Or, *_OPERATORS),
)


class _Flattened(ast.NodeTransformer):
    """Makes one name of a field, so that nothing is looked up in a value: `job.labels["a"]` is `job.labels.a`."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(_WORDS[node.id]), node) if node.id in _WORDS else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self._field(node, node.attr)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if not isinstance(key, str):
            raise ExpressionError("only a text may stand in brackets")
        return self._field(node, key)

    def _field(self, node: ast.Attribute | ast.Subscript, key: str) -> ast.expr:
        value = self.visit(node.value)
        if not isinstance(value, ast.Name) or value.id.split(".")[0] not in _PREFIXES:
            raise ExpressionError(f"only {' and '.join(_PREFIXES)} have fields")
        return ast.copy_location(ast.Name(id=f"{value.id}.{key}", ctx=ast.Load()), node)


def read_expression(text: str) -> Expression:
    """An expression from its text; ExpressionError says what is wrong with it."""
    if len(text) > MOST_CHARACTERS:
        raise ExpressionError(f"has {len(text)} characters; the most is {MOST_CHARACTERS}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what Python says of its own syntax is no concern of an operator
            parsed = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
        raise ExpressionError(f"'{shorten(text)}' is not an expression{where}{_other_languages(text)}") from None
    if _depth(parsed) > MOST_NESTED:
        raise ExpressionError(f"is nested too deeply; the most is {MOST_NESTED}")
    tree: ast.expr = _Flattened().visit(parsed)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names: dict[str, None] = {}
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ExpressionError(f"{_describe(node)} cannot be used")
        if isinstance(node, ast.Call):
            _check_call(node)
        elif isinstance(node, ast.Constant):
            _check_constant(node)
        elif isinstance(node, ast.Name) and id(node) not in called:
            names[node.id] = None
    return Expression(text, tree, tuple(names))


def divides_by_zero(expression: Expression) -> bool:
    """Whether an expression divides by what is 0 whatever its names stand for."""
    divisions = (ast.Div, ast.FloorDiv, ast.Mod)
    return any(
        isinstance(node, ast.BinOp) and isinstance(node.op, divisions) and _is_zero(node.right)
        for node in ast.walk(expression.tree)
    )


def misplaces_list(expression: Expression) -> bool:
    """Whether a list stands elsewhere than on the right of `in`, where it is never equal to anything."""
    sought = {
        id(right)
        for node in ast.walk(expression.tree)
        if isinstance(node, ast.Compare)
        for operator_, right in zip(node.ops, node.comparators, strict=True)
        if isinstance(operator_, ast.In | ast.NotIn)
    }
    return any(isinstance(node, ast.List | ast.Tuple) and id(node) not in sought for node in ast.walk(expression.tree))


def _is_zero(tree: ast.expr) -> bool:
    """Whether a part of an expression is 0 by itself; one that names something may be anything."""
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if not named <= FUNCTIONS.keys():
        return False
    try:
        return Evaluator().value(Expression(ast.unparse(tree), tree, ()), {}) == 0
    except ExpressionError:
        return False


def _other_languages(text: str) -> str:
    """How to write here what other languages write otherwise."""
    words = {"&&": "and", "||": "or", "!": "not", "=": "=="}
    other = next((sign for sign in ("&&", "||") if sign in text), None)
    if other is None and "!" in text.replace("!=", ""):
        other = "!"
    if other is None and "=" in text and not any(sign in text for sign in ("==", "<=", ">=", "!=")):
        other = "="
    return "" if other is None else f": write `{words[other]}` instead of `{other}`"


def _depth(node: ast.AST) -> int:
    """How deeply a tree is nested; counted level by level, since it may be too deep to recurse."""
    depth, level = 0, [node]
    while level:
        depth += 1
        level = [child for parent in level for child in ast.iter_child_nodes(parent) if isinstance(child, ast.expr)]
    return depth


def _check_call(node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name) or node.keywords:
        raise ExpressionError("only functions with plain arguments can be called")
    name = node.func.id
    function = FUNCTIONS.get(name)
    if function is None:
        known = ", ".join(FUNCTIONS)
        raise ExpressionError(
            f"there is no function '{shorten(name)}'.{did_you_mean(closest(name, FUNCTIONS))} Known: {known}"
        )
    if not function.least <= len(node.args) <= function.most:
        number = str(function.least) if function.least == function.most else f"{function.least} to {function.most}"
        raise ExpressionError(f"{name} takes {number} arguments, not {len(node.args)}")


def _check_constant(node: ast.Constant) -> None:
    value = node.value
    if not isinstance(value, bool | int | float | str):
        raise ExpressionError(f"'{shorten(ast.unparse(node))}' is neither a number, text, true nor false")
    if isinstance(value, int | float) and abs(value) > LARGEST:
        raise ExpressionError("has a number that is too large")


def _describe(node: ast.AST) -> str:
    signs = {
        ast.LShift: "`<<`",
        ast.RShift: "`>>`",
        ast.Invert: "`~`",
        ast.Pow: "`**`",
        ast.MatMult: "`@`",
        ast.BitXor: "`^`",
        ast.BitAnd: "`&`: write `and`; it",
        ast.BitOr: "`|`: write `or`; it",
        ast.Is: "`is`",
        ast.JoinedStr: "an f-string",
        ast.Lambda: "a function of your own",
        ast.NamedExpr: "`:=`",
    }
    loops = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension)
    if isinstance(node, loops):
        return "a loop"
    return signs.get(type(node)) or f"`{shorten(ast.unparse(node))}`"


class Evaluator:
    """Evaluates expressions, one after the other; each decision has its own, since it holds the values of one."""

    def __init__(self) -> None:
        functions = {name: function.call for name, function in FUNCTIONS.items()}
        self._library: _Library = EvalWithCompoundTypes(operators=dict(_OPERATORS), functions=functions)

    def value(self, expression: Expression, values: Mapping[str, Value | None]) -> Value:
        """The value of an expression, given those of what it names; ExpressionError says why it has none.

        None stands for what is not known.
        """
        self._library.names = values
        try:
            value = self._library.eval(expression.text, expression.tree)
        except NotKnown:
            value = None
        except WrongType:
            raise
        except ZeroDivisionError:
            raise ExpressionError("division by zero") from None
        except (OverflowError, ValueError):
            raise ExpressionError("the number is too large") from None
        except Exception as error:  # nothing that an expression does may end a decision
            raise ExpressionError(shorten(f"cannot be evaluated: {error}")) from None
        if value is None:
            missing = [name for name in expression.names if values.get(name) is None]
            raise NotKnown(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not known")
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            raise ExpressionError("the number is too large")
        if not isinstance(value, bool | int | float | str):
            raise WrongType(f"gives {type_of(value)}")
        return value

    def truth(self, expression: Expression, values: Mapping[str, Value | None]) -> bool:
        """Whether a condition holds; ExpressionError where it is none, or has no value."""
        value = self.value(expression, values)
        if not isinstance(value, bool):
            raise WrongType(f"gives {type_of(value)}, not true or false")
        return value
