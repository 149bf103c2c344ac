#include "common/domain/candidate_kind.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

namespace kernelcast {
namespace {

TEST_CASE("Each kind of candidates has one row, found by number and by name", "[candidate_kind]") {
  std::set<CandidateKind> kinds;
  for (const KindInfo& info : kCandidateKinds) {
    INFO(info.name);
    CHECK(info.kind != CandidateKind::kUnspecified);
    CHECK(kinds.insert(info.kind).second);
    CHECK(&KindInfoOf(info.kind) == &info);
    CHECK(KindName(info.kind) == info.name);
    CHECK(FindKind(info.name) == info.kind);
    CHECK_FALSE(info.fence.empty());
  }
}

TEST_CASE("A number without a row is no kind, and no name finds it", "[candidate_kind]") {
  CHECK(KindName(CandidateKind::kUnspecified) == "unspecified");
  CHECK(KindName(static_cast<CandidateKind>(77)) == "unspecified");
  CHECK_FALSE(FindKind("unspecified"));
  CHECK_FALSE(FindKind(""));
  CHECK_FALSE(FindKind("Python"));
}

TEST_CASE("A file with the extension of a kind is read in the language of the kind",
          "[candidate_kind]") {
  for (const KindInfo& info : kCandidateKinds) {
    INFO(info.name);
    const auto read = KindOfFile("folder/best" + std::string(info.extension()));
    REQUIRE(read);
    CHECK(KindInfoOf(*read).is_python == info.is_python);
  }
}

TEST_CASE("A language and launches make a kind", "[candidate_kind]") {
  CHECK(KindOfSource(/*is_python=*/false, /*has_launches=*/false) == CandidateKind::kHostNative);
  CHECK(KindOfSource(/*is_python=*/false, /*has_launches=*/true) == CandidateKind::kDeviceCuda);
  CHECK(KindOfSource(/*is_python=*/true, /*has_launches=*/false) == CandidateKind::kPython);
  CHECK(KindOfSource(/*is_python=*/true, /*has_launches=*/true) == CandidateKind::kDeviceTriton);
}

TEST_CASE("Files without a description have the kind without launches", "[candidate_kind]") {
  CHECK(KindOfFile("a.cc") == CandidateKind::kHostNative);
  CHECK(KindOfFile("a.cpp") == CandidateKind::kHostNative);
  CHECK(KindOfFile("a.cxx") == CandidateKind::kHostNative);
  CHECK(KindOfFile("a.cu") == CandidateKind::kHostNative);
  CHECK(KindOfFile(".py") == CandidateKind::kPython);
  CHECK_FALSE(KindOfFile("a.json"));
  CHECK_FALSE(KindOfFile("py"));
  CHECK_FALSE(KindOfFile(""));
  CHECK(SourceExtensions() == std::vector<std::string>{".cc", ".cpp", ".cxx", ".cu", ".py"});
}

TEST_CASE("The kind of a bare source follows from what it contains", "[candidate_kind]") {
  CHECK(GuessKind("void kernelcast_run();") == CandidateKind::kHostNative);
  CHECK(GuessKind("__global__ void f() {}") == CandidateKind::kDeviceCuda);
  CHECK(GuessKind("import torch\nsource = '__global__ void f() {}'") == CandidateKind::kPython);
  CHECK(GuessKind("import torch\nimport triton\n") == CandidateKind::kDeviceTriton);
  CHECK(GuessKind("import tilelang.language as T\n") == CandidateKind::kDeviceTilelang);
  CHECK(GuessKind("import torch\nimport tilelang\n") == CandidateKind::kPython);
}

TEST_CASE("Names of kinds are listed in the order of the table", "[candidate_kind]") {
  CHECK(KindNames() == std::vector<std::string>{"host_native", "device_cuda", "device_triton",
                                                "python", "device_tilelang"});
  CHECK(KindNames([](const KindInfo& info) { return info.has_launches(); }) ==
        std::vector<std::string>{"device_cuda", "device_triton"});
}

}  // namespace
}  // namespace kernelcast
