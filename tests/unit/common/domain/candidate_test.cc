#include "common/domain/candidate.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace kernelcast {
namespace {

using Catch::Matchers::StartsWith;

Candidate Valid() {
  Candidate candidate;
  candidate.problem_id = "p_00112233445566778899aabbccddeeff";
  candidate.target = "cpu";
  candidate.source = "int x;";
  candidate.flags = {"-O3"};
  candidate.tunables = {{"UNROLL", "4"}, {"SCALE", "divide"}};
  return candidate;
}

Candidate ValidCuda() {
  Candidate candidate = Valid();
  candidate.kind = CandidateKind::kDeviceCuda;
  candidate.launches = {{.kernel = "softmax",
                         .grid = {"rows"},
                         .block = {"256"},
                         .shared_memory_bytes = "4*cols",
                         .arguments = {"x", "y", "3:i32"},
                         .cluster = {}}};
  candidate.workspace_bytes = "rows*4";
  return candidate;
}

using Change = std::function<void(Candidate&)>;

std::string Error(Candidate candidate, const Change& change) {
  change(candidate);
  const absl::Status status = ValidateCandidate(candidate);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST_CASE("Complete candidates are valid", "[candidate]") {
  CHECK(ValidateCandidate(Valid()).ok());
  CHECK(ValidateCandidate(ValidCuda()).ok());
  Candidate candidate = Valid();
  candidate.candidate_id = CandidateId(candidate);
  candidate.parent_candidate_id = candidate.candidate_id;
  candidate.origin = "mutation: \xC3\xA9";
  CHECK(ValidateCandidate(candidate).ok());
}

TEST_CASE("A candidate's id is a prefix and 32 hex digits", "[candidate]") {
  const std::string id = CandidateId(Valid());
  REQUIRE(id.size() == 34);
  CHECK(id.substr(0, 2) == "k_");
  CHECK(id.find_first_not_of("0123456789abcdef", 2) == std::string::npos);
  CHECK(id == CandidateId(Valid()));
}

TEST_CASE("Every part of the content changes the id", "[candidate]") {
  const std::vector<Change> changes = {
      [](Candidate& c) { c.problem_id += "0"; },
      [](Candidate& c) { c.target = "h100"; },
      [](Candidate& c) { c.kind = CandidateKind::kPython; },
      [](Candidate& c) { c.source += " "; },
      [](Candidate& c) { c.flags.clear(); },
      [](Candidate& c) { c.flags.push_back("-O2"); },
      [](Candidate& c) {
        c.flags = {"-O", "3"};
      },
      [](Candidate& c) { c.tunables[0].value = "8"; },
      [](Candidate& c) { c.tunables[0].name = "N"; },
      [](Candidate& c) { std::swap(c.tunables[0], c.tunables[1]); },
      [](Candidate& c) { c.tunables.pop_back(); },
      [](Candidate& c) { c.launches.emplace_back(); },
      [](Candidate& c) { c.launches.emplace_back().kernel = "k"; },
      [](Candidate& c) { c.launches.emplace_back().grid = {"a"}; },
      [](Candidate& c) {
        c.launches.emplace_back().grid = {"a", "b"};
      },
      [](Candidate& c) { c.launches.emplace_back().block = {"a"}; },
      [](Candidate& c) { c.launches.emplace_back().arguments = {"a"}; },
      [](Candidate& c) { c.launches.emplace_back().cluster = {"a"}; },
      [](Candidate& c) { c.launches.emplace_back().shared_memory_bytes = "a"; },
      [](Candidate& c) { c.workspace_bytes = "1"; },
  };
  std::set<std::string> ids = {CandidateId(Valid())};
  for (const Change& change : changes) {
    Candidate candidate = Valid();
    change(candidate);
    CHECK(ids.insert(CandidateId(candidate)).second);
  }
}

TEST_CASE("Parent, origin, name and the id itself are not hashed", "[candidate]") {
  Candidate candidate = Valid();
  candidate.parent_candidate_id = "k_1";
  candidate.origin = "somewhere";
  candidate.name = "something";
  candidate.candidate_id = "k_2";
  CHECK(CandidateId(candidate) == CandidateId(Valid()));
}

TEST_CASE("An invalid candidate is refused with the field and the allowed values", "[candidate]") {
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](Candidate& c) { c.problem_id = ""; }, "problem_id: '' is not a name"},
      {[](Candidate& c) { c.problem_id = "a b"; }, "problem_id: 'a b' is not a name"},
      {[](Candidate& c) { c.target = ""; }, "target: '' is not a name"},
      {[](Candidate& c) { c.target = std::string(129, 'a'); }, "target: 'aaa"},
      {[](Candidate& c) { c.kind = CandidateKind::kUnspecified; },
       "kind: is not set; host_native, device_cuda, device_triton, python and device_tilelang are "
       "allowed"},
      {[](Candidate& c) { c.source = ""; }, "source: is empty"},
      {[](Candidate& c) { c.source.assign((1 << 20) + 1, 'a'); },
       "source: 1048577 bytes; at most 1048576 are allowed"},
      {[](Candidate& c) { c.source = std::string("ab\0c", 4); }, "source: NUL at byte 2"},
      {[](Candidate& c) { c.source = "ab\xff"; }, "source: is not UTF-8"},
      {[](Candidate& c) { c.flags.assign(65, "-O3"); }, "flags: 65 entries; at most 64"},
      {[](Candidate& c) {
         c.flags = {"-O3", "O3"};
       },
       "flags[1]: 'O3' is not '-'"},
      {[](Candidate& c) { c.flags = {"-a b"}; }, "flags[0]: '-a b' is not '-'"},
      {[](Candidate& c) { c.flags = {"-" + std::string(256, 'a')}; }, "flags[0]: '-aaa"},
      {[](Candidate& c) {
         c.tunables.assign(65, {"A", "1"});
       },
       "tunables: 65 entries"},
      {[](Candidate& c) { c.tunables[1].name = "UNROLL"; },
       "tunables[1].name: 'UNROLL' occurs twice"},
      {[](Candidate& c) { c.tunables[0].name = "1x"; }, "tunables[0].name: '1x'"},
      {[](Candidate& c) { c.tunables[0].value = "1.5"; }, "tunables[0].value: '1.5' is neither"},
      {[](Candidate& c) { c.tunables[0].value = "99999999999999999999"; }, "tunables[0].value:"},
      {[](Candidate& c) { c.launches.emplace_back(); }, "launches: only device_cuda"},
      {[](Candidate& c) { c.workspace_bytes = "1"; }, "workspace_bytes: only device_cuda"},
      {[](Candidate& c) { c.parent_candidate_id = "a/b"; }, "parent_candidate_id: 'a/b'"},
      {[](Candidate& c) { c.origin = "\xff"; }, "origin: "},
      {[](Candidate& c) { c.origin.assign(257, 'a'); }, "origin: "},
      {[](Candidate& c) { c.name = "\xff"; }, "name: "},
      {[](Candidate& c) { c.name.assign(257, 'a'); }, "name: '"},
      {[](Candidate& c) { c.candidate_id = "k_1"; },
       "candidate_id: 'k_1' is not the hash of the content, k_"},
  };
  for (const auto& [change, message] : cases) {
    CHECK_THAT(Error(Valid(), change), StartsWith(message));
  }
}

