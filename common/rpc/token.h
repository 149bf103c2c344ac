#ifndef KERNELCAST_COMMON_RPC_TOKEN_H_
#define KERNELCAST_COMMON_RPC_TOKEN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/rpc/access.h"

namespace kernelcast {

using TokenHash = std::array<uint8_t, 32>;  // SHA-256

// A new bearer token: "kc_" and 256 random bits in base64url.
std::string MakeToken();
TokenHash HashToken(std::string_view token);
std::string TokenHashText(const TokenHash& hash);  // lower-case hex

// Reads a file that contains only a token. INVALID_ARGUMENT: the file cannot be read, or its
// content is not a token or too short to be a secret. The message names the file but never its
// content.
[[nodiscard]] absl::StatusOr<std::string> ReadToken(const std::string& path);

// The callers of a server, identified by hashes of their tokens, so that the file is not secret.
class TokenTable {
 public:
  struct Entry {
    std::string name;
    TokenHash hash{};
    std::vector<Role> roles;
    std::optional<double> calls_per_second;  // empty: unlimited

    bool Has(Role role) const;
  };

  // Parses YAML:
  //
  //   tokens:
  //     - name: alice
  //       sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  //       roles: [submit]
  //       calls_per_second: 50     # optional
  //
  // An empty list revokes every token. INVALID_ARGUMENT says what is wrong and where: unknown keys,
  // duplicate names or hashes, or no list.
  [[nodiscard]] static absl::StatusOr<TokenTable> Parse(const std::string& yaml);
  // Parses a file. The error names it.
  [[nodiscard]] static absl::StatusOr<TokenTable> Read(const std::string& path);

  // Null if the token is not in the table. Constant time, independent of the position in the table.
  const Entry* Find(std::string_view token) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_TOKEN_H_
