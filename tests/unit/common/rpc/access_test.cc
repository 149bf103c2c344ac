// Tests access control over real connections.

#include "common/rpc/access.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/time/clock.h"
#include "common/base/file.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/token.h"
#include "kernelcast/v1/forecaster.grpc.pb.h"
#include "kernelcast/v1/orchestrator.grpc.pb.h"
#include "kernelcast/v1/worker.grpc.pb.h"
#include "tests/unit/common/rpc/health_client.h"
#include "tests/unit/common/rpc/test_certificates.h"

namespace kernelcast::access_test {
namespace {

// All methods of all services, unimplemented: a permitted call returns UNIMPLEMENTED.
struct Services {
  v1::Forecaster::CallbackService forecaster;
  v1::Orchestrator::CallbackService orchestrator;
  v1::Worker::CallbackService worker;
  std::vector<grpc::Service*> all = {&forecaster, &orchestrator, &worker};
};

// A token for each role, a file that lists them, and certificates.
class Files {
 public:
  Files() {
    char pattern[] = "/tmp/kernelcast_test_XXXXXX";
    REQUIRE(mkdtemp(pattern) != nullptr);
    folder_ = pattern;
    for (const Role role : kAllRoles) {
      const std::string name(RoleName(role));
      Write(name, MakeToken());
    }
    Write("stranger", MakeToken());
    Write("tokens.yaml", List({"submit", "measure", "admin"}));
    const PemPair authority = MakeAuthority("authority");
    const PemPair pair = MakeCertificate(authority, "server");
    Write("ca.pem", authority.certificate);
    Write("server.pem", pair.certificate);
    Write("server.key", pair.key);
  }
  ~Files() { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Token(const std::string& name) const { return *ReadToken(Path(name)); }
  void Write(const std::string& name, const std::string& content) const {
    std::ofstream(Path("new")) << content;
    std::filesystem::rename(Path("new"), Path(name));
  }
  // A token file with these tokens; each has the role of its name.
  std::string List(const std::vector<std::string>& names) const {
    std::string yaml = "tokens:\n";
    for (const std::string& name : names) {
      yaml += "- name: the " + name + "\n  sha256: " + TokenHashText(HashToken(Token(name))) +
              "\n  roles: [" + (FindRole(name) ? name : "submit") + "]\n";
    }
    return yaml;
  }
  ServerOptions Server(bool tls) const {
    ServerOptions options;
    options.token_file = Path("tokens.yaml");
    options.token_reload_interval = absl::Milliseconds(5);
    if (tls) {
      options.tls.certificate_file = Path("server.pem");
      options.tls.key_file = Path("server.key");
    }
    return options;
  }

 private:
  std::string folder_;
};

std::unique_ptr<RpcServer> MustStart(const ServerOptions& options,
                                     const std::vector<grpc::Service*>& services,
                                     MetricsRegistry* metrics = nullptr) {
  auto server = RpcServer::Start(options, services, metrics);
  INFO(server.status().ToString());
  REQUIRE(server.ok());
  return *std::move(server);
}

// An empty `token` sends none.
std::shared_ptr<grpc::Channel> Connect(const RpcServer& server, const Files& files, bool tls,
                                       const std::string& token) {
  ChannelOptions options;
  if (tls) options.tls.ca_file = files.Path("ca.pem");
  if (!token.empty()) options.token_file = files.Path(token);
  options.token_reload_interval = absl::ZeroDuration();
  auto channel = MakeChannel(server.address(), options);
  INFO(channel.status().ToString());
  REQUIRE(channel.ok());
  return *channel;
}

// The status of a call that sends only its metadata, or also one empty message.
absl::Status Try(const std::shared_ptr<grpc::Channel>& channel, std::string_view path,
                 bool with_payload,
                 const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  for (const auto& [key, value] : metadata) context.AddMetadata(key, value);
  SetTimeout(context, absl::Seconds(30));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, std::string(path), &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  REQUIRE(queue.Next(&tag, &ok));
  if (with_payload && ok) {
    const grpc::Slice nothing;
    call->WriteLast(grpc::ByteBuffer(&nothing, 1), grpc::WriteOptions(), nullptr);
    REQUIRE(queue.Next(&tag, &ok));
  }
  grpc::Status status;
  call->Finish(&status, nullptr);
  REQUIRE(queue.Next(&tag, &ok));
  return FromGrpc(status);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

constexpr char kEvaluate[] = "/kernelcast.v1.Orchestrator/Evaluate";

}  // namespace

TEST_CASE("Exactly the methods of all services have an access rule", "[access]") {
  // Forces the descriptors to be linked in.
  REQUIRE(v1::CompileRequest::descriptor() != nullptr);
  REQUIRE(v1::ForecastRequest::descriptor() != nullptr);
  REQUIRE(v1::EvaluateRequest::descriptor() != nullptr);
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  std::set<std::string> paths = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch",
                                 "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"};
  const std::filesystem::path protos = std::string(KERNELCAST_SOURCE_DIR) + "/proto/kernelcast/v1";
  int services = 0;
  for (const auto& entry : std::filesystem::directory_iterator(protos)) {
    if (entry.path().extension() != ".proto") continue;
    const std::string text = ReadFile(entry.path()).value();
    if (text.find("\nservice ") == std::string::npos) continue;
    const std::string name = "kernelcast/v1/" + entry.path().filename().string();
    INFO(name);
    const google::protobuf::FileDescriptor* const file = pool->FindFileByName(name);
    REQUIRE(file != nullptr);
    for (int i = 0; i < file->service_count(); ++i, ++services) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        paths.insert("/" + file->service(i)->full_name() + "/" +
                     file->service(i)->method(j)->name());
      }
    }
  }
  CHECK(services >= 3);
  std::set<std::string> listed;
  for (const MethodAccess& access : AllMethodAccess()) {
    CHECK(listed.insert(std::string(access.path)).second);
    const MethodAccess* const found = FindMethodAccess(access.path);  // the table is sorted
    CHECK(found == &access);
    CHECK((access.role || access.path.substr(0, 6) == "/grpc."));
  }
  CHECK(listed == paths);
}

