#include "client/cli/commands/count.h"

#include <histogram/typed.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/files.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/text.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kSmallBytes = uint64_t{64} << 10;     // one alone needs no AskForLimit
constexpr uint64_t kWholeBytesMax = uint64_t{16} << 20;  // beyond, chunks overlap disk and network
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// Whether parts of an input do not tell all that is asked for.
bool NeedsWhole(const v1::Spec& spec) {
  return SampleBytes(TypeOf(spec)) > 2 && (spec.statistics() || spec.quantiles_size() > 0);
}

class ServerCounter {
 public:
  ServerCounter(client::Client& client, const ServerOptions& server, const v1::Spec& spec,
                std::vector<Input> inputs, Progress& progress)
      : client_(client),
        server_(server),
        spec_(spec),
        inputs_(std::move(inputs)),
        progress_(progress),
        sizes_(inputs_.size()),
        results_(inputs_.size(), absl::UnknownError("")) {}

  std::vector<absl::StatusOr<Report>> Run() {
    std::vector<size_t> good, whole;
    bool small = true;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const auto size = SizeOf(inputs_[i]);
      if (!size.ok()) {
        results_[i] = size.status();
        continue;
      }
      sizes_[i] = *size;
      small = small && size->value_or(kSmallBytes + 1) <= kSmallBytes;
      good.push_back(i);
    }
    if (!small || good.size() > 1) AskForLimit();
    for (const size_t i : good) {
      (sizes_[i].has_value() && *sizes_[i] <= whole_bytes_max_ ? whole : chunked_).push_back(i);
    }
    if (!whole.empty()) Many(whole);
    for (const size_t i : chunked_) results_[i] = Chunks(i);
    return std::move(results_);
  }

 private:
  // A server that cannot be asked gets small chunks; its own errors say the rest.
  void AskForLimit() {
    const auto description = client_.Describe(CallOf(server_));
    if (description.ok() && description->limits().payload_bytes_max() > 0) {
      LimitPayload(description->limits().payload_bytes_max());
    }
  }

  void LimitPayload(uint64_t payload_bytes_max) {
    whole_bytes_max_ =
        NeedsWhole(spec_) ? payload_bytes_max : std::min(kWholeBytesMax, payload_bytes_max);
    chunk_bytes_ = std::min(kChunkBytes, payload_bytes_max);
    limit_is_known_ = true;
  }

  absl::StatusOr<std::string> Load(size_t i) {
    const Input& input = inputs_[i];
    if (input.bytes.has_value()) return *input.bytes;
    const absl::StatusOr<InputFile> file = OpenInput(input);
    if (!file.ok()) return file.status();
    auto bytes = ReadAll(**file, input.name, absl::InfiniteFuture(), input.limit);
    if (bytes.ok() && input.limited() && bytes->size() < input.limit) return CutOff(input);
    return bytes;
  }

  template <typename Response>
  absl::StatusOr<Report> Checked(size_t i, const absl::StatusOr<Response>& response,
                                 absl::Time start) const {
    if (!response.ok()) return response.status();
    Report report = {inputs_[i].name, spec_, response->histogram(), response->receipt(),
                     static_cast<uint64_t>(absl::ToInt64Nanoseconds(absl::Now() - start))};
    if (EdgesOf(report).size() == static_cast<size_t>(report.histogram.counts_size()) + 1) {
      return report;
    }
    return absl::InternalError("the reply is not to be trusted: its edges do not fit");
  }

  void Many(const std::vector<size_t>& which) {
    size_t at = 0;
    std::map<uint64_t, absl::Time> starts;
    client::ManyOptions options;
    options.call = CallOf(server_);
    const auto next = [&]() -> std::optional<client::Item> {
      while (at < which.size()) {
        const size_t i = which[at++];
        absl::StatusOr<std::string> bytes = Load(i);
        if (!bytes.ok()) {
          results_[i] = bytes.status();
          continue;
        }
        starts[i] = absl::Now();
        return client::Item{i, spec_, *std::move(bytes)};
      }
      return std::nullopt;
    };
    const absl::Status status = client_.ComputeMany(
        next,
        [&](const client::ItemResult& result) {
          results_[result.id] = Checked(result.id, result.response, starts[result.id]);
          const auto detail = client::ErrorDetail(result.response.status());
          if (!detail.has_value() || detail->reason() != "PAYLOAD_TOO_LARGE") return;
          LimitPayload(detail->limit());
          chunked_.push_back(result.id);
        },
        options);
    for (; at < which.size(); ++at) results_[which[at]] = status;
  }

  absl::StatusOr<Report> Chunks(size_t i) {
    const Input& input = inputs_[i];
    const std::optional<uint64_t> size = sizes_[i];
    if (limit_is_known_ && spec_.quantiles_size() > 0 && NeedsWhole(spec_)) {
      return absl::FailedPreconditionError(
          absl::StrCat(input.name, " is larger than ", FormatBytes(whole_bytes_max_),
                       ", the most that this server takes at once, and quantiles of ",
                       std::string(NameOf(TypeOf(spec_))),
                       " need all samples at once; count it without --server"));
    }
    const absl::StatusOr<InputFile> file = OpenInput(input);
    if (!file.ok()) return file.status();
    size_t offset = 0;
    bool ended = false;
    absl::Status input_status;
    const client::Reader reader = [&](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
      // Asked for its end a second time a terminal would wait for the next key.
      if (ended) return 0;
      const auto room = std::min<uint64_t>(buffer.size(), input.limit - offset);
      const auto bytes = ReadNext(input, *file, buffer.first(room), offset, DeadlineOf(server_));
      input_status = bytes.status();
      if (!bytes.ok()) return bytes;
      offset += *bytes;
      ended = *bytes < buffer.size();
      if (*bytes < room && (input.limited() || offset < size.value_or(0))) return CutOff(input);
      return bytes;
    };
    client::AccumulateOptions options;
    options.call = CallOf(server_);
    options.chunk_bytes = chunk_bytes_;
    options.on_progress = [&](uint64_t bytes) { progress_.Update(bytes); };
    // None is asked for: a server that shuts down sends what it has counted.
    std::optional<v1::AccumulateResponse> last;
    options.on_snapshot = [&](const v1::AccumulateResponse& snapshot) { last = snapshot; };
    progress_.Begin(input.name, size);
    const absl::Time start = absl::Now();
    const auto response = client_.Accumulate(spec_, reader, options);
    progress_.Clear();
    // The server waited no longer than the input did.
    if (absl::IsDeadlineExceeded(input_status)) {
      return absl::FailedPreconditionError(input_status.message());
    }
    if (absl::IsDeadlineExceeded(response.status()) && !ended) {
      return absl::FailedPreconditionError(absl::StrCat(
          input.name,
          " was not sent to its end before the time was over; allow more with --timeout"));
    }
    const bool in_part = !response.ok() && last.has_value() && last->histogram().samples() > 0;
    if (!in_part) return Checked(i, response, start);
    absl::StatusOr<Report> part = Checked<v1::AccumulateResponse>(i, *last, start);
    if (part.ok()) part->incomplete = response.status();
    return part;
  }

  client::Client& client_;
  const ServerOptions& server_;
  const v1::Spec& spec_;
  std::vector<Input> inputs_;
  Progress& progress_;
  std::vector<std::optional<uint64_t>> sizes_;
  std::vector<size_t> chunked_;
  std::vector<absl::StatusOr<Report>> results_;
  uint64_t whole_bytes_max_ = kSmallBytes;
  uint64_t chunk_bytes_ = kSmallBytes;
  bool limit_is_known_ = false;
};

}  // namespace

Results CountInputs(const ServerOptions& server, const v1::Spec& spec, std::vector<Input> inputs,
                    Environment& env) {
  Progress progress(env.err, env.err_terminal);
  if (server.in_process) {
    return CountInProcess(spec, inputs, env.deadline, progress);
  }
  const auto client = Connect(server);
  if (!client.ok()) return client.status();
  return ServerCounter(**client, server, spec, std::move(inputs), progress).Run();
}

std::string ExplainCount(const absl::Status& status, const ServerOptions& server) {
  if (server.in_process && absl::IsDeadlineExceeded(status)) {
    return absl::StrCat("not done within ", FormatNumber(server.timeout_s.value_or(0)),
                        " s; allow more with --timeout");
  }
  return ByOption(server.in_process ? std::string(status.message()) : Explain(status, server), "--",
                  /*parts=*/true);
}

}  // namespace histogram::cli
