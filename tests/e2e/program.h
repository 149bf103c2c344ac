#ifndef KERNELCAST_TESTS_E2E_PROGRAM_H_
#define KERNELCAST_TESTS_E2E_PROGRAM_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace kernelcast::testing {

// How a program ended and what it said.
struct Outcome {
  int exit_code = -1;  // -signal where one killed it
  std::string out;
  std::string err;
};

// `kernelcast` as a user runs it, in an environment of its own: home, state and problems are in a
// temporary folder, and nothing of the developer's settings reaches it.
class Program {
 public:
  // On a terminal, both streams are `out`.
  enum class Streams { kPipes, kTerminal };

  Program(const TemporaryFolder& home, const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment = {},
          Streams streams = Streams::kPipes, int columns = 100);
  // Kills it if it still runs.
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Waits until its output holds the text; false when it has ended or 30 s have passed without.
  bool AwaitOut(const std::string& text);
  bool AwaitErr(const std::string& text);
  // Waits for a number of at least `least` behind `text`, as lines that skip some show it.
  bool AwaitErrNumber(const std::string& text, int least);
  void Signal(int number);
  // Writes to its terminal.
  void Type(const std::string& text);
  // Waits for its end; kills it after `seconds`.
  Outcome Wait(double seconds = 60);

 private:
  bool Await(const std::string& text, const std::string& in);
  // Reads what there is, waiting at most `timeout_ms`. False when both streams have ended.
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

// Whether a process is there and not a zombie.
bool Alive(pid_t pid);

}  // namespace kernelcast::testing

#endif  // KERNELCAST_TESTS_E2E_PROGRAM_H_
