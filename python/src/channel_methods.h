// The methods of Channel. They raise RuntimeError when it is closed, or was not initialised.
#ifndef SAQIYA_PYTHON_CHANNEL_METHODS_H
#define SAQIYA_PYTHON_CHANNEL_METHODS_H

#include <Python.h>

#include "channel.h"

namespace saqiya::python {

// Drops every request and closes the sockets; nobody is told. May be called again.
void shut(ChannelObject* self);

namespace channel {

using Method = PyObject*(PyObject* object, PyObject* const* args, Py_ssize_t count);

Method submit, submit_all, refund, refund_all, settle, release, renew;
PyObject* process(PyObject* object, PyObject* none);
PyObject* cancel(PyObject* object, PyObject* future);
PyObject* close(PyObject* object, PyObject* none);
PyObject* fileno(PyObject* object, PyObject* none);

}  // namespace channel
}  // namespace saqiya::python

#endif  // SAQIYA_PYTHON_CHANNEL_METHODS_H
