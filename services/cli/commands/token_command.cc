#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/rpc/token.h"
#include "services/cli/commands/context.h"

namespace kernelcast::cli {
namespace {

struct TokenFlags {
  std::string name;
  std::vector<std::string> roles;
  std::string output;
};

// Creates a file that only its owner can read.
absl::Status WriteSecret(const std::string& path, const std::string& content) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot make ", path, ": ", strerror(errno)));
  }
  const ssize_t written = write(fd, content.data(), content.size());
  const bool flushed = fsync(fd) == 0;
  if (close(fd) != 0 || !flushed || written != static_cast<ssize_t>(content.size())) {
    unlink(path.c_str());
    return absl::UnavailableError(absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> RunToken(Context& context, const TokenFlags& flags) {
  const std::string token = MakeToken();
  const std::string hash = TokenHashText(HashToken(token));
  const std::string entry = absl::StrCat("  - name: ", flags.name, "\n    sha256: ", hash,
                                         "\n    roles: [", absl::StrJoin(flags.roles, ", "), "]\n");
  // Services would reject a list that they cannot parse.
  KC_RETURN_IF_ERROR(TokenTable::Parse(absl::StrCat("tokens:\n", entry)).status());
  KC_RETURN_IF_ERROR(WriteSecret(flags.output, absl::StrCat(token, "\n")));
  context.console.Out(entry);
  context.console.Line(
      {{"name", flags.name}, {"sha256", hash}, {"roles", flags.roles}, {"file", flags.output}});
  return ExitCode::kOk;
}

}  // namespace

void AddTokenCommand(CLI::App& app, Context& context) {
  const auto flags = std::make_shared<TokenFlags>();
  CLI::App* token = AddCommand(
      app, context, "token",
      "Make a token: writes it to a file and prints the entry for the services' token files",
      [&context, flags] { return RunToken(context, *flags); });
  token->add_option("NAME", flags->name, "Name of the holder, shown when a call is refused")
      ->required()
      ->check([](const std::string& name) {
        const bool good = !name.empty() && name.size() <= 64 &&
                          name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789-_.") == std::string::npos;
        return good ? "" : "a name has up to 64 letters, digits and -_.";
      });
  token
      ->add_option("--role", flags->roles, "Role granted by the token; may be given more than once")
      ->required()
      ->take_all()
      ->expected(1)
      ->check(CLI::IsMember({"submit", "measure", "admin"}));
  token->add_option("-o,--output", flags->output, "Output file, which must not exist")
      ->required()
      ->type_name("FILE");
}

}  // namespace kernelcast::cli
