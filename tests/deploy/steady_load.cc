// Steady load for the deployment tests: a few threads call Compute through the client library, as a
// service would (round robin, health checking, retries), and every answer is compared with what it
// must be. Runs until standard input closes, then prints one line of totals:
//
//   calls=N failed=N wrong=N slowest_ms=N
//
// and before it, on standard error, each different error once. Exit status: 0 when none failed and
// none was wrong.
//
//   histogram_steady_load ADDRESS BYTES THREADS [ATTEMPTS]
#include <histogram/client.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"

namespace {

using histogram::client::Client;

constexpr absl::Duration kCallTimeout = absl::Seconds(20);

struct Totals {
  std::atomic<uint64_t> calls{0}, failed{0}, wrong{0}, slowest_ms{0};
  std::mutex mutex;
  std::set<std::string> errors;  // guarded by mutex

  void Slowest(uint64_t ms) {
    uint64_t seen = slowest_ms.load();
    while (seen < ms && !slowest_ms.compare_exchange_weak(seen, ms)) {
    }
  }
  void Failed(const std::string& error) {
    ++failed;
    const std::scoped_lock lock(mutex);
    if (errors.size() < 20 && errors.insert(error).second) {
      std::fprintf(stderr, "failed: %s\n", error.c_str());
    }
  }
};

// Different bytes for each thread, so that an answer to another's request is noticed.
std::string MakeBytes(size_t size, uint64_t seed) {
  std::string bytes(size, '\0');
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (char& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<char>((state >> 33) % (100 + seed % 100));
  }
  return bytes;
}

void Call(Client& client, const std::string& payload, const std::array<uint64_t, 256>& want,
          Totals& totals) {
  histogram::client::CallOptions options;
  options.timeout = kCallTimeout;
  options.wait_for_ready = true;
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = client.Compute(histogram::v1::Spec(), payload, options);
  const auto took = std::chrono::steady_clock::now() - begin;
  ++totals.calls;
  totals.Slowest(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  if (!reply.ok()) {
    totals.Failed(reply.status().ToString());
  } else if (!std::equal(want.begin(), want.end(), reply->histogram().counts().begin(),
                         reply->histogram().counts().end())) {
    ++totals.wrong;
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t bytes = 0;
  int threads = 0, attempts = 4;
  if (argc < 4 || argc > 5 || !absl::SimpleAtoi(argv[2], &bytes) ||
      !absl::SimpleAtoi(argv[3], &threads) || threads < 1 || threads > 64 ||
      (argc == 5 && !absl::SimpleAtoi(argv[4], &attempts))) {
    std::fprintf(stderr, "usage: histogram_steady_load ADDRESS BYTES THREADS [ATTEMPTS]\n");
    return 2;
  }
  histogram::client::ConnectOptions connect;
  connect.attempts_max = attempts;
  const auto client = Client::Connect(argv[1], connect);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 2;
  }
  Totals totals;
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  callers.reserve(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    callers.emplace_back([&, i] {
      const std::string payload = MakeBytes(bytes, static_cast<uint64_t>(i));
      std::array<uint64_t, 256> want{};
      for (const char byte : payload) ++want[static_cast<unsigned char>(byte)];
      while (!stop) Call(**client, payload, want, totals);
    });
  }
  char ignored = 0;
  while (read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  stop = true;
  for (std::thread& caller : callers) caller.join();
  std::printf("calls=%llu failed=%llu wrong=%llu slowest_ms=%llu\n",
              static_cast<unsigned long long>(totals.calls),
              static_cast<unsigned long long>(totals.failed),
              static_cast<unsigned long long>(totals.wrong),
              static_cast<unsigned long long>(totals.slowest_ms));
  return totals.failed == 0 && totals.wrong == 0 ? 0 : 1;
}
