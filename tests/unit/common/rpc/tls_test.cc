#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "absl/time/clock.h"
#include "common/rpc/certificate_expiry.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/unary_reactor.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/unit/common/rpc/event.h"
#include "tests/unit/common/rpc/health_client.h"
#include "tests/unit/common/rpc/test_certificates.h"

namespace kernelcast::tls_test {
namespace {

// Files of an authority with a server and a client certificate, and of an unrelated authority.
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
  // Empty `name`: no certificate; empty `ca`: no authority.
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

// A folder as Kubernetes mounts a secret: the files are links through one link that is swapped
// atomically.
class MountedSecret {
 public:
  explicit MountedSecret(const std::string& folder) : folder_(folder) {
    std::filesystem::create_directory(folder_);
    for (const char* name : {"tls.crt", "tls.key", "ca.crt"}) {
      std::filesystem::create_symlink(std::string("..data/") + name, folder_ + "/" + name);
    }
  }
  void Renew(const PemPair& pair, const std::string& authority) {
    const std::string before = content_;
    content_ = "..content_" + std::to_string(++version_);
    std::filesystem::create_directory(folder_ + "/" + content_);
    std::ofstream(folder_ + "/" + content_ + "/tls.crt") << pair.certificate;
    std::ofstream(folder_ + "/" + content_ + "/tls.key") << pair.key;
    std::ofstream(folder_ + "/" + content_ + "/ca.crt") << authority;
    std::filesystem::create_directory_symlink(content_, folder_ + "/..data_new");
    std::filesystem::rename(folder_ + "/..data_new", folder_ + "/..data");
    if (!before.empty()) {
      std::filesystem::remove_all(folder_ + "/" + before);
    }
  }
  TlsOptions Options() const {
    return {folder_ + "/tls.crt", folder_ + "/tls.key", folder_ + "/ca.crt", absl::Seconds(1)};
  }

 private:
  const std::string folder_;
  std::string content_;
  int version_ = 0;
};

// Holds compiles until released.
class SlowWorker final : public v1::Worker::CallbackService {
  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context, const v1::CompileRequest*,
                                    v1::CompileReply* reply) override {
    auto* const call = new AsyncUnary<v1::CompileReply>(context, reply);
    replies_.push_back(call->reply());
    arrived_.Notify();
    return call;
  }

 public:
  Event arrived_;
  std::vector<UnaryReply<v1::CompileReply>> replies_;
};

std::unique_ptr<RpcServer> MustStart(const TlsOptions& tls,
                                     const std::vector<grpc::Service*>& services = {},
                                     MetricsRegistry* metrics = nullptr) {
  ServerOptions options;
  options.tls = tls;
  auto server = RpcServer::Start(options, services, metrics);
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

// Retries for half a minute until a call succeeds or fails, as wanted.
bool AwaitCall(const RpcServer& server, const TlsOptions& tls, bool wanted) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Call(server, tls).ok() != wanted) {
    if (absl::Now() > deadline) return false;
  }
  return true;
}

double Expiry(MetricsRegistry& metrics, const std::string& use) {
  return metrics.Gauge("kernelcast_tls_certificate_expiry_timestamp_seconds", "", {{"use", use}})
      .Value();
}

