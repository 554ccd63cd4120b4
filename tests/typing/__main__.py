"""`python -m tests.typing [--markdown]`: compare what the checkers say with what stands on the lines; write the page."""

from __future__ import annotations

import argparse
import sys

from tests.typing._checkers import differences, files_for, run_checker
from tests.typing._notation import CHECKERS, programs
from tests.typing._table import PAGE, filled


def main() -> int:
    """Run the checkers, print the differences, and fill the page when asked to."""
    parser = argparse.ArgumentParser(prog="python -m tests.typing", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help=f"write the tables into docs/{PAGE.name}")
    arguments = parser.parse_args()
    found = list(programs())
    problems: list[str] = []
    for checker in CHECKERS:
        problems += differences(found, checker, run_checker(checker, files_for(checker, found)))
    print("\n".join(problems) or f"{len(found)} programs: the checkers say what stands on the lines")
    if arguments.markdown and not problems:
        PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
