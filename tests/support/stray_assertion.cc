// Triggers assertion_guard.cc, whose test reads the message.

#include <catch2/catch.hpp>
#include <thread>

TEST_CASE("asserts on another thread") {
  std::thread([] { CHECK(true); }).join();
}
