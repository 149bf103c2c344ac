#include "services/worker/cpu/source_scan.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace kernelcast::worker {
namespace {

TEST_CASE("Headers by name are allowed") {
  for (const char* source :
       {"#include <math.h>\n", "#include <kernelcast/candidate.h>", "  #  include \"string.h\"\n",
        "#include <c++/12/cmath>\n", "#/* why */include <math.h>", "#in\\\nclude <math.h>\n",
        "#define N 3\nint include = 4;\n", "// includes nothing\n", "#pragma GCC unroll 8\n",
        "#pragma omp simd\n", "", "#", "#include <bits/stdc++.h>\n", "int a = 5 %: 2;"}) {
    INFO(source);
    CHECK_FALSE(CheckIncludeDirectives(source).has_value());
  }
}

TEST_CASE("Files of the host, and names that are not literal, are refused") {
  for (const char* source :
       {"#include \"/etc/passwd\"\n", "#include </etc/passwd>\n", "#include \"../x.h\"\n",
        "#include <a/../../x.h>\n", "#include NAME\n", "#include\n", "#include <unterminated\n",
        "#include \"\"\n", "#\t/* a */ /* b\n c */ include \"/x\"\n", "%:include \"/x\"\n",
        "?\?=include \"/x\"\n", "#inc\\\n\\\nlude \"/x\"\n", "#inc\\ \t\nlude \"/x\"\n",
        "#import \"/x\"\n", "#include_next \"/x\"\n", "#embed \"/x\"\n",
        "#pragma GCC dependency \"/x\"\n", "#pragma /**/ GCC pch_preprocess \"/x\"\n",
        "/*\n*/#include \"/x\"", "#include <x\ny>", "#include \"a b\"",
        // Would not be read by the compiler; refused all the same.
        "const char* s = \"#include </x>\";\n"}) {
    INFO(source);
    CHECK(CheckIncludeDirectives(source).has_value());
  }
}

TEST_CASE("An endless comment does not run off the end") {
  CHECK_FALSE(CheckIncludeDirectives("#/* never closed").has_value());
  CHECK_FALSE(CheckIncludeDirectives("#pragma GCC").has_value());
  CHECK(CheckIncludeDirectives("#include/*").has_value());
  CHECK_FALSE(CheckIncludeDirectives("\\").has_value());
}

TEST_CASE("Dependencies lie under the allowed folders") {
  const std::vector<std::string> folders = {"/usr/include", "/usr/lib/gcc/12/include"};
  const auto check = [&](const std::string& depfile) {
    return CheckDependencies(depfile, "kernel.cc", folders);
  };
  CHECK_FALSE(
      check("kernel.s: kernel.cc /usr/include/math.h \\\n /usr/lib/gcc/12/include/stddef.h\n")
          .has_value());
  CHECK_FALSE(check("").has_value());
  CHECK_FALSE(check("kernel.s: kernel.cc /usr/include/stdc-predef.h\n").has_value());
  CHECK(check("kernel.s: kernel.cc /etc/passwd\n").has_value());
  CHECK(check("kernel.s: kernel.cc /usr/include/../../etc/passwd\n").has_value());
  CHECK(check("kernel.s: kernel.cc /usr/includes/math.h\n").has_value());
  CHECK(check("kernel.s: kernel.cc other.h\n").has_value());
}

TEST_CASE("Assembler directives that read files or build others are refused") {
  CHECK_FALSE(CheckAssembly("\t.text\n\t.globl\tkernelcast_run\n\tvaddps %ymm0, %ymm1, %ymm2\n")
                  .has_value());
  for (const char* text :
       {".incbin \"/x\"", "\t.INCLUDE \"/x\"", ".macro m", "a: .irp x", ".rept 9",
        ".type f, @gnu_indirect_function", ".section .preinit_array"}) {
    CHECK(CheckAssembly(text).has_value());
  }
}

TEST_CASE("Only flags of the list are taken") {
  CHECK_FALSE(CheckFlags({}).has_value());
  CHECK_FALSE(CheckFlags({"-O2", "-ffast-math", "-mprefer-vector-width=512"}).has_value());
  const auto problem = CheckFlags({"-O2", "-fplugin=x.so"});
  REQUIRE(problem.has_value());
  CHECK(problem->find("-fplugin=x.so") != std::string::npos);
  CHECK(problem->find("-ffast-math") != std::string::npos);
}

}  // namespace
}  // namespace kernelcast::worker
