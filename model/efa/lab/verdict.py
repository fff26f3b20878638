# SPDX-License-Identifier: Apache-2.0
"""Names the mistake behind what the checker found.

The order matters: what two threads do to each other looks like other mistakes too, so what only
they can leave is asked for first; a ring that wraps wrongly leaves torn entries behind it.
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
# What tells a mistake by itself, the most telling first.
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
    """(verdict, why) of findings; CLEAN for none."""
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
    """Which order of stores, fence and doorbell leaves entries torn in this way."""
    torn = findings.torn
    one = torn[0]
    told = f"queue {one.shape.index}: the doorbell for entries {one.first} to {one.end - 1} " \
           f"came before all of {', '.join(map(str, one.missing))}"
    if any(announced.late for announced in torn):
        return "half_entry", f"{told}; the rest never came"
    if len(torn) == len(findings.doorbells) and all(
            one.only_last_store and one.followed for one in torn):
        return "doorbell_early", f"{told}: always the last store, which follows at once"
    several = [one for one in torn if one.end - one.first > 1]
    if several and all(one.missing.keys() == {one.end - 1} for one in several):
        return "fence_early", f"{told}: never more than the last entry"
    return "no_fence", told
