#ifndef KERNELCAST_COMMON_BASE_CALLBACK_SCOPE_H_
#define KERNELCAST_COMMON_BASE_CALLBACK_SCOPE_H_

#include <functional>
#include <utility>
#include <vector>

namespace kernelcast {

// Lets a thread that is in a callback do itself, at the callback's end, what it would otherwise
// wake another thread for. A scope is opened where a callback begins, before any lock is taken;
// what is put off is done when it ends, in order. A scope within another one does nothing.
class CallbackScope {
 public:
  using Work = std::function<void()>;

  CallbackScope() : outermost_(current_ == nullptr) {
    if (outermost_) current_ = &deferred_;
  }
  ~CallbackScope() {
    if (!outermost_) return;
    // What these put off is left to other threads, so that the callback ends.
    current_ = nullptr;
    for (auto& [key, work] : deferred_) work();
  }
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  // False where this thread is in no scope: somebody else must do it. Once for each key.
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
