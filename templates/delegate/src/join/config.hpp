/// Meaning of a SwitchML configuration: whether it gives real sums, its requirements of the switch
/// and of the client library, and its terms, which must be the same on every rank.
///
/// The functions depend on their arguments, the flags of the library and the environment alone.
#pragma once

#include <switchml/context.h>

#include <cstdint>
#include <string>

#include "join/settings.hpp"

namespace switchml_delegate {

#ifdef SWITCHML_SIMULATOR
constexpr bool kSimulator = true;
#else
constexpr bool kSimulator = false;
#endif

/// Mark of the client library, which says how it was made; empty if it has none.
inline std::string clientMark() { return SWITCHML_DELEGATE_CLIENT; }

/// True if the results are not sums over the ranks. One worker alone has nothing to sum, the dummy
/// backend sends nothing, bypass does not convert for the switch, and instant jobs do nothing. In
/// the simulator, dummy and bypass do sum.
bool sumsAreFake(const switchml::GeneralConfig& config);

/// True if packets travel to a switch.
bool usesSwitch(const switchml::GeneralConfig& config);

/// Elements that travel together: a packet, or a message of several packets with RDMA.
std::uint64_t messageNumel(const switchml::Config& config);

/// Messages that a worker has under way at most.
std::uint64_t outstanding(const switchml::Config& config);

/// True if the context can be started anew in the process in which it was stopped.
bool startsAgain(const switchml::GeneralConfig& config);

/// True if a controller has to be reached before the context is started again.
bool hasController(const switchml::Config& config);

/// Reason why the configuration is refused: the client library would abort the process, or its
/// answers would not be sums. Empty if it is not refused.
std::string reasonUnusable(const switchml::Config& config);

/// Terms of this rank, as NAME=VALUE with spaces between them, which must be the same on all ranks:
/// those of the configuration and of the settings.
std::string termsOf(const switchml::Config& config, const Settings& settings);

}  // namespace switchml_delegate
