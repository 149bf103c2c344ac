// The device code runner on the fake driver. Arguments make it misbehave:
//
//   --inject=FUNCTION:NTH:fail|once|exit|hang[:ERROR]   as FakeCuda::Inject
//   --answer=short|command|values|samples|nothing|exit[:NTH]  the answer to its NTH request
//   (default
//                                                       the first) is garbage or never comes
//   --print                                             prints endlessly
//   --profile=WHAT                                      profiles; WHAT replaces the library's path
//                                                       and is "good", "absent", or
//                                                       FUNCTION:fail|hang|exit[:ERROR] of it

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/worker/cuda/runner/profiler.h"
#include "services/worker/cuda/runner/protocol.h"
#include "services/worker/cuda/runner/runner.h"
#include "tests/fakes/cuda/fake_cuda.h"
#include "tests/fakes/cuda/fake_cupti.h"

#ifdef __SANITIZE_ADDRESS__
// The leak check at exit traces its own process, which the sandbox refuses. Signals of candidates
// must reach the worker.
extern "C" const char* __asan_default_options() { return "detect_leaks=0:handle_segv=0"; }
#endif

namespace kernelcast::testing {
namespace {

using worker::cuda_runner::Command;
using worker::cuda_runner::kMaxPacketBytes;
using worker::cuda_runner::kSocketFd;
using worker::cuda_runner::Profiler;
using worker::cuda_runner::Reply;
using worker::cuda_runner::Request;
using worker::cuda_runner::Runner;

std::vector<std::string> Split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t colon = text.find(':');
    parts.emplace_back(text.substr(0, colon));
    if (colon == std::string_view::npos) return parts;
    text.remove_prefix(colon + 1);
  }
}

void Inject(const std::vector<std::string>& parts) {
  using Effect = FakeCuda::Effect;
  const std::string& word = parts.at(2);
  const Effect effect = word == "exit"   ? Effect::kExit
                        : word == "hang" ? Effect::kHang
                        : word == "once" ? Effect::kFailOnce
                                         : Effect::kFail;
  const int error = parts.size() > 3 ? std::stoi(parts[3]) : CUDA_ERROR_UNKNOWN;
  FakeCuda::Instance().Inject(parts[0], std::stoi(parts[1]), effect, static_cast<CUresult>(error));
}

std::unique_ptr<Profiler> MakeProfiler(const std::string& what) {
  if (what == "absent") {
    return worker::cuda_runner::NoProfiler(absl::NotFoundError("no such library"));
  }
#if defined(KERNELCAST_HAS_CUPTI_HEADERS)
  const auto parts = Split(what);
  if (parts.size() > 1) {
    using Effect = FakeCupti::Effect;
    FakeCupti::Instance().Inject(
        parts[0],
        parts[1] == "hang"   ? Effect::kHang
        : parts[1] == "exit" ? Effect::kExit
                             : Effect::kFail,
        static_cast<CUptiResult>(parts.size() > 2 ? std::stoi(parts[2]) : CUPTI_ERROR_UNKNOWN));
  }
  return worker::cuda_runner::MakeCuptiProfiler(FakeCupti::Api());
#else
  return worker::cuda_runner::OpenProfiler(what);
#endif
}

// Serves until the request with the wrong answer.
void ServeWrongly(Runner& runner, const std::string& how, int nth) {
  std::vector<std::byte> packet(kMaxPacketBytes);
  for (int number = 1;; ++number) {
    const ssize_t got = recv(kSocketFd, packet.data(), packet.size(), 0);
    if (got <= 0) return;
    const auto answer = runner.Handle({packet.data(), static_cast<size_t>(got)}, -1);
    Reply reply = answer.reply;
    std::vector<float> values(answer.values.begin(), answer.values.end());
    size_t bytes = sizeof(reply);
    if (number == nth) {
      if (how == "exit") _exit(4);
      if (how == "nothing") {
        for (;;) pause();
      }
      if (how == "short") bytes -= 1;
      if (how == "command") reply.command = static_cast<Command>(77);
      if (how == "values") reply.values += 1;
      if (how == "samples") {
        values.push_back(1);
        reply.values = values.size();
      }
    }
    std::vector<std::byte> out(bytes + values.size() * sizeof(float));
    std::memcpy(out.data(), &reply, bytes);
    if (!values.empty()) {
      std::memcpy(out.data() + bytes, values.data(), values.size() * sizeof(float));
    }
    if (send(kSocketFd, out.data(), out.size(), MSG_NOSIGNAL) < 0) return;
  }
}

int Main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::string answer;
  int nth = 1;
  std::unique_ptr<Profiler> profiler;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument(argv[i]);
    if (argument.substr(0, 9) == "--inject=") {
      Inject(Split(argument.substr(9)));
    } else if (argument.substr(0, 9) == "--answer=") {
      const auto parts = Split(argument.substr(9));
      answer = parts[0];
      nth = parts.size() > 1 ? std::stoi(parts[1]) : 1;
    } else if (argument.substr(0, 10) == "--profile=") {
      profiler = MakeProfiler(std::string(argument.substr(10)));
    } else if (argument == "--print") {
      for (;;) std::puts("a line of no interest");
    }
  }
  FakeCuda& cuda = FakeCuda::Instance();
  Runner runner(FakeCuda::Api(), cuda.clock());
  runner.set_profiler(profiler.get());
  runner.Start();
  if (answer.empty()) {
    runner.Serve(kSocketFd);
  } else {
    ServeWrongly(runner, answer, nth);
  }
  _exit(0);
}

}  // namespace
}  // namespace kernelcast::testing

int main(int argc, char** argv) { return kernelcast::testing::Main(argc, argv); }
