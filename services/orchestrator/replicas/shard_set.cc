#include "services/orchestrator/replicas/shard_set.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "services/orchestrator/replicas/answered_anyway.h"

namespace kernelcast::orchestrator {
namespace {

// Delay before this orchestrator tries again to open a shard that it could not open.
constexpr int64_t kOpenPauseNs = 5'000'000'000;
constexpr absl::Duration kMaxLook = absl::Seconds(1);

int64_t NowNs() { return Clock::Real().MonotonicNs(); }

}  // namespace

ShardSet::ShardSet(const ShardSetOptions& options, StartEngine start, MergedObserver* observer)
    : options_(options),
      start_(std::move(start)),
      observer_(observer),
      catalogue_thread_(std::make_unique<WorkQueue>()) {}

absl::StatusOr<std::unique_ptr<ShardSet>> ShardSet::Create(const ShardSetOptions& options,
                                                           StartEngine start,
                                                           MergedObserver* observer) {
  std::unique_ptr<ShardSet> set(new ShardSet(options, std::move(start), observer));
  const std::string holder = RandomId("o_");
  // First, because it may have to create the tables or wait for another orchestrator that does.
  KC_ASSIGN_OR_RETURN(set->catalogue_, PostgresqlLeases::Open(options.database, holder,
                                                              options.shards, &set->stop_));
  // Leases expire while a statement waits, so it fails early and is retried.
  PostgresqlOptions impatient = options.database;
  impatient.statement_timeout = std::max(options.lease / 2, absl::Seconds(1));
  KC_ASSIGN_OR_RETURN(set->leases_,
                      PostgresqlLeases::Open(impatient, holder, options.shards, &set->stop_));
  set->shards_ = set->leases_->shards();
  if (set->shards_ != options.shards) {
    Log(LogLevel::kInfo, "the log keeps its original number of shards",
        {{"shards", set->shards_}, {"asked_for", options.shards}});
  }
  const std::lock_guard lock(set->mutex_);
  set->slots_.resize(static_cast<size_t>(set->shards_));
  set->figures_.renewed_wall_ns = Clock::Real().WallNs();
  return set;
}

ShardSet::~ShardSet() { Stop(); }

void ShardSet::Start(const std::string& address, ShardListener* listener) {
  address_ = address;
  listener_ = listener;
  opener_ = std::make_unique<WorkQueue>();
  thread_ = std::thread([this] { Run(); });
}

void ShardSet::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_one();
}

void ShardSet::BeginDrain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  Wake();
}

void ShardSet::Stop() {
  stop_ = true;
  catalogue_thread_.reset();  // calls that have not started fail, because of stop_
  if (!thread_.joinable()) return;
  Wake();
  thread_.join();
  opener_.reset();  // tasks that have not started do nothing, because of stop_
  std::vector<int> held;
  std::vector<Slot> rest;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].phase != Phase::kNone) held.push_back(static_cast<int>(i));
      if (slots_[i].held != nullptr) rest.push_back(slots_[i]);
      slots_[i] = Slot();
    }
    figures_.held = 0;
  }
  for (const Slot& slot : rest) {
    slot.store->Stop();
    slot.held->engine->Stop();
    slot.held->observer.reset();
  }
  stop_ = false;
  for (const int shard : held) {
    if (!leases_->Release(shard).ok()) return;
  }
  leases_->Withdraw().IgnoreError();
}

int ShardSet::ShardOf(std::string_view id) const {
  ContentHasher hasher;
  const std::string hex = hasher.Add("shard").Add(id).Hex128();
  return static_cast<int>(std::stoull(hex.substr(0, 15), nullptr, 16) %
                          static_cast<uint64_t>(shards_));
}

ShardSet::Place ShardSet::Find(int shard) const {
  const auto index = static_cast<size_t>(shard);
  const std::lock_guard lock(mutex_);
  if (index >= slots_.size()) return {};
  const Slot& slot = slots_[index];
  // The shard may belong to another by now, so not even reads are served.
  if (slot.phase == Phase::kHeld && !slot.failed && NowNs() < valid_until_ns_) {
    return {slot.held, ""};
  }
  if (index >= view_.shards.size()) return {};
  const PostgresqlLeases::Shard& known = view_.shards[index];
  if (!known.valid || known.holder == leases_->holder()) return {};
  return {nullptr, known.address};
}

std::vector<std::shared_ptr<HeldShard>> ShardSet::Held() const {
  std::vector<std::shared_ptr<HeldShard>> held;
  const std::lock_guard lock(mutex_);
  for (const Slot& slot : slots_) {
    if (slot.phase == Phase::kHeld) held.push_back(slot.held);
  }
  return held;
}

bool ShardSet::HasOthers() const {
  const std::lock_guard lock(mutex_);
  return view_.others > 0;
}

ShardFigures ShardSet::figures() const {
  const std::lock_guard lock(mutex_);
  ShardFigures figures = figures_;
  figures.replicas = view_.replicas;
  const bool leases_stand = NowNs() < valid_until_ns_;
  for (const PostgresqlLeases::Shard& known : view_.shards) {
    const Slot& slot = slots_[static_cast<size_t>(known.shard)];
    const bool here = slot.phase == Phase::kHeld && !slot.failed && leases_stand;
    const bool there = known.valid && known.holder != leases_->holder();
    if (!here && !there) ++figures.unserved;
  }
  return figures;
}

