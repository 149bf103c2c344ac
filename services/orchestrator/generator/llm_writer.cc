#include "services/orchestrator/generator/llm_writer.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/strings.h"
#include "common/base/utf8.h"
#include "common/domain/problem.h"

namespace kernelcast::orchestrator {
namespace {

// A prompt that is too long for the endpoint is halved, down to this size.
constexpr size_t kLeastPromptBytes = 8 << 10;
// Estimate for endpoints that report no token counts.
constexpr uint64_t kBytesPerToken = 3;
constexpr size_t kMaxNameBytes = 80;

// A name chosen by others as a single word, for use in an origin.
std::string Word(std::string_view name) {
  std::string word;
  for (const char c : TruncateUtf8(name, kMaxNameBytes)) {
    word += c > ' ' && c <= '~' ? c : '_';
  }
  return word;
}

constexpr std::string_view kSetAside =
    "set aside: reading the answers to this request crashed the orchestrator twice";

// An answer without a kernel that says nothing about why, but whose endpoint does.
ReadKernel EndpointFault(const llm::ChatAnswer& answer, ReadKernel read) {
  if (!IsBlank(answer.refusal)) {
    read.fault = ReadFault::kRefused;
    read.reason = absl::StrCat("the model refused: ",
                               std::string(TruncateUtf8(SanitizeUtf8(answer.refusal), 200)));
  } else if (answer.finish_reason == llm::FinishReason::kContentFilter) {
    read.fault = ReadFault::kContentFilter;
    read.reason = "the endpoint's content filter stopped the answer";
  }
  return read;
}

// Name of reading a request's answer, for the crash journal.
std::string AnswerName(const GenerationQuery& query) {
  return absl::StrCat("answer:", query.request_id);
}

}  // namespace

class LlmWriter::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(LlmWriterOptions options, llm::ChatClient* client, WriterMetrics* metrics)
      : options_(std::move(options)), client_(client), metrics_(metrics) {}

  // A request across its attempts, for a kernel or for advice.
  struct Job {
    GenerationQuery query;
    WriteDone done;  // one of the two is set
    AdviseDone advised;
    TraceContext trace;
    size_t prompt_bytes = 0;  // of the latest attempt
    size_t max_bytes = 0;
    int64_t latency_ns = 0;
  };

  void Start(GenerationQuery query, WriteDone done, AdviseDone advised) {
    auto job = std::make_shared<Job>();
    job->query = std::move(query);
    job->done = std::move(done);
    job->advised = std::move(advised);
    if (const TraceContext* trace = CurrentTrace()) job->trace = *trace;
    job->max_bytes = options_.max_prompt_bytes;
    if (CrashJournal::SetsAside(options_.crash_journal, AnswerName(job->query))) {
      Log(LogLevel::kError, kSetAside, {{"request", job->query.request_id}});
      return Finish(*job, GenerationReply::Unusable{std::string(kSetAside)}, {});
    }
    Ask(job);
  }

 private:
  void Ask(const std::shared_ptr<Job>& job) {
    const KernelSite site = options_.site_for
                                ? options_.site_for(job->query.target, job->query.device_model)
                                : KernelSite();
    const absl::StatusOr<KernelPromptText> prompt =
        job->advised ? options_.prompt.RenderCritic(job->query, site, job->max_bytes)
                     : options_.prompt.Render(job->query, site, job->max_bytes);
    if (!prompt.ok()) {
      return Finish(*job, GenerationReply::Unusable{std::string(prompt.status().message())}, {});
    }
    job->prompt_bytes = prompt->system.size() + prompt->user.size();
    llm::ChatRequest request;
    request.prompt = std::make_shared<const llm::Prompt>(
        std::vector<llm::ChatMessage>{{"system", prompt->system}, {"user", prompt->user}});
    request.max_tokens = options_.max_answer_tokens;
    request.temperature = options_.temperature;
    request.deadline_ns = job->query.deadline_ns;
    request.stop = job->query.stop;
    request.trace = job->trace;
    // Code may contain this many consecutive white-space characters.
    request.max_whitespace_run = 512;
    // A hedge would produce a second kernel.
    request.may_hedge = false;
    const absl::StatusOr<llm::CallId> call = client_->Submit(
        std::move(request), [core = shared_from_this(), job](const llm::ChatOutcome& outcome) {
          core->OnOutcome(job, outcome);
        });
    if (!call.ok()) {
      Finish(*job, GenerationReply::Unanswered{std::string(call.status().message())}, {});
    }
  }

  void OnOutcome(const std::shared_ptr<Job>& job, const llm::ChatOutcome& outcome) {
    job->latency_ns += outcome.latency_ns;
    const llm::ChatError& error = outcome.error;
    if (outcome.ok()) return job->advised ? ReadAdvice(*job, outcome) : Read(*job, outcome);
    if (error.kind == llm::ErrorKind::kContextTooLong &&
        job->prompt_bytes / 2 >= kLeastPromptBytes) {
      job->max_bytes = job->prompt_bytes / 2;
      return Ask(job);
    }
    if (error.kind == llm::ErrorKind::kAnswerTooLarge) {
      if (metrics_ != nullptr && !job->advised) metrics_->Faulted(ReadFault::kTooLong);
      return Finish(*job,
                    GenerationReply::Unusable{"the answer is too long",
                                              std::string(Name(ReadFault::kTooLong))},
                    outcome);
    }
    Finish(*job,
           GenerationReply::Unanswered{
               absl::StrCat(outcome.endpoint.empty() ? "" : absl::StrCat(outcome.endpoint, ": "),
                            std::string(llm::ErrorKindName(error.kind)),
                            error.message.empty() ? "" : absl::StrCat(": ", error.message))},
           outcome);
  }

