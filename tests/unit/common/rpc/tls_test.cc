#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/health_client.h"
#include "common/rpc/server.h"
#include "tests/unit/common/rpc/test_certificates.h"

namespace kernelcast {
namespace {

// An authority with a certificate for a server and one for a client, and a stranger, as files.
class Files {
 public:
  Files() {
    char pattern[] = "/tmp/kernelcast_test_XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    folder_ = pattern;
    const PemPair authority = MakeAuthority("authority");
    const PemPair stranger = MakeAuthority("stranger");
    Write("ca.pem", authority.certificate);
    Write("other_ca.pem", stranger.certificate);
    WritePair("server", MakeCertificate(authority, "server"));
    WritePair("client", MakeCertificate(authority, "client"));
    WritePair("stranger", MakeCertificate(stranger, "client"));
    Write("garbage.pem", "not a certificate\n");
  }
  ~Files() { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  void Write(const std::string& name, const std::string& content) const {
    // By rename, as secrets are replaced.
    std::ofstream(Path("new")) << content;
    std::filesystem::rename(Path("new"), Path(name));
  }
  void WritePair(const std::string& name, const PemPair& pair) const {
    Write(name + ".pem", pair.certificate);
    Write(name + ".key", pair.key);
  }
  // `name` "": no certificate; `ca` "": no authority.
  TlsOptions Options(const std::string& name, const std::string& ca) const {
    TlsOptions tls;
    if (!name.empty()) {
      tls.certificate_file = Path(name + ".pem");
      tls.key_file = Path(name + ".key");
    }
    if (!ca.empty()) {
      tls.ca_file = Path(ca);
    }
    tls.reload_interval = absl::Seconds(1);
    return tls;
  }

 private:
  std::string folder_;
};

std::unique_ptr<RpcServer> MustStart(const TlsOptions& tls) {
  ServerOptions options;
  options.tls = tls;
  auto server = RpcServer::Start(options, {}, nullptr);
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return *std::move(server);
}

absl::Status Call(const RpcServer& server, const TlsOptions& tls,
                  absl::Duration timeout = absl::Seconds(10)) {
  ChannelOptions options;
  options.tls = tls;
  const auto channel = MakeChannel(server.address(), options);
  REQUIRE(channel.ok());
  return CheckHealthBlocking(*channel, "", timeout);
}

}  // namespace

TEST_CASE("A TLS server is reached by those who trust its authority", "[tls]") {
  const Files files;
  const auto server = MustStart(files.Options("server", ""));
  CHECK(Call(*server, files.Options("", "ca.pem")).ok());
  CHECK(Call(*server, files.Options("", "other_ca.pem")).code() == absl::StatusCode::kUnavailable);
  CHECK_FALSE(Call(*server, {}, absl::Seconds(2)).ok());
}

TEST_CASE("A server with an authority admits only clients with its certificate", "[tls]") {
  const Files files;
  const auto server = MustStart(files.Options("server", "ca.pem"));
  CHECK(Call(*server, files.Options("client", "ca.pem")).ok());
  CHECK_FALSE(Call(*server, files.Options("", "ca.pem")).ok());
  CHECK_FALSE(Call(*server, files.Options("stranger", "ca.pem")).ok());
}

TEST_CASE("TLS files that cannot do are refused by name", "[tls]") {
  const Files files;
  TlsOptions missing = files.Options("server", "ca.pem");
  missing.certificate_file = files.Path("missing.pem");
  TlsOptions garbage = files.Options("server", "garbage.pem");
  TlsOptions mismatch = files.Options("server", "ca.pem");
  mismatch.key_file = files.Path("client.key");
  TlsOptions keyless = files.Options("server", "ca.pem");
  keyless.key_file.clear();
  TlsOptions swapped = files.Options("server", "ca.pem");
  swapped.key_file = swapped.certificate_file;
  for (const auto& [tls, named] : {std::pair{missing, "missing.pem"},
                                   {garbage, "garbage.pem"},
                                   {mismatch, "client.key"},
                                   {keyless, "key"},
                                   {swapped, "server.pem"}}) {
    ServerOptions server;
    server.tls = tls;
    ChannelOptions channel;
    channel.tls = tls;
    for (const absl::Status& status : {RpcServer::Start(server, {}, nullptr).status(),
                                       MakeChannel("127.0.0.1:1", channel).status()}) {
      CHECK(status.code() == absl::StatusCode::kInvalidArgument);
      CHECK(std::string(status.message()).find(named) != std::string::npos);
    }
  }
  ServerOptions authority_only;
  authority_only.tls = files.Options("", "ca.pem");
  CHECK(RpcServer::Start(authority_only, {}, nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
  ChannelOptions certificate_only;
  certificate_only.tls = files.Options("client", "");
  CHECK(MakeChannel("127.0.0.1:1", certificate_only).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("A certificate that is replaced counts for new connections", "[tls]") {
  const Files files;
  const auto server = MustStart(files.Options("server", ""));
  REQUIRE(Call(*server, files.Options("", "ca.pem")).ok());
  const PemPair next_authority = MakeAuthority("next authority");
  files.Write("next_ca.pem", next_authority.certificate);
  files.WritePair("server", MakeCertificate(next_authority, "server"));
  // The files are looked at every second.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  absl::Status status;
  do {
    status = Call(*server, files.Options("", "next_ca.pem"));
  } while (!status.ok() && absl::Now() < deadline);
  CHECK(status.ok());
  CHECK_FALSE(Call(*server, files.Options("", "ca.pem")).ok());
}

}  // namespace kernelcast
