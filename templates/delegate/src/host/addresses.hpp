/// IPv4 addresses of this host.
#pragma once

#include <map>
#include <string>

#include "host/cards.hpp"

namespace switchml_delegate {

/// IPv4 addresses of the network interfaces by their names; empty if an interface has none.
using Interfaces = std::map<std::string, std::string>;

/// Throws std::runtime_error if the kernel does not list them.
Interfaces interfaces();

/// Returns the source address of packets from this host to `host`; empty if there is none of IPv4.
/// Resolves the name without a limit of its own.
std::string sourceAddress(const std::string& host);

/// Returns the address that `value` of worker_ip stands for: `value` itself; for `interface:NAME`
/// the address of that interface; for "auto" the address of the interface of `card`, else `other`.
/// Throws std::invalid_argument if there is no such address.
std::string workerAddress(const std::string& value, const Interfaces& known, const Card& card,
                          const std::string& other);

}  // namespace switchml_delegate
