#include "server/metrics/text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace histogram::server {

std::string MetricsText(const std::vector<const prometheus::Collectable*>& collectables) {
  std::ostringstream out;
  for (const prometheus::Collectable* collectable : collectables) {
    prometheus::TextSerializer().Serialize(out, collectable->Collect());
  }
  return out.str();
}

}  // namespace histogram::server
