// What a store has to tell an operator goes to Python's logging, after the call that brought it up.
#ifndef SAQIYA_PYTHON_EVENTS_H
#define SAQIYA_PYTHON_EVENTS_H

#include <Python.h>

#include "saqiya/saqiya.h"

namespace saqiya::python {

void log_waiting_events(saqiya_store* store);

// Not with an exception set; sets none. Costs a load where there is nothing to tell.
inline void log_events(saqiya_store* store) {
  if (saqiya_store_has_event(store) != 0) [[unlikely]]
    log_waiting_events(store);
}

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_EVENTS_H
