"""Run a program statement by statement: a statement whose mark names an error raises it, every other one runs."""

from __future__ import annotations

import ast
import sys
import types

from tests.typing._notation import Program


def execute(program: Program) -> list[str]:
    """One line for each statement that raises what it should not, or does not raise what it should."""
    module = types.ModuleType(f"tests.typing.{program.path.parent.name}.{program.path.stem}")
    module.__file__ = str(program.path)
    sys.modules[module.__name__] = module  # classes look up the names of their annotations there
    problems: list[str] = []
    try:
        for statement in ast.parse(program.text).body:
            problem = _outcome(statement, program, module)
            problems += [f"{program.name}:{statement.lineno}: {problem}"] if problem else []
    finally:
        del sys.modules[module.__name__]
    return problems


def _outcome(statement: ast.stmt, program: Program, module: types.ModuleType) -> str | None:
    lines = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    marks = [program.marks[line] for line in lines if line in program.marks]
    expected = next((mark.error for mark in marks if mark.error), None)
    code = compile(ast.Module([statement], []), str(program.path), "exec", dont_inherit=True)
    try:
        exec(code, vars(module))
    except Exception as error:  # whatever a wrong program raises
        if expected in {cls.__name__ for cls in type(error).__mro__}:
            return None
        return f"expected {expected or 'no error'}, got {type(error).__name__}: {error}"
    return f"expected {expected}, got no error" if expected else None
