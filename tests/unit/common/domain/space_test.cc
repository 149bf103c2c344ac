#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

Space SmallSpace() { return *ParseProblem(AsFiles(SmallProblem()))->targets.at("cpu").space; }

TEST_CASE("Every admitted point is listed once, in order", "[space]") {
  const Space space = SmallSpace();
  const std::vector<SpacePoint> points = EnumeratePoints(space);
  // UNROLL, LANES: (1,4) (1,8) (2,4) (2,8) (4,8), times two modes and two flag sets, plus the bare
  // template.
  REQUIRE(points.size() == 21);
  CHECK(std::ranges::is_sorted(points));
  CHECK(std::set<SpacePoint>(points.begin(), points.end()).size() == points.size());
  CHECK(points.front() == SpacePoint{0, {0, 0, 0, 0}});
  CHECK(points[1] == SpacePoint{0, {0, 0, 0, 1}});
  CHECK(points[16] == SpacePoint{0, {2, 1, 0, 0}});
  CHECK(points.back() == SpacePoint{1, {}});
  CHECK(EnumeratePoints(space) == points);
  CHECK(EnumeratePoints(space, 5) == std::vector<SpacePoint>(points.begin(), points.begin() + 5));
  CHECK(EnumeratePoints(space, 0).empty());
}

TEST_CASE("Listing agrees with testing each point", "[space][property]") {
  const Space space = SmallSpace();
  std::vector<SpacePoint> admitted;
  for (int t = 0; t < 2; ++t) {
    SpacePoint point{t, std::vector<int>(space.templates[t].dimensions.size(), 0)};
    do {
      if (Admits(space, point)) admitted.push_back(point);
    } while (NextPoint(space.templates[t], point));
  }
  CHECK(admitted == EnumeratePoints(space));
}

TEST_CASE("Nonexistent points are not admitted", "[space]") {
  const Space space = SmallSpace();
  CHECK(Admits(space, {0, {0, 0, 0, 0}}));
  CHECK_FALSE(Admits(space, {0, {2, 0, 0, 0}}));
  CHECK_FALSE(Admits(space, {0, {3, 0, 0, 0}}));
  CHECK_FALSE(Admits(space, {0, {-1, 0, 0, 0}}));
  CHECK_FALSE(Admits(space, {0, {0, 0, 0}}));
  CHECK_FALSE(Admits(space, {2, {}}));
  CHECK_FALSE(Admits(space, {-1, {}}));
}

TEST_CASE("A constraint that is not finite admits nothing", "[space]") {
  Space space = SmallSpace();
  space.templates[0].constraints = {*Expression::Parse("8 / (UNROLL - 2) + 8", {"UNROLL"})};
  CHECK_FALSE(Admits(space, {0, {0, 0, 0, 0}}));  // zero
  CHECK_FALSE(Admits(space, {0, {1, 0, 0, 0}}));  // infinite
  CHECK(Admits(space, {0, {2, 0, 0, 0}}));
}

TEST_CASE("A point is converted to a candidate", "[space]") {
  const Space space = SmallSpace();
  const Candidate candidate = CandidateFromPoint(space, {0, {2, 1, 1, 1}}, "p_1");
  CHECK(candidate.source ==
        "#define UNROLL 4\n"
        "#define LANES 8\n"
        "#define MODE exact\n"
        "#line 1 \"plain.cc\"\n"
        "int plain;\n");
  CHECK(candidate.flags == std::vector<std::string>{"-ffast-math", "-funroll-loops"});
  CHECK(candidate.tunables == std::vector<Tunable>{{"TEMPLATE", "plain"},
                                                   {"UNROLL", "4"},
                                                   {"LANES", "8"},
                                                   {"MODE", "exact"},
                                                   {"FLAGS", "1"}});
  CHECK(candidate.problem_id == "p_1");
  CHECK(candidate.target == "cpu");
  CHECK(candidate.kind == CandidateKind::kHostNative);
  CHECK(candidate.origin == "template:plain");
  CHECK(candidate.candidate_id == CandidateId(candidate));
  CHECK(ValidateCandidate(candidate).ok());
}

