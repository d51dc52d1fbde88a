// Asks histogram-server for the letters of a file in bins of six.
//
//   letters 127.0.0.1:50051 LICENSE
#include <histogram/client.h>

#include <cstdio>
#include <memory>

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  if (const auto detail = histogram::client::ErrorDetail(status)) {
    std::fprintf(stderr, "reason %s, field %s\n", detail->reason().c_str(),
                 detail->field().c_str());
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: letters SERVER FILE\n");
    return 2;
  }
  auto client = histogram::client::Client::Connect(argv[1]);
  if (!client.ok()) return Fail(client.status());
  histogram::v1::Spec spec;
  spec.mutable_binning()->mutable_alphabet()->set_first_symbol('a');
  spec.mutable_binning()->mutable_alphabet()->set_symbol_count(26);
  spec.mutable_binning()->mutable_alphabet()->set_symbols_per_bin(6);
  // In chunks, so the file may have any size. Compute() takes one payload in memory.
  const auto reply = (*client)->AccumulateFile(spec, argv[2]);
  if (!reply.ok()) return Fail(reply.status());
  const char* const names[] = {"a-f", "g-l", "m-r", "s-x", "y-z"};
  for (int i = 0; i < reply->histogram().counts_size(); ++i) {
    std::printf("%s %llu\n", names[i],
                static_cast<unsigned long long>(reply->histogram().counts(i)));
  }
  std::printf("else %llu\n", static_cast<unsigned long long>(reply->histogram().ignored()));
}
