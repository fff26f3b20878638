# SPDX-License-Identifier: Apache-2.0
"""Distributes the tests of a run among the workers of pytest-xdist.

A worker sets up the module fixtures of each file of which it runs a test. The tests of a file with
such a fixture therefore run on one worker; every other test is distributed by itself.
"""

from __future__ import annotations

import re
from functools import cache

from xdist.scheduler import LoadScopeScheduling

from tb.simulators import ROOT

# A cache of a test file is a fixture without a name.
SHARED = re.compile(r'^@pytest\.fixture\(.*scope="module"|^@cache$', re.MULTILINE)


@cache
def shares(file: str) -> bool:
    """Returns True if a test file, relative to the project, has a fixture that its tests share."""
    path = ROOT / file
    return path.suffix == ".py" and path.is_file() and bool(SHARED.search(path.read_text()))


def file_of(nodeid: str) -> str:
    """Returns the test file of a test."""
    return nodeid.partition("::")[0]


class Scheduler(LoadScopeScheduling):
    """Gives a worker the tests of a sharing file together, in the order of the collection."""

    def _split_scope(self, nodeid: str) -> str:
        file = file_of(nodeid)
        return file if shares(file) else nodeid
