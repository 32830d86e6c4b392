/// States which torch this graft is for, and ends a process in which it is loaded with another one.
///
///   1. The tool and the import hook read `switchml_graft_identity` from the file, without loading
///      the graft.
///   2. When the dynamic linker loads the graft, the constructor function refuseOtherTorch() looks
///      at all libraries of the process.
///   3. If one has the name of a library of torch but another fingerprint, it prints an error and
///      exits: objects of another build have other layouts.
#include <link.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "identity.inc"

extern "C" {
extern const char switchml_graft_identity[];
const char switchml_graft_identity[] = SWITCHML_GRAFT_IDENTITY;
}

namespace {

constexpr long kBlock = 65536;  // bytes at each end of a file that the fingerprint covers
constexpr std::size_t kFingerprintSize = 64;

struct Library {
  const char* name;
  const char* fingerprint;
};

constexpr Library kLibraries[] = {SWITCHML_GRAFT_LIBRARIES};

/// Returns the CRC-32 of the bytes so far and of `data`, as zlib's crc32().
std::uint32_t crc32(std::uint32_t previous, const char* data, std::size_t size) {
  auto state = ~previous;
  for (std::size_t i = 0; i < size; ++i) {
    state ^= static_cast<unsigned char>(data[i]);
    for (int bit = 0; bit < 8; ++bit) {
      state = (state >> 1) ^ ((state & 1U) != 0 ? 0xEDB88320U : 0U);
    }
  }
  return ~state;
}

/// Writes the size of a library, and a checksum of its beginning and end. Returns false if the
/// library cannot be read.
bool fingerprint(const char* path, std::array<char, kFingerprintSize>& out) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path, "rbe"), &std::fclose);
  if (file == nullptr || std::fseek(file.get(), 0, SEEK_END) != 0) {
    return false;
  }
  const long size = std::ftell(file.get());
  const std::unique_ptr<std::array<char, kBlock>> block(new std::array<char, kBlock>);
  std::uint32_t check = 0;
  for (const long start : {0L, size > kBlock ? size - kBlock : 0L}) {
    if (std::fseek(file.get(), start, SEEK_SET) != 0) {
      return false;
    }
    check = crc32(check, block->data(), std::fread(block->data(), 1, block->size(), file.get()));
  }
  std::snprintf(out.data(), out.size(), "%ld-%08x", size, check);
  return true;
}

/// True if the file has the name, perhaps with a version behind it.
bool isNamed(const char* path, const char* name) {
  const char* const slash = std::strrchr(path, '/');
  const char* const base = slash == nullptr ? path : slash + 1;
  const auto length = std::strlen(name);
  return std::strncmp(base, name, length) == 0 && (base[length] == '\0' || base[length] == '.');
}

int checkLibrary(dl_phdr_info* info, std::size_t, void*) {
  std::array<char, kFingerprintSize> found{};
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

__attribute__((constructor)) void refuseOtherTorch() { dl_iterate_phdr(checkLibrary, nullptr); }

}  // namespace
