#include "tests/bench/worker/judge_mutants.h"

#include "absl/strings/str_cat.h"

namespace kernelcast::testing {
namespace {

// Precedes each mutant: renames the reference and adds what the variants share.
constexpr const char* kBefore = "#define kernelcast_run honest\n";
constexpr const char* kShared = R"(
#undef kernelcast_run
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
namespace mutant {
int64_t Elements(const DLTensor& t) {
  int64_t n = 1;
  for (int d = 0; d < t.ndim; ++d) n *= t.shape[d];
  return n;
}
int64_t Size(const DLTensor& t) { return t.dtype.bits / 8; }
int64_t Bytes(const DLTensor& t) { return Elements(t) * Size(t); }
char* Data(const DLTensor& t) { return static_cast<char*>(t.data); }
int64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000 + now.tv_nsec;
}
int calls = 0;
// Runs the reference and leaves bytes from .. to of the first output as they were.
int32_t Without(int64_t from, int64_t to, const DLTensor* in, int32_t ni, const DLTensor* out,
                int32_t no) {
  from = from < 0 ? 0 : from;
  if (to <= from) return honest(in, ni, out, no, nullptr);
  char* const kept = static_cast<char*>(malloc(to - from));
  memcpy(kept, Data(out[0]) + from, to - from);
  const int32_t status = honest(in, ni, out, no, nullptr);
  memcpy(Data(out[0]) + from, kept, to - from);
  free(kept);
  return status;
}
uint64_t Hash(const DLTensor* in, int32_t ni, int64_t step) {
  uint64_t hash = 1469598103934665603u;
  for (int32_t t = 0; t < ni; ++t) {
    const int64_t bytes = Bytes(in[t]);
    for (int64_t i = 0; i + 8 <= bytes; i += step) {
      uint64_t word;
      memcpy(&word, Data(in[t]) + i, 8);
      hash = (hash ^ word) * 1099511628211u;
      hash ^= hash >> 29;
    }
    hash = (hash ^ static_cast<uint64_t>(bytes)) * 1099511628211u;
  }
  return hash;
}
struct Entry {
  uint64_t key;
  char* y[4];
};
Entry entries[48];
int used = 0;
Entry* Find(uint64_t key) {
  for (int i = 0; i < used && i < 48; ++i) {
    if (entries[i].key == key) return &entries[i];
  }
  return nullptr;
}
void Keep(uint64_t key, const DLTensor* out, int32_t no) {
  Entry& entry = entries[used++ % 48];
  entry.key = key;
  for (int32_t t = 0; t < no && t < 4; ++t) {
    entry.y[t] = static_cast<char*>(realloc(entry.y[t], Bytes(out[t])));
    memcpy(entry.y[t], Data(out[t]), Bytes(out[t]));
  }
}
void Give(const Entry& entry, const DLTensor* out, int32_t no) {
  for (int32_t t = 0; t < no && t < 4; ++t) memcpy(Data(out[t]), entry.y[t], Bytes(out[t]));
}
void Spin(int64_t until_ns) {
  while (NowNs() < until_ns) {
  }
}
}  // namespace mutant
using namespace mutant;
extern "C" int32_t kernelcast_run(const DLTensor* in, int32_t ni, const DLTensor* out, int32_t no,
                                  void*) {
  ++calls;
  const int64_t n = Elements(out[0]);
  const int64_t size = Size(out[0]);
  const int64_t width = in[0].ndim > 0 ? in[0].shape[in[0].ndim - 1] : 1;
  (void)n, (void)size, (void)width;
)";
constexpr const char* kAfter = "\n}\n";

struct Body {
  const char* name;
  const char* code;
  bool may_be_honest = false;
};

constexpr Body kWrong[] = {
    {"drop first element", "return Without(0, size, in, ni, out, no);"},
    {"drop last element", "return Without((n - 1) * size, n * size, in, ni, out, no);"},
    {"drop middle element", "return Without(n / 2 * size, (n / 2 + 1) * size, in, ni, out, no);"},
    {"drop element a third in",
     "return Without(n / 3 * size, (n / 3 + 1) * size, in, ni, out, no);"},
    {"skip tail of 8", "return Without(n / 8 * 8 * size, n * size, in, ni, out, no);"},
    {"skip tail of 32", "return Without(n / 32 * 32 * size, n * size, in, ni, out, no);"},
    {"skip last sixteenth", "return Without(n * 15 / 16 * size, n * size, in, ni, out, no);"},
    {"shift by one",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "memmove(Data(out[0]) + size, Data(out[0]), (n - 1) * size); return s;"},
    {"swap neighbours",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "for (int64_t i = 0; i < size && n > 1; ++i) {"
     "char* a = Data(out[0]) + (n - 1) * size + i; const char b = *a;"
     "*a = *(a - size); *(a - size) = b; } return s + (n > 1 ? 0 : 0);"},
    {"zero the last element",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "memset(Data(out[0]) + (n - 1) * size, 0, size); return s;"},
    {"flip a high bit",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "Data(out[0])[(n / 2 + 1) * size - 1] ^= 0x41; return s;"},
    {"all zero", "honest(in, ni, out, no, nullptr); memset(Data(out[0]), 0, n * size); return 0;"},
    {"nothing", "return 0;"},
    {"status", "honest(in, ni, out, no, nullptr); return calls > 90 ? 3 : 0;"},
    {"beyond the end",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "Data(out[0])[n * size + 3] = 1; return s;"},
    {"before the start",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "Data(out[0])[-5] = 1; return s;"},
    {"write an input", "Data(in[0])[0] = 1; return honest(in, ni, out, no, nullptr);"},
    {"alias an input",
     "memcpy(Data(out[0]), Data(in[0]), Bytes(out[0]) < Bytes(in[0]) ?"
     " Bytes(out[0]) : Bytes(in[0])); return 0;"},
    {"wrong at odd widths",
     "return width % 2 == 1 && width > 1 ? Without(0, size, in, ni, out, no)"
     " : honest(in, ni, out, no, nullptr);"},
    {"wrong at multiples of 4",
     "return width % 4 == 0 ? Without(0, size, in, ni, out, no)"
     " : honest(in, ni, out, no, nullptr);"},
    {"narrow outputs",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "if (size == 4) for (int64_t i = 0; i < n; ++i) {"
     "unsigned v; memcpy(&v, Data(out[0]) + 4 * i, 4); v &= out[0].dtype.code == 2 ?"
     " 0xffff0000u : 0x7u; memcpy(Data(out[0]) + 4 * i, &v, 4); }"
     "else memset(Data(out[0]), 0, n * size / 2); return s;"},
    {"narrow when timed",
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "if (calls > 90) for (int64_t i = 0; i < n * size; i += size)"
     " Data(out[0])[i + size - 2] ^= 0x55; return s;"},
    {"skip all when timed", "return calls > 90 ? 0 : honest(in, ni, out, no, nullptr);"},
    {"skip half when timed",
     "return calls > 90 ? Without(n / 2 * size, n * size, in, ni, out, no)"
     " : honest(in, ni, out, no, nullptr);"},
    {"skip a sixteenth when timed",
     "return calls > 90 ? Without(n * 15 / 16 * size, n * size, in, ni, out, no)"
     " : honest(in, ni, out, no, nullptr);"},
    {"skip every second call",
     "return calls > 90 && calls % 2 == 0 ? 0 :"
     " honest(in, ni, out, no, nullptr);"},
    {"skip one call in ten",
     "return calls > 90 && calls % 10 == 0 ? 0 :"
     " honest(in, ni, out, no, nullptr);"},
    {"defer to the next call",
     "static const DLTensor* left_in; static const DLTensor* left_out;"
     "if (left_in) honest(left_in, ni, left_out, no, nullptr);"
     "left_in = nullptr; if (calls > 90 && calls % 2 == 0) { left_in = in; left_out = out; return "
     "0; }"
     "return honest(in, ni, out, no, nullptr);"},
    {"exit when timed", "if (calls > 90) _exit(0); return honest(in, ni, out, no, nullptr);"},
    {"abort when timed", "if (calls > 90) abort(); return honest(in, ni, out, no, nullptr);"},
    {"accumulate",
     "double before = 0; if (size == 4) { float b; memcpy(&b, Data(out[0]), 4);"
     " before = b; } const int32_t s = honest(in, ni, out, no, nullptr);"
     "if (size == 4) { float v; memcpy(&v, Data(out[0]), 4); v += before;"
     " memcpy(Data(out[0]), &v, 4); } else Data(out[0])[0] ^= 1; return s;"},
    {"sleep", "usleep(10); return honest(in, ni, out, no, nullptr);"},
    {"fork", "if (calls == 95) fork(); return honest(in, ni, out, no, nullptr);"},
    {"remember by address",
     "Entry* e = Find((uint64_t)(uintptr_t)Data(in[0]) + n); if (e) { Give(*e, out, no); return 0; "
     "}"
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "Keep((uint64_t)(uintptr_t)Data(in[0]) + n, out, no); return s;"},
    {"remember by a few values",
     "const uint64_t k = Hash(in, ni, 4096); Entry* e = Find(k); if (e) { Give(*e, out, no);"
     " return 0; } const int32_t s = honest(in, ni, out, no, nullptr); Keep(k, out, no); return "
     "s;"},
    {"another call's answer",
     "static char* last; static int64_t bytes; static int seen;"
     "const int32_t s = honest(in, ni, out, no, nullptr);"
     "char* now = (char*)malloc(n * size); memcpy(now, Data(out[0]), n * size);"
     "if (++seen > 90 && bytes == n * size) memcpy(Data(out[0]), last, bytes);"
     "free(last); last = now; bytes = n * size; return s;"},
};

constexpr Body kCheats[] = {
    {"remember by value",
     "const uint64_t k = Hash(in, ni, 8); Entry* e = Find(k);"
     "if (e) { Give(*e, out, no); return 0; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); Keep(k, out, no);"
     "return s;",
     true},
    {"remember by value, wasting half",
     "static int64_t took; const int64_t start = NowNs(); const uint64_t k = Hash(in, ni, 8);"
     "Entry* e = Find(k); if (e) { Give(*e, out, no); Spin(start + took / 2); return 0; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); if (calls > 60) took = NowNs() - start;"
     "Keep(k, out, no); return s;",
     true},
    {"remember by value, wasting three quarters",
     "static int64_t took; const int64_t start = NowNs(); const uint64_t k = Hash(in, ni, 8);"
     "Entry* e = Find(k); if (e) { Give(*e, out, no); Spin(start + took * 3 / 4); return 0; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); if (calls > 60) took = NowNs() - start;"
     "Keep(k, out, no); return s;",
     true},
    {"remember by value, slow after pauses",
     "static int64_t last; static int slow; const int64_t start = NowNs();"
     "if (start - last > 50000) slow = 16; const uint64_t k = Hash(in, ni, 8); Entry* e = Find(k);"
     "int32_t s = 0; if (e && slow <= 0) { Give(*e, out, no); } else {"
     "s = honest(in, ni, out, no, nullptr); if (!e) Keep(k, out, no); }"
     "--slow; last = NowNs(); return s;",
     true},
    {"remember, of new values defer every second",
     "static const DLTensor* left_in; static const DLTensor* left_out; static int fresh;"
     "if (left_in) { honest(left_in, ni, left_out, no, nullptr);"
     " Keep(Hash(left_in, ni, 8), left_out, no); left_in = nullptr; }"
     "const uint64_t k = Hash(in, ni, 8); Entry* e = Find(k); if (e) { Give(*e, out, no); return "
     "0; }"
     "if (calls > 90 && ++fresh % 2 == 0) { left_in = in; left_out = out; return 0; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); Keep(k, out, no); return s;",
     true},
    {"remember, of new values compute three at once",
     "static const DLTensor* ins[8]; static const DLTensor* outs[8]; static int places;"
     "if (calls > 50) { bool known = false; for (int i = 0; i < places; ++i) known |= ins[i] == in;"
     " if (!known && places < 8) { ins[places] = in; outs[places++] = out; } }"
     "const uint64_t k = Hash(in, ni, 8); Entry* e = Find(k); if (e) { Give(*e, out, no); return "
     "0; }"
     "int more = 2; for (int i = 0; i < places && more > 0; ++i) {"
     " const uint64_t o = Hash(ins[i], ni, 8); if (ins[i] == in || Find(o)) continue;"
     " honest(ins[i], ni, outs[i], no, nullptr); Keep(o, outs[i], no); --more; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); Keep(k, out, no); return s;",
     true},
    {"remember after a while",
     "const uint64_t k = Hash(in, ni, 8); Entry* e = calls > 300 ? Find(k) : nullptr;"
     "if (e) { Give(*e, out, no); return 0; }"
     "const int32_t s = honest(in, ni, out, no, nullptr); if (!Find(k)) Keep(k, out, no); return "
     "s;",
     true},
};

Mutant Make(const Problem& problem, const Body& body) {
  Mutant mutant{body.name, ReferenceCandidate(problem, kCpuTargetName).value(), body.may_be_honest};
  mutant.candidate.source =
      absl::StrCat(kBefore, mutant.candidate.source, kShared, body.code, kAfter);
  mutant.candidate.candidate_id = CandidateId(mutant.candidate);
  return mutant;
}

}  // namespace

std::vector<Mutant> CpuMutants(const Problem& problem) {
  std::vector<Mutant> mutants;
  for (const Body& body : kWrong) mutants.push_back(Make(problem, body));
  for (const Body& body : kCheats) mutants.push_back(Make(problem, body));
  return mutants;
}

std::vector<Mutant> HonestCpuVariants(const Problem& problem) {
  constexpr Body kHonest[] = {
      {"wrapped", "return honest(in, ni, out, no, nullptr);", true},
      {"writes twice",
       "memset(Data(out[0]), 0, n * size); return honest(in, ni, out, no, nullptr);", true},
      {"through a copy",
       "char* kept = (char*)malloc(n * size); const int32_t s = honest(in, ni, out, no, nullptr);"
       "memcpy(kept, Data(out[0]), n * size); memcpy(Data(out[0]), kept, n * size); free(kept);"
       "return s;",
       true},
  };
  std::vector<Mutant> variants;
  for (const Body& body : kHonest) variants.push_back(Make(problem, body));
  return variants;
}

}  // namespace kernelcast::testing
