#include "common/rpc/token.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace kernelcast {
namespace {

// Shorter tokens could be guessed from their hash.
constexpr size_t kMinTokenSize = 32;
constexpr size_t kMaxTokenSize = 1024;
constexpr size_t kMaxTokens = 1000;
constexpr size_t kMaxNameSize = 64;

// Characters allowed after "Bearer " by RFC 6750.
bool IsTokenCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::strchr("-._~+/=", c) != nullptr;
}

absl::Status Error(const YAML::Node& node, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", node.Mark().line + 1, ": ", what));
}

absl::StatusOr<std::string> Scalar(const YAML::Node& node, const char* key) {
  if (!node.IsScalar() || node.Scalar().empty()) {
    return Error(node, absl::StrCat("'", key, "' wants a word"));
  }
  return node.Scalar();
}

absl::StatusOr<std::vector<Role>> ParseRoles(const YAML::Node& node) {
  if (!node.IsSequence() || node.size() == 0) {
    return Error(node, "'roles' must be a list of roles: submit, measure, admin");
  }
  std::vector<Role> roles;
  for (const YAML::Node& item : node) {
    const std::optional<Role> role = FindRole(item.IsScalar() ? item.Scalar() : "");
    if (!role) return Error(item, "a role is submit, measure or admin");
    roles.push_back(*role);
  }
  return roles;
}

absl::StatusOr<TokenHash> ParseHash(const YAML::Node& node) {
  // Not repeated in errors, because it might be the token itself.
  const std::string text = node.IsScalar() ? absl::AsciiStrToLower(node.Scalar()) : "";
  if (text.size() != 2 * sizeof(TokenHash) ||
      !std::ranges::all_of(text, [](char c) { return std::strchr("0123456789abcdef", c); })) {
    return Error(node, "'sha256' must be the hash of the token, 64 hexadecimal digits");
  }
  TokenHash hash{};
  std::ranges::copy(absl::HexStringToBytes(text), hash.begin());
  return hash;
}

absl::StatusOr<double> ParseRate(const YAML::Node& node) {
  double rate = 0;
  if (!node.IsScalar() || !absl::SimpleAtod(node.Scalar(), &rate) || !(rate > 0 && rate <= 1e6)) {
    return Error(node, "'calls_per_second' wants a number above 0, up to 1e6");
  }
  return rate;
}

absl::StatusOr<TokenTable::Entry> ParseEntry(const YAML::Node& node) {
  if (!node.IsMap()) return Error(node, "a token wants 'name', 'sha256' and 'roles'");
  TokenTable::Entry entry;
  std::set<std::string> seen;
  for (const auto& item : node) {
    const std::string key = item.first.IsScalar() ? item.first.Scalar() : "";
    if (!seen.insert(key).second) return Error(item.first, absl::StrCat("'", key, "' twice"));
    if (key == "name") {
      KC_ASSIGN_OR_RETURN(entry.name, Scalar(item.second, "name"));
      if (entry.name.size() > kMaxNameSize) return Error(item.second, "the name is too long");
    } else if (key == "sha256") {
      KC_ASSIGN_OR_RETURN(entry.hash, ParseHash(item.second));
    } else if (key == "roles") {
      KC_ASSIGN_OR_RETURN(entry.roles, ParseRoles(item.second));
    } else if (key == "calls_per_second") {
      KC_ASSIGN_OR_RETURN(entry.calls_per_second, ParseRate(item.second));
    } else {
      return Error(
          item.first,
          "a token has 'name', 'sha256', 'roles' and 'calls_per_second', and no other key");
    }
  }
  if (seen.size() != 3 + seen.count("calls_per_second"))
    return Error(node, "a token wants 'name', 'sha256' and 'roles'");
  return entry;
}

}  // namespace

std::string MakeToken() {
  std::string secret(32, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()),
                 static_cast<int>(secret.size())) != 1) {
    std::fprintf(stderr, "kernelcast: no random numbers\n");
    std::abort();
  }
  return absl::StrCat("kc_", absl::WebSafeBase64Escape(secret));
}

TokenHash HashToken(std::string_view token) {
  TokenHash hash{};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

std::string TokenHashText(const TokenHash& hash) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  KC_ASSIGN_OR_RETURN(std::string token, ReadTextFile(path));
  absl::StripAsciiWhitespace(&token);
  if (token.size() < kMinTokenSize || token.size() > kMaxTokenSize ||
      !std::ranges::all_of(token, IsTokenCharacter)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, " holds no token: one word of ", kMinTokenSize,
        " or more letters, digits and -._~+/=, as `kernelcast token` makes them, is wanted"));
  }
  return token;
}

bool TokenTable::Entry::Has(Role role) const {
  return std::ranges::find(roles, role) != roles.end();
}

absl::StatusOr<TokenTable> TokenTable::Parse(const std::string& yaml) {
  YAML::Node root;
  try {
    root = YAML::Load(yaml);
  } catch (const YAML::Exception& error) {
    // Without the parser's message, which may quote the file.
    return absl::InvalidArgumentError(absl::StrCat("line ", error.mark.line + 1, ": not YAML"));
  }
  if (!root.IsMap() || root.size() != 1 || !root["tokens"] || !root["tokens"].IsSequence()) {
    return absl::InvalidArgumentError("expected a single key 'tokens' with a list");
  }
  if (root["tokens"].size() > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat("there are more than ", kMaxTokens, " tokens"));
  }
  TokenTable table;
  std::set<std::string> names;
  std::set<TokenHash> hashes;
  for (const YAML::Node& node : root["tokens"]) {
    KC_ASSIGN_OR_RETURN(Entry entry, ParseEntry(node));
    if (!names.insert(entry.name).second) return Error(node, "two tokens have this name");
    if (!hashes.insert(entry.hash).second) return Error(node, "two tokens have this hash");
    table.entries_.push_back(std::move(entry));
  }
  return table;
}

absl::StatusOr<TokenTable> TokenTable::Read(const std::string& path) {
  KC_ASSIGN_OR_RETURN(const std::string yaml, ReadTextFile(path));
  absl::StatusOr<TokenTable> table = Parse(yaml);
  if (!table.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(table.status().message())));
  }
  return table;
}

const TokenTable::Entry* TokenTable::Find(std::string_view token) const {
  if (token.size() < kMinTokenSize || token.size() > kMaxTokenSize) {
    return nullptr;
  }
  const TokenHash hash = HashToken(token);
  const Entry* found = nullptr;
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0) {
      found = &entry;
    }
  }
  return found;
}

}  // namespace kernelcast
