// The process that a native candidate runs in: loads one shared object, drops everything that a
// kernel does not need, and calls the entry on the judge's commands. Not meant to be started by
// hand.
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "services/worker/runner/allocation_watch.h"
#include "services/worker/runner/control.h"
#include "services/worker/runner/fault_reporters.h"
#include "services/worker/runner/sandbox.h"
#include "services/worker/runner/serve.h"

namespace kernelcast::worker::runner {
namespace {

using Entry = int32_t (*)(const DLTensor*, int32_t, const DLTensor*, int32_t, void*);

int32_t CallEntry(const Case& c, uint32_t, const void* entry) {
  return (*static_cast<const Entry*>(entry))(c.tensors, c.inputs, c.tensors + c.inputs, c.outputs,
                                             nullptr);
}

// Runs the object's constructors, which loading skipped.
void RunConstructors(const ControlBlock& block, uintptr_t base, int argc, char** argv) {
  using Function = void (*)(int, char**, char**);
  static char* no_environment[] = {nullptr};
  if (block.init_function != 0) {
    reinterpret_cast<Function>(base + block.init_function)(argc, argv, no_environment);
  }
  const auto* functions = reinterpret_cast<const uintptr_t*>(base + block.init_array);
  for (uint64_t i = 0; i < block.init_array_entries; ++i) {
    if (functions[i] != 0 && functions[i] != UINTPTR_MAX) {
      reinterpret_cast<Function>(functions[i])(argc, argv, no_environment);
    }
  }
}

int Run(int argc, char** argv) {
  KeepFreedMemory();
  const Blocks blocks = MapBlocks();
  ControlBlock* const block = blocks.control;
  StartBlock* const start = blocks.start;
  start->state.store(kLoading);
  char path[32];
  snprintf(path, sizeof(path), "/proc/self/fd/%d", kObjectFd);
  void* object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const auto entry =
      object == nullptr ? nullptr : reinterpret_cast<Entry>(dlsym(object, "kernelcast_run"));
  if (entry == nullptr) {
    GiveUp(start, kLoadFailed, dlerror());
  }
  link_map* map = nullptr;
  if (dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) {
    GiveUp(start, kLoadFailed, dlerror());
  }
  const Case* cases = BuildCases(blocks);
  close_range(STDERR_FILENO + 1, ~0u, 0);

  setvbuf(stdout, nullptr, _IONBF, 0);  // keep output printed before a crash
  WatchAllocations(&block->allocation_refused);
  InstallFaultReporters(block);
  start->protections.store(EnterSandbox(*block));

  start->state.store(kConstructing);
  // Its descriptor is closed, so no code in this process can change it any more.
  munmap(start, sizeof(StartBlock));
  RunConstructors(*block, map->l_addr, argc, argv);
  Serve(block, cases, CallEntry, &entry);
}

}  // namespace
}  // namespace kernelcast::worker::runner

int main(int argc, char** argv) { return kernelcast::worker::runner::Run(argc, argv); }