TEST_CASE("An invalid launch is refused with its field", "[candidate]") {
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](Candidate& c) { c.launches.clear(); }, "launches: a device_cuda candidate needs"},
      {[](Candidate& c) { c.launches.assign(65, c.launches[0]); }, "launches: 65 entries"},
      {[](Candidate& c) { c.launches[0].kernel = "a::b"; }, "launches[0].kernel: 'a::b'"},
      {[](Candidate& c) { c.launches[0].grid.clear(); },
       "launches[0].grid: 0 entries; from 1 to 3"},
      {[](Candidate& c) { c.launches[0].block.assign(4, "1"); }, "launches[0].block: 4 entries"},
      {[](Candidate& c) { c.launches[0].cluster.assign(4, "1"); },
       "launches[0].cluster: 4 entries"},
      {[](Candidate& c) { c.launches[0].grid[0] = ""; }, "launches[0].grid[0]: '' is not an expr"},
      {[](Candidate& c) { c.launches[0].shared_memory_bytes = "\xff"; },
       "launches[0].shared_memory_bytes: "},
      {[](Candidate& c) { c.launches[0].arguments.assign(65, "x"); },
       "launches[0].arguments: 65 entries"},
      {[](Candidate& c) { c.launches[0].arguments[1] = ""; }, "launches[0].arguments[1]: "},
      {[](Candidate& c) { c.launches[0].arguments[1] = "2*rows"; },
       "launches[0].arguments[1]: '2*rows' is not a tensor, an axis or workspace; an expression "
       "needs a type"},
      {[](Candidate& c) { c.launches[0].arguments[2] = "3:long"; },
       "launches[0].arguments[2]: '3:long': the type 'long' is not one of bool"},
      {[](Candidate& c) {
         c.launches[0].arguments[0] = "workspace";
         c.workspace_bytes.clear();
       },
       "launches[0].arguments[0]: 'workspace' needs workspace_bytes"},
      {[](Candidate& c) { c.launches[0].kernel.assign(129, 'k'); }, "launches[0].kernel: 'kkk"},
      {[](Candidate& c) { c.workspace_bytes.assign(1025, '1'); }, "workspace_bytes: "},
  };
  for (const auto& [change, message] : cases) {
    CHECK_THAT(Error(ValidCuda(), change), StartsWith(message));
  }
}

