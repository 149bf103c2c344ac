// Linked into every test binary. Catch2 keeps its assertion state without a lock: an assertion on
// any thread but the test's corrupts it, usually unnoticed. This guard always ends the run at once.
// (INFO uses the same state but is not detected.)

#define CATCH_CONFIG_EXTERNAL_INTERFACES  // without this, catch.hpp has no listeners
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace kernelcast {
namespace {

class AssertionGuard : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override {
    owner_ = std::this_thread::get_id();
  }
  void assertionStarting(const Catch::AssertionInfo& assertion) override {
    if (std::this_thread::get_id() == owner_) return;
    std::fprintf(stderr,
                 "%s:%zu: %s(%s) on a thread that is not the test's: have the thread keep what it"
                 " found, and check that here\n",
                 assertion.lineInfo.file, assertion.lineInfo.line, assertion.macroName.c_str(),
                 assertion.capturedExpression.c_str());
    std::_Exit(EXIT_FAILURE);
  }

 private:
  std::thread::id owner_;
};

CATCH_REGISTER_LISTENER(AssertionGuard)

}  // namespace
}  // namespace kernelcast
