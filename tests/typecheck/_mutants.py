"""Programs turned into odd ones: names deleted, arguments swapped, strange annotations, half of a class missing."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Iterator

ANNOTATIONS = """
1  None  ...  []  'Float32['  Float32  Float32[Tensor]  Float32[Tensor, 'a b-']  Float32[Tensor, '((']
Float32[Tensor, 3]  Shaped['Later', 'b']  Shaped[1, 2, 3]  Shaped[()]  Shaped[Step, '3//b t*b']
list[Self]  'Gone'  Gone.more[Gone]  Self  type[Self]  int | 3  lambda: 0  Float32[Tensor, 'b', 'b']  Tensor[Tensor]
Float32[Tensor, '*a *b']  Annotated[Tensor]  ClassVar  Final[3]
"""
EXPRESSIONS = """
None  ...  *[]  lambda *a, **k: (a, k)  [x for x in y]  (yield)  (z := 1)  f'{q}'  -1  10**100  b'x'  {}  {**m}  gone()
gone.at[::2, ...]  super()  self  type(self)  cls  ()  slice(None)  (lambda: 0)()  [*a, *b]  1 if x else y  Tensor  nn
"""
DECORATORS = """
tensorclass  tensorclass(frozen=1)  checked  checked(checked)  property  staticmethod  classmethod  gone
gone.more(1, *a)  tensorclass()()  overload  tensorclass(**m)  lambda c: c  final
"""
STATEMENTS = (
    "class Later(Later): pass",
    "class A(B): pass\nclass B(A): pass",
    "class R(TensorClass):\n r: 'R'\n s: R",
    "del self",
    "from gone import *",
    "import gone.more as torch",
    "x: Shaped[x, 'b'] = x",
    "for self.x in self: continue",
    "with gone as (a, [b, *c]): pass",
    "match x:\n case {'a': [*_]} | None: pass",
    "class G(TensorClass, Generic[T]):\n t: T",
    "def f(*, a, **k): return f(*a, **k)",
    "x += x @ x",
    "type = TensorClass",
    "TensorClass = int",
    "class C(*bases, **kwargs): x: int",
    "class M(metaclass=type(TensorClass)): ...",
    "class T2(TensorClass):\n def __getattr__(self, n): return self\n def __call__(s): ...",
    "if TYPE_CHECKING:\n class H(TensorClass): ...\nelse:\n H = 1\nclass H2(H):\n h: H",
)
_BASES = "TensorClass  Gone  nn.Module  Generic[T]  Protocol  int  NamedTuple  TypedDict"


def _choose_text(texts: str, rng: random.Random) -> str:
    return rng.choice(re.split(r"  |\n", texts.strip()))


def mutated_program(text: str, rng: random.Random, count: int) -> str | None:
    """A program with some odd changes; None if nothing that parses came out."""
    tree = ast.parse(text)
    for _ in range(count):
        rng.choice(CHANGES)(tree, rng)
    try:
        made = ast.unparse(ast.fix_missing_locations(tree))
        compile(made, "mutant", "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return None
    return made


def half_written(text: str, rng: random.Random) -> str:
    """The beginning of a program, as it is while somebody writes it."""
    return text[: rng.randrange(len(text))]


def _change_annotation(tree: ast.Module, rng: random.Random) -> None:
    made = ast.parse(_choose_text(ANNOTATIONS, rng), mode="eval").body
    one = _any(tree, rng, ast.AnnAssign, ast.arg, ast.FunctionDef)
    if isinstance(one, ast.FunctionDef):
        one.returns = made
    elif isinstance(one, ast.AnnAssign | ast.arg):
        one.annotation = made


def _change_expression(tree: ast.Module, rng: random.Random) -> None:
    spots = list(_spots(tree, ast.expr))
    if spots:
        owner, name, at = rng.choice(spots)
        text = _choose_text(EXPRESSIONS, rng)
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        _put(owner, name, at, call.args[0])


def _delete_name(tree: ast.Module, rng: random.Random) -> None:
    """Rename one use, so that what it meant is gone."""
    one = _any(tree, rng, ast.Name, ast.Attribute, ast.ClassDef, ast.FunctionDef, ast.alias, ast.arg, ast.keyword)
    for field in ("id", "attr", "name", "arg"):
        if one is not None and getattr(one, field, None):
            setattr(one, field, rng.choice(("gone", "self", "x", "TensorClass", "cls")))


def _change_call(tree: ast.Module, rng: random.Random) -> None:
    call = _any(tree, rng, ast.Call)
    if not isinstance(call, ast.Call):
        return
    star = ast.Starred(ast.Name("more", ast.Load()), ast.Load())
    match rng.randrange(6):
        case 0:
            rng.shuffle(call.args)
        case 1:
            call.args = [star, *call.args]
        case 2:
            call.keywords = [*call.keywords, ast.keyword(None, ast.Name("more", ast.Load()))]
        case 3:
            call.args, call.keywords = [], []
        case 4:
            call.args = [*call.args, *(word.value for word in call.keywords)]
            call.keywords = []
        case _:
            call.args = call.args * 2


def _change_statement(tree: ast.Module, rng: random.Random) -> None:
    bodies = [getattr(node, "body", None) for node in ast.walk(tree)]
    body = rng.choice([one for one in bodies if isinstance(one, list)])
    at = rng.randrange(len(body) + 1)
    match rng.randrange(4):
        case 0 if len(body) > 1 and at < len(body):
            del body[at]
        case 1 if at < len(body):
            body.insert(rng.randrange(len(body)), body[at])
        case 2:
            rng.shuffle(body)
        case _:
            body[at:at] = ast.parse(rng.choice(STATEMENTS).replace("\n ", "\n  ")).body


def _change_decorators(tree: ast.Module, rng: random.Random) -> None:
    one = _any(tree, rng, ast.ClassDef, ast.FunctionDef)
    if isinstance(one, ast.ClassDef | ast.FunctionDef):
        made = [ast.parse(_choose_text(DECORATORS, rng), mode="eval").body for _ in range(rng.randrange(4))]
        one.decorator_list = made + one.decorator_list * rng.randrange(3)


def _change_bases(tree: ast.Module, rng: random.Random) -> None:
    one = _any(tree, rng, ast.ClassDef)
    if isinstance(one, ast.ClassDef):
        names = [_choose_text(f"{one.name}  {_BASES}", rng) for _ in range(rng.randrange(4))]
        one.bases = [ast.parse(name, mode="eval").body for name in names]


CHANGES: tuple[Callable[[ast.Module, random.Random], None], ...] = (
    _change_annotation,
    _change_expression,
    _delete_name,
    _change_call,
    _change_statement,
    _change_decorators,
    _change_bases,
)


def _any(tree: ast.Module, rng: random.Random, *kinds: type[ast.AST]) -> ast.AST | None:
    found = [node for node in ast.walk(tree) if isinstance(node, kinds)]
    return rng.choice(found) if found else None


def _spots(tree: ast.Module, kind: type[ast.AST]) -> Iterator[tuple[ast.AST, str, int | None]]:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if isinstance(value, kind):
                yield node, name, None
            elif isinstance(value, list):
                yield from ((node, name, at) for at, item in enumerate(value) if isinstance(item, kind))


def _put(owner: ast.AST, name: str, at: int | None, made: ast.AST) -> None:
    if at is None:
        setattr(owner, name, made)
    else:
        getattr(owner, name)[at] = made
