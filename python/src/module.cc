// The module _saqiya. Limiter, Decision and Channel are raw types, for speed; Clock and Store are
// pybind11 classes over saqiya.hpp. The package saqiya names, validates and documents; this layer
// is positional.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "channel.h"
#include "decision.h"
#include "group.h"
#include "limiter.h"
#include "saqiya/saqiya.hpp"
#include "state.h"

namespace py = pybind11;

namespace saqiya::python {
namespace {

using api::Clock;
using api::Micros;
using api::Store;
using api::StoreOptions;

std::unique_ptr<Store> open_store(const std::string& url, const Clock* clock,
                                  std::uint64_t max_keys, std::int64_t deadline_us,
                                  const std::optional<std::string>& prefix,
                                  const std::optional<py::bytes>& secret, std::uint32_t connections,
                                  bool hash_subjects, bool testing) {
  if (url.find('\0') != std::string::npos || (prefix && prefix->find('\0') != std::string::npos)) {
    throw py::value_error("url and prefix must not hold a zero character");
  }
  StoreOptions options;
  options.clock = clock == nullptr ? nullptr : clock->get();
  options.max_keys = max_keys;
  options.deadline_us = deadline_us;
  options.prefix = prefix ? prefix->c_str() : nullptr;
  const std::string secret_bytes = secret ? std::string(*secret) : std::string();
  options.secret = secret ? secret_bytes.data() : nullptr;
  options.secret_len = secret_bytes.size();
  options.connections = connections;
  if (hash_subjects) options.flags |= SAQIYA_STORE_HASH_SUBJECTS;
  if (testing) options.flags |= SAQIYA_STORE_TESTING;
  return std::make_unique<Store>(url, options);
}

py::dict stats_of(const Store& store) {
  const saqiya_store_stats stats = store.stats();
  py::dict dict;
  dict["keys"] = stats.keys;
  dict["bytes"] = stats.bytes;
  dict["evictions"] = stats.evictions;
  dict["requests"] = stats.requests;
  dict["batches"] = stats.batches;
  dict["connects"] = stats.connects;
  dict["failures"] = stats.failures;
  dict["allowed"] = stats.allowed;
  dict["denied"] = stats.denied;
  dict["cached"] = stats.cached;
  dict["local_allowed"] = stats.local_allowed;
  dict["local_denied"] = stats.local_denied;
  dict["opened"] = stats.opened;
  dict["closed"] = stats.closed;
  dict["outages"] = stats.outages;
  dict["degraded"] = stats.degraded != 0;
  py::tuple latency(std::size(stats.latency));
  for (std::size_t i = 0; i < latency.size(); ++i) latency[i] = stats.latency[i];
  dict["latency"] = latency;
  return dict;
}

// type itself, as the stubs say, instead of pybind11's own metaclass.
py::metaclass plain_metaclass() {
  return py::metaclass(py::handle(reinterpret_cast<PyObject*>(&PyType_Type)));
}

void add_clock(py::module_& module) {
  py::class_<Clock>(module, "Clock", "A manual clock, in whole microseconds.", plain_metaclass(),
                    py::is_final())
      .def(py::init([](std::int64_t now_us) { return Clock(Micros{now_us}); }),
           py::arg("now_us") = 0)
      .def(
          "set", [](Clock& clock, std::int64_t now_us) { clock.set(Micros{now_us}); },
          py::arg("now_us"))
      .def(
          "set_wall", [](Clock& clock, std::int64_t wall_us) { clock.set_wall(Micros{wall_us}); },
          py::arg("wall_us"))
      .def(
          "advance", [](Clock& clock, std::int64_t by_us) { clock.advance(Micros{by_us}); },
          py::arg("by_us"))
      .def_property_readonly("now_us", [](const Clock& clock) { return clock.now().count(); })
      .def_property_readonly("wall_us", [](const Clock& clock) { return clock.wall().count(); });
}

void add_store(py::module_& module) {
  py::class_<Store>(module, "Store", "Where state lives. Opening one makes no connection.",
                    plain_metaclass(), py::is_final())
      .def(py::init(&open_store), py::arg("url"), py::arg("clock") = py::none(),
           py::arg("max_keys") = 0, py::arg("deadline_us") = 0, py::arg("prefix") = py::none(),
           py::arg("secret") = py::none(), py::arg("connections") = 0,
           py::arg("hash_subjects") = false, py::arg("testing") = false)
      .def_property_readonly("is_local", &Store::is_local)
      .def("stats", &stats_of);
}

py::object make_error_type() {
  py::dict attributes;
  attributes["code"] = "invalid";
  attributes["position"] = py::none();
  PyObject* type = PyErr_NewExceptionWithDoc(
      "saqiya.SaqiyaError",
      "A call that can never work: a bad policy, URL or argument.\n\n"
      "code: a short name that stays (\"bad_policy\", \"bad_url\", \"invalid\", ...).\n"
      "position: byte offset in the text that was read, or None.\n"
      "Never raised because a store failed: see Decision.reason.",
      PyExc_ValueError, attributes.ptr());
  if (type == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(type);
}

// The names that decisions and errors give out; being interned already makes them cheap to get.
py::list intern_names() {
  py::list names;
  const auto add = [&names](const char* name) {
    PyObject* text = PyUnicode_InternFromString(name);
    if (text == nullptr) throw py::error_already_set();
    names.append(py::reinterpret_steal<py::object>(text));
  };
  for (int i = SAQIYA_NONE; i <= SAQIYA_UNAVAILABLE; ++i) add(saqiya_outcome_name(i));
  for (int i = SAQIYA_REASON_NONE; i <= SAQIYA_REASON_CANCELLED; ++i) add(saqiya_reason_name(i));
  for (int i = SAQIYA_SOURCE_STORE; i <= SAQIYA_SOURCE_CLOSED; ++i) add(saqiya_source_name(i));
  for (int i = SAQIYA_OK; i <= SAQIYA_INTERNAL; ++i) add(saqiya_status_name(i));
  return names;
}

// Owned by a capsule that the raw types share; the references inside are never given back, since
// the types live as long as the interpreter.
ModuleState* make_state(py::module_& module, const py::object& error_type) {
  auto state = std::make_unique<ModuleState>();
  state->error_type = error_type.inc_ref().ptr();
  state->set_result_name = PyUnicode_InternFromString("set_result");
  state->asyncio_name = PyUnicode_InternFromString("asyncio");
  state->gevent_name = PyUnicode_InternFromString("gevent.monkey");
  state->eventlet_name = PyUnicode_InternFromString("eventlet.patcher");
  if (state->set_result_name == nullptr || state->asyncio_name == nullptr ||
      state->gevent_name == nullptr || state->eventlet_name == nullptr) {
    throw py::error_already_set();
  }
  state->interned_names = intern_names().release().ptr();
  py::capsule capsule(state.get(), kStateCapsule, [](PyObject* owner) {
    delete static_cast<ModuleState*>(PyCapsule_GetPointer(owner, kStateCapsule));
  });
  ModuleState* raw = state.release();
  raw->decision_type = add_type(module.ptr(), &decision_spec, capsule.ptr());
  if (raw->decision_type == nullptr) throw py::error_already_set();
  raw->limiter_type = add_type(module.ptr(), &limiter_spec, capsule.ptr());
  if (raw->limiter_type == nullptr) throw py::error_already_set();
  raw->channel_type = add_type(module.ptr(), &channel_spec, capsule.ptr());
  if (raw->channel_type == nullptr) throw py::error_already_set();
  if (!add_group_functions(module.ptr(), capsule.ptr())) throw py::error_already_set();
  return raw;
}

void add_names(py::module_& module, ModuleState* state) {
  module.attr("SaqiyaError") = py::handle(state->error_type);
  module.attr("__version__") = saqiya_version();
  module.attr("OP_CHECK") = static_cast<int>(SAQIYA_OP_CHECK);
  module.attr("OP_PEEK") = static_cast<int>(SAQIYA_OP_PEEK);
  module.attr("OP_RESET") = static_cast<int>(SAQIYA_OP_RESET);
  module.attr("NO_WAIT") = static_cast<long long>(SAQIYA_NO_WAIT);
  module.attr("MAX_COST") = static_cast<long long>(SAQIYA_MAX_COST);
}

}  // namespace
}  // namespace saqiya::python

PYBIND11_MODULE(saqiya_module, module, py::mod_gil_not_used(),
                py::multiple_interpreters::per_interpreter_gil()) {
  using namespace saqiya::python;
  module.doc() = "The native half of saqiya. Use the package saqiya instead.";
  ModuleState* state = make_state(module, make_error_type());
  add_names(module, state);
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const saqiya::api::Error& error) {
      py::object module_now = py::module_::import("saqiya._saqiya");
      PyObject* type = module_now.attr("Limiter").ptr();
      raise_error(state_of(reinterpret_cast<PyTypeObject*>(type)), error.code(), error.position(),
                  error.what());
    }
  });
  add_clock(module);
  add_store(module);
}

// The entry point, in front of pybind11's: before Python 3.12 pybind11 waits for ever when a
// subinterpreter imports a module, so there the import fails instead.
extern "C" PYBIND11_EXPORT PyObject* PyInit__saqiya() {
#if PY_VERSION_HEX < 0x030C0000
  if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
    PyErr_SetString(PyExc_ImportError, "saqiya works in subinterpreters from Python 3.12 on");
    return nullptr;
  }
#endif
  return PyInit_saqiya_module();
}
