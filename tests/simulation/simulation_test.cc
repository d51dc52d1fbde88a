// Thousands of random worlds, each from one seed: arrivals, completions, failures, lanes that hang,
// clients that cancel, leave or read nothing, drain, clock jumps.
//
// A failure names its seed; SIMULATION_SEED=N runs that one alone, SIMULATION_RUNS=N so many.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/simulation/world.h"

namespace histogram::server {
namespace {

constexpr uint64_t kRunsDefault = 3000;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(Simulation, EveryByteEndsInOneAnswerAndEveryChargeIsGivenBack) {
  const uint64_t only = FromEnvironment("SIMULATION_SEED", 0);
  const uint64_t runs = FromEnvironment("SIMULATION_RUNS", kRunsDefault);
  World::Seen all;
  for (uint64_t seed = only > 0 ? only : 1; seed <= (only > 0 ? only : runs); ++seed) {
    SCOPED_TRACE("SIMULATION_SEED=" + std::to_string(seed));
    World world(seed, all);
    world.Run();
    if (HasFailure()) return;
  }
  if (only > 0) return;
  // A world in which nothing goes wrong proves nothing.
  EXPECT_GT(all.replied_bytes, 100 * runs);
  EXPECT_GT(all.failed_bytes, runs);
  EXPECT_GT(all.waited, runs / 10);
  EXPECT_GT(all.refused, runs / 10);
  EXPECT_GT(all.drained, runs / 10);
  EXPECT_GT(all.lost, runs / 100);
  EXPECT_GT(all.unread, runs / 100);
  EXPECT_GT(all.full_ahead, runs / 100);
}

}  // namespace
}  // namespace histogram::server
