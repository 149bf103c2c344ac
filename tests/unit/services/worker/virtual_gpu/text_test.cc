#include "services/worker/virtual_gpu/text.h"

#include <catch2/catch.hpp>

namespace kernelcast::worker::virtual_gpu {
namespace {

TEST_CASE("Comments still separate words") {
  CHECK(WithoutComments("add.u32 %r1, %r2, %r3; // sum\nret;") == "add.u32 %r1, %r2, %r3; \nret;");
  CHECK(WithoutComments("mov/* of\nlines */.u32") == "mov .u32");
  CHECK(WithoutComments("a // no /* start\nb */") == "a \nb */");
  CHECK(WithoutComments("a /* no // end\n*/b") == "a  b");
}

TEST_CASE("Unterminated comments extend to the end") {
  CHECK(WithoutComments("ret; // last") == "ret; \n");
  CHECK(WithoutComments("ret; /* last") == "ret;  ");
  CHECK(WithoutComments("/*/") == " ");
  CHECK(WithoutComments("a / b") == "a / b");
  CHECK(WithoutComments("").empty());
}

}  // namespace
}  // namespace kernelcast::worker::virtual_gpu
