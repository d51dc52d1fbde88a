// What the tests of the client's calls share.
#ifndef HISTOGRAM_TESTS_CLIENT_CLIENT_TESTING_H_
#define HISTOGRAM_TESTS_CLIENT_CLIENT_TESTING_H_

#include <gtest/gtest.h>
#include <histogram/client.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/fake_server.h"

namespace histogram::client {

// Every byte differs from its neighbours, in a pattern that does not repeat with chunks.
inline std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 1;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

inline std::unique_ptr<Client> Connect(const FakeServer& server, ConnectOptions options = {}) {
  options.backoff_initial = absl::Milliseconds(1);
  options.backoff_max = absl::Milliseconds(5);
  auto client = Client::Connect(server.address(), options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

inline std::vector<uint64_t> Counts(const v1::Histogram& histogram) {
  return {histogram.counts().begin(), histogram.counts().end()};
}

}  // namespace histogram::client

#endif  // HISTOGRAM_TESTS_CLIENT_CLIENT_TESTING_H_
