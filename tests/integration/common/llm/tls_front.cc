#include "tests/integration/common/llm/tls_front.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/status.h"

namespace kernelcast::testing {
namespace {

constexpr int64_t kTimeoutNs = 20'000'000'000;

absl::Status Run(std::vector<std::string> argv, const std::string& folder) {
  ChildOptions options;
  options.argv = std::move(argv);
  options.working_directory = folder;
  KC_ASSIGN_OR_RETURN(const std::unique_ptr<ChildProcess> child, ChildProcess::Spawn(options));
  const ChildExit exit = child->Wait(kTimeoutNs);
  if (exit.exited && exit.exit_code == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(options.argv[0], ": ", exit.output));
}

bool Accepts(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool accepts = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return accepts;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TlsFront>> TlsFront::Start(int backend_port) {
  std::unique_ptr<TlsFront> front(new TlsFront);
  std::string name = (std::filesystem::temp_directory_path() / "tls_front_XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) return absl::UnavailableError("no temporary folder");
  front->folder_ = name;
  KC_RETURN_IF_ERROR(front->MakeCertificates());
  KC_RETURN_IF_ERROR(front->Serve(backend_port));
  return front;
}

TlsFront::~TlsFront() {
  child_.reset();
  if (reserve_fd_ >= 0) close(reserve_fd_);
  if (!folder_.empty()) std::filesystem::remove_all(folder_);
}

std::string TlsFront::url() const { return absl::StrCat("https://localhost:", port_, "/v1"); }

std::string TlsFront::AccessLog() const { return ReadFile(folder_ / "access.log").value_or(""); }

absl::Status TlsFront::MakeCertificates() {
  const std::string folder = folder_.string();
  std::ofstream(folder_ / "names") << "subjectAltName=DNS:localhost,IP:127.0.0.1\n";
  KC_RETURN_IF_ERROR(Run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                          "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "ca.key", "-out",
                          "ca.pem", "-days", "2", "-subj", "/CN=test authority"},
                         folder));
  KC_RETURN_IF_ERROR(
      Run({"openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
           "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"},
          folder));
  return Run({"openssl", "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
              "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "names"},
             folder);
}

absl::Status TlsFront::Serve(int backend_port) {
  // Bound but not listening: reserves a port for nghttpx, which cannot pick one and report it.
  reserve_fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(reserve_fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (bind(reserve_fd_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      getsockname(reserve_fd_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return absl::UnavailableError("no port available");
  }
  port_ = ntohs(address.sin_port);

  ChildOptions options;
  options.argv = {"nghttpx",
                  "--conf=/dev/null",
                  "--single-process",
                  "--workers=1",
                  absl::StrCat("--frontend=127.0.0.1,", port_),
                  absl::StrCat("--backend=127.0.0.1,", backend_port),
                  "--accesslog-file=" + (folder_ / "access.log").string(),
                  "--accesslog-format=$request from $remote_port",
                  "--backend-read-timeout=1m",
                  (folder_ / "server.key").string(),
                  (folder_ / "server.pem").string()};
  options.environment = {"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"};
  for (const char* program : {"/usr/sbin/nghttpx", "/usr/bin/nghttpx", "/usr/local/bin/nghttpx"}) {
    if (access(program, X_OK) == 0) options.argv[0] = program;
  }
  KC_ASSIGN_OR_RETURN(child_, ChildProcess::Spawn(options));
  const int64_t end_ns = Clock::Real().MonotonicNs() + kTimeoutNs;
  while (!Accepts(port_)) {
    if (child_->Poll() || Clock::Real().MonotonicNs() > end_ns) {
      return absl::UnavailableError(absl::StrCat("nghttpx: ", child_->output()));
    }
    usleep(1000);
  }
  return absl::OkStatus();
}

}  // namespace kernelcast::testing
