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

// A bearer token: 256 random bits, in base64url, after "kc_".
std::string MakeToken();
TokenHash HashToken(std::string_view token);
std::string TokenHashText(const TokenHash& hash);  // lower-case hex

// The token in a file, which holds nothing but it. INVALID_ARGUMENT names the file, never what is
// in it: a file that cannot be read, or that holds what is no token or too short to be a secret.
[[nodiscard]] absl::StatusOr<std::string> ReadToken(const std::string& path);

// Who may call a server, by the hashes of their tokens: the file is no secret.
class TokenTable {
 public:
  struct Entry {
    std::string name;
    TokenHash hash{};
    std::vector<Role> roles;
    std::optional<double> calls_per_second;  // none: any number

    bool Has(Role role) const;
  };

  // YAML:
  //   tokens:
  //     - name: alice
  //       sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  //       roles: [submit]
  //       calls_per_second: 50     # may be left out
  // INVALID_ARGUMENT says what is wrong and where: unknown keys, two of one name or hash, no tokens
  // at all.
  [[nodiscard]] static absl::StatusOr<TokenTable> Parse(const std::string& yaml);
  // The same of a file, which the error names.
  [[nodiscard]] static absl::StatusOr<TokenTable> Read(const std::string& path);

  // Null for a token that is not in the table. Takes as long wherever in the table it is.
  const Entry* Find(std::string_view token) const;
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_TOKEN_H_
