// What a mistyped name probably means, for the command line and the server's settings. Thread-safe:
// no state.
#ifndef HISTOGRAM_FORMS_NEAREST_H_
#define HISTOGRAM_FORMS_NEAREST_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace histogram {

// How many letters must be added, taken away, changed, or swapped with their neighbour.
inline size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> edits(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      edits[i][j] = std::max(i, j);  // right where one of them is empty
      if (i == 0 || j == 0) continue;
      edits[i][j] = std::min({edits[i - 1][j] + 1, edits[i][j - 1] + 1,
                              edits[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) edits[i][j] = std::min(edits[i][j], edits[i - 2][j - 2] + 1);
    }
  }
  return edits[a.size()][b.size()];
}

// The candidate that `name` is probably a misspelling of; empty if none is near.
inline std::string Nearest(const std::string& name, const std::vector<std::string>& candidates) {
  constexpr size_t kNameBytesMax = 64;  // longer ones are no typing mistake
  if (name.empty() || name.size() > kNameBytesMax) return "";
  std::string nearest;
  // A third of the letters may be wrong; else the name may be the beginning of one.
  size_t best = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(name, candidate);
    if (distance >= best) continue;
    best = distance;
    nearest = candidate;
  }
  if (!nearest.empty()) return nearest;
  for (const std::string& candidate : candidates) {
    const auto ends = std::mismatch(name.begin(), name.end(), candidate.begin(), candidate.end());
    const auto common = static_cast<size_t>(ends.first - name.begin());
    if (common >= std::max<size_t>(4, name.size() - name.size() / 3)) return candidate;
  }
  return nearest;
}

// The end of a message that says so.
inline std::string DidYouMean(const std::string& nearest) {
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace histogram

#endif  // HISTOGRAM_FORMS_NEAREST_H_
