#include "services/worker/cuda/target/candidate_loader.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tests/support/eventually.h"
#include "tests/support/services.h"

namespace kernelcast::worker {
namespace {

constexpr int64_t kLoadLimitNs = 1'000'000'000;

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

TEST_CASE("Two processes start at once, and the next when one has ended") {
  const testing::TemporaryFolder folder("loader");
  CudaRunnerOptions options;
  options.path = "/bin/sh";
  // It never says that it has started.
  options.arguments = {"-c", R"(: > "$0/$$"; exec /bin/sleep 600)", folder.path().string()};
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder.path()), {});
  };

  CandidateLoader loader(options, kLoadLimitNs, /*threads=*/6);
  for (int i = 0; i < 6; ++i) loader.Expect(absl::StrCat(i));
  CHECK(testing::Eventually([&] { return count() >= 2; }));
  CHECK(count() == 2);
  loader.Forget("0");
  CHECK(testing::Eventually([&] { return count() >= 3; }));
  CHECK(count() == 3);
}

TEST_CASE("Memory and processors bound how many candidates are loaded at once") {
  constexpr int64_t kGib = int64_t{1} << 30;
  const CandidateLoader::Room room{.device_bytes = uint64_t{80} << 30,
                                   .host_bytes = 120 * kGib,
                                   .host_bytes_each = 8 * kGib,
                                   .devices = 1,
                                   .processors = 16};
  CHECK(CandidateLoader::ThreadsFor(room, 32) == 12);  // three quarters of the processors
  CHECK(CandidateLoader::ThreadsFor(room, 4) == 4);

  CandidateLoader::Room bounded = room;
  bounded.device_bytes = uint64_t{24} << 30;
  CHECK(CandidateLoader::ThreadsFor(bounded, 32) == 6);
  bounded = room;
  bounded.host_bytes = 30 * kGib;
  CHECK(CandidateLoader::ThreadsFor(bounded, 32) == 3);
  bounded.host_bytes_each = 0;  // unlimited
  CHECK(CandidateLoader::ThreadsFor(bounded, 32) == 12);
  bounded = room;
  bounded.devices = 2;
  CHECK(CandidateLoader::ThreadsFor(bounded, 32) == 6);
  bounded.host_bytes = 1;
  CHECK(CandidateLoader::ThreadsFor(bounded, 32) == 1);
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

TEST_CASE("A candidate is loaded in several processes, and each is taken once") {
  CandidateLoader loader(Missing(), kLoadLimitNs, /*threads=*/2);
  auto pause = loader.Pause(kLoadLimitNs);
  loader.Expect("program", 2);
  loader.Expect("program", 3);
  loader.Expect("program", 1);
  CHECK(loader.expected() == 3);
  pause.reset();
  const CancelToken cancel;
  CHECK(absl::IsUnavailable(loader.Take("program", cancel).status()));
  CHECK(loader.expected() == 2);
  CHECK(absl::IsUnavailable(loader.Take("program", cancel).status()));
  loader.Forget("program");
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
