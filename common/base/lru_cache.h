#ifndef KERNELCAST_COMMON_BASE_LRU_CACHE_H_
#define KERNELCAST_COMMON_BASE_LRU_CACHE_H_

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace kernelcast {

// Values by key. Above a number of entries or a total size it drops those least recently used, but
// never the latest. Values are shared with their users, who may outlive the entry. Thread-safe.
template <class Value>
class LruCache {
 public:
  LruCache(size_t max_entries, size_t max_bytes)
      : max_entries_(max_entries), max_bytes_(max_bytes) {}

  // nullptr: not in the cache.
  std::shared_ptr<const Value> Find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  // Whether the key is in the cache. Counts as a use.
  bool Contains(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return false;
    entries_.splice(entries_.begin(), entries_, found->second);
    return true;
  }

  // If the key has a value, keeps that.
  void Put(const std::string& key, std::shared_ptr<const Value> value, size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_key_.find(key); found != by_key_.end()) {
      entries_.splice(entries_.begin(), entries_, found->second);
      return;
    }
    entries_.push_front({key, std::move(value), bytes});
    by_key_.emplace(key, entries_.begin());
    bytes_ += bytes;
    while (entries_.size() > 1 && (entries_.size() > max_entries_ || bytes_ > max_bytes_)) {
      bytes_ -= entries_.back().bytes;
      by_key_.erase(entries_.back().key);
      entries_.pop_back();
    }
  }

  void Erase(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    bytes_ -= found->second->bytes;
    entries_.erase(found->second);
    by_key_.erase(found);
  }

  void Clear() {
    const std::lock_guard lock(mutex_);
    by_key_.clear();
    entries_.clear();
    bytes_ = 0;
  }

 private:
  struct Entry {
    std::string key;
    std::shared_ptr<const Value> value;
    size_t bytes = 0;
  };

  const size_t max_entries_;
  const size_t max_bytes_;
  std::mutex mutex_;
  // State below is protected by mutex_.
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::string, typename std::list<Entry>::iterator> by_key_;
  size_t bytes_ = 0;
};

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_BASE_LRU_CACHE_H_
