#ifndef KERNELCAST_COMMON_BASE_CALLBACK_SCOPE_H_
#define KERNELCAST_COMMON_BASE_CALLBACK_SCOPE_H_

#include <functional>
#include <utility>
#include <vector>

namespace kernelcast {

// Defers work to the end of the current callback, so that no other thread must be woken for it.
// Open a scope where a callback begins, before taking any lock. Deferred work runs in order when
// the scope ends. A nested scope has no effect.
class CallbackScope {
 public:
  using Work = std::function<void()>;

  CallbackScope() : outermost_(current_ == nullptr) {
    if (outermost_) current_ = &deferred_;
  }
  ~CallbackScope() {
    if (!outermost_) return;
    // Work deferred from here on goes to other threads, so that this callback ends.
    current_ = nullptr;
    for (auto& [key, work] : deferred_) work();
  }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  // Defers `work` to the end of the current scope, at most once per key. Returns false if the
  // thread is in no scope; the caller must then arrange the work itself.
  static bool Defer(const void* key, Work work) {
    if (current_ == nullptr) return false;
    for (const auto& [other, ignored] : *current_) {
      if (other == key) return true;
    }
    current_->emplace_back(key, std::move(work));
    return true;
  }

 private:
  using Deferred = std::vector<std::pair<const void*, Work>>;
  static inline thread_local Deferred* current_ = nullptr;

  const bool outermost_;
  Deferred deferred_;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_CALLBACK_SCOPE_H_
