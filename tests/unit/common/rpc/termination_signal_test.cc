#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <thread>

#include "common/rpc/server.h"

namespace kernelcast {

TEST_CASE("Wait returns a signal sent before or during the wait", "[signal]") {
  for (const int number : {SIGTERM, SIGINT}) {
    TerminationSignal termination;
    REQUIRE(pthread_kill(pthread_self(), number) == 0);  // blocked, so it stays pending
    CHECK(termination.Wait() == number);
  }
}

TEST_CASE("Wake ends a wait from another thread", "[signal]") {
  TerminationSignal termination;
  std::thread waker([&] { termination.Wake(); });
  CHECK(termination.Wait() == 0);
  waker.join();
}

TEST_CASE("Destroying the object restores the signal mask", "[signal]") {
  sigset_t mask;
  {
    const TerminationSignal termination;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    CHECK(sigismember(&mask, SIGTERM) == 1);
  }
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  CHECK(sigismember(&mask, SIGTERM) == 0);
}

TEST_CASE("The first signal is handled and the second ends the process", "[signal]") {
  int said[2];
  REQUIRE(pipe(said) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    signal(SIGTERM, SIG_DFL);  // the test framework installs its own handlers
    signal(SIGINT, SIG_DFL);
    TerminationSignal termination;
    static_cast<void>(!write(said[1], "r", 1));
    const char number = static_cast<char>(termination.Wait());
    static_cast<void>(!write(said[1], &number, 1));
    while (true) {
      pause();
    }
  }
  char byte = 0;
  REQUIRE(read(said[0], &byte, 1) == 1);
  kill(child, SIGTERM);
  REQUIRE(read(said[0], &byte, 1) == 1);
  CHECK(byte == SIGTERM);
  kill(child, SIGINT);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  close(said[0]);
  close(said[1]);
}

}  // namespace kernelcast
