// Who gets room in the queue, without a batcher.
#include "server/batching/admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/batching/test_job.h"

namespace histogram::server {
namespace {

constexpr uint64_t kMax = 1200;

class AdmissionTest : public testing::Test {
 protected:
  // A job that takes so much room.
  TestJob& Of(uint64_t caller, uint64_t charge) {
    jobs_.push_back(std::make_unique<TestJob>(0, caller));
    jobs_.back()->charge_bytes = charge;
    return *jobs_.back();
  }
  TestJob& Charged(uint64_t caller, uint64_t charge) {
    TestJob& job = Of(caller, charge);
    EXPECT_TRUE(admission_.HasRoom(job));
    admission_.Charge(&job);
    return job;
  }
  TestJob& Waits(uint64_t caller, uint64_t charge) {
    TestJob& job = Of(caller, charge);
    EXPECT_FALSE(admission_.HasRoom(job));
    admission_.Wait(&job);
    return job;
  }
  bool HasRoom(uint64_t caller, uint64_t charge) { return admission_.HasRoom(Of(caller, charge)); }
  // Lets in who may come in now.
  std::vector<Job*> LetIn() {
    std::vector<Job*> in;
    while (Job* job = admission_.Next([](const Job& j) { return j.cancelled.load(); })) {
      in.push_back(job);
      admission_.Charge(job);
    }
    return in;
  }

  Admission admission_{kMax};
  std::vector<std::unique_ptr<TestJob>> jobs_;
};

TEST_F(AdmissionTest, OneCallerTakesTwoThirds) {
  for (int i = 0; i < 8; ++i) Charged(1, 100);
  EXPECT_FALSE(HasRoom(1, 1));
  EXPECT_TRUE(HasRoom(2, 400)) << "of who holds nothing yet";
  EXPECT_FALSE(HasRoom(2, 401)) << "is not free";
  EXPECT_EQ(admission_.charged_bytes(), 800u);
}

TEST_F(AdmissionTest, WhoHoldsNothingIsNotOvertaken) {
  TestJob& first = Charged(1, 800);
  TestJob& large = Waits(2, 900);
  EXPECT_FALSE(HasRoom(3, 100)) << "it would fit, and keep the large one waiting";
  Waits(3, 100);
  EXPECT_TRUE(LetIn().empty());
  admission_.Discharge(&first);
  const std::vector<Job*> in = LetIn();
  ASSERT_EQ(in.size(), 2u);
  EXPECT_EQ(in[0], &large);
}

TEST_F(AdmissionTest, CallersTakeTurns) {
  TestJob& all = Charged(9, kMax);
  std::vector<Job*> of_one, of_two;
  for (int i = 0; i < 3; ++i) of_one.push_back(&Waits(1, 100));
  for (int i = 0; i < 2; ++i) of_two.push_back(&Waits(2, 100));
  admission_.Discharge(&all);
  EXPECT_EQ(LetIn(), (std::vector<Job*>{of_one[0], of_two[0], of_one[1], of_two[1], of_one[2]}));
  EXPECT_FALSE(admission_.waits());
}

}  // namespace
}  // namespace histogram::server
