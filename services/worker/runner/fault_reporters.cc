#include "services/worker/runner/fault_reporters.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace kernelcast::worker::runner {
namespace {

ControlBlock* reported_to = nullptr;
alignas(64) char signal_stack[64 << 10];

void Report(int signal, siginfo_t* info, void*) {
  reported_to->fault_signal.store(static_cast<uint32_t>(signal));
  if (signal == SIGSYS) {
    reported_to->trapped_system_call.store(info->si_syscall);
    // The call was not made. The default disposition is restored, so this ends the process when the
    // handler returns.
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGSYS);
    return;
  }
  reported_to->fault_address.store(reinterpret_cast<uint64_t>(info->si_addr));
  // Returning repeats the faulting instruction, which is now fatal.
}

}  // namespace

void InstallFaultReporters(ControlBlock* block) {
  reported_to = block;
  stack_t stack{};
  stack.ss_sp = signal_stack;
  stack.ss_size = sizeof(signal_stack);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = Report;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS}) {
    sigaction(signal, &action, nullptr);
  }
}

}  // namespace kernelcast::worker::runner
