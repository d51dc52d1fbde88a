#include "forms/json.h"

#include <cstdint>
#include <utility>

namespace histogram {
namespace {

using Json = nlohmann::ordered_json;

Json StatisticsToJson(const Report& report) {
  Json json = Json::object();
  for (const Statistic& one : StatisticsOf(report)) json[one.name] = one.value;
  if (report.spec.quantiles_size() > 0) {
    json["quantile_levels"] =
        std::vector<double>(report.spec.quantiles().begin(), report.spec.quantiles().end());
    const auto& quantiles = report.histogram.statistics().quantiles();
    json["quantiles"] = std::vector<double>(quantiles.begin(), quantiles.end());
  }
  return json;
}

// Columns with an entry for each row. Those are left out that are 0 for all rows, or not asked for.
Json RowsToJson(const v1::RowAnswers& rows, size_t quantiles) {
  Json json = {{"row_count", rows.row_count()}, {"bin_count", rows.bin_count()}};
  const auto matrix = [&](const char* name, const auto& values, size_t width) {
    Json& to = json[name] = Json::array();
    for (size_t at = 0; width > 0 && at < static_cast<size_t>(values.size()); at += width) {
      to.push_back(std::vector(values.data() + at, values.data() + at + width));
    }
  };
  const auto column = [&](const char* name, const auto& values) {
    if (!values.empty()) json[name] = std::vector(values.begin(), values.end());
  };
  matrix("counts", rows.counts(), rows.bin_count());
  column("samples", rows.samples());
  column("below", rows.below());
  column("above", rows.above());
  column("ignored", rows.ignored());
  column("nan", rows.nan());
  column("lower", rows.lower());
  column("upper", rows.upper());
  column("minimum", rows.minimum());
  column("maximum", rows.maximum());
  column("mean", rows.mean());
  column("standard_deviation", rows.standard_deviation());
  column("median", rows.median());
  column("mode", rows.mode());
  column("entropy_bits", rows.entropy_bits());
  column("otsu_threshold", rows.otsu_threshold());
  if (!rows.quantiles().empty()) matrix("quantiles", rows.quantiles(), quantiles);
  return json;
}

Json ReceiptToJson(const Report& report) {
  const v1::Receipt& receipt = report.receipt;
  return {{"backend", SafeText(receipt.backend())},     {"kernel", SafeText(receipt.kernel())},
          {"batch_payloads", receipt.batch_payloads()}, {"queue_ns", receipt.queue_ns()},
          {"gather_ns", receipt.gather_ns()},           {"transfer_ns", receipt.transfer_ns()},
          {"kernel_ns", receipt.kernel_ns()},           {"total_ns", receipt.total_ns()},
          {"round_trip_ns", report.round_trip_ns},      {"in_process", report.in_process}};
}

}  // namespace

Json ReportsToJson(const std::vector<Report>& reports) {
  Json histograms = Json::array();
  for (const Report& report : reports) {
    const v1::Histogram& histogram = report.histogram;
    Json json = {{"source", SafeText(report.source)},
                 {"sample_type", TypeName(report.spec.sample_type())},
                 {"binning", BinningKind(report.spec)},
                 {"edges", EdgesOf(report)},
                 {"last_edge_closed", LastEdgeClosed(report.spec)}};
    if (report.spec.has_rows()) {
      json["samples"] = histogram.samples();
      json["rows"] = RowsToJson(report.rows, static_cast<size_t>(report.spec.quantiles_size()));
    } else {
      json.update(
          {{"counts", std::vector<uint64_t>(histogram.counts().begin(), histogram.counts().end())},
           {"samples", histogram.samples()},
           {"below", histogram.below()},
           {"above", histogram.above()},
           {"ignored", histogram.ignored()},
           {"nan", histogram.nan()}});
    }
    if (histogram.has_statistics()) json["statistics"] = StatisticsToJson(report);
    json["receipt"] = ReceiptToJson(report);
    histograms.push_back(std::move(json));
  }
  return {{"schema", kSchema}, {"histograms", std::move(histograms)}};
}

Json DescriptionToJson(const v1::DescribeResponse& description) {
  Json json = {{"schema", kSchema}, {"version", SafeText(description.version())}};
  json["backends"] = Json::array();
  for (const auto& backend : description.backends()) {
    json["backends"].push_back({{"name", SafeText(backend.name())},
                                {"up", backend.up()},
                                {"lanes", backend.lanes()},
                                {"lane_bytes", backend.lane_bytes()},
                                {"pinned_bytes", backend.pinned_bytes()},
                                {"device_bytes", backend.device_bytes()},
                                {"uuid", SafeText(backend.uuid())},
                                {"device", SafeText(backend.device())}});
  }
  json["kernels"] = Json::array();
  for (const auto& kernel : description.kernels()) {
    json["kernels"].push_back({{"name", SafeText(kernel.name())},
                               {"backend", SafeText(kernel.backend())},
                               {"bin_count_max", kernel.bin_count_max()},
                               {"summary", SafeText(kernel.summary())}});
  }
  json["choices"] = Json::array();
  for (const auto& choice : description.choices()) {
    json["choices"].push_back({{"backend", SafeText(choice.backend())},
                               {"sample_type", TypeName(choice.sample_type())},
                               {"bin_count_max", choice.bin_count_max()},
                               {"payload_bytes_max", choice.payload_bytes_max()},
                               {"payloads_max", choice.payloads_max()},
                               {"kernel", SafeText(choice.kernel())},
                               {"cost_ns", choice.cost_ns()},
                               {"gigabytes_per_second", choice.gigabytes_per_second()}});
  }
  json["objective"] = SafeText(description.objective());
  const auto placements = [](const auto& of) {
    Json list = Json::array();
    for (const auto& placement : of) {
      list.push_back({{"payload_bytes_min", placement.payload_bytes_min()},
                      {"backend", SafeText(placement.backend())}});
    }
    return list;
  };
  json["placements"] = placements(description.placements());
  json["typed_placements"] = placements(description.typed_placements());
  const auto& limits = description.limits();
  json["limits"] = {{"payload_bytes_max", limits.payload_bytes_max()},
                    {"bin_count_max", limits.bin_count_max()},
                    {"queue_bytes_max", limits.queue_bytes_max()},
                    {"receive_bytes_max", limits.receive_bytes_max()},
                    {"batch_payloads_max", limits.batch_payloads_max()},
                    {"batch_bytes_max", limits.batch_bytes_max()},
                    {"stream_payloads_max", limits.stream_payloads_max()},
                    {"streams_max", limits.streams_max()},
                    {"quantiles_max", limits.quantiles_max()},
                    {"rows_max", limits.rows_max()},
                    {"reply_bytes_max", limits.reply_bytes_max()},
                    {"spec_bytes_max", limits.spec_bytes_max()}};
  json["features"] = Json::array();
  for (const auto& feature : description.features()) json["features"].push_back(SafeText(feature));
  return json;
}

std::string Dump(const Json& json) { return json.dump() + "\n"; }

}  // namespace histogram