TEST_CASE("docs/reference/security.md lists the role of every method", "[access]") {
  std::ifstream file(std::string(KERNELCAST_SOURCE_DIR) + "/docs/reference/security.md");
  std::map<std::string, std::string> documented;
  bool in_table = false;
  for (std::string line; std::getline(file, line);) {
    in_table = line == "| methods | role |" || (in_table && line.substr(0, 1) == "|");
    const size_t cut = line.rfind('|', line.size() - 2);
    if (!in_table || cut == std::string::npos || line.find("kernelcast") != std::string::npos) {
      continue;
    }
    std::string role = line.substr(cut);
    role = role.find('`') == std::string::npos
               ? ""
               : role.substr(role.find('`') + 1, role.rfind('`') - role.find('`') - 1);
    std::string service;
    for (size_t start = line.find('`'); start < cut; start = line.find('`', start)) {
      const size_t end = line.find('`', start + 1);
      std::string method = line.substr(start + 1, end - start - 1);
      if (const size_t dot = method.find('.'); dot != std::string::npos) {
        service = method.substr(0, dot);
        method = method.substr(dot + 1);
      }
      documented["/kernelcast.v1." + service + "/" + method] = role;
      start = end + 1;
    }
  }
  for (const MethodAccess& access : AllMethodAccess()) {
    if (!access.role) continue;
    INFO(access.path);
    CHECK(documented[std::string(access.path)] == RoleName(*access.role));
  }
}

