"""The text of an expression as its tree; refused with a sentence if it is none, or larger than anybody needs.

The only module that needs the parser library, which it imports at the first expression. Pure.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from headrace.core.plural import counted
from headrace.core.quoting import quoted
from headrace.core.security.cesql.evaluate import Tree
from headrace.core.security.cesql.values import CesqlError, number

if TYPE_CHECKING:
    from lark import Lark

LONGEST = 4096
"""Characters of an expression; it is evaluated for each event, and its author is not the one who pays."""
DEEPEST = 64
"""Operations within one another; chains of AND, OR and XOR count as one."""

# Words that no name may be. A sign belongs to a number only where an operand may stand, which the parser knows.
_GRAMMAR = r"""
    ?start: logic
    ?logic: comparison (LOGIC comparison)*
    ?comparison: sum | comparison COMPARISON sum -> do
    ?sum: product | sum SIGN product -> do
    ?product: test | product PRODUCT test -> do
    ?test: unary
        | test LIKE string -> like
        | test NOT LIKE string -> not_like
        | test IN "(" logic ("," logic)* ")" -> in_
        | test NOT IN "(" logic ("," logic)* ")" -> not_in
    ?unary: NOT unary -> not_
        | MINUS unary -> minus
        | EXISTS NAME -> exists
        | FUNCTION "(" [logic ("," logic)*] ")" -> call
        | "(" logic ")"
        | NUMBER -> number
        | BOOLEAN -> boolean
        | NAME -> get
        | string -> is_
    string: SINGLE | DOUBLE

    LOGIC.2: /(AND|OR|XOR)(?![a-z0-9_])/i
    NOT.2: /NOT(?![a-z0-9_])/i
    LIKE.2: /LIKE(?![a-z0-9_])/i
    IN.2: /IN(?![a-z0-9_])/i
    EXISTS.2: /EXISTS(?![a-z0-9_])/i
    BOOLEAN.2: /(TRUE|FALSE)(?![a-z0-9_])/i
    FUNCTION.1: /(?!(AND|OR|XOR|NOT|LIKE|IN|EXISTS|TRUE|FALSE)(?![a-z_]))[a-z][a-z_]*(?=[ \t\r\n]*\()/i
    NAME: /(?!(AND|OR|XOR|NOT|LIKE|IN|EXISTS|TRUE|FALSE)(?![a-z0-9]))(?=[0-9]*[a-z])[a-z0-9]+(?![a-z0-9_])/i
    NUMBER.2: /[+-]?[0-9]+(?![a-zA-Z0-9_])/
    SINGLE: /'(\\.|''|[^'\\])*'/s
    DOUBLE: /"(\\.|""|[^"\\])*"/s
    COMPARISON: /!=|<>|>=|<=|=|<|>/
    SIGN: /[+-]/
    MINUS: "-"
    PRODUCT: /[*\/%]/
    %ignore /[ \t\r\n]+/
"""


@lru_cache(maxsize=1024)
def parse(text: str) -> Tree:
    """The tree; callers share it, and leave it as it is.

    Raises:
        CesqlError: of the kind `parse`.
    """
    from lark.exceptions import UnexpectedInput, UnexpectedToken, VisitError

    if len(text) > LONGEST:
        raise CesqlError("parse", f"the expression has {len(text)} characters, at most {LONGEST} are read: shorten it")
    try:
        tree: Tree = _parser().parse(text)  # type: ignore[assignment]  # the callbacks make it
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        place = len(text) if at_end else error.pos_in_stream or 0
        found = quoted(text[place:], 20) if place < len(text) else "the end"
        raise CesqlError("parse", f"{found} at character {place + 1} is not expected there") from None
    except VisitError as error:
        raise error.orig_exc from None
    if (depth := _depth(tree)) > DEEPEST:
        raise CesqlError("parse", f"{counted(depth, 'operation')} within one another, at most {DEEPEST} are read")
    return tree


def size(tree: Any) -> int:
    """The operations in a tree."""
    found, rest = 0, [tree]
    while rest:
        if isinstance(one := rest.pop(), list):
            found += 1
            rest += one
    return found


def _depth(tree: Tree) -> int:
    deepest, level = 0, [tree]
    while level := [inner for one in level for inner in one if isinstance(inner, list)]:
        deepest += 1
    return deepest


@cache
def _parser() -> Lark:
    from lark import Lark, Token, Transformer

    class Shaped(Transformer[Token, Tree]):
        """The tree, made at each rule while the text is read, so that no depth of a text costs a deep call."""

        def logic(self, parts: list[Any]) -> Tree:
            return ["logic", *(str(part).upper() if isinstance(part, Token) else part for part in parts)]

        def do(self, parts: list[Any]) -> Tree:
            left, word, right = parts
            return ["do", "!=" if word == "<>" else str(word), left, right]

        def like(self, parts: list[Any]) -> Tree:
            return ["like", parts[0], parts[-1]]

        def not_like(self, parts: list[Any]) -> Tree:
            return ["not", self.like(parts)]

        def in_(self, parts: list[Any]) -> Tree:
            return ["in", parts[0], [part for part in parts[1:] if not isinstance(part, Token)]]

        def not_in(self, parts: list[Any]) -> Tree:
            return ["not", self.in_(parts)]

        def not_(self, parts: list[Any]) -> Tree:
            return ["not", parts[1]]

        def minus(self, parts: list[Any]) -> Tree:
            return ["minus", parts[1]]

        def exists(self, parts: list[Any]) -> Tree:
            return ["exists", str(parts[1]).lower()]

        def call(self, parts: list[Any]) -> Tree:
            name, *arguments = parts
            return ["call", str(name).upper(), *(each for each in arguments if each is not None)]

        def number(self, parts: list[Any]) -> Tree:
            if (found := number(parts[0])) is None:
                raise CesqlError("parse", f"the number {quoted(str(parts[0]))} is beyond 32 bits")
            return ["is", found]

        def boolean(self, parts: list[Any]) -> Tree:
            return ["is", parts[0].lower() == "true"]

        def get(self, parts: list[Any]) -> Tree:
            return ["get", str(parts[0]).lower()]

        def is_(self, parts: list[Any]) -> Tree:
            return ["is", parts[0]]

        def string(self, parts: list[Any]) -> str:
            quote, inner = parts[0][0], parts[0][1:-1]
            return str(inner.replace(f"\\{quote}", quote))

    return Lark(_GRAMMAR, parser="lalr", lexer="contextual", transformer=Shaped(), maybe_placeholders=False)
