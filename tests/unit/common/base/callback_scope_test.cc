#include "common/base/callback_scope.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

namespace kernelcast {
namespace {

TEST_CASE("Deferred work runs once per key and in order when the callback ends") {
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

TEST_CASE("Work is deferred only on a thread that is inside a callback") {
  const int key = 0;
  CHECK_FALSE(CallbackScope::Defer(&key, [] { FAIL("deferred work ran"); }));
  const CallbackScope scope;
  std::thread([&] {
    if (CallbackScope::Defer(&key, [] {})) std::abort();
  }).join();
}

TEST_CASE("A nested callback leaves deferred work to the outer one") {
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

TEST_CASE("Work run at a callback's end is not deferred again") {
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
