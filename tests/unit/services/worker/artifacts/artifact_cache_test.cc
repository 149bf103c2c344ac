#include "services/worker/artifacts/artifact_cache.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/id.h"

namespace kernelcast::worker {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / RandomId("kernelcast-cache-")) {}
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  const fs::path path_;
};

CompileResult Success(const std::string& content) {
  const FactSchema& schema = AllFactSchemas()[0];
  CompileSuccess success;
  success.facts.schema = std::string(schema.id);
  success.facts.values.assign(schema.names.size(), 1.5);
  success.artifact.artifact_id = "a_1";
  success.artifact.architecture = "x86-64/test";
  success.artifact.toolchain = "compiler";
  success.artifact.content = content;
  success.log = "a warning";
  CompileResult result;
  result.result = std::move(success);
  result.compile_ns = 77;
  return result;
}

CompileResult Failure(CompileStage stage) {
  CompileResult result;
  result.result = CompileError{stage, "kernel.cc:1: error"};
  return result;
}

std::unique_ptr<ArtifactCache> Open(const Folder& folder, int64_t max_bytes = 1 << 20) {
  auto cache = ArtifactCache::Open(folder.path(), max_bytes);
  REQUIRE(cache.ok());
  return *std::move(cache);
}

TEST_CASE("A compile error of an earlier format is compiled again, and an artefact is kept") {
  const auto rewritten = [](const CompileResult& result, uint64_t kind) {
    const std::string entry = EncodeCacheEntry(result);
    // The magic line, the hash, the time and then the kind.
    const size_t payload_at = entry.find('\n') + 1 + 32;
    std::string payload = entry.substr(payload_at);
    payload.replace(sizeof(uint64_t), sizeof(kind), reinterpret_cast<const char*>(&kind),
                    sizeof(kind));
    return absl::StrCat(entry.substr(0, entry.find('\n') + 1),
                        ContentHasher().Add(payload).Hex128(), payload);
  };
  CHECK(DecodeCacheEntry(rewritten(Failure(CompileStage::kCompiler), 2)).has_value());
  CHECK_FALSE(DecodeCacheEntry(rewritten(Failure(CompileStage::kCompiler), 1)).has_value());
  CHECK_FALSE(DecodeCacheEntry(rewritten(Failure(CompileStage::kAdmission), 1)).has_value());
  CHECK_FALSE(DecodeCacheEntry(rewritten(Failure(CompileStage::kLinker), 7)).has_value());
  CHECK(DecodeCacheEntry(rewritten(Success("x"), 0)).has_value());
}

TEST_CASE("A stored artefact is found again, also after a restart") {
  const Folder folder;
  {
    const auto cache = Open(folder);
    CHECK_FALSE(cache->Get("a_1").has_value());
    cache->Put("a_1", Success(std::string("\0\1\2", 3)));
    cache->Put("a_2", Failure(CompileStage::kCompiler));
  }
  const auto cache = Open(folder);
  CHECK(cache->bytes() > 0);
  const auto success = cache->Get("a_1");
  REQUIRE(success.has_value());
  CHECK(success->cached);
  CHECK(success->compile_ns == 77);
  const auto& got = std::get<CompileSuccess>(success->result);
  CHECK(got.artifact.content == std::string("\0\1\2", 3));
  CHECK(got.artifact.toolchain == "compiler");
  CHECK(got.facts.values.size() == AllFactSchemas()[0].names.size());
  CHECK(got.log == "a warning");
  const auto failure = cache->Get("a_2");
  REQUIRE(failure.has_value());
  CHECK(std::get<CompileError>(failure->result).log == "kernel.cc:1: error");
}

TEST_CASE("A transient failure is not cached") {
  const Folder folder;
  const auto cache = Open(folder);
  cache->Put("a_1", Failure(CompileStage::kLimit));
  CHECK_FALSE(cache->Get("a_1").has_value());
}

TEST_CASE("The size is bounded and the least recently used entries are evicted first") {
  const Folder folder;
  const auto cache = Open(folder, 100'000);
  const std::string content(20'000, 'x');
  cache->Put("a_1", Success(content));
  cache->Put("a_2", Success(content));
  cache->Put("a_3", Success(content));
  CHECK(cache->Get("a_1").has_value());
  cache->Put("a_4", Success(content));
  cache->Put("a_5", Success(content));
  CHECK(cache->bytes() <= 100'000);
  CHECK(cache->Get("a_1").has_value());
  CHECK_FALSE(cache->Get("a_2").has_value());
  CHECK(cache->Get("a_5").has_value());
  cache->Put("a_6", Success(std::string(200'000, 'x')));
  CHECK_FALSE(cache->Get("a_6").has_value());
}

TEST_CASE("A smaller bound takes effect when the folder is reopened") {
  const Folder folder;
  Open(folder)->Put("a_1", Success(std::string(50'000, 'x')));
  Open(folder)->Put("a_2", Success(std::string(50'000, 'x')));
  CHECK(Open(folder, 60'000)->bytes() <= 60'000);
}

TEST_CASE("A file damaged anywhere is a miss") {
  const std::string whole = EncodeCacheEntry(Success("content"));
  REQUIRE(DecodeCacheEntry(whole).has_value());
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    INFO(at);
    CHECK_FALSE(DecodeCacheEntry(damaged).has_value());
  }
  for (size_t size = 0; size < whole.size(); size += 11) {
    CHECK_FALSE(DecodeCacheEntry(whole.substr(0, size)).has_value());
  }
  CHECK_FALSE(DecodeCacheEntry(whole + "x").has_value());
}

TEST_CASE("A damaged file is removed when found") {
  const Folder folder;
  const auto cache = Open(folder);
  cache->Put("a_1", Success("content"));
  const std::string path = absl::StrCat(folder.path(), "/a_1.entry");
  std::ofstream(path, std::ios::binary) << "half";
  CHECK_FALSE(cache->Get("a_1").has_value());
  CHECK_FALSE(fs::exists(path));
  CHECK(cache->bytes() == 0);
}

TEST_CASE("Leftovers of a killed process are removed once they are old") {
  const Folder folder;
  Open(folder);
  const fs::path old_file = fs::path(folder.path()) / "t_1.new";
  const fs::path new_file = fs::path(folder.path()) / "t_2.new";
  std::ofstream(old_file) << "x";
  std::ofstream(new_file) << "x";
  fs::last_write_time(old_file, fs::file_time_type::clock::now() - std::chrono::hours(2));
  Open(folder);
  CHECK_FALSE(fs::exists(old_file));
  CHECK(fs::exists(new_file));
}

TEST_CASE("A folder that cannot be created is reported") {
  CHECK(absl::IsUnavailable(ArtifactCache::Open("/proc/no/such/folder", 1000).status()));
}

}  // namespace
}  // namespace kernelcast::worker
