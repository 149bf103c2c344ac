// Does what no kernel needs, chosen by WHAT.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <kernelcast/candidate.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FORK_BOMB 1
#define WRITE_ALL_DESCRIPTORS 2
#define READ_PARENT_MEMORY 3
#define READ_ENVIRONMENT 4
#define KILL_ALL 5
#define THREAD 6
#define SOCKET 7
#define PTRACE 8
#define SLEEP 9
#define EXEC 10
#define SIGNAL_HANDLER 11
#define EXECUTABLE_MEMORY 12
#define OPEN_FILE 13
#define OTHER_ABI 14
#define KILL_PARENT 15
#define CLOCK_OF_PARENT 16
#define MEMORY_FILE 17
#define SHARED_SEGMENT 18

static void* Nothing(void*) { return nullptr; }

extern "C" int32_t kernelcast_run(const DLTensor*, int32_t, const DLTensor*, int32_t, void*) {
  char path[64];
#if WHAT == FORK_BOMB
  for (;;) fork();
#elif WHAT == WRITE_ALL_DESCRIPTORS
  for (int fd = 1023; fd >= 0; --fd) {
    if (write(fd, "ok ok ok", 8) < 0 && errno == EIO) break;
  }
#elif WHAT == READ_PARENT_MEMORY
  snprintf(path, sizeof(path), "/proc/%d/mem", 1);
  return open(path, O_RDONLY);
#elif WHAT == READ_ENVIRONMENT
  return open("/proc/self/environ", O_RDONLY) < 0;
#elif WHAT == KILL_ALL
  kill(-1, SIGKILL);
#elif WHAT == KILL_PARENT
  kill(getppid(), SIGKILL);
#elif WHAT == CLOCK_OF_PARENT
  // How long any process has run is no business of a kernel's.
  struct timespec now;
  for (int process = 1; process < 100; ++process) {
    clock_gettime((clockid_t)(~(unsigned)process << 3 | 2), &now);
  }
#elif WHAT == THREAD
  pthread_t thread;
  pthread_create(&thread, nullptr, Nothing, nullptr);
  pthread_join(thread, nullptr);
#elif WHAT == SOCKET
  return socket(AF_INET, SOCK_STREAM, 0);
#elif WHAT == PTRACE
  return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
#elif WHAT == SLEEP
  struct timespec second = {1, 0};
  nanosleep(&second, nullptr);
#elif WHAT == EXEC
  execl("/bin/sh", "sh", "-c", "true", nullptr);
#elif WHAT == SIGNAL_HANDLER
  signal(SIGSYS, SIG_IGN);
#elif WHAT == EXECUTABLE_MEMORY
  mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#elif WHAT == OPEN_FILE
  FILE* file = fopen("/tmp/kernelcast-was-here", "w");
  if (file != nullptr) fclose(file);
#elif WHAT == MEMORY_FILE
  // Memory in a file would outlive its mapping and count towards no limit.
  return memfd_create("kernelcast", 0);
#elif WHAT == SHARED_SEGMENT
  return shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
#elif WHAT == OTHER_ABI
  // getpid through the 32-bit entry, which a filter for 64-bit numbers alone would not see.
  int result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
  return result < 0;
#endif
  (void)path;
  return 0;
}