TEST_CASE("A missing or unknown token is refused before any payload is sent", "[access]") {
  const bool tls = GENERATE(false, true);
  const Files files;
  Services services;
  MetricsRegistry metrics;
  const auto server = MustStart(files.Server(tls), services.all, &metrics);
  const auto none = Connect(*server, files, tls, "");
  const auto stranger = Connect(*server, files, tls, "stranger");
  for (const MethodAccess& access : AllMethodAccess()) {
    INFO(access.path);
    const absl::Status without = Try(none, access.path, false);
    CHECK(without.code() == absl::StatusCode::kUnauthenticated);
    if (access.role) {
      CHECK_THAT(Message(without), Catch::Contains("role " + std::string(RoleName(*access.role))));
    }
    const absl::Status unknown = Try(stranger, access.path, false);
    CHECK(unknown.code() == absl::StatusCode::kUnauthenticated);
    CHECK_THAT(Message(unknown), !Catch::Contains(files.Token("stranger")));
  }
  CHECK(Try(none, "/made.up/Method", false).code() == absl::StatusCode::kUnauthenticated);
  const auto refused = [&](const std::string& reason) {
    return metrics.Counter("kernelcast_auth_refused_calls_total", "", {{"reason", reason}}).Value();
  };
  const auto methods = static_cast<double>(AllMethodAccess().size());
  CHECK(refused("no_token") == methods + 1);
  CHECK(refused("unknown_token") == methods);
  CHECK(refused("missing_role") == 0);
}

TEST_CASE("A token grants its own role and no other", "[access]") {
  const bool tls = GENERATE(false, true);
  const Files files;
  Services services;
  const auto server = MustStart(files.Server(tls), services.all);
  for (const Role role : kAllRoles) {
    const std::string name(RoleName(role));
    const auto channel = Connect(*server, files, tls, name);
    int allowed = 0;
    for (const MethodAccess& access : AllMethodAccess()) {
      if (!access.role) continue;
      INFO(name << " " << access.path);
      const absl::Status status = Try(channel, access.path, true);
      if (access.role == role) {
        ++allowed;
        CHECK(status.code() == absl::StatusCode::kUnimplemented);  // it was permitted
        continue;
      }
      CHECK(status.code() == absl::StatusCode::kPermissionDenied);
      CHECK_THAT(Message(status),
                 Catch::Contains("needs role " + std::string(RoleName(*access.role))) &&
                     Catch::Contains("'the " + name + "'") && !Catch::Contains(files.Token(name)));
    }
    CHECK(allowed > 0);
    CHECK(CheckHealthBlocking(channel, "readiness", absl::Seconds(30)).ok());
    CHECK(Try(channel, "/made.up/Method", true).code() == absl::StatusCode::kUnimplemented);
  }
}

TEST_CASE("Only a header with one bearer token is accepted", "[access]") {
  const Files files;
  Services services;
  const auto server = MustStart(files.Server(false), services.all);
  const auto channel = Connect(*server, files, false, "");
  const std::string token = files.Token("submit");
  const auto code = [&](const std::vector<std::pair<std::string, std::string>>& metadata) {
    const absl::Status status = Try(channel, kEvaluate, true, metadata);
    CHECK_THAT(Message(status), !Catch::Contains(token));
    return status.code();
  };
  CHECK(code({{"authorization", "Bearer " + token}}) == absl::StatusCode::kUnimplemented);
  for (const std::string& value : std::vector<std::string>{
           token, "bearer " + token, "Basic " + token, "Bearer", "Bearer ", "Bearer  " + token,
           "Bearer " + token + " x", "Bearer " + token + "," + token}) {
    INFO(value);
    CHECK(code({{"authorization", value}}) == absl::StatusCode::kUnauthenticated);
  }
  CHECK(code({{"authorization", "Bearer " + token}, {"authorization", "Bearer " + token}}) ==
        absl::StatusCode::kUnauthenticated);
  CHECK(code({{"x-authorization", "Bearer " + token}}) == absl::StatusCode::kUnauthenticated);
}

