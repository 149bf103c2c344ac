#include "services/worker/cuda/runner/program_table.h"

#include <algorithm>
#include <cstring>

#include "common/base/status.h"

namespace kernelcast::worker::cuda_runner {
namespace {

template <class Record>
void Append(const Record& record, std::vector<std::byte>& file) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  file.insert(file.end(), bytes, bytes + sizeof(Record));
}

class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  template <class Record>
  absl::StatusOr<Record> Read() {
    if (file_.size() < sizeof(Record)) {
      return absl::InvalidArgumentError("programs: the file ends early");
    }
    Record record;
    std::memcpy(&record, file_.data(), sizeof(Record));
    file_ = file_.subspan(sizeof(Record));
    return record;
  }
  bool at_end() const { return file_.empty(); }

 private:
  std::span<const std::byte> file_;
};

}  // namespace

std::vector<std::byte> WritePrograms(std::span<const Program> programs) {
  std::vector<std::byte> file;
  for (const Program& program : programs) {
    Append(ProgramRecord{static_cast<uint32_t>(program.launches.size()),
                         static_cast<uint32_t>(program.inputs.size()),
                         static_cast<uint32_t>(program.outputs.size()), program.task_case},
           file);
    for (const ProgramLaunch& launch : program.launches) {
      LaunchRecord record{};
      record.kernel = launch.kernel;
      std::copy(std::begin(launch.grid), std::end(launch.grid), record.grid);
      std::copy(std::begin(launch.block), std::end(launch.block), record.block);
      std::copy(std::begin(launch.cluster), std::end(launch.cluster), record.cluster);
      record.shared_memory_bytes = launch.shared_memory_bytes;
      record.arguments = static_cast<uint32_t>(launch.arguments.size());
      Append(record, file);
      for (const Argument& argument : launch.arguments) {
        Append(ArgumentRecord{argument.arena, argument.bytes, argument.value}, file);
      }
    }
    for (const auto* tensors : {&program.inputs, &program.outputs}) {
      for (const TensorRecord& tensor : *tensors) Append(tensor, file);
    }
  }
  return file;
}

absl::StatusOr<std::vector<Program>> ReadPrograms(std::span<const std::byte> file, uint32_t count) {
  if (count > kMaxPrograms) {
    return absl::InvalidArgumentError("programs: too many");
  }
  Reader reader(file);
  std::vector<Program> programs(count);
  for (Program& program : programs) {
    KC_ASSIGN_OR_RETURN(const ProgramRecord header, reader.Read<ProgramRecord>());
    if (header.launches > kMaxLaunches) {
      return absl::InvalidArgumentError("programs: too many launches");
    }
    if (header.inputs > kMaxTensors || header.outputs > kMaxTensors) {
      return absl::InvalidArgumentError("programs: too many tensors");
    }
    program.task_case = header.task_case;
    program.launches.resize(header.launches);
    for (ProgramLaunch& launch : program.launches) {
      KC_ASSIGN_OR_RETURN(const LaunchRecord record, reader.Read<LaunchRecord>());
      if (record.arguments > kMaxArguments) {
        return absl::InvalidArgumentError("programs: too many arguments");
      }
      launch.kernel = record.kernel;
      std::copy(std::begin(record.grid), std::end(record.grid), launch.grid);
      std::copy(std::begin(record.block), std::end(record.block), launch.block);
      std::copy(std::begin(record.cluster), std::end(record.cluster), launch.cluster);
      launch.shared_memory_bytes = record.shared_memory_bytes;
      launch.arguments.resize(record.arguments);
      for (Argument& argument : launch.arguments) {
        KC_ASSIGN_OR_RETURN(const ArgumentRecord stored, reader.Read<ArgumentRecord>());
        if ((stored.arena != kLiteral && stored.arena >= kMaxArenas) ||
            (stored.bytes != 1 && stored.bytes != 2 && stored.bytes != 4 && stored.bytes != 8)) {
          return absl::InvalidArgumentError("programs: an argument of no known kind");
        }
        argument = {stored.arena, stored.bytes, stored.value};
      }
    }
    program.inputs.resize(header.inputs);
    program.outputs.resize(header.outputs);
    for (auto* tensors : {&program.inputs, &program.outputs}) {
      for (TensorRecord& tensor : *tensors) {
        KC_ASSIGN_OR_RETURN(tensor, reader.Read<TensorRecord>());
        if (tensor.arena >= kMaxArenas || tensor.dimensions > kMaxDimensions) {
          return absl::InvalidArgumentError("programs: a tensor of no known kind");
        }
      }
    }
  }
  if (!reader.at_end()) {
    return absl::InvalidArgumentError("programs: the file goes on after the last");
  }
  return programs;
}

}  // namespace kernelcast::worker::cuda_runner
