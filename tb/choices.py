# SPDX-License-Identifier: Apache-2.0
"""Checks TEST= and UNIT= of the Makefile before pytest runs: a wrong name is an error.

python -m tb.choices system 'send or recv'
python -m tb.choices unit cq
"""

import re
import sys

# Modules of tools/, on the path of the Makefile and without types.
import interrupt  # type: ignore[import-not-found]  # see above
import testplan  # type: ignore[import-not-found]  # see above

from tb.simulators import ROOT

OPERATORS = ("and", "or", "not")
VARIABLES = {"system": "TEST", "unit": "UNIT"}


def names(kind: str) -> list[str]:
    """Returns what TEST= (areas and tests of tb/system) or UNIT= (units) may name."""
    if kind == "unit":
        from tb.unit.units import UNITS

        return sorted(UNITS)
    from tb.system.test_system import AREAS, BUILDS

    tests = testplan.find_tests(ROOT)
    mine = [one for one in tests if one.file.startswith("tb/system/test_")]
    files = sorted({one.stem for one in mine}) + sorted(one.name for one in mine)
    return [*AREAS, *(area for area, _ in BUILDS if area not in AREAS), *files]


def wrong_names(kind: str, expression: str) -> str | None:
    """Returns an error for a pytest expression of which a word is in no legal name, or None."""
    legal = names(kind)
    words = [word for word in re.findall(r"[^\s()]+", expression) if word not in OPERATORS]
    unknown = [word for word in words if not any(word.lower() in one.lower() for one in legal)]
    if words and not unknown:
        return None
    return (
        f"{VARIABLES[kind]}={expression}: expected a name of tb/{kind}, found "
        f"{', '.join(unknown) or 'nothing'}; one of {', '.join(legal)}"
    )


def main(arguments: list[str]) -> int:
    """Returns 2 with a line on standard error for a wrong name."""
    interrupt.leave_on_interrupt("choices")
    error = wrong_names(*arguments)
    if error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
