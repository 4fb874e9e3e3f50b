// The queue of a store that decides at once: what is submitted is complete.
#pragma once

#include <memory>

#include "core/store.h"

namespace saqiya {

std::unique_ptr<Queue> open_local_queue(std::shared_ptr<Store> store, const QueueOptions& options);

}  // namespace saqiya
