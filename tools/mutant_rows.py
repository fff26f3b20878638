# SPDX-License-Identifier: Apache-2.0
"""Turns the rows of a mutation run into jobs (tb/mutant_job.py), and stores their results.

A row goes through stages; the jobs of a stage run at the same time, and those of several rows, too:

1. `Listing` writes the netlists.
2. `Reference` runs all tests on the unmutated design: their times and limits.
3. `Trial` runs a batch of mutants under the quick tests: those with the most kills in the least
   time, for QUICK of the time of the bench. The first batch of a row shows the kills that order the
   tests of its other batches.
4. `Proof` examines the survivors. A survivor takes as long as many kills, and most survivors are
   equal to their block.
5. `Trial` runs the others under the remaining tests.

The results are in sim/out/mutate/results (`efa_cosim.jobs.store`), under the digests of
tools/mutant_runs.py. Batches and the order of tests depend on the list and on stored results only:
a run that was interrupted continues as if it had not been.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import mutants as netlists
from mutant_bench import KILLED, NOT_RUN, SURVIVED, TIMEOUT, Tried
from mutant_runs import State, digest, system_state, unit_state

from efa_cosim.boundary.backend import BackendUnavailable
from efa_cosim.jobs import store
from efa_cosim.jobs.job import UNUSABLE, Executor, Finished, Group, Job, Limits
from efa_cosim.jobs.progress import Progress
from tb.mutant_job import Design, Listing, Proof, Reference, Trial, wired
from tb.simulators import ROOT

RESULTS = ROOT / netlists.OUT / "results"
# Mutants of a job. Each batch begins with the quick tests on the unmutated design, which take as
# long as ten kills or more, and on the device longer.
FIRST_BATCH, BATCH, WIRED_BATCH = 50, 75, 200
SURVIVORS = 10  # of a job; a survivor takes as long as many kills
PROOFS = 4
QUICK = 0.35  # of the time of the bench, before the proof of a survivor
OPEN = "open"  # verdict of a mutant that passed the quick tests
# A group of proofs that all exceed their time limits takes two hours.
LIMITS = Limits(seconds=14_400.0)


class _Results:
    """Results of one kind of jobs of a row, on the sources of a digest; `fresh` ignores those of
    earlier runs."""

    def __init__(self, kind: str, row: str, tree: str, fresh: bool) -> None:
        self._folder, self._tree, self._fresh = RESULTS / kind / row, tree, fresh
        self._known: dict[Job, list] = {}

    def get(self, job: Job) -> list | None:
        """Returns the result of a job, None without one."""
        if job not in self._known and not self._fresh:
            found = store.find(self._folder, self._tree, job)
            if found is not None:
                self._known[job] = found
        return self._known.get(job)

    def put(self, job: Job, result: list) -> None:
        """Stores the result of a job; raises OSError."""
        self._known[job] = result
        store.keep(self._folder, self._tree, job, result)


class Row:
    """The mutants of a row and their verdicts.

    - `verdicts`: {number: {number, verdict, by, what, state}}; an OPEN one also has the tests that
      `passed`
    - `drawn`, `possible`: the faults, after `read`
    """

    def __init__(self, name: str, design: Design, fresh: bool) -> None:
        self.name, self.design = name, design
        self.state = state_of(name, design.benches, design.count, design.seed)
        self.drawn, self.possible, self._same = [], [], set()
        self._stored = _Results("verdicts", name, self.state.rtl, fresh)
        self.proofs = _Results("proofs", name, self.state.proof, fresh)
        self.verdicts = {row["number"]: row for row in self._stored.get(design) or []
                         if self._holds(row)}  # fmt: skip

    def _holds(self, row: dict) -> bool:
        """Returns True if a verdict belongs to the current sources and names a test that ran. A
        timeout depends on the limits and on the load of the machine: it runs again."""
        if row["verdict"] == TIMEOUT or NOT_RUN in row["what"]:
            return False
        return row["state"] == self._state(row["verdict"], row["by"])

    def _state(self, verdict: str, by: str) -> str:
        whole = verdict in (SURVIVED, OPEN) or not by
        return self.state.whole if whole else self.state.of(by)

    def read(self) -> None:
        """Reads the faults; a mutant that is proven equal survives, as no test can detect it."""
        self.drawn, self.possible = self.design.faults()
        self._same = set(self.proofs.get(Listing(self.design)) or [])
        for mutant in self.drawn:
            if mutant.number not in self.verdicts and self.equal(mutant.number):
                self.note(mutant.number, SURVIVED)

    def note(self, number: int, verdict: str, by: str = "", what: str = "", passed=()) -> None:
        """Notes a verdict; `write` stores it."""
        row = {"number": number, "verdict": verdict, "by": by, "what": what,
               "state": self._state(verdict, by)}  # fmt: skip
        self.verdicts[number] = row | ({"passed": sorted(passed)} if verdict == OPEN else {})

    def write(self) -> None:
        """Stores the verdicts; raises OSError."""
        self._stored.put(self.design, [self.verdicts[key] for key in sorted(self.verdicts)])

    def equal(self, number: int) -> bool:
        """Returns True if a mutant is proven equal."""
        return number in self._same or self.proofs.get(Proof(self.design, number)) == [True]

    def batches(self) -> tuple[list[int], list[list[int]]]:
        """Returns the numbers of the first batch and of the others."""
        numbers = [mutant.number for mutant in self.drawn]
        size = WIRED_BATCH if wired(self.name) else BATCH
        return numbers[:FIRST_BATCH], _parts(numbers[FIRST_BATCH:], size)

    def kills(self) -> Counter:
        """Returns how many mutants of the first batch each test detected."""
        found = [self.verdicts[number] for number in self.batches()[0]]
        return Counter(row["by"] for row in found if row["verdict"] in (KILLED, TIMEOUT))

    def having(self, *verdicts: str) -> list[int]:
        """Returns the numbers of the mutants with these verdicts."""
        return [number for number in sorted(self.verdicts)
                if self.verdicts[number]["verdict"] in verdicts]  # fmt: skip

    def unproven(self) -> list[Job]:
        """Returns the proofs of the survivors that have no result yet."""
        mine = [Proof(self.design, number) for number in self.having(OPEN, SURVIVED)
                if number not in self._same]  # fmt: skip
        mine = [proof for proof in mine if self.proofs.get(proof) is None]
        # The proofs of a wiring module share their analysis of the modules in it.
        size = len(mine) if wired(self.name) else PROOFS
        return [Group(tuple(part)) for part in _parts(mine, size)]


class Examination:
    """The rows of a design, from their list of mutants to their verdicts."""

    def __init__(self, design: Design, fresh: bool, progress: Progress) -> None:
        self.design, self.reason, self.left = design, "", 0
        self.rows = {name: Row(name, design.of(name), fresh) for name in design.rows}
        tree = digest(*(row.state.whole for row in self.rows.values()))
        name = "wiring" if wired(design.rows[0]) else design.rows[0]
        self._references = _Results("references", name, tree, fresh)
        self._progress = progress
        self._due: set[int] = set()
        self._stages = self._work()

    def next(self) -> list[Job] | None:
        """Returns the jobs of the next stage that has any, None at the end."""
        return next((jobs for jobs in self._stages if jobs), None)

    def note(self, finished: Finished) -> None:
        """Stores the results of a job; raises OSError."""
        for job, found, _ in finished.each():
            if isinstance(job, Trial):
                self._tried(job, found)
            elif isinstance(job, Reference):
                self._references.put(job, found)
            else:
                (name,) = job.design.rows
                self.rows[name].proofs.put(job, found)

    def due(self) -> tuple[int, int]:
        """Returns how many mutants have a verdict of this run, and how many need one."""
        known = {number for row in self.rows.values()
                 for number in row.having(KILLED, SURVIVED, TIMEOUT)}  # fmt: skip
        return len(self._due & known), len(self._due)

    def _work(self) -> Iterator[list[Job]]:
        rows = self.rows.values()
        listings = {row.name: Listing(row.design) for row in rows}
        yield [listings[row.name] for row in rows if row.proofs.get(listings[row.name]) is None]
        for row in rows:
            row.read()
            known = row.having(KILLED, SURVIVED)
            due = [one.number for one in row.drawn if one.number not in known]
            self._due |= set(due)
            self._progress.say(f"{row.name}: {len(row.drawn)} mutants of {len(row.possible)}, "
                               f"{len(row.drawn) - len(due)} stored, "
                               f"benches {', '.join(self.design.benches)}")  # fmt: skip
        if self._due:
            yield [] if self._reference() else [Reference(self.design)]
            first = self._quick(Counter())
            yield [job for row in rows for job in self._trials(row, [row.batches()[0]], first)]
            yield [job for row in rows
                   for job in self._trials(row, row.batches()[1], self._quick(row.kills()))]
        proofs = [job for row in rows for job in row.unproven()]
        if proofs:
            alive = sum(len(group.jobs) for group in proofs)
            self._progress.say(f"{', '.join(self.rows)}: {alive} survivors to prove equal")
        yield proofs
        for row in rows:
            for number in row.having(OPEN):
                if row.equal(number):
                    row.note(number, SURVIVED)
            row.write()
        yield [job for row in rows for job in self._remaining(row)]

    def _reference(self) -> tuple | None:
        """Returns the limit of a mutant in seconds, and [test, seconds, limit] of each test."""
        return self._references.get(Reference(self.design))

    def _trials(self, row: Row, batches: list[list[int]], tests: tuple) -> list[Job]:
        """Returns the jobs for the mutants of some batches without a verdict."""
        seconds, _ = self._reference()
        parts = [tuple(one for one in batch if one not in row.verdicts) for batch in batches]
        return [Trial(self.design, part, tests, seconds) for part in parts if part]

    def _quick(self, kills: Counter) -> tuple:
        """Returns the tests of the first stage, the most kills in the least time first."""
        _, tests = self._reference()
        order = sorted(tests, key=lambda one: -(kills[one[0]] + 0.5) / (one[1] + 0.01))
        left, quick = QUICK * sum(seconds for _, seconds, _ in tests), []
        for name, seconds, limit in order:
            if quick and seconds > left:
                break
            quick.append((name, limit))
            left -= seconds
        return tuple(quick)

    def _remaining(self, row: Row) -> list[Job]:
        """Returns the jobs for the survivors that are not proven equal: the remaining tests."""
        jobs = []
        for part in _parts(row.having(OPEN), SURVIVORS):
            seconds, tests = self._reference()
            passed = set.intersection(*(set(row.verdicts[one]["passed"]) for one in part))
            rest = sorted((one for one in tests if one[0] not in passed), key=lambda one: one[1])
            rest = tuple((name, limit) for name, _, limit in rest)
            jobs.append(Trial(self.design, tuple(part), rest, seconds))
        return jobs

    def _tried(self, trial: Trial, found: list) -> None:
        """Stores the verdicts of a job. A mutant that passed all tests survives."""
        owner = {one.number: row for row in self.rows.values() for one in row.drawn}
        names = {name for name, _ in trial.tests}
        every = {name for name, *_ in self._reference()[1]}
        tried = [Tried(*one) for one in found]
        for one in tried:
            row = owner[one.number]
            passed = names | set(row.verdicts.get(one.number, {}).get("passed", ()))
            verdict = OPEN if one.verdict == SURVIVED and passed < every else one.verdict
            row.note(one.number, verdict, one.test, one.message, passed)
        for row in {owner[one.number].name: owner[one.number] for one in tried}.values():
            row.write()


def state_of(name: str, benches: tuple, count: int | None, seed: int) -> State:
    """Returns the digests of all inputs of a row."""
    state = system_state if wired(name) else unit_state
    return state(wired(name) or name, benches, count, seed)


def _parts(items: list, size: int) -> list[list]:
    return [items[at : at + size] for at in range(0, len(items), size or 1)]


def run(
    examinations: Iterable[Examination], executor: Executor, progress: Progress
) -> Iterator[Examination]:
    """Yields the examinations in the order in which they end; `reason` is that of a failed job.

    An examination begins when the executor can run more jobs. Raises BackendUnavailable,
    YosysFailed and ClusterError.
    """
    # The counts outlive the examination, whose lists of faults are large.
    waiting, owners, due = iter(examinations), {}, {}

    def show(one: Examination) -> None:
        due[one.design] = one.due()
        progress.at(*map(sum, zip(*due.values(), strict=True)))

    def proceeds(one: Examination) -> bool:
        """Adds the jobs of the next stage; returns False if there is none."""
        jobs = one.next()
        for job in jobs or ():
            owners[job] = one
            executor.add(job)
        one.left = len(jobs or ())
        show(one)
        return jobs is not None

    def begin() -> Iterator[Examination]:
        """Begins examinations; yields those that need no job."""
        while len(owners) < 2 * executor.width:
            one = next(waiting, None)
            if one is None:
                return
            if not proceeds(one):
                yield one

    yield from begin()
    for finished in executor.results():
        if finished.code == UNUSABLE:
            raise BackendUnavailable(finished.reason)
        one = owners.pop(finished.job)
        if finished.code:
            one.reason = finished.reason
            progress.fail(f"{', '.join(one.rows)}: {one.reason}")
        else:
            one.note(finished)
            show(one)
        one.left -= 1
        if not one.left and (one.reason or not proceeds(one)):
            yield one
        yield from begin()