Candidate TritonCandidate() {
  Candidate candidate;
  candidate.problem_id = "p_0";
  candidate.target = "cuda";
  candidate.kind = CandidateKind::kDeviceTriton;
  candidate.source = "import triton";
  Launch& launch = candidate.launches.emplace_back();
  launch.kernel = "k";
  launch.grid = {"rows"};
  launch.arguments = {"x"};
  launch.constexprs = {{"BLOCK", "1024"}};
  launch.num_warps = 8;
  return candidate;
}

TEST_CASE("Launches of Triton kernels have constants and no block") {
  CHECK(ValidateCandidate(TritonCandidate()).ok());
  const auto message = [](void (*change)(Launch&)) {
    Candidate candidate = TritonCandidate();
    change(candidate.launches[0]);
    const absl::Status status = ValidateCandidate(candidate);
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  CHECK(message([](Launch& l) { l.block = {"32"}; }) ==
        "launches[0].block: must be absent for a device_triton candidate; the compiler decides it");
  CHECK(message([](Launch& l) { l.num_warps = 3; }) ==
        "launches[0].num_warps: 3 is not a power of two from 1 to 32");
  CHECK(message([](Launch& l) { l.num_stages = 99; }) ==
        "launches[0].num_stages: 99 is not from 1 to 16");
  CHECK(message([](Launch& l) {
          l.constexprs.push_back({"BLOCK", "1"});
        }) == "launches[0].constexprs: 'BLOCK' occurs twice");
  Candidate cuda = TritonCandidate();
  cuda.kind = CandidateKind::kDeviceCuda;
  cuda.launches[0].block = {"32"};
  CHECK(ValidateCandidate(cuda).message() ==
        "launches[0].constexprs: only device_triton candidates have them");
}

TEST_CASE("Constants, warps and conditions are part of a candidate's id") {
  const std::string id = CandidateId(TritonCandidate());
  for (void (*change)(Launch&) :
       {+[](Launch& l) { l.constexprs[0].value = "512"; }, +[](Launch& l) { l.num_warps = 4; },
        +[](Launch& l) { l.num_stages = 2; }, +[](Launch& l) { l.when = "rows"; }}) {
    Candidate candidate = TritonCandidate();
    change(candidate.launches[0]);
    CHECK(CandidateId(candidate) != id);
  }
}

}  // namespace
}  // namespace kernelcast
