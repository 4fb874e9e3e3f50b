// Channel: a queue of the C API whose completions end asyncio futures.
//
// It belongs to one event loop, and knows nothing of loops: saqiya/_port.py and _green.py decide
// when to call process(). The queue's user_data is the future itself, of which the queue owns one
// reference from submit until the completion is drained or the request cancelled; 0: nobody waits.
// Its lowest bit, which no address has, tells that the Decision has been made already, in
// `prepared`.
#ifndef SAQIYA_PYTHON_CHANNEL_H
#define SAQIYA_PYTHON_CHANNEL_H

#include <Python.h>

#include "saqiya/saqiya.h"
#include "spending.h"
#include "state.h"

namespace saqiya::python {

struct ChannelObject {
  PyObject_HEAD saqiya_queue* queue;  // owned; null until __init__ has run and after close()
  ModuleState* state;
  PyObject* owner;      // the Store, whose handle this is:
  saqiya_store* store;  // the queue keeps only what is behind it alive
  // Decisions whose future had been cancelled when they came: future -> Decision, until cancel()
  // asks for them, so that they can be given back.
  PyObject* orphans;
  // Of requests of several rules: future -> the Decision whose parts the queue writes to, until the
  // request has completed or was cancelled.
  PyObject* prepared;
  Spendings* spendings;  // owned; of the futures of refunds, settlements and releases
};

extern PyType_Spec channel_spec;

}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_CHANNEL_H
