"""The trainings and the events, one after another, and what came of them."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from support.chaos import plan as plans
from support.chaos.job import Attempt, Progress, Starter, Work
from support.chaos.leftovers import Leftovers
from support.chaos.plan import Event
from support.chaos.switches import Simulated
from support.chaos.wired import Wired
from support.launcher import Launcher

# Seconds without a step, of ranks that nothing keeps from it. Where a rank is killed while they
# connect, Gloo tries it for several times the group's timeout, and rank 0 waits for the others.
HUNG = 150.0
EXPLAINED = 8  # times what rounding errors were seen to do
# Calls by Gloo, after which ranks are started again: those that do not return to the switch, and
# those that do, at calls 64, 128, 256 and 512.
_UNTIL_STARTED, _UNTIL_RETURNED = 20, 600
_POLL = 0.02  # seconds


class Fault(Exception):  # noqa: N818  # a finding of the test
    """Problem that ends the run: a hang, or a rank that ends as it must not."""


@dataclass(frozen=True)
class Reference:
    """Outcome of the undisturbed training."""

    weights: npt.NDArray[np.float32]
    spread: float
    """Largest deviation of a weight that rounding errors brought about."""


@dataclass
class Outcome:
    """Outcome of all events."""

    problems: list[str] = field(default_factory=list)
    trainings: Counter[str] = field(default_factory=Counter)
    failovers: int = 0
    """Failovers, counted once for all ranks."""
    returns: int = 0
    """Returns to the switch, counted once as well."""
    attempts: int = 0
    longest: float = 0.0
    """Seconds from an event to the next step of all ranks, at most."""
    deviations: dict[str, float] = field(default_factory=dict)
    """Largest deviation of a weight from the undisturbed training, in what rounding explains."""


@dataclass
class Chaos:
    """Trainings that events disturb."""

    starter: Starter
    switch: Simulated | Wired
    directory: Path
    steps: Mapping[str, int]
    """Steps of each network's training; they take turns."""
    temporary: Path
    """Directory of all temporary files."""
    say: Callable[[str], object]
    outcome: Outcome = field(default_factory=Outcome)

    def __post_init__(self) -> None:
        self._references: dict[str, Reference] = {}
        self._turn = itertools.cycle(self.steps)
        self._number = 0
        self._work: Work | None = None
        self._attempt: Attempt | None = None
        self._pids: set[int] = set()

    def run(self, events: Iterable[Event], count: int) -> Outcome:
        """Run the events, then let the training end."""
        begun = time.monotonic()
        self._explain()
        leftovers = Leftovers(self.temporary, self.switch.networks)
        try:
            self.switch.start()
            for number, event in enumerate(events, 1):
                where = self._find_moment(event)
                at = time.monotonic() - begun
                found = self._happen(event)
                self.say(f"{number:4} of {count}  {at:6.1f} s  {where}: {event}: {found}")
            self._finish()
        except Fault as fault:
            self.outcome.problems.append(str(fault))
        finally:
            if self._attempt is not None:
                self._attempt.end()
            self.switch.close()
        left = leftovers.find(self._pids)
        self.outcome.problems += [f"left behind: {thing}" for thing in left]
        return self.outcome

    # ---- what the trainings are compared with ----------------------------------------------------

    def _explain(self) -> None:
        started = {name: self.starter.explain(name, steps) for name, steps in self.steps.items()}
        for name, one in started.items():
            (rank,) = Launcher.collect([one])
            spread = rank.result["spread"]
            weights = np.fromfile(one.cwd / "weights", np.float32)
            self._references[name] = Reference(weights, spread)

    def _compare(self, work: Work, attempt: Attempt) -> None:
        """Compare the weights of a training that has ended."""
        found = [np.fromfile(rank.cwd / "weights", np.float32) for rank in attempt.started]
        reference = self._references[work.network]
        if any(one.tobytes() != found[0].tobytes() for one in found):
            self.outcome.problems.append(f"{work.network}: ranks have other weights")
        deviation = float(np.abs(found[0] - reference.weights).max()) / reference.spread
        worst = self.outcome.deviations
        worst[work.network] = max(deviation, worst.get(work.network, 0.0))
        if not deviation <= EXPLAINED:  # as NaN is not
            self.outcome.problems.append(
                f"{work.network}: the weights differ {deviation:.1f} times as much as by rounding: "
                f"a sum was wrong"
            )
        self.outcome.trainings[work.network] += 1

    # ---- attempts --------------------------------------------------------------------------------

    def _begin(self) -> Attempt:
        """Start the ranks of the training, or of the next one."""
        if self._work is None:
            self._number += 1
            network = next(self._turn)
            checkpoint = self.directory / f"training-{self._number}"
            self._work = Work(network, self.steps[network], checkpoint)
        self.outcome.attempts += 1
        self._attempt = self.starter.start(self._work)
        return self._attempt

    def _collect(self) -> None:
        """Judge an attempt whose ranks have ended."""
        attempt, work = self._attempt, self._work
        assert attempt is not None
        assert work is not None
        self._attempt = None
        progress = attempt.progress()
        self._pids |= {one.pid for one in progress}
        self.outcome.failovers += max((one.failovers for one in progress), default=0)
        self.outcome.returns += max((one.returns for one in progress if one.returns > 0), default=0)
        ranks = Launcher.collect(attempt.started)
        ended = {n: rank for n, rank in enumerate(ranks) if n not in attempt.killed}
        none_gone = len(ended) == len(attempt.started)
        steps = []
        for number, rank in ended.items():
            if rank.code != 0:
                last = "\n  ".join(rank.err.splitlines()[-12:])
                raise Fault(f"rank {number} ended with {rank.code}:\n  {last}")
            if "step" in rank.result:
                steps.append(rank.result["step"])
            elif none_gone:
                raise Fault(f"rank {number} raised, and none is gone: {rank.result['failed']}")
        if steps == [work.steps] * len(attempt.started):
            self._compare(work, attempt)
            self._work = None
            work.checkpoint.unlink(missing_ok=True)

    def _watch(self, *, begins: bool) -> Attempt | None:
        """Observe the running attempt for a moment, or a new one (`begins`)."""
        time.sleep(_POLL)
        if self._attempt is not None and self._attempt.poll():
            self._collect()
        if self._attempt is None and begins:
            self._begin()
        return self._attempt

    def _check_end(self, attempt: Attempt, *, are_to_end: bool = False) -> None:
        """Check that all ranks end soon after one has, and do not run for ever where all are to."""
        if attempt.ended is not None and time.monotonic() - attempt.ended > HUNG:
            codes = attempt.codes
            raise Fault(f"HANG: only these ranks have ended, {HUNG:.0f} s ago: {codes}")
        if are_to_end and time.monotonic() - attempt.begun > 4 * HUNG:
            raise Fault("HANG: the ranks are to end, and do not")

    def _wait_delegating(self) -> Attempt:
        """Wait until the ranks of an attempt delegate."""
        before: dict[int, Progress] = {}
        last, since = None, time.monotonic()
        while True:
            attempt = self._watch(begins=True)
            assert attempt is not None
            self._check_end(attempt)
            now = attempt.progress()
            steps = (attempt.begun, *(one.steps for one in now))
            if steps != last:
                last, since = steps, time.monotonic()
            if time.monotonic() - since > HUNG:
                raise Fault(f"HANG: the ranks are at steps {steps[1:]} since {HUNG:.0f} s")
            if not now or attempt.ended is not None or attempt.signalled:
                continue
            fresh = not before or {one.pid for one in now} != set(before)
            if fresh:
                before = {one.pid: one for one in now}
                continue
            if all(one.calls > before[one.pid].calls for one in now):
                return attempt
            patience = _UNTIL_STARTED if now[0].returns < 0 else _UNTIL_RETURNED
            if min(one.gloo - before[one.pid].gloo for one in now) > patience:
                attempt.ask()

    # ---- events ----------------------------------------------------------------------------------

    def _find_moment(self, event: Event) -> str:
        """Wait for the moment of an event; return where the training is then."""
        if event.early:
            if self._attempt is not None:
                self._attempt.ask()
                while (ending := self._watch(begins=False)) is not None:
                    self._check_end(ending, are_to_end=True)
            self._begin()
        else:
            self._wait_delegating()
        until = time.monotonic() + event.moment
        while time.monotonic() < until:
            self._watch(begins=True)
        attempt = self._attempt
        assert attempt is not None
        assert self._work is not None
        step = min((one.steps for one in attempt.progress()), default=-1)
        return f"{self._work.network}, {f'step {step}' if step >= 0 else 'start'}"

    def _happen(self, event: Event) -> str:
        """Run an event, wait until the ranks continue, and return the outcome."""
        attempt = self._attempt
        assert attempt is not None
        before = attempt.progress()
        begun = time.monotonic()
        victim = int(event.rank * len(attempt.started))
        with contextlib.ExitStack() as stack:
            if event.kind == plans.KILL_SWITCH:
                self.switch.kill()
            elif event.kind == plans.KILL_CONTROLLER:
                self.switch.kill_controller()
            elif event.kind == plans.STOP_SWITCH:
                process = self.switch.processes["switch"]
                os.kill(process, signal.SIGSTOP)
                stack.callback(os.kill, process, signal.SIGCONT)
            elif event.kind in {plans.LOSE_ALL, plans.LOSE_SOME}:
                share = 1.0 if event.kind == plans.LOSE_ALL else 0.05
                stack.enter_context(self.switch.losing(share))
            elif event.kind == plans.STOP_RANK:
                self._send(attempt, victim, signal.SIGSTOP)
                stack.callback(attempt.send, victim, signal.SIGCONT)
            else:
                self._send(attempt, victim, signal.SIGKILL)
            went_on = self._let_pass(attempt, before, begun, event.seconds)
        self.switch.start()
        return self._recover(attempt, before, begun, went_on)

    @staticmethod
    def _send(attempt: Attempt, victim: int, number: signal.Signals) -> None:
        """Send a rank a signal once it has begun, unless it has ended."""
        deadline = time.monotonic() + HUNG
        while not attempt.send(victim, number) and victim not in attempt.codes:
            if time.monotonic() > deadline:
                raise Fault(f"HANG: rank {victim} does not start")
            time.sleep(_POLL)

    def _let_pass(
        self, attempt: Attempt, before: Sequence[Progress], begun: float, seconds: float
    ) -> float | None:
        """Wait some seconds; return after how many all ranks had made another step."""
        went_on = None
        while time.monotonic() - begun < seconds:
            if self._watch(begins=False) is attempt and went_on is None:
                went_on = self._time_of_step(attempt, before, begun)
        return went_on

    @staticmethod
    def _time_of_step(attempt: Attempt, before: Sequence[Progress], begun: float) -> float | None:
        """Return the time since an event began, if all ranks have made a step since."""
        now = attempt.progress()
        if before:  # the sums of one step may have been under way
            goes = all(one.steps > was.steps + 1 for one, was in zip(now, before))
        else:
            goes = all(one.calls + one.gloo > 0 for one in now)
        return time.monotonic() - begun if now and goes else None

    def _recover(
        self, attempt: Attempt, before: Sequence[Progress], begun: float, went_on: float | None
    ) -> str:
        """Wait until ranks continue or have ended; return which."""
        while went_on is None and self._watch(begins=False) is attempt:
            self._check_end(attempt)
            if attempt.ended is None:
                went_on = self._time_of_step(attempt, before, begun)
            if time.monotonic() - begun > HUNG:
                where = [one.steps for one in attempt.progress()]
                raise Fault(f"HANG: {HUNG:.0f} s after it the ranks are at steps {where}")
        took = time.monotonic() - begun
        after = max((one.failovers for one in attempt.progress()), default=0)
        failed_over = after > max((one.failovers for one in before), default=0)
        if self._attempt is not attempt:
            codes = sorted({code for code in attempt.codes.values() if code < 0})
            if not attempt.killed and not codes:
                return "the training has ended"
            self._wait_delegating()
            again = time.monotonic() - begun
            ended = f"the ranks have ended after {took:.1f} s {codes or ''}"
            return f"{ended}, and delegate again after {again:.1f} s"
        assert went_on is not None
        self.outcome.longest = max(self.outcome.longest, went_on)
        way = "over Gloo" if failed_over else "as before"
        return f"goes on {way} after {went_on:.1f} s"

    def _finish(self) -> None:
        """Let the running training end."""
        while True:
            attempt = self._watch(begins=False)
            if attempt is None and self._work is None and self.outcome.trainings:
                return
            self._check_end(attempt or self._begin(), are_to_end=True)
