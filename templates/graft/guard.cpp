/// Says which torch this graft is for, and ends a process that has loaded it with the libraries of
/// another: their objects have other layouts, so nothing after that would be right.
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "identity.inc"

extern "C" {
/// Read from the file by those who have yet to decide whether they load it.
extern const char switchml_graft_identity[];
const char switchml_graft_identity[] = SWITCHML_GRAFT_IDENTITY;
}

namespace {

constexpr long kEnds = 65536;
constexpr std::size_t kFingerprint = 64;

struct Library {
  const char* name;
  const char* fingerprint;
};

constexpr Library kLibraries[] = {SWITCHML_GRAFT_LIBRARIES};

/// The checksum of IEEE 802.3, as zlib has it: that of what came before, and of these bytes.
std::uint32_t crc32(std::uint32_t before, const char* data, std::size_t size) {
  auto state = ~before;
  for (std::size_t i = 0; i < size; ++i) {
    state ^= static_cast<unsigned char>(data[i]);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~state;
}

/// Writes the size of a library, and a checksum of its beginning and end. False where it cannot be
/// read.
bool fingerprint(const char* path, std::array<char, kFingerprint>& out) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rbe"), &std::fclose);
  if (file == nullptr || std::fseek(file.get(), 0, SEEK_END) != 0) {
    return false;
  }
  const long size = std::ftell(file.get());
  const std::unique_ptr<std::array<char, kEnds>> block(new std::array<char, kEnds>);
  std::uint32_t check = 0;
  for (const long start : {0L, size > kEnds ? size - kEnds : 0L}) {
    if (std::fseek(file.get(), start, SEEK_SET) != 0) {
      return false;
    }
    check = crc32(check, block->data(), std::fread(block->data(), 1, block->size(), file.get()));
  }
  std::snprintf(out.data(), out.size(), "%ld-%08x", size, check);
  return true;
}

bool isNamed(const char* path, const char* name) {
  const char* const slash = std::strrchr(path, '/');
  const char* const base = slash == nullptr ? path : slash + 1;
  const auto length = std::strlen(name);
  return std::strncmp(base, name, length) == 0 && (base[length] == '\0' || base[length] == '.');
}

int look(dl_phdr_info* info, std::size_t, void*) {
  std::array<char, kFingerprint> found{};
  for (const auto& library : kLibraries) {
    if (isNamed(info->dlpi_name, library.name) && fingerprint(info->dlpi_name, found) &&
        std::strcmp(found.data(), library.fingerprint) != 0) {
      std::fprintf(stderr,
                   "switchml: error: this graft is for %s only, but %s is another build; "
                   "make the graft again with: switchml-patch graft\n",
                   SWITCHML_GRAFT_TORCH, info->dlpi_name);
      _exit(1);
    }
  }
  return 0;
}

__attribute__((constructor)) void refuseAnotherTorch() { dl_iterate_phdr(look, nullptr); }

}  // namespace
