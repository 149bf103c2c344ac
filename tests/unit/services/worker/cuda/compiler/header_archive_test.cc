#include "services/worker/cuda/compiler/header_archive.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/services.h"

namespace kernelcast::worker {
namespace {

using testing::TemporaryFolder;

void Write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::filesystem::create_directories((folder.path() / name).parent_path());
  std::ofstream(folder.path() / name) << text;
}

class Toolkit {
 public:
  Toolkit() : folder_("headers") {
    Write(folder_, "cuda_fp16.h", "#include \"vector_types.h\"\n#include <nv/target>\n");
    Write(folder_, "vector_types.h", "struct int2;\n");
    Write(folder_, "mma.h", "#include \"crt/mma.h\"\n");
    Write(folder_, "crt/mma.h", "#ifdef X\n#include \"mma.hpp\"\n#endif\n#include <missing.h>\n");
    Write(folder_, "crt/mma.hpp", "int mma;\n");
    Write(folder_, "cccl/nv/target", "#include \"../cuda/x\"\n");
    Write(folder_, "cccl/cuda/x", "int x;\n");
    Write(folder_, "cupti.h", "host\n");
    Write(folder_, "other_package.h", "not NVIDIA's\n");
    Write(folder_, "python3/x.h", "not NVIDIA's\n");
  }
  std::unique_ptr<HeaderArchive> Read() const {
    auto archive = HeaderArchive::Read(folder_.path().string());
    INFO(archive.status().ToString());
    REQUIRE(archive.ok());
    return *std::move(archive);
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  const TemporaryFolder folder_;
};

std::vector<std::string> Names(const std::vector<compiler_wire::NamedHeader>& headers) {
  std::vector<std::string> names;
  for (const auto& header : headers) {
    names.push_back(header.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("The archive holds the toolkit's headers and nothing else of the folder") {
  const Toolkit toolkit;
  const auto archive = toolkit.Read();
  for (const char* name : {"cuda_fp16.h", "crt/mma.hpp", "nv/target", "cuda/x", "stdint.h"}) {
    INFO(name);
    CHECK(archive->Has(name));
  }
  for (const char* name : {"cupti.h", "other_package.h", "python3/x.h", "cccl/nv/target", ""}) {
    INFO(name);
    CHECK_FALSE(archive->Has(name));
  }
  CHECK(archive->Text("crt/mma.hpp") == "int mma;\n");
  CHECK_FALSE(archive->Text("nothing").has_value());
}

TEST_CASE("Included headers are reachable under the names used") {
  const Toolkit toolkit;
  const auto archive = toolkit.Read();
  const std::vector<IncludedFile> fp16 = {{"cuda_fp16.h", false}};
  CHECK(Names(archive->Reach(fp16)) ==
        std::vector<std::string>{"../cuda/x", "cuda_fp16.h", "nv/target", "vector_types.h"});
  const std::vector<IncludedFile> mma = {{"mma.h", false}, {"unknown.h", true}};
  const auto headers = archive->Reach(mma);
  CHECK(Names(headers) == std::vector<std::string>{"crt/mma.h", "mma.h", "mma.hpp"});
  for (const auto& header : headers) {
    if (header.name == "mma.hpp") {
      CHECK(archive->Text("crt/mma.hpp")->size() == 9);
      char text[10] = {};
      REQUIRE(pread(archive->fd(), text, 10, static_cast<off_t>(header.offset)) == 10);
      CHECK(std::string(text) == "int mma;\n");  // and a NUL at its end
    }
  }
}

TEST_CASE("CUB's algorithms for hosts are left out of its header of everything") {
  const Toolkit toolkit;
  Write(toolkit.folder(), "cccl/cub/cub.cuh",
        "#include <cub/block/block_scan.cuh>\n#include <cub/device/device_scan.cuh>\n"
        "#  include <cub/util_allocator.cuh>\nint cub;\n");
  Write(toolkit.folder(), "cccl/cub/block/block_scan.cuh", "int scan;\n");
  Write(toolkit.folder(), "cccl/cub/device/device_scan.cuh", "host\n");
  const auto archive = toolkit.Read();
  CHECK(archive->Text("cub/cub.cuh") == "#include <cub/block/block_scan.cuh>\n\n\nint cub;\n\n");
  const std::vector<IncludedFile> cub = {{"cub/cub.cuh", false}};
  CHECK(Names(archive->Reach(cub)) ==
        std::vector<std::string>{"cub/block/block_scan.cuh", "cub/cub.cuh"});
}

TEST_CASE("The hash covers the content") {
  const Toolkit toolkit;
  const std::string before = toolkit.Read()->hash();
  CHECK(toolkit.Read()->hash() == before);
  Write(toolkit.folder(), "vector_types.h", "struct int3;\n");
  CHECK(toolkit.Read()->hash() != before);
}

TEST_CASE("The header memory is read-only for everyone") {
  const Toolkit toolkit;
  const auto archive = toolkit.Read();
  CHECK(write(archive->fd(), "x", 1) == -1);
  CHECK(ftruncate(archive->fd(), 0) == -1);
  CHECK(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, archive->fd(), 0) == MAP_FAILED);
}

TEST_CASE("More folders add the headers that the first one lacks") {
  const Toolkit toolkit;
  const TemporaryFolder more("headers");
  Write(more, "vector_types.h", "struct of_another_release;\n");
  Write(more, "crt/host_defines.h", "defines\n");
  Write(more, "cub/cub.cuh", "cub\n");
  Write(more, "other_package.h", "not NVIDIA's\n");
  const std::vector<std::string> folders = {more.path().string()};
  const auto archive = HeaderArchive::Read(toolkit.folder().path().string(), {}, folders);
  REQUIRE(archive.ok());
  CHECK((*archive)->Text("vector_types.h") == "struct int2;\n");
  CHECK((*archive)->Text("crt/host_defines.h") == "defines\n");
  CHECK((*archive)->Has("cub/cub.cuh"));
  CHECK_FALSE((*archive)->Has("other_package.h"));
}

TEST_CASE("A folder without the toolkit's headers is reported") {
  const TemporaryFolder empty("headers");
  CHECK(absl::IsNotFound(HeaderArchive::Read(empty.path().string()).status()));
  CHECK(absl::IsNotFound(HeaderArchive::Read("/nonexistent").status()));
}

TEST_CASE("No name reached from the real toolkit's headers is ambiguous") {
  const auto archive = HeaderArchive::Read(KERNELCAST_CUDA_HOME "/include");
  if (!archive.ok()) {
    WARN("no CUDA headers in this build: nothing is tested");
    return;
  }
  CHECK((*archive)->Has("cuda_bf16.h"));
  const std::vector<IncludedFile> all = {
      {"cuda_fp16.h", false}, {"cuda_bf16.h", false},          {"cuda_fp8.h", false},
      {"mma.h", false},       {"cooperative_groups.h", false}, {"cuda_pipeline.h", false}};
  const std::vector<std::string> names = Names((*archive)->Reach(all));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  CHECK(std::count(names.begin(), names.end(), "mma.hpp") == 1);
}

TEST_CASE("A header of a package has one name") {
  const Toolkit toolkit;
  const TemporaryFolder package("package");
  Write(package, "tiles/a.h",
        "#pragma once\n  # include \"b.h\"  // next to it\n#include <mma.h>\n");
  Write(package, "tiles/b.h", "#include CUDA_STD_HEADER(x)\nint b;\n");
  Write(package, "tiles/parts/c.h", "#include \"../b.h\"\n#include \"tiles/a.h\"\n");
  // The package has a file of a name that the toolkit has.
  Write(package, "tiles/parts/mma.h", "#include \"mma.h\"\n");
  Write(package, "others/d.h", "not wanted\n");
  const HeaderFolder folder{package.path().string(), "tiles"};
  auto archive = HeaderArchive::Read(toolkit.folder().path().string(), {&folder, 1});
  REQUIRE(archive.ok());
  CHECK((*archive)->Text("tiles/a.h") ==
        "#pragma once\n#include <tiles/b.h>\n#include <mma.h>\n\n");
  CHECK((*archive)->Text("tiles/b.h") == "#include <cuda/std/x>\nint b;\n\n");
  CHECK((*archive)->Text("tiles/parts/c.h") == "#include <tiles/b.h>\n#include <tiles/a.h>\n\n");
  CHECK((*archive)->Text("tiles/parts/mma.h") == "#include <tiles/parts/mma.h>\n\n");
  CHECK((*archive)->Text("mma.h") == "#include \"crt/mma.h\"\n");
  CHECK(!(*archive)->Has("others/d.h"));
  CHECK((*archive)->hash() != toolkit.Read()->hash());
  const std::vector<IncludedFile> included = {{"tiles/parts/c.h", false}};
  CHECK(Names((*archive)->Reach(included)) ==
        std::vector<std::string>{"crt/mma.h", "mma.h", "mma.hpp", "tiles/a.h", "tiles/b.h",
                                 "tiles/parts/c.h"});

  const HeaderFolder missing{package.path().string(), "missing"};
  const auto none = HeaderArchive::Read(toolkit.folder().path().string(), {&missing, 1});
  CHECK(absl::IsNotFound(none.status()));
}

}  // namespace
}  // namespace kernelcast::worker