TEST_CASE("Token file changes apply within the interval and a broken file changes nothing",
          "[access]") {
  const Files files;
  Services services;
  MetricsRegistry metrics;
  const auto server = MustStart(files.Server(false), services.all, &metrics);
  const auto submit = Connect(*server, files, false, "submit");
  const auto stranger = Connect(*server, files, false, "stranger");
  const auto code = [](const std::shared_ptr<grpc::Channel>& channel) {
    return Try(channel, kEvaluate, true).code();
  };
  const auto await = [&](const std::shared_ptr<grpc::Channel>& channel, absl::StatusCode wanted) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    while (code(channel) != wanted && absl::Now() < deadline) {
    }
    return code(channel) == wanted;
  };
  const auto tokens = [&] { return metrics.Gauge("kernelcast_auth_tokens", "").Value(); };
  REQUIRE(code(submit) == absl::StatusCode::kUnimplemented);
  REQUIRE(code(stranger) == absl::StatusCode::kUnauthenticated);
  CHECK(tokens() == 3);

  files.Write("tokens.yaml", files.List({"stranger"}));
  CHECK(await(stranger, absl::StatusCode::kUnimplemented));
  CHECK(await(submit, absl::StatusCode::kUnauthenticated));
  CHECK(tokens() == 1);

  files.Write("tokens.yaml", "tokens: [");
  // Changes are processed in order: once the next one applies, the broken file was seen.
  const absl::Time deadline = absl::Now() + absl::Milliseconds(200);
  while (absl::Now() < deadline) {
    CHECK(code(stranger) == absl::StatusCode::kUnimplemented);
  }
  files.Write("tokens.yaml", files.List({"submit"}));
  CHECK(await(submit, absl::StatusCode::kUnimplemented));
  CHECK(await(stranger, absl::StatusCode::kUnauthenticated));

  // The last token is revoked by an empty list.
  files.Write("tokens.yaml", "tokens: []\n");
  CHECK(await(submit, absl::StatusCode::kUnauthenticated));
  CHECK(tokens() == 0);
}

TEST_CASE("A token's call rate is limited without affecting others", "[access]") {
  const Files files;
  Services services;
  // One call, and the next after a quarter of an hour.
  files.Write("tokens.yaml", files.List({"admin", "submit"}) + "  calls_per_second: 0.001\n");
  MetricsRegistry metrics;
  const auto server = MustStart(files.Server(false), services.all, &metrics);
  const auto submit = Connect(*server, files, false, "submit");
  const auto admin = Connect(*server, files, false, "admin");
  CHECK(Try(submit, kEvaluate, true).code() == absl::StatusCode::kUnimplemented);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Try(submit, kEvaluate, false);
    CHECK(status.code() == absl::StatusCode::kResourceExhausted);
    CHECK_THAT(Message(status), Catch::Contains("'the submit' may make 0.001 calls per second"));
    CHECK(Try(admin, "/kernelcast.v1.Orchestrator/Describe", true).code() ==
          absl::StatusCode::kUnimplemented);
    CHECK(CheckHealthBlocking(submit, "", absl::Seconds(30)).ok());  // does not count
  }
  CHECK(metrics.Counter("kernelcast_auth_refused_calls_total", "", {{"reason", "too_many_calls"}})
            .Value() == 3);
  // Permissions are looked up for every call.
  files.Write("tokens.yaml", files.List({"submit"}) + "  calls_per_second: 1000\n");
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  absl::StatusCode code = absl::StatusCode::kOk;
  while (code != absl::StatusCode::kUnimplemented && absl::Now() < deadline) {
    code = Try(submit, kEvaluate, true).code();
  }
  CHECK(code == absl::StatusCode::kUnimplemented);
}

TEST_CASE("A client sends the token currently in its file", "[access]") {
  const Files files;
  Services services;
  const auto server = MustStart(files.Server(false), services.all);
  files.Write("mine", files.Token("stranger"));
  const auto channel = Connect(*server, files, false, "mine");
  CHECK(Try(channel, kEvaluate, true).code() == absl::StatusCode::kUnauthenticated);
  files.Write("mine", files.Token("submit"));
  CHECK(Try(channel, kEvaluate, true).code() == absl::StatusCode::kUnimplemented);
  files.Write("mine", "");
  CHECK(Try(channel, kEvaluate, true).code() == absl::StatusCode::kUnimplemented);
}

