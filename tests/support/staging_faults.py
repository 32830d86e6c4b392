"""Faults of the plugin's staging, and the scenarios of tests/cpp/staging that find each of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

STAGING, STREAMS_OF, CODEC = "Staging.cpp", "CopyStreams.cpp", "SwitchMLCodec.hpp"
GROUP, REDUCE, WORK = "ProcessGroupSwitchML.cpp", "ReduceWork.cpp", "PoolWork.cpp"
AMONG = {"parts_among_sources", "parts_among_one"}
CUT = {"parts", "parts_of_strided", "parts_scattered", "parts_coalesced", *AMONG}
ELSEWHERE = {"elsewhere"}
DEVICES = {"devices"}
EARLY = {"waiting", "early"}
WAITED = {
    *EARLY, *ELSEWHERE, *DEVICES, *CUT, "again", "rejoined", "unrecorded",
    "streams", "strided", "scattered", "coalesced", "blocked", "captured", "captured_wait",
}  # fmt: skip
FUTURES = {"future", "callback"}
PAGEABLE = {"pageable"}  # the host waits for copies from the device to memory that is not pinned
DROPPED = {"dropped"}
AWAY = {"coalesced_away"}
REUSED = {*DROPPED, *AWAY, "unwaited", "scattered_away"}
PARTS_FAILED = {"parts_failed"}
FAILED = {"failed", *PARTS_FAILED}
LATE = {"timed_out"}
ABORTED = {"aborted"}
ONE_ORDER = LATE | ABORTED  # the device has nothing else to do
SCENARIOS = {*WAITED, *FUTURES, *PAGEABLE, *REUSED, *FAILED, *LATE, *ABORTED}


@dataclass(frozen=True)
class Fault:
    """A part of the plugin, statements or an expression, and what is there instead."""

    file: str
    part: str
    instead: str = ""
    wrong: set[str] | frozenset[str] = frozenset()
    """The scenarios in which a result is wrong then."""
    between: tuple[str, str] = ("", "")
    """Stands before and after the part, and stays."""
    until: str | None = None
    """The torch from which on the part is of no use, as torch does it itself."""
    since: str = "0"
    """The torch from which on the part is of use."""


GUARD = "const c10::DeviceGuard guard("
NOWHERE = "c10::Device(c10::kCPU)"  # a guard of it does nothing
STREAMS = "CopyStreams::of(device_)"
TAKEN = (
    "c10::impl::VirtualGuardImpl(device_.type())"
    ".getStreamFromGlobalPool(device_, /*isHighPriority=*/true)"
)
RECORD = "  produced_.record(currentStream());\n"
EVENT = "  done_.record(streams_.toDevice);\n"


PRESENT = "present"
FAULTS = {
    "no_wait_for_the_producer": Fault(
        STAGING, "  wait(produced_);\n", wrong=WAITED | FUTURES | PAGEABLE | LATE | ABORTED
    ),
    "no_wait_of_the_host": Fault(
        STAGING,
        "  wait(arrivals_[static_cast<std::size_t>(part)]);\n",
        "  static_cast<void>(part);\n",
        wrong=WAITED | FUTURES,
    ),
    "another_part_awaited": Fault(STAGING, "(last - 1) / partNumel_", "0 * last", wrong=CUT),
    "given_back_among_sources": Fault(STAGING, "(mayOverlap_)", "(false)", wrong=AMONG),
    "strides_not_compared": Fault(
        CODEC,
        "entries_[0].isAt(other.entries_[0])",
        "first().data_ptr() == other.first().data_ptr()",
        wrong={"parts_among_one"},
    ),
    "stream_not_recorded": Fault(
        STAGING,
        "  c10::impl::VirtualGuardImpl(device_.type())\n"
        "      .recordDataPtrOnStream(tensor.storage().data_ptr(), stream);\n",
        "  static_cast<void>(tensor);\n  static_cast<void>(stream);\n",
        wrong=REUSED,
    ),
    "target_not_recorded": Fault(
        STAGING,
        "recordStream(tensor, streams_.toDevice)",
        "recordStream(tensor, streams_.toHost)",
        wrong=REUSED,
    ),
    "no_wait_of_the_consumer": Fault(
        REDUCE, "    staging_->blockCurrentStream();\n", wrong=WAITED | PAGEABLE
    ),
    "future_without_the_stream": Fault(
        REDUCE,
        "  complete(failure, targets_);\n",
        "  guard.reset();\n"
        "  const c10::DeviceGuard device(targets_[0].device());\n"
        "  complete(failure, targets_);\n",
        wrong=FUTURES,
    ),
    "future_elsewhere": Fault(
        REDUCE,
        "  complete(failure, targets_);\n",
        "  guard.reset();\n  complete(failure, targets_);\n",
        wrong=SCENARIOS - DEVICES - FAILED - LATE - ABORTED,
    ),
    "no_wait_after_a_failure": Fault(
        REDUCE, "staging_->waitUntilIdle()", "static_cast<void>(0)", wrong=PARTS_FAILED
    ),
    "event_not_recorded": Fault(STAGING, EVENT, wrong=WAITED | PAGEABLE | PARTS_FAILED),
    "started_elsewhere": Fault(
        STAGING, "device_", NOWHERE, wrong=ELSEWHERE, between=(GUARD, f");\n{RECORD}")
    ),
    "blocked_elsewhere": Fault(
        STAGING, "device_", NOWHERE, wrong=ELSEWHERE, between=(GUARD, ");\n  checkNotCapturing(")
    ),
    "ended_elsewhere": Fault(
        STAGING, "device_", NOWHERE, wrong=ELSEWHERE | DROPPED, between=("tryOnDevice(", ", [this]")
    ),
    "future_ended_elsewhere": Fault(
        WORK, "future_->devices()[0]", NOWHERE, wrong=ELSEWHERE | DROPPED, until="2.6"
    ),
    "streams_of_each_call": Fault(
        STAGING, STREAMS, f"CopyStreams{{{TAKEN}, {TAKEN}}}", wrong={"again"}, between=("(", "),")
    ),
    "no_limit": Fault(
        STAGING, "timeout", "std::chrono::milliseconds::max()", wrong=LATE, between=(">= ", ") {")
    ),
    "abort_not_noticed": Fault(STAGING, "aborted->load()", "false", wrong=ABORTED),
    "aborted_for_good": Fault(GROUP, "  *aborted_ = false;\n", wrong={"rejoined"}),
    "record_ends_the_work": Fault(
        WORK,
        "      future_->markCompleted(tensors);\n",
        "      call_.record();\n      future_->markCompleted(tensors);\n",
        wrong={"unrecorded"},
    ),
    "capture_not_refused": Fault(
        GROUP, "    checkNotCapturing(sources[0].device());\n", wrong={"captured"}
    ),
    "captured_wait_not_refused": Fault(
        STAGING, "  checkNotCapturing(device_);\n", wrong={"captured_wait"}
    ),
    "default_stream_captured": Fault(
        STAGING,
        "c10::impl::VirtualGuardImpl(device.type()).getStream(device)",
        "c10::impl::VirtualGuardImpl(device.type()).getDefaultStream(device)",
        wrong={"captured", "captured_wait"},
    ),
    "streams_of_another_device": Fault(
        STREAMS_OF, "streams_.find(device.index())", "streams_.find(1)", wrong=DEVICES
    ),
    "fetched_to_the_front": Fault(
        STAGING,
        "begin",
        "begin % partNumel_",
        wrong=CUT,
        between=("viewOf(row_, ", ", part).copy_("),
    ),
    "given_back_from_the_front": Fault(
        STAGING,
        "begin",
        "begin % partNumel_",
        wrong=CUT - {"parts_scattered"},  # its target is in the first part
        between=("part.copy_(viewOf(row_, ", ", part), "),
    ),
    "event_of_the_first_part": Fault(
        STAGING,
        EVENT,
        f"  if (first == 0) {{\n{EVENT}  }}\n",
        wrong=CUT - {"parts_scattered"},
    ),
    "first_target_recorded": Fault(
        STAGING,
        "recordStream(tensor, streams_.toDevice)",
        "recordStream(targets_.first(), streams_.toDevice)",
        wrong=AWAY,
        since="2.1",
    ),
    "abort_reported_as_late": Fault(
        STAGING,
        "wait_.aborted",
        "std::make_shared<const std::atomic<bool>>(!wait_.aborted->load())",
        wrong=LATE | ABORTED,
        between=("(*", " ? std::string(kGroupAborted)"),
    ),
    "limit_of_the_group": Fault(
        GROUP,
        "WaitOptions{timeout, aborted_}",
        "WaitOptions{timeout_.load(), aborted_}",
        wrong=LATE,
    ),
    "given_up_with_the_work": Fault(REDUCE, "  allreduce_.reset();\n", wrong=LATE | ABORTED),
    "arrivals_destroyed_elsewhere": Fault(
        STAGING, "    arrivals_.clear();\n", wrong=ELSEWHERE | DROPPED
    ),
    "row_destroyed_elsewhere": Fault(STAGING, "    row_.reset();\n", wrong=ELSEWHERE | DROPPED),
}
SLOW = {"copy_back_awaited", "producer_awaited"}
IN_TURN = {"copies_in_turn", "next_part_awaited", "all_parts_awaited"}
BEHIND = "producer_awaited_by_stream"
VARIANTS: Mapping[str, Fault | None] = {
    PRESENT: None,
    **FAULTS,
    "copy_back_awaited": Fault(
        STAGING, EVENT, f"{EVENT}  waitUntilIdle();\n",
    ),
    "producer_awaited": Fault(
        STAGING, RECORD,
        f"{RECORD}  poll(produced_, std::chrono::milliseconds(200), nullptr);\n",
    ),
    BEHIND: Fault(STAGING, RECORD, f"{RECORD}  produced_.block(streams_.toHost);\n"),
    "copies_in_turn": Fault(
        STAGING, STREAMS, f"CopyStreams{{{STREAMS}.toHost, {STREAMS}.toHost}}", between=("(", "),")
    ),
    "next_part_awaited": Fault(
        STAGING, "(last - 1) / partNumel_",
        "std::min(last / partNumel_, static_cast<std::int64_t>(arrivals_.size()) - 1)",
    ),
    "all_parts_awaited": Fault(STAGING, "(mayOverlap_)", "(true)"),
}  # fmt: skip


def varied(file: str, text: str) -> str:
    """Return a file of the plugin in which each variant has its own parts."""
    others: dict[tuple[str, tuple[str, str]], dict[str, str]] = defaultdict(dict)
    for name, made in VARIANTS.items():
        if made and made.file == file:
            others[made.part, made.between][name] = made.instead
    for (part, (before, after)), instead in others.items():
        assert text.count(before + part + after) == 1, f"{file} has this no more: {before}{part}"
        whole = part
        for name, other in instead.items():
            runs = f'::variantIs("{name}")'
            if part.endswith(";\n"):
                whole = f"    if ({runs}) {{\n{other}    }} else {{\n{whole}    }}\n"
            else:
                whole = f"({runs} ? {other} : {whole})"
        text = text.replace(before + part + after, before + whole + after)
    return text
