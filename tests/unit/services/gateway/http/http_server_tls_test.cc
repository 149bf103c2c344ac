#include <openssl/ssl.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/id.h"
#include "services/gateway/dialects/dialects.h"
#include "services/gateway/http/http_server.h"
#include "tests/support/eventually.h"
#include "tests/unit/common/rpc/test_certificates.h"
#include "tests/unit/services/gateway/fakes.h"

namespace kernelcast::gateway {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
namespace fs = std::filesystem;

// Files of a server's certificate, of its authority, and of a client's.
struct Files {
  Files() {
    fs::create_directories(folder);
    Write("ca.pem", authority.certificate);
    WritePair("server", MakeCertificate(authority, "first"));
    WritePair("client", MakeCertificate(authority, "client"));
  }
  ~Files() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  std::string Path(const std::string& name) const { return (folder / name).string(); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name) + ".part") << text;
    fs::rename(Path(name) + ".part", Path(name));
  }
  void WritePair(const std::string& name, const PemPair& pair) const {
    Write(name + ".key", pair.key);
    Write(name + ".pem", pair.certificate);
  }
  TlsOptions Options(bool mutual = false) const {
    return {.certificate_file = Path("server.pem"),
            .key_file = Path("server.key"),
            .ca_file = mutual ? Path("ca.pem") : "",
            .reload_interval = absl::Seconds(1)};
  }

  const fs::path folder = fs::temp_directory_path() / RandomId("gateway-tls-");
  const PemPair authority = MakeAuthority("authority");
};

struct Answer {
  std::string server;  // name in its certificate; empty: the handshake failed
  std::string text;    // empty: there is none
};

// Asks for the leaderboards.
Answer Ask(const std::string& address, const Files& files, const std::string& client = "") {
  std::signal(SIGPIPE, SIG_IGN);  // a server that refuses the client may close first
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  REQUIRE(SSL_CTX_load_verify_locations(context.get(), files.Path("ca.pem").c_str(), nullptr) == 1);
  if (!client.empty()) {
    REQUIRE(SSL_CTX_use_certificate_chain_file(context.get(),
                                               files.Path(client + ".pem").c_str()) == 1);
    REQUIRE(SSL_CTX_use_PrivateKey_file(context.get(), files.Path(client + ".key").c_str(),
                                        SSL_FILETYPE_PEM) == 1);
  }
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(BIO_new_ssl_connect(context.get()),
                                                                 &BIO_free_all);
  BIO_set_conn_hostname(connection.get(), address.c_str());
  Answer answer;
  if (BIO_do_connect(connection.get()) != 1 || BIO_do_handshake(connection.get()) != 1)
    return answer;
  SSL* session = nullptr;
  BIO_get_ssl(connection.get(), &session);
  const std::unique_ptr<X509, decltype(&X509_free)> peer(SSL_get1_peer_certificate(session),
                                                         &X509_free);
  std::array<char, 64> name{};
  X509_NAME_get_text_by_NID(X509_get_subject_name(peer.get()), NID_commonName, name.data(),
                            name.size());
  answer.server = name.data();
  const std::string request = "GET /popcorn/leaderboards HTTP/1.1\r\nHost: localhost\r\n\r\n";
  BIO_write(connection.get(), request.data(), static_cast<int>(request.size()));
  std::array<char, 4096> buffer;
  for (;;) {
    const int got = BIO_read(connection.get(), buffer.data(), buffer.size());
    if (got <= 0) return answer;
    answer.text.append(buffer.data(), static_cast<size_t>(got));
  }
}

struct TlsWorld : testing::World {
  explicit TlsWorld(const TlsOptions& tls) {
    auto started = HttpServer::Start({.tls = tls, .threads = 4}, &front);
    INFO(std::string(started.status().ToString()));
    REQUIRE(started.ok());
    server = *std::move(started);
  }
  MetricsRegistry metrics;
  Front front{context, MakeDialects(context), nullptr, &metrics};
  std::unique_ptr<HttpServer> server;
};

TEST_CASE("Requests are answered over TLS", "[gateway][tls]") {
  const Files files;
  const TlsWorld world(files.Options());
  const Answer answer = Ask(world.server->address(), files);
  CHECK(answer.server == "first");
  CHECK_THAT(answer.text, StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_CASE("Clients need a certificate of the authority if one is given", "[gateway][tls]") {
  const Files files;
  const TlsWorld world(files.Options(true));
  CHECK_THAT(Ask(world.server->address(), files, "client").text, StartsWith("HTTP/1.1 200 OK\r\n"));
  CHECK(Ask(world.server->address(), files).text.empty());
  files.WritePair("stranger", MakeCertificate(MakeAuthority("other"), "stranger"));
  CHECK(Ask(world.server->address(), files, "stranger").text.empty());
}

TEST_CASE("A renewed certificate applies to new connections", "[gateway][tls]") {
  const Files files;
  const TlsWorld world(files.Options());
  CHECK(Ask(world.server->address(), files).server == "first");
  files.WritePair("server", MakeCertificate(files.authority, "second"));
  CHECK(kernelcast::testing::Eventually(
      [&] { return Ask(world.server->address(), files).server == "second"; }));
  // Damaged files leave it in use.
  files.Write("server.pem", "damaged");
  CHECK_THAT(Ask(world.server->address(), files).text, StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_CASE("Invalid TLS files are named", "[gateway][tls]") {
  const Files files;
  TlsOptions tls = files.Options();
  tls.key_file = files.Path("client.key");
  testing::World world;
  MetricsRegistry metrics;
  Front front(world.context, {}, nullptr, &metrics);
  const absl::Status other_key = HttpServer::Start({.tls = tls}, &front).status();
  CHECK(absl::IsInvalidArgument(other_key));
  CHECK_THAT(std::string(other_key.message()), Contains("client.key is not the key"));
  tls.certificate_file = files.Path("none.pem");
  const absl::Status missing = HttpServer::Start({.tls = tls}, &front).status();
  CHECK(absl::IsInvalidArgument(missing));
  CHECK_THAT(std::string(missing.message()), Contains("none.pem"));
}

}  // namespace
}  // namespace kernelcast::gateway