void ShardSet::PutProblem(std::shared_ptr<const Problem> problem, ProblemDone done) {
  catalogue_thread_->Submit([this, problem = std::move(problem), done = std::move(done)] {
    const absl::Status put = catalogue_->PutProblem(problem->problem_id, problem->files);
    if (put.ok()) Keep(problem);
    done(put);
  });
}

void ShardSet::Keep(const std::shared_ptr<const Problem>& problem) {
  size_t bytes = 0;
  for (const ProblemFile& file : problem->files) bytes += file.content.size();
  problems_.Put(problem->problem_id, problem, bytes);
}

// The catalogue's problem. Null: it has none.
absl::StatusOr<std::shared_ptr<const Problem>> ShardSet::ReadProblem(
    const std::string& problem_id) {
  if (auto known = problems_.Find(problem_id)) return known;
  KC_ASSIGN_OR_RETURN(auto files, catalogue_->GetProblem(problem_id));
  if (!files) return nullptr;
  KC_ASSIGN_OR_RETURN(Problem parsed, ParseProblem(*std::move(files)));
  auto problem = std::make_shared<const Problem>(std::move(parsed));
  Keep(problem);
  return problem;
}

bool ShardSet::HasProblem(HeldShard& held, std::string_view problem_id) const {
  const std::lock_guard lock(held.problems_mutex);
  return held.problems.contains(problem_id);
}

void ShardSet::FetchProblem(const std::shared_ptr<HeldShard>& held, const std::string& problem_id,
                            ProblemDone done) {
  catalogue_thread_->Submit([this, held, problem_id, done = std::move(done)] {
    auto problem = ReadProblem(problem_id);
    if (!problem.ok() || *problem == nullptr) {
      done(problem.status());  // if the problem is unknown, the engine reports it
      return;
    }
    held->engine->PutProblem(
        *std::move(problem),
        AnsweredAnyway<std::shared_ptr<const Problem>>(
            [held, problem_id, done](const absl::StatusOr<std::shared_ptr<const Problem>>& put) {
              if (put.ok()) {
                const std::lock_guard lock(held->problems_mutex);
                held->problems.insert(problem_id);
              }
              done(put.status());
            }));
  });
}

void ShardSet::Run() {
  const absl::Duration interval = std::min(options_.lease / 5, kMaxLook);
  while (!stop_) {
    Look();
    {
      const std::lock_guard lock(listener_mutex_);
      listener_->OnChanged(figures());
    }
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, absl::ToChronoNanoseconds(interval), [this] { return woken_; });
    woken_ = false;
  }
}

void ShardSet::Look() {
  bool draining = false;
  {
    const std::lock_guard lock(mutex_);
    draining = draining_;
  }
  const int64_t asked_ns = NowNs();
  absl::StatusOr<PostgresqlLeases::View> view = leases_->Renew(address_, options_.lease, draining);
  if (!view.ok()) {
    if (!away_ && !stop_) {
      Log(LogLevel::kWarning, "the leases cannot be renewed",
          {{"error", std::string(view.status().message())}});
    }
    away_ = true;
    const std::lock_guard lock(mutex_);
    ++figures_.failed_renewals;
    return;
  }
  if (away_) Log(LogLevel::kInfo, "the leases are renewed again");
  away_ = false;
  {
    const std::lock_guard lock(mutex_);
    view_ = *view;
    valid_until_ns_ = asked_ns + absl::ToInt64Nanoseconds(options_.lease);
    ++figures_.renewals;
    figures_.renewed_wall_ns = Clock::Real().WallNs();
  }
  Act(*view);
}

void ShardSet::Act(const PostgresqlLeases::View& view) {
  std::vector<std::pair<int, const char*>> close;
  std::vector<int> release, free;
  int had = 0;
  bool draining = false;
  const int quota = (shards_ + std::max(1, view.replicas) - 1) / std::max(1, view.replicas);
  {
    const std::lock_guard lock(mutex_);
    draining = draining_;
    const int64_t now_ns = NowNs();
    for (int shard = 0; shard < shards_; ++shard) {
      Slot& slot = slots_[static_cast<size_t>(shard)];
      const PostgresqlLeases::Shard& known = view.shards[static_cast<size_t>(shard)];
      const bool mine = known.holder == leases_->holder();
      switch (slot.phase) {
        case Phase::kNone:
          // Acquired by a call whose reply was lost.
          if (mine) release.push_back(shard);
          if (!mine && !known.valid && now_ns >= slot.not_before_ns) free.push_back(shard);
          break;
        case Phase::kOpening:
        case Phase::kHeld:
          if (!mine) {
            ++figures_.lost;
            close.emplace_back(shard, "lost");
          } else if (slot.failed) {
            ++figures_.failed;
            close.emplace_back(shard, "failed");
          } else if (draining) {
            close.emplace_back(shard, "draining");
          } else if (++had > quota) {
            close.emplace_back(shard, "surplus");
          }
          break;
        case Phase::kClosing: break;
        case Phase::kClosed:
          slot.phase = Phase::kNone;
          if (mine) release.push_back(shard);
          break;
      }
    }
  }
  for (const auto& [shard, why] : close) Close(shard, why);
  // The next Look shows the result.
  for (const int shard : release) leases_->Release(shard).IgnoreError();
  if (draining || stop_) return;
  // Each replica starts at a different shard, so that they do not compete for the same ones.
  std::sort(free.begin(), free.end(), [&](int a, int b) {
    const auto key = [&](int shard) {
      ContentHasher hasher;
      return hasher.Add(leases_->holder()).Add(static_cast<long long>(shard)).Hex128();
    };
    return key(a) < key(b);
  });
  for (const int shard : free) {
    if (had >= quota || stop_) break;
    auto writer = leases_->Acquire(shard, address_, options_.lease);
    if (!writer.ok()) return;
    if (!*writer) continue;
    ++had;
    Open(shard, **writer);
  }
}

