#ifndef KERNELCAST_TESTS_E2E_PROGRAM_H_
#define KERNELCAST_TESTS_E2E_PROGRAM_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace kernelcast::testing {

// A program's exit code and output.
struct Outcome {
  int exit_code = -1;  // -signal if a signal killed it
  std::string out;
  std::string err;
};

// Runs `kernelcast` as a user would, in its own environment: home, state and problems are in a
// temporary folder, and none of the developer's settings apply.
class Program {
 public:
  // On a terminal, both streams are `out`. kFullOutput: standard output is /dev/full, where every
  // write fails.
  enum class Streams { kPipes, kTerminal, kFullOutput };

  Program(const TemporaryFolder& home, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {},
          Streams streams = Streams::kPipes, int columns = 100);
  // Kills it if it is still running.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Waits until its output contains the text. Returns false if it ended or 30 s passed first.
  bool AwaitOut(const std::string& text);
  bool AwaitErr(const std::string& text);
  // Waits for a number of at least `least` after `text`, because lines may skip some values.
  bool AwaitErrNumber(const std::string& text, int least);
  void Signal(int number);
  // Writes to its terminal.
  void Type(const std::string& text);
  // Waits for its end; kills it after `seconds`.
  Outcome Wait(double seconds = 240);

 private:
  bool Await(const std::string& text, const std::string& in);
  // Reads available output, waiting at most `timeout_ms`. Returns false when both streams have
  // ended.
  bool Pump(int timeout_ms);

  pid_t pid_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  Outcome outcome_;
  bool reaped_ = false;
};

// Runs it to its end.
Outcome Run(const TemporaryFolder& home, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment = {});

// Runs it with new arguments until the outcome is enough, at most five times: other load may leave
// a measurement without a verdict. `attempt` counts from 0.
Outcome RunUntil(const TemporaryFolder& home,
                 const std::function<std::vector<std::string>(int attempt)>& arguments_of,
                 const std::function<bool(const Outcome&)>& enough);

// Whether a process exists and is not a zombie.
bool Alive(pid_t pid);

// The processes that a process has started and not ended.
std::vector<pid_t> ChildrenOf(pid_t parent);

// A 64-bit number in protobuf's JSON, which writes it as text and leaves out zero.
inline uint64_t Count(const nlohmann::json& message, const std::string& field) {
  return std::stoull(message.value(field, "0"));
}

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_E2E_PROGRAM_H_
