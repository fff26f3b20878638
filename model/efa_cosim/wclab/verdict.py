# SPDX-License-Identifier: Apache-2.0
"""Names the bug from the checker's findings.

The order matters. Two threads can cause the evidence of other bugs, so evidence that only two
threads can cause is tested first. A ring with a wrong wrap also leaves incomplete WQEs.
"""

from __future__ import annotations

from typing import TypeAlias

from efa_cosim.wclab.checker import (
    BACK,
    BACK_A_WRAP,
    BEYOND,
    IN_FLIGHT,
    LARGE,
    LEFT_OUT,
    NEVER_POSTED,
    OUTSIDE,
    PHASE,
    REPEATED,
    REWRITTEN,
    Findings,
)

CLEAN = "clean"
# Evidence that identifies a bug without doorbells, most specific first.
_Evidence: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
_BY_ITSELF: _Evidence = (
    ("two_threads", (REWRITTEN, REPEATED, BACK, LEFT_OUT)),
    ("wrap_wrong", (BACK_A_WRAP, OUTSIDE)),
    ("slot_reused", (BEYOND, IN_FLIGHT)),
)
_AT_LAST: _Evidence = (
    ("stale_phase", (PHASE,)),
    ("batch_over", (LARGE,)),
    ("doorbell_lost", (NEVER_POSTED,)),
)
VERDICTS = (
    "no_fence", "fence_early", "doorbell_early", "batch_over", "slot_reused", "wrap_wrong",
    "stale_phase", "half_entry", "doorbell_lost", "two_threads", CLEAN,
)  # fmt: skip


def name(findings: Findings) -> tuple[str, str]:
    """Returns (verdict, reason) of findings; CLEAN without findings."""
    for verdict, kinds in _BY_ITSELF:
        for kind in kinds:
            if findings.counts[kind]:
                return verdict, findings.first[kind]
    if findings.incomplete:
        return _incomplete(findings)
    for verdict, kinds in _AT_LAST:
        for kind in kinds:
            if findings.counts[kind]:
                return verdict, findings.first[kind]
    return CLEAN, ""


def _incomplete(findings: Findings) -> tuple[str, str]:
    """Names the wrong order of stores, fence and doorbell that left these incomplete WQEs."""
    incomplete = findings.incomplete
    one = incomplete[0]
    text = f"queue {one.shape.index}: the doorbell for WQEs {one.first} to {one.end - 1} " \
           f"came before all stores of {', '.join(map(str, one.missing))}"
    if any(announced.late for announced in incomplete):
        return "half_entry", f"{text}; the missing stores never came"
    if len(incomplete) == len(findings.doorbells) and all(
            one.only_last_store and one.followed for one in incomplete):
        return "doorbell_early", f"{text}: always only the last store, which follows directly"
    several = [one for one in incomplete if one.end - one.first > 1]
    if several and all(one.missing.keys() == {one.end - 1} for one in several):
        return "fence_early", f"{text}: always only the last WQE"
    return "no_fence", text
