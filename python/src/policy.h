// Policies as the package passes them to the native Limiter.
#ifndef SAQIYA_PYTHON_POLICY_H
#define SAQIYA_PYTHON_POLICY_H

#include <Python.h>

#include "saqiya/saqiya.h"
#include "state.h"

namespace saqiya::python {

// policy: str, or a tuple of rules, each a tuple of the members of saqiya_rule but for its size:
// (algorithm, capacity, tokens, period_us, queue, unit, anchor_day, zone). Null with an exception
// set.
saqiya_limiter* make_limiter(ModuleState* state, saqiya_store* store, PyObject* policy,
                             const saqiya_limiter_options& options);

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_POLICY_H