TEST_CASE("A point of a Triton template has the kernel as it is, and its configuration",
          "[space][cuda]") {
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(SmallTritonProblem()));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const Space& space = *problem->targets.at("cuda").space;
  const std::vector<SpacePoint> points = EnumeratePoints(space);
  REQUIRE(points.size() == 5);  // without 256, 8
  std::set<std::string> ids;
  for (const SpacePoint& point : points) {
    const Candidate candidate = CandidateFromPoint(space, point, problem->problem_id);
    CHECK(candidate.kind == CandidateKind::kDeviceTriton);
    CHECK(candidate.source == "# rows\n");
    CHECK(ValidateCandidate(candidate).ok());
    ids.insert(candidate.candidate_id);
  }
  CHECK(ids.size() == 5);
  const Candidate last = CandidateFromPoint(space, points.back(), problem->problem_id);
  CHECK(last.tunables ==
        std::vector<Tunable>{{"TEMPLATE", "rows"}, {"BLOCK", "512"}, {"WARPS", "8"}});
  REQUIRE(last.launches.size() == 1);
  const Launch& launch = last.launches[0];
  CHECK(launch.kernel == "scale_rows");
  CHECK(launch.block.empty());
  CHECK(launch.num_warps == 8);
  CHECK(launch.num_stages == 3);
  CHECK(launch.constexprs ==
        std::vector<Constexpr>{{"BLOCK", "BLOCK"}, {"EVEN", "mod(cols, BLOCK)"}, {"FAST", "true"}});
}

TEST_CASE("A point of device CUDA carries its launches", "[space][cuda]") {
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(SmallCudaProblem()));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const Space& space = *problem->targets.at("cuda").space;
  const Candidate candidate = CandidateFromPoint(space, {0, {1, 0}}, "p_1");
  CHECK(candidate.target == "cuda");
  CHECK(candidate.kind == CandidateKind::kDeviceCuda);
  CHECK(candidate.source ==
        "#define BLOCK 256\n#define LOADS plain\n#line 1 \"rows.cu\"\n// rows\n");
  CHECK(candidate.launches == space.templates[0].launches);
  CHECK(candidate.workspace_bytes == "4*BLOCK");
  CHECK(candidate.candidate_id == CandidateId(candidate));
  CHECK(ValidateCandidate(candidate).ok());
}

TEST_CASE("A template without tunables has one point", "[space]") {
  const Candidate candidate = CandidateFromPoint(SmallSpace(), {1, {}}, "p_1");
  CHECK(candidate.source == "#line 1 \"sub/bare.cc\"\nint bare;\n");
  CHECK(candidate.flags.empty());
  CHECK(candidate.tunables == std::vector<Tunable>{{"TEMPLATE", "bare"}});
}

TEST_CASE("A single set of flags is used without being a tunable", "[space]") {
  std::map<std::string, std::string> files = SmallProblem();
  files["space/cpu.yaml"] += "    flags: [[-ffast-math]]\n";
  const absl::StatusOr<Problem> problem = ParseProblem(AsFiles(files));
  INFO(problem.status());
  REQUIRE(problem.ok());
  const Space& space = *problem->targets.at("cpu").space;
  CHECK(space.templates[1].dimensions.empty());
  const Candidate candidate = CandidateFromPoint(space, {1, {}}, "p_1");
  CHECK(candidate.flags == std::vector<std::string>{"-ffast-math"});
  CHECK(candidate.tunables == std::vector<Tunable>{{"TEMPLATE", "bare"}});
}

TEST_CASE("Different points are different candidates", "[space]") {
  const Space space = SmallSpace();
  std::set<std::string> ids;
  for (const SpacePoint& point : EnumeratePoints(space)) {
    CHECK(ids.insert(CandidateFromPoint(space, point, "p_1").candidate_id).second);
  }
}

}  // namespace
}  // namespace kernelcast
