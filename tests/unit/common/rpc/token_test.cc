#include "common/rpc/token.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace kernelcast::token_test {
namespace {

std::string Hash(const std::string& token) { return TokenHashText(HashToken(token)); }

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST_CASE("A token is long, unique, and hashed by SHA-256", "[token]") {
  const std::string token = MakeToken();
  CHECK(token.size() == 3 + 43);
  CHECK(token.substr(0, 3) == "kc_");
  CHECK(token != MakeToken());
  CHECK(Hash("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("A token file lists the roles of each token", "[token]") {
  const std::string alice = MakeToken();
  const std::string bob = MakeToken();
  const auto table =
      TokenTable::Parse("tokens:\n- name: alice\n  sha256: " + Hash(alice) +
                        "\n  roles: [submit]\n- {name: bob, roles: [measure, admin], "
                        "sha256: " +
                        Hash(bob) + "}\n");
  REQUIRE(table.ok());
  REQUIRE(table->entries().size() == 2);
  const TokenTable::Entry* const found = table->Find(bob);
  REQUIRE(found != nullptr);
  CHECK(found->name == "bob");
  CHECK(found->Has(Role::kMeasure));
  CHECK(found->Has(Role::kAdmin));
  CHECK_FALSE(found->Has(Role::kSubmit));
  CHECK(table->Find(alice)->name == "alice");
  for (const std::string& stranger :
       {std::string(), MakeToken(), alice + "x", alice.substr(1), Hash(alice)}) {
    CHECK(table->Find(stranger) == nullptr);
  }
}

TEST_CASE("A short token is unknown even if its hash is listed", "[token]") {
  const auto table =
      TokenTable::Parse("tokens: [{name: weak, sha256: " + Hash("secret") + ", roles: [admin]}]");
  REQUIRE(table.ok());
  CHECK(table->Find("secret") == nullptr);
}

TEST_CASE("A token file error is reported with its line and without possible secrets", "[token]") {
  const std::string token = MakeToken();
  const std::string hash = Hash(token);
  const std::string good = "tokens:\n- name: a\n  sha256: " + hash + "\n  roles: [submit]\n";
  REQUIRE(TokenTable::Parse(good).ok());
  REQUIRE(TokenTable::Parse(good + "  calls_per_second: 2.5\n")->entries()[0].calls_per_second ==
          2.5);
  const struct {
    std::string yaml;
    std::string message;
  } cases[] = {
      {"", "'tokens'"},
      {"tokens:\n", "'tokens'"},
      {"tokens: {}\n", "'tokens'"},
      {good + "more: 1\n", "'tokens'"},
      {"tokens:\n- a\n", "line 2: a token wants"},
      {"tokens:\n- name: a\n  sha256: " + hash + "\n", "line 2: a token wants"},
      {"tokens:\n- name: a\n  sha256: " + token + "\n  roles: [submit]\n", "line 3: 'sha256'"},
      {"tokens:\n- name: a\n  sha256: " + hash + "\n  roles: [root]\n", "line 4: a role is"},
      {"tokens:\n- name: a\n  sha256: " + hash + "\n  roles: submit\n", "line 4: 'roles'"},
      {"tokens:\n- name: a\n  sha256: " + hash + "\n  roles: []\n", "line 4: 'roles'"},
      {"tokens:\n- name: a\n  name: b\n  sha256: " + hash + "\n  roles: [submit]\n",
       "line 3: 'name' twice"},
      {"tokens:\n- name: [a]\n  sha256: " + hash + "\n  roles: [submit]\n", "line 2: 'name'"},
      {"tokens:\n- name: a\n  token: " + token + "\n  roles: [submit]\n", "line 3: a token has"},
      {good + "- name: a\n  sha256: " + Hash("b") + "\n  roles: [submit]\n", "line 5: two"},
      {good + "- name: b\n  sha256: " + hash + "\n  roles: [submit]\n", "line 5: two"},
      {good + "  calls_per_second: many\n", "line 5: 'calls_per_second'"},
      {good + "  calls_per_second: 0\n", "line 5: 'calls_per_second'"},
      {good + "  calls_per_second: .nan\n", "line 5: 'calls_per_second'"},
      {"tokens: [" + token, "not YAML"},
  };
  for (const auto& [yaml, message] : cases) {
    INFO(yaml);
    const absl::Status status = TokenTable::Parse(yaml).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(Message(status), Catch::Contains(message));
    CHECK_THAT(Message(status), !Catch::Contains(token));
  }
}

TEST_CASE("A token file holds only the token", "[token]") {
  char pattern[] = "/tmp/kernelcast_test_XXXXXX";
  REQUIRE(mkdtemp(pattern) != nullptr);
  const std::string path = std::string(pattern) + "/token";
  const std::string token = MakeToken();
  std::ofstream(path) << token << "\n";
  const auto read = ReadToken(path);
  REQUIRE(read.ok());
  CHECK(*read == token);
  for (const std::string& content : {std::string(), std::string("short"), token + " " + token,
                                     token + "\r\nx: y", std::string(2000, 'x')}) {
    std::ofstream(path) << content;
    const absl::Status status = ReadToken(path).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(Message(status), Catch::Contains(path));
    CHECK_THAT(Message(status), !Catch::Contains(token));
  }
  std::filesystem::remove_all(pattern);
  CHECK_THAT(Message(ReadToken(path).status()), Catch::Contains("No such file"));
  CHECK_THAT(Message(TokenTable::Read(path).status()), Catch::Contains(path));
}

}  // namespace
}  // namespace kernelcast::token_test