  void Read(const Job& job, const llm::ChatOutcome& outcome) {
    const CrashJournal::Hold hold(options_.crash_journal, AnswerName(job.query));
    Candidate model;
    if (job.query.parent.has_value()) {
      model = job.query.parent->candidate;
    } else if (absl::StatusOr<Candidate> reference =
                   ReferenceCandidate(*job.query.problem, job.query.target);
               reference.ok()) {
      model = *std::move(reference);
    }
    const llm::ChatAnswer& answer = outcome.answer;
    const std::optional<PythonTask>& task = job.query.problem->task;
    // A task with functions of its own.
    const bool has_own = task && task->format == PythonTask::Format::kGpuModeEval;
    ReadKernel read = ReadAnswer(answer.text(), answer.cut_off(), model,
                                 has_own ? task->entries : std::vector<std::string>());
    if (read.fault != ReadFault::kNone) {
      read = EndpointFault(answer, std::move(read));
      if (read.fault == ReadFault::kCutOff && options_.max_answer_tokens > 0) {
        absl::StrAppend(&read.reason, "; raise the limit of ", options_.max_answer_tokens,
                        " tokens, --llm-max-tokens");
      }
      if (metrics_ != nullptr) metrics_->Faulted(read.fault);
      return Finish(
          job, GenerationReply::Unusable{std::move(read.reason), std::string(Name(read.fault))},
          outcome);
    }
    if (&answer.text() == &answer.reasoning) read.repairs.insert(Repair::kInReasoning);
    for (const Repair repair : read.repairs) {
      if (metrics_ != nullptr) metrics_->Mended(repair);
    }
    read.candidate.origin = absl::StrCat("llm:", Word(outcome.model));
    Finish(job, std::move(read.candidate), outcome, read.repairs);
  }

  void ReadAdvice(const Job& job, const llm::ChatOutcome& outcome) {
    const std::string_view text = Trim(outcome.answer.text());
    if (text.empty()) return Finish(job, GenerationReply::Unusable{"the answer is empty"}, outcome);
    AdviceReply reply;
    reply.advice = TruncateUtf8(SanitizeUtf8(text), kMaxAdviceBytes);
    Describe(job, outcome, reply);
    job.advised(std::move(reply));
  }

  // Advice that failed has no text.
  void Finish(const Job& job, decltype(GenerationReply::result) result,
              const llm::ChatOutcome& outcome, const std::set<Repair>& repairs = {}) {
    if (job.advised) {
      AdviceReply reply;
      if (const auto* unusable = std::get_if<GenerationReply::Unusable>(&result)) {
        reply.detail = unusable->reason;
      } else if (const auto* unanswered = std::get_if<GenerationReply::Unanswered>(&result)) {
        reply.detail = unanswered->reason;
      }
      Describe(job, outcome, reply);
      return job.advised(std::move(reply));
    }
    GenerationReply reply;
    reply.result = std::move(result);
    for (const Repair repair : repairs) reply.repairs.emplace_back(kernelcast::Name(repair));
    Describe(job, outcome, reply);
    job.done(std::move(reply));
  }

  // Fields that replies of both kinds have.
  template <class Reply>
  void Describe(const Job& job, const llm::ChatOutcome& outcome, Reply& reply) const {
    reply.prompt_version = options_.prompt.version();
    reply.model = Word(outcome.model);
    reply.endpoint = outcome.endpoint;
    reply.latency_ns = job.latency_ns;
    const llm::TokenUsage& usage = outcome.answer.usage;
    const size_t said = outcome.answer.content.size() + outcome.answer.reasoning.size();
    if (usage.known) {
      reply.usage.input_tokens = static_cast<uint64_t>(std::max<int64_t>(0, usage.prompt_tokens));
      reply.usage.cached_input_tokens =
          static_cast<uint64_t>(std::max<int64_t>(0, usage.cached_prompt_tokens));
      reply.usage.output_tokens =
          static_cast<uint64_t>(std::max<int64_t>(0, usage.completion_tokens));
    } else if (outcome.ok() && said > 0) {
      reply.usage.estimated = true;
      reply.usage.input_tokens = job.prompt_bytes / kBytesPerToken;
      reply.usage.output_tokens = said / kBytesPerToken;
    }
    reply.usage.cost = outcome.cost;
  }

  const LlmWriterOptions options_;
  llm::ChatClient* const client_;
  WriterMetrics* const metrics_;
};

LlmWriter::LlmWriter(LlmWriterOptions options, llm::ChatClient* client, WriterMetrics* metrics)
    : core_(std::make_shared<Core>(std::move(options), client, metrics)) {}

LlmWriter::~LlmWriter() = default;

void LlmWriter::Write(GenerationQuery query, WriteDone done) {
  core_->Start(std::move(query), std::move(done), nullptr);
}

void LlmWriter::Advise(GenerationQuery query, AdviseDone done) {
  core_->Start(std::move(query), nullptr, std::move(done));
}

}  // namespace kernelcast::orchestrator
