/// Values that a rank fills into the text of its switchml.cfg: variables of the environment, and
/// numbers of the group.
///
/// Does not know what the values mean to SwitchML. All functions may be called on any thread while
/// no thread changes the environment.
#pragma once

#include <map>
#include <string>

namespace switchml_delegate {

/// Value of a key that asks the rank to fill it in.
constexpr const char* kAuto = "auto";

/// Appends a value that the rank has filled in to `filled`, a list for a message.
void noteFilled(std::string& filled, const std::string& key, const std::string& value);

/// Returns the text of a switchml.cfg with all values that the parser needs: `${NAME}` is replaced
/// in any value, and `numbers` are filled in where the key is "auto" or absent. All other text is
/// unchanged, and the client library refuses what is wrong in it. The filled values are noted in
/// `filled`. Throws std::invalid_argument if a variable cannot be substituted, or the text begins
/// with a byte order mark.
std::string fillIn(const std::string& whole, const std::map<std::string, int>& numbers,
                   std::string& filled);

}  // namespace switchml_delegate