TEST_CASE("Tokens are not sent over a network without TLS", "[access]") {
  const Files files;
  Services services;
  ServerOptions options = files.Server(false);
  for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"}) {
    options.listen_address = address;
    const absl::Status status = RpcServer::Start(options, services.all, nullptr).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(Message(status), Catch::Contains("TLS") && Catch::Contains(address));
  }
  ServerOptions socket = files.Server(false);
  socket.listen_address = "unix:" + files.Path("socket");
  const auto local = MustStart(socket, services.all);
  CHECK(Try(Connect(*local, files, false, "submit"), kEvaluate, true).code() ==
        absl::StatusCode::kUnimplemented);

  ChannelOptions channel;
  channel.token_file = files.Path("submit");
  const absl::Status status = MakeChannel("orchestrator.example:50051", channel).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(Message(status), Catch::Contains("TLS") && Catch::Contains("orchestrator.example"));
  channel.tls.ca_file = files.Path("ca.pem");
  CHECK(MakeChannel("orchestrator.example:50051", channel).ok());
}

TEST_CASE("The health address serves health to everyone and nothing else", "[access]") {
  const Files files;
  Services services;
  ServerOptions options = files.Server(true);
  options.tls.ca_file = files.Path("ca.pem");  // clients without a certificate reach nothing else
  options.health_address = "127.0.0.1:0";
  const auto server = MustStart(options, services.all);
  const auto plain = MakeChannel(server->health_address());
  REQUIRE(plain.ok());
  for (const char* service : {"", "liveness", "readiness", "kernelcast.v1.Worker"}) {
    INFO(service);
    CHECK(CheckHealthBlocking(*plain, service, absl::Seconds(30)).ok());
  }
  CHECK(CheckHealthBlocking(*plain, "no.such.Service", absl::Seconds(30)).code() ==
        absl::StatusCode::kNotFound);
  ChannelOptions with_token;
  with_token.token_file = files.Path("submit");
  const auto token = MakeChannel(server->health_address(), with_token);
  REQUIRE(token.ok());
  for (const MethodAccess& access : AllMethodAccess()) {
    if (access.path.find("grpc.health") != std::string_view::npos) continue;
    INFO(access.path);
    CHECK(Try(*plain, access.path, true).code() == absl::StatusCode::kUnimplemented);
    CHECK(Try(*token, access.path, true).code() == absl::StatusCode::kUnimplemented);
  }

  server->BeginDrain();
  CHECK(CheckHealthBlocking(*plain, "readiness", absl::Seconds(30)).code() ==
        absl::StatusCode::kUnavailable);
  CHECK(CheckHealthBlocking(*plain, "liveness", absl::Seconds(30)).ok());
  server->Shutdown(absl::ZeroDuration());
  CHECK(CheckHealthBlocking(*plain, "liveness", absl::Seconds(30)).code() ==
        absl::StatusCode::kUnavailable);
}

TEST_CASE("A health address that is invalid or in use is refused", "[access]") {
  Services services;
  const auto first = MustStart({}, services.all);
  ServerOptions options;
  options.health_address = first->address();
  Services others;
  CHECK(RpcServer::Start(options, others.all, nullptr).status().code() ==
        absl::StatusCode::kUnavailable);
  options.health_address = "nowhere";
  CHECK(RpcServer::Start(options, others.all, nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(first->health_address().empty());
}

TEST_CASE("A server does not start with an unusable token file", "[access]") {
  const Files files;
  Services services;
  files.Write("tokens.yaml", "tokens: {}\n");
  const absl::Status status = RpcServer::Start(files.Server(false), services.all, nullptr).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(Message(status), Catch::Contains("tokens.yaml"));
}

}  // namespace kernelcast::access_test