// The bytes that a server sends to an HTTP/2 client without TLS before closing the connection.
std::string AnswerToPlaintext(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  REQUIRE(send(fd, preface.data(), preface.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(preface.size()));
  std::string answer;
  char buffer[4096];
  pollfd readable{fd, POLLIN, 0};
  while (poll(&readable, 1, 30'000) == 1) {
    const ssize_t size = recv(fd, buffer, sizeof buffer, 0);
    if (size <= 0) {
      close(fd);
      return answer;
    }
    answer.append(buffer, static_cast<size_t>(size));
  }
  close(fd);
  FAIL("the connection was not closed");
  return answer;
}

}  // namespace

TEST_CASE("A TLS server is reachable by clients that trust its authority", "[tls]") {
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

TEST_CASE("A server resolved to an IP address is verified against its DNS name", "[tls]") {
  const Files files;
  ServerOptions options;
  options.tls = files.Options("server", "");
  options.listen_address = "127.0.0.2:0";  // its certificate is for localhost and 127.0.0.1
  const auto server = RpcServer::Start(options, {}, nullptr);
  REQUIRE(server.ok());
  const auto call = [&](const std::string& authority) {
    ChannelOptions channel_options;
    channel_options.tls = files.Options("", "ca.pem");
    channel_options.authority = authority;
    const auto channel = MakeChannel((*server)->address(), channel_options);
    REQUIRE(channel.ok());
    return CheckHealthBlocking(*channel, "", absl::Seconds(30));
  };
  CHECK(call("localhost:50051").ok());
  CHECK_FALSE(call("").ok());
  CHECK_FALSE(call("elsewhere:50051").ok());
}

TEST_CASE("Unusable TLS files are refused by name", "[tls]") {
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

TEST_CASE("A replaced certificate applies to new connections", "[tls]") {
  const Files files;
  const auto server = MustStart(files.Options("server", ""));
  REQUIRE(Call(*server, files.Options("", "ca.pem")).ok());
  const PemPair next_authority = MakeAuthority("next authority");
  files.Write("next_ca.pem", next_authority.certificate);
  files.WritePair("server", MakeCertificate(next_authority, "server"));
  // The files are checked every second.
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  absl::Status status;
  do {
    status = Call(*server, files.Options("", "next_ca.pem"));
  } while (!status.ok() && absl::Now() < deadline);
  CHECK(status.ok());
  CHECK_FALSE(Call(*server, files.Options("", "ca.pem")).ok());
}

TEST_CASE("A client without TLS gets nothing from a TLS server", "[tls]") {
  const Files files;
  const auto server = MustStart(files.Options("server", ""));
  const std::string answer = AnswerToPlaintext(server->port());
  // At most a TLS alert, never an HTTP/2 frame.
  CHECK(answer.size() <= 7);
  CHECK((answer.empty() || answer[0] == '\x15'));
  CHECK(Call(*server, files.Options("", "ca.pem")).ok());
}

TEST_CASE("Expired certificates are refused on both sides", "[tls]") {
  const Files files;
  const PemPair authority = MakeAuthority("authority");
  files.Write("ca.pem", authority.certificate);
  files.WritePair("server", MakeCertificate(authority, "server"));
  files.WritePair("client", MakeCertificate(authority, "client"));
  files.WritePair("expired", MakeCertificate(authority, "expired", -60));
  const auto server = MustStart(files.Options("server", "ca.pem"));
  CHECK(Call(*server, files.Options("client", "ca.pem")).ok());
  CHECK_FALSE(Call(*server, files.Options("expired", "ca.pem")).ok());

  const auto expired = MustStart(files.Options("expired", ""));
  CHECK(Call(*expired, files.Options("", "ca.pem")).code() == absl::StatusCode::kUnavailable);
}

TEST_CASE("A mounted secret is renewed without interrupting calls", "[tls]") {
  const Files files;
  const PemPair first = MakeAuthority("first");
  const PemPair second = MakeAuthority("second");
  MountedSecret server_secret(files.Path("server"));
  MountedSecret client_secret(files.Path("client"));
  server_secret.Renew(MakeCertificate(first, "server", 3000), first.certificate);
  client_secret.Renew(MakeCertificate(first, "client"), first.certificate);
  // A client that does not receive the renewal.
  MountedSecret old_secret(files.Path("old"));
  old_secret.Renew(MakeCertificate(first, "client"), first.certificate);

  MetricsRegistry metrics;
  SlowWorker worker;
  const auto server = MustStart(server_secret.Options(), {&worker}, &metrics);
  const double first_expiry = Expiry(metrics, "server");
  CHECK(std::abs(first_expiry - (absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) + 3000)) <
        60);
  ChannelOptions options;
  options.tls = client_secret.Options();
  const auto channel = MakeChannel(server->address(), options);
  REQUIRE(channel.ok());
  const auto compile = [&] {
    grpc::ClientContext context;
    SetTimeout(context, absl::Seconds(60));
    v1::CompileReply reply;
    return FromGrpc(v1::Worker::NewStub(*channel)->Compile(&context, {}, &reply));
  };
  std::future<absl::Status> under_way = std::async(std::launch::async, compile);
  REQUIRE(worker.arrived_.Wait(1));

  server_secret.Renew(MakeCertificate(second, "server", 9000), second.certificate);
  client_secret.Renew(MakeCertificate(second, "client"), second.certificate);
  TlsOptions renewed = client_secret.Options();
  CHECK(AwaitCall(*server, renewed, true));
  CHECK(AwaitCall(*server, old_secret.Options(), false));
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (Expiry(metrics, "server") < first_expiry + 5900 && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  CHECK(Expiry(metrics, "server") >= first_expiry + 5900);

  // The old connection still serves the active call and another one.
  std::future<absl::Status> another = std::async(std::launch::async, compile);
  REQUIRE(worker.arrived_.Wait(2));
  for (const auto& reply : worker.replies_) {
    reply.Send({});
  }
  CHECK(under_way.get().ok());
  CHECK(another.get().ok());
}

TEST_CASE("Renewed files that are unusable block new connections until they are fixed", "[tls]") {
  const Files files;
  MetricsRegistry metrics;
  const auto server = MustStart(files.Options("server", ""), {}, &metrics);
  const double expiry = Expiry(metrics, "server");
  REQUIRE(Call(*server, files.Options("", "ca.pem")).ok());
  const PemPair next_authority = MakeAuthority("next authority");
  files.Write("next_ca.pem", next_authority.certificate);
  files.Write("server.pem", MakeCertificate(next_authority, "server", 9000).certificate);
  // The new certificate is never used with the old key.
  CHECK(AwaitCall(*server, files.Options("", "ca.pem"), false));
  CHECK_FALSE(Call(*server, files.Options("", "next_ca.pem")).ok());
  CHECK(Expiry(metrics, "server") == expiry);
  files.WritePair("server", MakeCertificate(next_authority, "server", 9000));
  CHECK(AwaitCall(*server, files.Options("", "next_ca.pem"), true));
}

TEST_CASE("A chain expires with its first certificate to expire", "[tls]") {
  const Files files;
  const PemPair authority = MakeAuthority("authority");
  const PemPair leaf = MakeCertificate(authority, "leaf", 9000);
  files.WritePair("chain", {leaf.certificate + authority.certificate, leaf.key});
  MetricsRegistry metrics;
  const CertificateExpiry chain("client", files.Options("chain", ""), &metrics);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  CHECK(std::abs(Expiry(metrics, "client") - (seconds + 3600)) < 60);

  MetricsRegistry none;
  const CertificateExpiry nothing("client", {}, &none);
  CHECK(none.Text().find("kernelcast_tls") == std::string::npos);
}

}  // namespace kernelcast::tls_test
