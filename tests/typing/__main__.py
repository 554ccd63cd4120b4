"""`python -m tests.typing [--markdown | --check | --report]`: compare what checkers say with what stands on the lines; the page."""

from __future__ import annotations

import argparse
import sys

from tests.typing._checkers import check, differences
from tests.typing._forms import scores
from tests.typing._notation import CHECKERS, programs
from tests.typing._pages import report
from tests.typing._table import PAGE, filled, markdown, measured


def main() -> int:
    """Run the checkers, print the differences, and fill the page or compare it when asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.typing", description=__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--markdown", action="store_true", help=f"write the tables into docs/{PAGE.name}")
    which.add_argument("--check", action="store_true", help=f"fail when docs/{PAGE.name} has other tables")
    which.add_argument("--report", action="store_true", help="print the tables, and what checkers say of the docs")
    arguments = parser.parse_args()
    if arguments.report:
        print(measured(scores()), markdown(), report(), sep="\n\n")
        return 0
    found = list(programs())
    problems: list[str] = []
    for checker in CHECKERS:
        problems += differences(found, checker, check(checker, found))
    if arguments.markdown or arguments.check:
        page = PAGE.read_text("utf-8")
        fresh = filled(page, scores())
        if arguments.markdown and not problems:
            PAGE.write_text(fresh, "utf-8")
        elif fresh != page:
            problems.append(f"docs/{PAGE.name} has other tables; `python -m tests.typing --markdown` writes them")
    print("\n".join(problems) or f"{len(found)} files: the checkers say what is on the lines")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