void ShardSet::Open(int shard, const std::string& writer) {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(shard)];
    slot = Slot();
    slot.phase = Phase::kOpening;
  }
  opener_->Submit([this, shard, writer] { OpenNow(shard, writer); });
}

void ShardSet::OpenNow(int shard, const std::string& writer) {
  if (stop_) return;
  {
    const std::lock_guard lock(mutex_);
    if (slots_[static_cast<size_t>(shard)].phase != Phase::kOpening) return;
  }
  auto held = std::make_shared<HeldShard>();
  held->shard = shard;
  PostgresqlEventStore* raw_store = nullptr;
  absl::Status status = [&]() -> absl::Status {
    KC_ASSIGN_OR_RETURN(auto store, PostgresqlEventStore::Open(options_.database, shard, writer));
    raw_store = store.get();
    held->store = std::move(store);
    held->observer = observer_->For(shard);
    KC_ASSIGN_OR_RETURN(held->engine, start_(held->store.get(), held->observer.get()));
    return absl::OkStatus();
  }();
  if (!status.ok()) {
    Log(LogLevel::kError, "a shard cannot be opened",
        {{"shard", shard}, {"error", std::string(status.ToString())}});
    {
      const std::lock_guard lock(mutex_);
      Slot& slot = slots_[static_cast<size_t>(shard)];
      slot = Slot();
      slot.phase = Phase::kClosed;
      slot.not_before_ns = NowNs() + kOpenPauseNs;
      ++figures_.failed;
    }
    Wake();
    return;
  }
  held->engine->SetFailureCallback([this, shard, raw = held.get()] {
    {
      const std::lock_guard lock(mutex_);
      Slot& slot = slots_[static_cast<size_t>(shard)];
      if (slot.held.get() == raw) slot.failed = true;
    }
    Wake();
  });
  held->engine->Inspect([&](const State& state) {
    const std::lock_guard lock(held->problems_mutex);
    for (const auto& [problem_id, problem] : state.problems()) held->problems.insert(problem_id);
  });
  {
    // Before calls arrive.
    const std::lock_guard lock(listener_mutex_);
    listener_->OnOpened(held);
  }
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(shard)];
    slot.held = held;
    slot.store = raw_store;
    // The shard may already be closing, and its engine may have failed before it was registered.
    slot.failed = !held->engine->failure().ok();
    if (slot.phase == Phase::kOpening) slot.phase = Phase::kHeld;
    ++figures_.taken;
    ++figures_.held;
  }
  Log(LogLevel::kInfo, "shard taken",
      {{"shard", shard}, {"events", held->engine->figures().events}});
  Wake();
}

void ShardSet::Close(int shard, const char* why) {
  const bool graceful = std::string_view(why) == "draining" || std::string_view(why) == "surplus";
  std::shared_ptr<HeldShard> held;  // keeps the store
  PostgresqlEventStore* store = nullptr;
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(shard)];
    slot.phase = Phase::kClosing;
    held = slot.held;
    store = slot.store;
  }
  Log(graceful ? LogLevel::kInfo : LogLevel::kWarning, "shard given up",
      {{"shard", shard}, {"because", why}});
  // An append that waits for the database would be useless.
  if (!graceful && held != nullptr) store->Stop();
  opener_->Submit([this, shard] { CloseNow(shard); });
}

void ShardSet::CloseNow(int shard) {
  if (stop_) return;
  std::shared_ptr<HeldShard> held;
  {
    const std::lock_guard lock(mutex_);
    held = std::move(slots_[static_cast<size_t>(shard)].held);
  }
  if (held != nullptr) {
    {
      const std::lock_guard lock(listener_mutex_);
      listener_->OnClosing(held);
    }
    held->engine->Stop();
    held->observer.reset();  // before the shard may come back
  }
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slots_[static_cast<size_t>(shard)];
    slot = Slot();
    slot.phase = Phase::kClosed;
    if (held != nullptr) --figures_.held;
  }
  Wake();
}

}  // namespace kernelcast::orchestrator
