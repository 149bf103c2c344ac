#ifndef KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ID_FILTER_H_
#define KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ID_FILTER_H_

#include <memory>
#include <string_view>

namespace kernelcast::orchestrator {

// A Bloom filter of fixed size (1 MiB) for ids. The false positive rate is 1% at 875,000 ids and
// 16% at twice as many. Not thread-safe.
class IdFilter {
 public:
  IdFilter();
  ~IdFilter();
  IdFilter(const IdFilter&) = delete;
  IdFilter& operator=(const IdFilter&) = delete;

  void Add(std::string_view id);
  // False: the id was never added.
  bool MayHold(std::string_view id) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kernelcast::orchestrator

#endif  // KERNELCAST_SERVICES_ORCHESTRATOR_CORE_ID_FILTER_H_
