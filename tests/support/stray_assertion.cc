// What assertion_guard.cc is there for; its test wants to read what it says.

#include <catch2/catch.hpp>
#include <thread>

TEST_CASE("asserts on another thread") {
  std::thread([] { CHECK(true); }).join();
}
