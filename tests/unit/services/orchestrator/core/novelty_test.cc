#include "services/orchestrator/core/novelty.h"

#include <catch2/catch.hpp>

namespace kernelcast::orchestrator {
namespace {

TEST_CASE("Comments and layout do not make a kernel new", "[orchestrator][novelty]") {
  const std::string plain = NormalizedSource("int f(int a) {\n  return a + 1;\n}\n");
  CHECK(plain == "int f(int a){return a + 1;}");
  CHECK(NormalizedSource("// better\nint f( int a )\r\n{ return a +\n 1; } /* done */") == plain);
  CHECK(NormalizedSource("int/**/f(int a){return a + 1;}") == plain);
  CHECK(NormalizedSource("in\\\nt f(int a){return a + 1;}") != plain);
  CHECK(NormalizedSource("int f(int a){return a + 2;}") != plain);
  CHECK(NormalizedSource("") == "");
  CHECK(NormalizedSource("// nothing") == "");
}

TEST_CASE("Directives keep their lines", "[orchestrator][novelty]") {
  CHECK(NormalizedSource("#define A 1\n#define B  2 // two\nint x;\nint y;") ==
        "#define A 1\n#define B 2\nint x;int y;");
  CHECK(NormalizedSource("#define A \\\n  1\nint x;") == "#define A 1\nint x;");
  CHECK(NormalizedSource("#define A 1\nint x;") != NormalizedSource("#define A\n1 int x;"));
}

TEST_CASE("The contents of literals count", "[orchestrator][novelty]") {
  CHECK(NormalizedSource(R"(f("a // b");)") == R"(f("a // b");)");
  CHECK(NormalizedSource(R"(f("a  b");)") != NormalizedSource(R"(f("a b");)"));
  CHECK(NormalizedSource("asm(R\"x(a \n /* b */ )x\"); // c") == "asm(R\"x(a \n /* b */ )x\");");
  CHECK(NormalizedSource("c = '\"'; // d") == "c = '\"';");
  CHECK(NormalizedSource("n = 1'000; // e") == "n = 1'000;");
  // Unterminated literals are kept.
  CHECK(NormalizedSource("s = \"open") == "s = \"open");
  CHECK(NormalizedSource("s = R\"x(open") == "s = R\"x(open");
  CHECK(NormalizedSource("a /* open") == "a");
}

TEST_CASE("Launches and flags are part of a kernel's identity", "[orchestrator][novelty]") {
  Candidate candidate;
  candidate.source = "int x;";
  const std::string key = NoveltyKey(candidate);
  Candidate other = candidate;
  other.source = "int  x; // same";
  other.origin = "llm:other";
  other.parent_candidate_id = "k_x";
  CHECK(NoveltyKey(other) == key);
  other.flags = {"-ffast-math"};
  CHECK(NoveltyKey(other) != key);
  other.flags = {};
  other.launches = {Launch{"f", {"1"}, {"32"}, "", {}, {}}};
  CHECK(NoveltyKey(other) != key);
}

}  // namespace
}  // namespace kernelcast::orchestrator
