#include "services/worker/cuda/target/candidate_loader.h"

#include <catch2/catch.hpp>

#include "absl/status/status.h"
#include "tests/support/eventually.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLoadLimitNs = 1'000'000'000;
constexpr uint64_t kManyBytes = ~uint64_t{0} >> 1;
constexpr int kMost = 8;

// No process of these options starts, so that a candidate is loaded at once, with an error.
CudaRunnerOptions Missing() {
  CudaRunnerOptions options;
  options.path = "/nonexistent/runner";
  return options;
}

TEST_CASE("A loaded candidate that nobody takes is dropped, though no other comes") {
  CandidateLoader loader(Missing(), kLoadLimitNs, /*threads=*/1, /*forget_ns=*/1'000'000);
  loader.Expect("program");
  CHECK(testing::Eventually([&] { return loader.expected() == 0; }));
}

TEST_CASE("A loader that is paused loads expected candidates when it goes on") {
  CandidateLoader loader(Missing(), kLoadLimitNs, /*threads=*/1, /*forget_ns=*/1'000'000);
  auto pause = loader.Pause(kLoadLimitNs);
  loader.Expect("program");
  CHECK(loader.expected() == 1);
  pause.reset();
  CHECK(testing::Eventually([&] { return loader.expected() == 0; }));
}

TEST_CASE("Small devices have fewer candidates loaded at once") {
  CHECK(CandidateLoader::ThreadsFor(1, 1, kMost) == 1);
  CHECK(CandidateLoader::ThreadsFor(2 * CandidateLoader::kLoadedBytes, 1, kMost) <= 2);
  CHECK(CandidateLoader::ThreadsFor(kManyBytes, 1, kMost) <= kMost);
}

TEST_CASE("Several devices share the processors for loading") {
  const int alone = CandidateLoader::ThreadsFor(kManyBytes, 1, kMost);
  CHECK(CandidateLoader::ThreadsFor(kManyBytes, 1'000, kMost) == 1);
  CHECK(CandidateLoader::ThreadsFor(kManyBytes, 2, kMost) <= alone);
  CHECK(CandidateLoader::ThreadsFor(kManyBytes, 1, 1) == 1);
}

TEST_CASE("A candidate that another loader takes is forgotten, and may be expected again") {
  CandidateLoader loader(Missing(), kLoadLimitNs, /*threads=*/1);
  auto pause = loader.Pause(kLoadLimitNs);
  loader.Expect("program");
  loader.Forget("program");
  CHECK(loader.expected() == 0);
  loader.Expect("program");
  CHECK(loader.expected() == 1);
  pause.reset();
  // Also one that is loaded.
  const CancelToken cancel;
  CHECK(absl::IsUnavailable(loader.Take("program", cancel).status()));
  loader.Expect("other");
  loader.Forget("other");
  CHECK(testing::Eventually([&] { return loader.expected() == 0; }));
}

TEST_CASE("A candidate is expected once and until it is taken") {
  CandidateLoader loader(Missing(), kLoadLimitNs, /*threads=*/1);
  loader.Expect("program");
  loader.Expect("program");
  CHECK(loader.expected() == 1);
  const CancelToken cancel;
  CHECK(absl::IsUnavailable(loader.Take("program", cancel).status()));
  CHECK(loader.expected() == 0);
}

}  // namespace
}  // namespace kernelcast::worker
