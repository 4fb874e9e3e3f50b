#include "core/memory_store.h"
#include "core/store.h"

namespace saqiya {

std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options,
                                  std::string* error) {
  if (url == "memory://") return make_memory_store(options);
  *error = "expected memory://";
  return nullptr;
}

}  // namespace saqiya
