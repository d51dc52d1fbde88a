#include <algorithm>
#include <cstring>
#include <random>

#include "client/load/load_generator.h"

namespace histogram::client {
namespace {

using Fill = void (*)(std::string&, std::mt19937_64&);

struct Distribution {
  const char* name;
  Fill fill;
};

void Uniform(std::string& out, std::mt19937_64& random) {
  for (char& c : out) c = static_cast<char>(random());
}
void Constant(std::string& out, std::mt19937_64&) { out.assign(out.size(), 'x'); }
void Alternating(std::string& out, std::mt19937_64&) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = (i & 1) != 0 ? 'a' : 'b';
}
void Letters(std::string& out, std::mt19937_64& random) {
  // Roughly English: the frequent ones are frequent.
  constexpr char kLetters[] = "   eeeettaaooinnsshrrdllcumwfgypbvk.,";
  for (char& c : out) c = kLetters[random() % (sizeof kLetters - 1)];
}
void Gauss(std::string& out, std::mt19937_64& random) {
  std::normal_distribution<double> normal(128, 24);
  for (char& c : out) {
    c = static_cast<char>(static_cast<uint8_t>(std::clamp(normal(random), 0.0, 255.0)));
  }
}

constexpr Distribution kDistributions[] = {{"uniform", Uniform},
                                           {"constant", Constant},
                                           {"alternating", Alternating},
                                           {"letters", Letters},
                                           {"gauss", Gauss}};

}  // namespace

std::vector<std::string> LoadDistributions() {
  std::vector<std::string> names;
  for (const Distribution& d : kDistributions) names.emplace_back(d.name);
  return names;
}

std::string MakePayload(const std::string& distribution, uint64_t bytes) {
  std::string payload(bytes, '\0');
  std::mt19937_64 random(bytes + 1);
  for (const Distribution& d : kDistributions) {
    if (distribution == d.name) d.fill(payload, random);
  }
  return payload;
}

std::string MakeFloatPayload(uint64_t bytes) {
  std::string payload(bytes, '\0');
  std::mt19937_64 random(bytes + 1);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < bytes; i += sizeof(float)) {
    const float sample = normal(random);
    std::memcpy(payload.data() + i, &sample, sizeof(sample));
  }
  return payload;
}

}  // namespace histogram::client
