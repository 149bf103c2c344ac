#include "common/base/callback_scope.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

namespace kernelcast {
namespace {

TEST_CASE("what a callback puts off is done at its end, once for each key and in order") {
  std::vector<std::string> done;
  const int a = 0, b = 0;
  {
    const CallbackScope scope;
    CHECK(CallbackScope::Defer(&a, [&] { done.emplace_back("a"); }));
    CHECK(CallbackScope::Defer(&b, [&] { done.emplace_back("b"); }));
    CHECK(CallbackScope::Defer(&a, [&] { done.emplace_back("a again"); }));
    CHECK(done.empty());
  }
  CHECK(done == std::vector<std::string>{"a", "b"});
}

TEST_CASE("work is put off in callbacks only, and in the thread that is in one") {
  const int key = 0;
  CHECK_FALSE(CallbackScope::Defer(&key, [] { FAIL("done all the same"); }));
  const CallbackScope scope;
  std::thread([&] {
    if (CallbackScope::Defer(&key, [] {})) std::abort();
  }).join();
}

TEST_CASE("a callback within a callback leaves the work to the outer one") {
  int done = 0;
  const int key = 0;
  {
    const CallbackScope outer;
    {
      const CallbackScope inner;
      CHECK(CallbackScope::Defer(&key, [&] { ++done; }));
    }
    CHECK(done == 0);
  }
  CHECK(done == 1);
}

TEST_CASE("what is done at a callback's end puts nothing off, so that it ends") {
  bool refused = false;
  const int key = 0;
  {
    const CallbackScope scope;
    CallbackScope::Defer(&key, [&] { refused = !CallbackScope::Defer(&key, [] {}); });
  }
  CHECK(refused);
}

}  // namespace
}  // namespace kernelcast
