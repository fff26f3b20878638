# SPDX-License-Identifier: Apache-2.0
"""Names the bug from the checker's findings.

The order matters. Two threads can cause the evidence of other bugs, so evidence that only two
threads can cause is tested first. A ring with a wrong wrap also leaves incomplete WQEs.
"""

from efa.lab.checker import (
    BACK,
    BACK_A_LAP,
    BESIDE,
    BEYOND,
    IN_FLIGHT,
    LARGE,
    LEFT_OUT,
    NEVER_RUNG,
    PHASE,
    REPEATED,
    REWRITTEN,
)

CLEAN = "clean"
# Evidence that identifies a bug without doorbells, most specific first.
_BY_ITSELF = (
    ("two_threads", (REWRITTEN, REPEATED, BACK, LEFT_OUT)),
    ("wrap_wrong", (BACK_A_LAP, BESIDE)),
    ("slot_reused", (BEYOND, IN_FLIGHT)),
)
_AT_LAST = (
    ("stale_phase", (PHASE,)),
    ("batch_over", (LARGE,)),
    ("doorbell_lost", (NEVER_RUNG,)),
)
VERDICTS = (
    "no_fence", "fence_early", "doorbell_early", "batch_over", "slot_reused", "wrap_wrong",
    "stale_phase", "half_entry", "doorbell_lost", "two_threads", CLEAN,
)  # fmt: skip


def name(findings):
    """(verdict, reason) of findings; CLEAN without findings."""
    for verdict, kinds in _BY_ITSELF:
        for kind in kinds:
            if findings.counts[kind]:
                return verdict, findings.first[kind]
    if findings.torn:
        return _torn(findings)
    for verdict, kinds in _AT_LAST:
        for kind in kinds:
            if findings.counts[kind]:
                return verdict, findings.first[kind]
    return CLEAN, ""


def _torn(findings):
    """Names the wrong order of stores, fence and doorbell that left these incomplete WQEs."""
    torn = findings.torn
    one = torn[0]
    told = f"queue {one.shape.index}: the doorbell for WQEs {one.first} to {one.end - 1} " \
           f"came before all stores of {', '.join(map(str, one.missing))}"
    if any(announced.late for announced in torn):
        return "half_entry", f"{told}; the missing stores never came"
    if len(torn) == len(findings.doorbells) and all(
            one.only_last_store and one.followed for one in torn):
        return "doorbell_early", f"{told}: always only the last store, which follows directly"
    several = [one for one in torn if one.end - one.first > 1]
    if several and all(one.missing.keys() == {one.end - 1} for one in several):
        return "fence_early", f"{told}: always only the last WQE"
    return "no_fence", told
