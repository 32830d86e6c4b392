"""Checks of the way to the switch, in order: the result of each rank, and advice."""

from typing import Any, Callable, NamedTuple

from .finding import BAD, DOUBTFUL, GOOD, UNKNOWN, Finding

_DELEGATE = "switchml: "  # prefix of the delegate's lines
_DECISIVE = ("switchml", "torch", "simulator", "flags", "sources", "fixes")


class Check(NamedTuple):
    """One check of a part of the way to the switch."""

    name: str
    look: "Callable[[Any, list[Any]], Finding]"
    """Returns the finding for one rank, given all ranks, rank 0 first."""
    advice: str


def _good(words: str = "") -> Finding:
    return Finding(GOOD, words)


def _report(rank: Any) -> "dict[str, Any]":
    return dict(rank.get("attempt", {}).get("report") or {})


def _step(rank: Any) -> "str | None":
    """Return the step at which the agreement ended, empty if complete; None if it was not tried."""
    report = _report(rank)
    return report["step"] if report.get("world_size") else None


def _is_past(rank: Any, step: str) -> bool:
    return step in _report(rank).get("passed", ())


def look_at_ranks(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that every rank has come, and once."""
    if rank.get("absent"):
        return Finding(BAD, "did not come")
    twins = [one for one in ranks if one["rank"] == rank["rank"] and one is not rank]
    if twins:
        places = " and ".join(f"process {one['pid']} of {one['host']}" for one in twins)
        return Finding(BAD, f"{places} has this rank as well")
    if rank["world"] != ranks[0]["world"]:
        return Finding(BAD, f"WORLD_SIZE is {rank['world']}, rank 0 has {ranks[0]['world']}")
    return _good()


def look_at_software(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that all ranks have the same torch, with the same SwitchML."""
    if rank.get("absent"):
        return Finding(UNKNOWN, "")
    own, first = rank["software"], ranks[0].get("software", {})
    if not own["switchml"]:
        return Finding(BAD, own["problem"] or f"torch {own['torch']} has no SwitchML")
    others = [
        f"{name} is {own[name] or 'none'}, rank 0 has {first[name] or 'none'}"
        for name in _DECISIVE
        if first.get("switchml") and own[name] != first[name]
    ]
    if not others and own["switchml"] == "torch_switchml" and own["autoload"] != "1":
        return Finding(DOUBTFUL, "scripts have to import torch_switchml: torch loads no backends")
    return Finding(BAD, "; ".join(others)) if others else _good(own["torch"])


def look_at_gloo(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that Gloo connects the ranks."""
    error = rank.get("attempt", {}).get("error")
    if not error:
        return _good() if _step(rank) is not None else Finding(UNKNOWN, "")
    own = _odd_address(rank, ranks)
    if not own and any(_odd_address(one, ranks) for one in ranks):
        return Finding(UNKNOWN, "does not reach the others")
    return Finding(BAD, f"{own}: {error}" if own else error)


def _odd_address(rank: Any, ranks: "list[Any]") -> str:
    """Return why other hosts cannot connect to the address of a rank; empty if they can."""
    own, first = rank.get("address", ""), ranks[0].get("address", "")
    if any(one["host"] != rank["host"] for one in ranks):
        if own.startswith("127.") or own in {"", "::1"}:
            return f"its name leads to its loopback, {own}" if own else "its name has no address"
        if first and (":" in own) != (":" in first):
            return f"its address is {own}, that of rank 0 {first}"
    return ""


def look_at_file(rank: Any, _ranks: "list[Any]") -> Finding:
    """Check that this rank can use a switchml.cfg."""
    report = _report(rank)
    if _step(rank) == "capabilities" and report["objection"]:
        return Finding(BAD, report["objection"])
    filled = report.get("filled_in", "")
    return Finding(UNKNOWN, "") if _step(rank) is None else _good(filled)


def look_at_settings(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that all ranks have the same settings."""
    own, first = (_report(one).get("capabilities", {}) for one in (rank, ranks[0]))
    if not own or not first:
        return Finding(UNKNOWN, "")
    others = [f"{name}={own[name]}" for name in own if name in first and own[name] != first[name]]
    if {*own} != {*first}:
        others.append("other settings than rank 0")
    return Finding(BAD, ", ".join(others) + " differ from rank 0") if others else _good()


def look_at_machine(rank: Any, _ranks: "list[Any]") -> Finding:
    """Check that the host has what the backend needs."""
    found = [Finding(*one) for one in rank.get("machine", [])]
    for state in (BAD, DOUBTFUL):
        words = "; ".join(one.words for one in found if one.state == state)
        if words:
            return Finding(state, words)
    return Finding(UNKNOWN, "") if rank.get("absent") else _good("; ".join(o.words for o in found))


def look_at_controller(rank: Any, _ranks: "list[Any]") -> Finding:
    """Check that the controller's port answers."""
    if _step(rank) == "controller":
        return Finding(BAD, _report(rank)["objection"])
    return _good() if _is_past(rank, "controller") else Finding(UNKNOWN, "")


def look_at_session(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that the library started, and the controller accepted this worker."""
    words = _failed_start(rank)
    if not words:
        return _good() if _is_past(rank, "start") else Finding(UNKNOWN, "")
    at_fault = [one for one in ranks if _failed_start(one) and not _report(one).get("late")]
    if at_fault and rank not in at_fault:
        return Finding(UNKNOWN, "waited for the others")
    proxy = rank.get("proxy")
    words += f"; asks the proxy of {proxy}: unset it, or use a fixed library" if proxy else ""
    return Finding(BAD, words)


def _failed_start(rank: Any) -> str:
    """Return why the library of a rank did not start; empty if it did."""
    attempt = rank.get("attempt", {})
    if attempt.get("ended"):
        return ": ".join([f"the process {attempt['ended']}", *attempt["output"][-1:]])
    if _step(rank) == "start" and _report(rank)["objection"]:
        own = [line for line in attempt["output"] if not line.startswith(_DELEGATE)]
        return ": ".join([str(_report(rank)["objection"]), *own[-1:]])
    return ""


def look_at_packets(rank: Any, _ranks: "list[Any]") -> Finding:
    """Check that packets leave the card."""
    packets = _report(rank).get("packets")
    if not _is_past(rank, "start") or packets is None:
        return Finding(UNKNOWN, "")
    if packets["sent"] == 0:
        return Finding(BAD, "no packet left the card")
    return _good(f"{packets['sent']} sent")


def look_at_answers(rank: Any, ranks: "list[Any]") -> Finding:
    """Check that every packet was answered."""
    packets = _report(rank).get("packets")
    if packets is None and _step(rank) == "probe" and _report(rank)["objection"]:
        return Finding(BAD, _report(rank)["objection"])
    if not _is_past(rank, "start") or packets is None or packets["sent"] == 0:
        return Finding(UNKNOWN, "")
    if _step(rank) != "probe":
        return _good(f"{packets['answers']} answered, {packets['timeouts']} timeouts")
    wrong = f", {packets['wrong']} wrong frames" if packets["wrong"] else ""
    if packets["answers"] == 0:
        if _is_answered(rank) and not all(map(_is_answered, ranks)):
            return Finding(UNKNOWN, "without the other ranks, answers come")
        return Finding(BAD, f"sent {packets['sent']}, no answer{wrong}")
    words = f"sent {packets['sent']}, {packets['answers']} answered{wrong}"
    least = min((_report(one).get("packets") or packets)["answers"] for one in ranks)
    state = BAD if packets["answers"] == least else UNKNOWN
    return Finding(state, words)


def is_silent(ranks: "list[Any]") -> bool:
    """Return whether all ranks have sent packets, and no rank has an answer."""
    counts = [_report(rank).get("packets") or {} for rank in ranks]
    return all(one.get("sent") and not one["answers"] for one in counts)


def _is_answered(rank: Any) -> bool:
    """Return whether the switch answered the rank when the rank was alone."""
    return bool((rank.get("alone") or {}).get("answers"))


def look_at_sums(rank: Any, _ranks: "list[Any]") -> Finding:
    """Check that sums are right."""
    if _step(rank) == "sums" and _report(rank)["objection"]:
        return Finding(BAD, _report(rank)["objection"])
    if _report(rank).get("decision", "").startswith("WARNING"):
        return Finding(DOUBTFUL, "SWITCHML_ALLOW_FAKE_SUMS is set, so the sums are not checked")
    if not _step(rank) and _failure(rank):
        return Finding(BAD, _failure(rank))
    return _good() if _step(rank) == "sums" or _is_past(rank, "sums") else Finding(UNKNOWN, "")


def _failure(rank: Any) -> str:
    """Return the failure of a later allreduce, or empty."""
    report = _report(rank)
    return str(report.get("failure") or report.get("failover", {}).get("reason", ""))


CHECKS = (
    Check("ranks", look_at_ranks, "start each rank once, and all of them"),
    Check("software", look_at_software,
        "install the same torch, plugin and client library on all hosts"),
    Check("gloo", look_at_gloo,
        "name an interface with a way to the other hosts in GLOO_SOCKET_IFNAME, on all hosts one "
        "with IPv4, or on all with IPv6"),
    Check("switchml.cfg", look_at_file, "copy one file to all hosts, without rank and num_workers"),
    Check("settings", look_at_settings, "use the same switchml.cfg and variables on all hosts"),
    Check("machine", look_at_machine,
        "huge pages: echo 2048 > /proc/sys/vm/nr_hugepages, or a smaller pool_size; "
        "locked memory: ulimit -l unlimited; "
        "MTU: ip link set dev INTERFACE mtu 9000; link: the cable and the port"),
    Check("controller", look_at_controller,
        "start the controller, and check controller_ip and controller_port"),
    Check("session", look_at_session, "see the message; the controller serves one job at a time"),
    Check("packets", look_at_packets,
        "check worker_ip, and the card in extra_eal_options: the port that DPDK uses must have a "
        "link"),
    Check("answers", look_at_answers,
        "check the switch's port for this host: it must be up and set to the card's MAC, and "
        "every device on the way must take packets of this host's MTU"),
    Check("sums", look_at_sums, "end other jobs that use the switch, and use a fixed library"),
)  # fmt: skip


class Verdict(NamedTuple):
    """Findings of all ranks, by check, and the first check that fails."""

    ranks: "list[Any]"
    findings: "dict[str, list[Finding]]"
    failed: "Check | None"


def judge(ranks: "list[Any]") -> Verdict:
    """Run every check for every rank. The ranks are in order."""
    findings = {check.name: [check.look(rank, ranks) for rank in ranks] for check in CHECKS}
    failed = [check for check in CHECKS if any(one.state == BAD for one in findings[check.name])]
    left = [rank for rank in ranks if _step(rank)]
    if left and not failed:  # no check explains why the group does not delegate
        last = CHECKS[-1]
        why = _report(left[0]).get("reason", "")
        findings[last.name] = [Finding(BAD, why) if _step(rank) else _good() for rank in ranks]
        failed = [last]
    return Verdict(ranks, findings, failed[0] if failed else None)
