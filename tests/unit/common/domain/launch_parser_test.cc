#include "common/domain/launch_parser.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "common/domain/problem.h"
#include "tests/unit/common/domain/problem_files.h"

namespace kernelcast {
namespace {

using Catch::Matchers::Equals;

using FileMap = std::map<std::string, std::string>;

TEST_CASE("Mistakes in launches are reported at their position", "[problem][cuda]") {
  const FileMap cuda = SmallCudaProblem();
  CheckEdits(
      "problem.yaml",
      {{"kernel: scale", "kernel: 2scale",
        "32: targets.cuda.reference.launches[0].kernel: '2scale' is not the name of a kernel"},
       {"grid: [rows]", "grid: []",
        "33: targets.cuda.reference.launches[0].grid: is an empty list; at least 1"},
       {"grid: [rows]", "grid: [1, 1, 1, rows]",
        "33: targets.cuda.reference.launches[0].grid: 4 entries; from 1 to 3 are allowed"},
       {"grid: [rows]", "grid: [depth]",
        "33: targets.cuda.reference.launches[0].grid[0]: expression 'depth', character 1: unknown "
        "name 'depth'; known names are rows, cols"},
       {"block: [256]", "block: 256",
        "34: targets.cuda.reference.launches[0].block: expected a list, found '256'"},
       {"          block: [256]\n", "",
        "32: targets.cuda.reference.launches[0]: missing key 'block'"},
       {"[x, index, y, cols]", "[x, index, z, cols]",
        "35: targets.cuda.reference.launches[0].arguments[2]: 'z' is not one of index, x, y, rows, "
        "cols, workspace, or an expression with a type such as 3:int or 0.5:float"},
       {"[x, index, y, cols]", "[x, workspace]",
        "35: targets.cuda.reference.launches[0].arguments[1]: 'workspace' needs the key "
        "workspace_bytes"},
       {"3:i32", "3:long",
        "49: targets.cuda.oracle.launches[1].arguments[4]: '3:long': the type 'long' is not one "
        "of"},
       {"3:i32", "depth*2:int",
        "49: targets.cuda.oracle.launches[1].arguments[4]: expression 'depth*2', character 1: "
        "unknown name 'depth'; known names are rows, cols"},
       {"3:i32", "rows*2",
        "49: targets.cuda.oracle.launches[1].arguments[4]: 'rows*2' is not a tensor, an axis or "
        "workspace; an expression needs a type, such as 'rows*2:int'"},
       {"[x, workspace, y, cols, 3:i32]", "[x, workspace + depth, y, cols, 3:i32]",
        "49: targets.cuda.oracle.launches[1].arguments[1]: expression 'depth', character 1: "
        "unknown "
        "name 'depth'"},
       {"3:i32", "3000000000:i32",
        "49: targets.cuda.oracle.launches[1].arguments[4]: '3000000000' is not a whole number "
        "from -2147483648 to 2147483647, which int32 can hold"},
       {"cluster: [1]", "cluster: [1, 1, 1, 1]",
        "47: targets.cuda.oracle.launches[1].cluster: 4 entries; from 0 to 3"},
       {"shared_memory_bytes: 8*cols", "shared_memory_bytes: [8]",
        "48: targets.cuda.oracle.launches[1].shared_memory_bytes: expected an expression"},
       {"workspace_bytes: 8*rows", "workspace_bytes: 8*",
        "38: targets.cuda.oracle.workspace_bytes: expression '8*'"},
       {"      launches:\n        - kernel: scale\n", "      launch:\n        - kernel: scale\n",
        "31: targets.cuda.reference: unknown key 'launch'; did you mean 'launches'?"},
       {"file: oracle.cu", "file: oracle.cuh",
        "37: targets.cuda.oracle.file: file 'oracle.cuh': is missing"},
       {"    oracle:\n", "    oracles:\n", "36: targets.cuda: unknown key 'oracles'; did you mean"},
       {"rows: 4096, cols: 4096", "rows: 4096, cols: 4095",
        "51: targets.cuda.bench_shapes[0].cols: 4095 is not a multiple of 4"},
       {"      - {rows: 4096, cols: 4096}\n", "      []\n",
        "51: targets.cuda.bench_shapes: is an empty list"}},
      cuda);
  CheckEdits(
      "space/cuda.yaml",
      {{"BLOCK: [128, 256]", "cols: [128, 256]",
        "7: templates[0].tunables: 'cols' is the name of an axis"},
       {"4*BLOCK", "4*LOADS",
        "9: templates[0].workspace_bytes: expression '4*LOADS', character 3: unknown name "
        "'LOADS'; known names are rows, cols, BLOCK"},
       {"    workspace_bytes: 4*BLOCK\n", "",
        "13: templates[0].launches[0].arguments[3]: 'workspace' needs the key"},
       {"-1:i64", "1.5:i64", "14: templates[0].launches[0].arguments[6]: '1.5' is not a whole"},
       {"    launches:\n", "    lunches:\n",
        "10: templates[0]: unknown key 'lunches'; did you mean 'launches'?"}},
      cuda);

  FileMap without = cuda;
  std::string& yaml = without["problem.yaml"];
  const size_t from = yaml.find("    oracle:\n");
  yaml.erase(from, yaml.find("    bench_shapes:\n") - from);
  CHECK_THAT(ProblemError(without), Equals("problem.yaml:28: targets.cuda: missing key 'oracle'"));
}

}  // namespace
}  // namespace kernelcast
