#include "services/worker/core/source_scan.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kernelcast::worker {
namespace {

constexpr std::string_view kAllowed = "headers of the toolchain";

TEST_CASE("Headers by name are allowed") {
  for (const char* source :
       {"#include <math.h>\n", "#include <kernelcast/candidate.h>", "  #  include \"string.h\"\n",
        "#include <c++/12/cmath>\n", "#/* why */include <math.h>", "#in\\\nclude <math.h>\n",
        "#define N 3\nint include = 4;\n", "// includes nothing\n", "#pragma GCC unroll 8\n",
        "#pragma omp simd\n", "", "#", "#include <bits/stdc++.h>\n", "int a = 5 %: 2;"}) {
    INFO(source);
    CHECK_FALSE(CheckIncludeDirectives(source, kAllowed).has_value());
  }
}

TEST_CASE("Host files and non-literal names are refused") {
  for (const char* source :
       {"#include \"/etc/passwd\"\n", "#include </etc/passwd>\n", "#include \"../x.h\"\n",
        "#include <a/../../x.h>\n", "#include NAME\n", "#include\n", "#include <unterminated\n",
        "#include \"\"\n", "#\t/* a */ /* b\n c */ include \"/x\"\n", "%:include \"/x\"\n",
        "?\?=include \"/x\"\n", "#inc\\\n\\\nlude \"/x\"\n", "#inc\\ \t\nlude \"/x\"\n",
        "#import \"/x\"\n", "#include_next \"/x\"\n", "#embed \"/x\"\n",
        "#pragma GCC dependency \"/x\"\n", "#pragma /**/ GCC pch_preprocess \"/x\"\n",
        "/*\n*/#include \"/x\"", "#include <x\ny>", "#include \"a b\"",
        // The compiler would not read it, but it is refused too.
        "const char* s = \"#include </x>\";\n"}) {
    INFO(source);
    CHECK(CheckIncludeDirectives(source, kAllowed).has_value());
  }
}

TEST_CASE("An endless comment does not run past the end") {
  CHECK_FALSE(CheckIncludeDirectives("#/* never closed", kAllowed).has_value());
  CHECK_FALSE(CheckIncludeDirectives("#pragma GCC", kAllowed).has_value());
  CHECK(CheckIncludeDirectives("#include/*", kAllowed).has_value());
  CHECK_FALSE(CheckIncludeDirectives("\\", kAllowed).has_value());
}

TEST_CASE("A refusal names the file and the allowed headers") {
  CHECK(CheckIncludeDirectives("#include </etc/passwd>", kAllowed) ==
        "#include of '/etc/passwd': only headers of the toolchain are allowed");
}

TEST_CASE("Directives are found by name in every notation") {
  constexpr std::string_view kForbidden[] = {"embed", "import"};
  for (const char* source : {"#embed <x>", " #  import <x>", "%:embed \"x\"", "#em\\\nbed <x>",
                             "#/* a */import 7", "?\?=import 4"}) {
    INFO(source);
    CHECK(CheckNoDirective(source, kForbidden).has_value());
  }
  for (const char* source :
       {"#include <x>", "int embed = 3;", "#define import 3", "#pragma unroll", "#", "#x"}) {
    INFO(source);
    CHECK_FALSE(CheckNoDirective(source, kForbidden).has_value());
  }
}

TEST_CASE("A line directive cannot name a host file that messages would print") {
  for (const char* source :
       {"#line 1 \"/etc/passwd\"", "# 1 \"/etc/passwd\"", "#line 1 \"../x\"", "#line 7 NAME",
        "#line NUMBER", "#line", "%:line 1 \"/etc/passwd\"", "#li\\\nne 1 \"/etc/passwd\"",
        "#line 1 /* a\n b */ \"/etc/passwd\"", "# 1 \"/etc/passwd\" 1 3", "#line 1 \"\"",
        "#line 1 \"a\\x2f\"", "#line 1 \"/unterminated", "?\?=line 1 \"/etc/passwd\"",
        "#line 1 R\"(/etc/passwd)\""}) {
    INFO(source);
    CHECK(CheckIncludeDirectives(source, kAllowed).has_value());
  }
  for (const char* source :
       {"#line 7", "#line 7\nint a;", "#line 1 \"space/cuda/tiled.cu\"\nint a;",
        "# 3 \"kernel.cc\"", "// see issue #123 for more\n", "# 7\nint a;",
        "#line 7 /* why */\nint a;", "int line = 7;"}) {
    INFO(source);
    CHECK_FALSE(CheckIncludeDirectives(source, kAllowed).has_value());
  }
}

TEST_CASE("Included files are listed with their marks and regardless of conditions") {
  using List = std::vector<IncludedFile>;
  CHECK(IncludedFiles("int a;").empty());
  CHECK(IncludedFiles("#include <mma.h>\n#if 0\n # include \"crt/mma.h\"\n#endif\n#include X\n") ==
        List{{"mma.h", false}, {"crt/mma.h", true}});
  CHECK(IncludedFiles("#inc\\\nlude /* why */ <cuda/std/array>") ==
        List{{"cuda/std/array", false}});
}

}  // namespace
}  // namespace kernelcast::worker
