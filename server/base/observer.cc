#include "server/base/observer.h"

namespace histogram::server {

Observer& Observer::None() {
  static Observer none;
  return none;
}

}  // namespace histogram::server
