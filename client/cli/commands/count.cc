#include "client/cli/commands/count.h"

#include <histogram/typed.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/render/progress.h"
#include "client/cli/render/text.h"
#include "forms/options.h"

namespace histogram::cli {
namespace {

constexpr uint64_t kWholeBytesMax = uint64_t{16} << 20;  // beyond, chunks overlap disk and network
constexpr uint64_t kChunkBytes = uint64_t{1} << 20;

// Whether parts of an input do not tell all that is asked for.
bool NeedsWhole(const v1::Spec& spec) {
  return SampleBytes(TypeOf(spec)) > 2 && (spec.statistics() || spec.quantiles_size() > 0);
}

class ServerCounter {
 public:
  // `payload_bytes_max`: the server's limit.
  ServerCounter(client::Client& client, const v1::Spec& spec, const std::vector<Input>& inputs,
                uint64_t payload_bytes_max)
      : client_(client),
        spec_(spec),
        inputs_(inputs),
        whole_bytes_max_(NeedsWhole(spec) ? payload_bytes_max
                                          : std::min(kWholeBytesMax, payload_bytes_max)),
        chunk_bytes_(std::min(kChunkBytes, payload_bytes_max)),
        results_(inputs.size(), absl::UnknownError("")) {}

  std::vector<absl::StatusOr<Report>> Run() {
    std::vector<size_t> whole, chunked;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      if (!input.status.ok()) {
        results_[i] = input.status;
      } else {
        const bool fits = input.stream == nullptr && input.bytes.size() <= whole_bytes_max_;
        (fits ? whole : chunked).push_back(i);
      }
    }
    if (!whole.empty()) Many(whole);
    for (const size_t i : chunked) results_[i] = Chunks(i);
    return std::move(results_);
  }

 private:
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
    const auto next = [&]() -> std::optional<client::Item> {
      if (at == which.size()) return std::nullopt;
      const size_t i = which[at++];
      starts[i] = absl::Now();
      return client::Item{i, spec_, std::string(inputs_[i].bytes)};
    };
    const absl::Status status = client_.ComputeMany(
        next,
        [&](const client::ItemResult& result) {
          results_[result.id] = Checked(result.id, result.response, starts[result.id]);
        },
        {});
    for (; at < which.size(); ++at) results_[which[at]] = status;
  }

  absl::StatusOr<Report> Chunks(size_t i) {
    const Input& input = inputs_[i];
    if (spec_.quantiles_size() > 0 && NeedsWhole(spec_)) {
      return absl::FailedPreconditionError(
          absl::StrCat(input.name, " is larger than ", FormatBytes(whole_bytes_max_),
                       ", the most that this server takes at once, and quantiles of ",
                       std::string(NameOf(TypeOf(spec_))),
                       " need all samples at once; count it without --server"));
    }
    size_t offset = 0;
    bool ended = false;
    const client::Reader reader = [&](absl::Span<char> buffer) -> absl::StatusOr<size_t> {
      // Asked for its end a second time a terminal would wait for the next key.
      if (ended) return 0;
      auto bytes = ReadNext(input, buffer, offset);
      if (!bytes.ok()) return bytes;
      offset += *bytes;
      ended = *bytes < buffer.size();
      return bytes;
    };
    client::AccumulateOptions options;
    options.chunk_bytes = chunk_bytes_;
    Progress progress(input.name,
                      input.stream == nullptr ? std::optional(input.bytes.size()) : std::nullopt);
    options.on_progress = [&progress](uint64_t bytes) { progress.Update(bytes); };
    const absl::Time start = absl::Now();
    const auto response = client_.Accumulate(spec_, reader, options);
    return Checked(i, response, start);
  }

  client::Client& client_;
  const v1::Spec& spec_;
  const std::vector<Input>& inputs_;
  const uint64_t whole_bytes_max_, chunk_bytes_;
  std::vector<absl::StatusOr<Report>> results_;
};

Results CountByServer(const ServerOptions& server, const v1::Spec& spec,
                      const std::vector<Input>& inputs) {
  const auto client = Connect(server);
  if (!client.ok()) return client.status();
  const auto description = (*client)->Describe({});
  if (!description.ok()) return description.status();
  return ServerCounter(**client, spec, inputs, description->limits().payload_bytes_max()).Run();
}

}  // namespace

Results CountInputs(const ServerOptions& server, const v1::Spec& spec,
                    const std::vector<Input>& inputs) {
  auto results =
      server.in_process ? CountInProcess(spec, inputs) : CountByServer(server, spec, inputs);
  for (size_t i = 0; results.ok() && i < inputs.size(); ++i) {
    absl::Status whole = StillWhole(inputs[i]);
    if ((*results)[i].ok() && !whole.ok()) (*results)[i] = std::move(whole);
  }
  return results;
}

std::string ExplainCount(const absl::Status& status, const ServerOptions& server) {
  return ByOption(server.in_process ? std::string(status.message()) : Explain(status, server), "--",
                  /*parts=*/true);
}

}  // namespace histogram::cli
