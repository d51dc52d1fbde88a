// What came of every byte that a simulated server accepted: exactly one reply, or one error.
#ifndef HISTOGRAM_TESTS_SIMULATION_LEDGER_H_
#define HISTOGRAM_TESTS_SIMULATION_LEDGER_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace histogram::server {

class Ledger {
 public:
  // REQUIRES: `message` is a new number.
  void Accept(uint64_t message, uint64_t bytes) {
    EXPECT_TRUE(open_.emplace(message, bytes).second) << "message " << message << " came twice";
    accepted_ += bytes;
  }
  void Replied(uint64_t message) { replied_ += Settle(message); }
  void Failed(uint64_t message) { failed_ += Settle(message); }

  // Messages of which nobody has heard yet.
  size_t open() const { return open_.size(); }
  void ExpectBalanced() const {
    EXPECT_EQ(open_.size(), 0u) << "message " << open_.begin()->first << " got no answer";
    EXPECT_EQ(accepted_, replied_ + failed_);
  }
  uint64_t replied_bytes() const { return replied_; }
  uint64_t failed_bytes() const { return failed_; }

 private:
  uint64_t Settle(uint64_t message) {
    const auto entry = open_.extract(message);
    EXPECT_FALSE(entry.empty()) << "message " << message << " is answered twice, or never came";
    return entry.empty() ? 0 : entry.mapped();
  }

  std::map<uint64_t, uint64_t> open_;
  uint64_t accepted_ = 0, replied_ = 0, failed_ = 0;
};

}  // namespace histogram::server

#endif  // HISTOGRAM_TESTS_SIMULATION_LEDGER_H_
