/* The types Val, Scalar and TensorView, and the parts of a fusion that are not
 * values: Expr, IterDomain, TensorDomain.
 *
 * None of them can be part of a reference cycle: a part owns its fusion, which
 * owns no Python object. So they have no support for the cycle collector. */
#include "extension.h"

#include <string.h>

PyTypeObject *statement_type, *val_type, *scalar_type, *tensor_view_type, *expr_type, *iter_domain_type, *tensor_domain_type;

int is_val(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  return type == tensor_view_type || type == scalar_type;
}

PyObject *wrap_part(PyTypeObject *type, FusionObject *fusion, uint32_t id) {
  PartObject *part = PyObject_New(PartObject, type);
  if (!part) return NULL;
  Py_INCREF((PyObject *)fusion);
  part->fusion = fusion;
  part->id = id;
  return (PyObject *)part;
}

void part_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_DECREF((PyObject *)((PartObject *)self)->fusion);
  PyObject_Free(self);
  Py_DECREF(type);
}

static void val_dealloc(PyObject *self) {
  PartObject *val = (PartObject *)self;
  val->fusion->wrappers[val->id] = NULL;
  part_dealloc(self);
}

static int reserve(FusionObject *fusion, uint32_t id) {
  if (id < fusion->capacity) return 0;
  size_t capacity = 2 * (size_t)id + 16;
  PyObject **wrappers = PyMem_Realloc(fusion->wrappers, capacity * sizeof *wrappers);
  if (!wrappers) return PyErr_NoMemory(), -1;
  memset(wrappers + fusion->capacity, 0, (capacity - fusion->capacity) * sizeof *wrappers);
  fusion->wrappers = wrappers;
  fusion->capacity = capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
  return 0;
}

PyObject *wrap_value(FusionObject *fusion, const nvf_value *value) {
  if (value->kind == NVF_KIND_NONE) Py_RETURN_NONE;
  if (reserve(fusion, value->id)) return NULL;
  PyObject *known = fusion->wrappers[value->id];
  if (known) {
    Py_INCREF(known);
    return known;
  }
  PyObject *made = wrap_part(value->kind == NVF_KIND_TENSOR ? tensor_view_type : scalar_type, fusion, value->id);
  if (made) fusion->wrappers[value->id] = made;
  return made;
}

PyObject *list_of(FusionObject *fusion, int what, uint32_t id, PyTypeObject *type) {
  nvf_error error = {0};
  nvf_value *items = NULL;
  int64_t count = 0;
  if (!alive() || !check(nvfi_list(fusion->handle, what, id, &items, &count, &error), &error)) return NULL;
  PyObject *list = PyList_New(count);
  for (int64_t i = 0; list && i < count; i++) {
    PyObject *item = type ? wrap_part(type, fusion, (uint32_t)items[i].integer) : wrap_value(fusion, &items[i]);
    if (!item || PyList_SetItem(list, i, item)) Py_CLEAR(list);
  }
  nvf_free(items);
  return list;
}

PyObject *text_of(FusionObject *fusion, int what, uint32_t id, const char *name) {
  nvf_error error = {0};
  char *text = NULL;
  if (!alive() || !check(nvfi_text(fusion->handle, what, id, name, &text, &error), &error)) return NULL;
  PyObject *result = PyUnicode_FromString(text);
  nvf_free(text);
  return result;
}

int fact_of(FusionObject *fusion, int what, uint32_t id, int64_t *fact) {
  nvf_error error = {0};
  return alive() && check(nvfi_fact(fusion->handle, what, id, fact, &error), &error);
}

/* ---- Attributes of all values ---- */

#define PART ((PartObject *)self)
#define IGNORED PyObject *Py_UNUSED(ignored)

static PyObject *truth_of(PyObject *self, int what) {
  int64_t fact;
  return fact_of(PART->fusion, what, PART->id, &fact) ? PyBool_FromLong(fact != 0) : NULL;
}

static PyObject *val_text(PyObject *self) { return text_of(PART->fusion, NVFI_VAL, PART->id, NULL); }
static PyObject *val_is_symbolic(PyObject *self, IGNORED) { return truth_of(self, NVFI_IS_SYMBOLIC); }
static PyObject *val_is_tensor(PyObject *self, IGNORED) { return PyBool_FromLong(Py_TYPE(self) == tensor_view_type); }

static PyObject *val_dtype(PyObject *self, IGNORED) {
  int64_t dtype;
  return fact_of(PART->fusion, NVFI_DTYPE, PART->id, &dtype) ? dtype_member(dtype) : NULL;
}

static PyObject *val_definition(PyObject *self, IGNORED) {
  PyObject *list = list_of(PART->fusion, NVFI_VAL_DEF, PART->id, expr_type);
  if (!list) return NULL;
  PyObject *result = PyList_Size(list) > 0 ? PyList_GetItem(list, 0) : Py_None;
  Py_INCREF(result);
  Py_DECREF(list);
  return result;
}

static PyObject *val_uses(PyObject *self, IGNORED) { return list_of(PART->fusion, NVFI_VAL_USES, PART->id, expr_type); }

static PyObject *val_fusion(PyObject *self, void *closure) {
  (void)closure;
  Py_INCREF((PyObject *)PART->fusion);
  return (PyObject *)PART->fusion;
}

/* The hash of the identity: a value has one object. The low bits of an address
 * say nothing. */
static Py_hash_t val_hash(PyObject *self) { return (Py_hash_t)((uintptr_t)self >> 4); }

static int val_bool(PyObject *self) {
  int64_t truth;
  if (!fact_of(PART->fusion, NVFI_TRUTH, PART->id, &truth)) return -1;
  if (truth >= 0) return truth != 0;
  PyObject *text = val_text(self);
  if (!text) return -1;
  PyErr_Format(invalid_type ? invalid_type : PyExc_TypeError,
               "bool(): %U has no truth value while the fusion is being defined, as its elements are known only when it "
               "runs; choose with ops.where(condition, x, y), combine with ops.logical_and and logical_or, and compare "
               "identity with `is`",
               text);
  Py_DECREF(text);
  return -1;
}

static PyMethodDef val_methods[] = {
    {"is_symbolic", val_is_symbolic, METH_NOARGS, PyDoc_STR("is_symbolic() -> bool\n\nWhether the value is known only when the fusion runs.")},
    {"is_tensor", val_is_tensor, METH_NOARGS, PyDoc_STR("is_tensor() -> bool\n\nWhether this is a TensorView.")},
    {"dtype", val_dtype, METH_NOARGS, PyDoc_STR("dtype() -> DataType\n\nThe type of the value or of the tensor's elements.")},
    {"definition", val_definition, METH_NOARGS,
     PyDoc_STR("definition() -> Expr | None\n\nThe expression that makes a tensor; None for inputs and scalars.")},
    {"uses", val_uses, METH_NOARGS, PyDoc_STR("uses() -> list[Expr]\n\nThe expressions that read the value, in order of definition.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef val_attributes[] = {
    {"fusion", val_fusion, NULL, PyDoc_STR("The Fusion that the value belongs to."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- TensorView ---- */

static PyObject *tensor_ndim(PyObject *self, void *closure) {
  (void)closure;
  int64_t rank;
  return fact_of(PART->fusion, NVFI_RANK, PART->id, &rank) ? PyLong_FromLongLong(rank) : NULL;
}

/* Calls the operation called name on the tensor and the arguments. */
static PyObject *tensor_query(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t nargs) {
  PyObject *operands[2] = {self, nargs ? args[0] : NULL};
  if (!alive()) return NULL;
  int32_t op = nvf_op(name);
  if (op < 0) return PyErr_Format(PyExc_NotImplementedError, "there is no operation %s", name);
  return call_operation(op, name, operands, nargs + 1, NULL);
}

static PyObject *tensor_size(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return check_count("size", nargs, 1, 1) ? tensor_query(self, "size", args, 1) : NULL;
}

static PyObject *tensor_shape(PyObject *self, IGNORED) { return tensor_query(self, "shape", NULL, 0); }
static PyObject *tensor_has_root(PyObject *self, IGNORED) { return truth_of(self, NVFI_HAS_ROOT); }
static PyObject *tensor_domain(PyObject *self, IGNORED) { return wrap_part(tensor_domain_type, PART->fusion, PART->id); }

static PyObject *tensor_logical(PyObject *self, IGNORED) {
  return list_of(PART->fusion, NVFI_VAL_LOGICAL, PART->id, iter_domain_type);
}

static PyObject *tensor_loop(PyObject *self, IGNORED) { return list_of(PART->fusion, NVFI_VAL_LOOP, PART->id, iter_domain_type); }
static PyObject *tensor_root(PyObject *self, IGNORED) { return list_of(PART->fusion, NVFI_VAL_ROOT, PART->id, iter_domain_type); }

/* Item i of list, which is released; negative i counts from the end. */
static PyObject *item_of(PyObject *list, PyObject *const *args, Py_ssize_t nargs, const char *function) {
  int64_t i;
  if (!list) return NULL;
  PyObject *result = NULL;
  if (check_count(function, nargs, 1, 1) && !as_int64(args[0], function, "index", &i)) {
    Py_ssize_t n = PyList_Size(list);
    if (i < -n || i >= n)
      PyErr_Format(invalid_argument ? invalid_argument : PyExc_IndexError, "%s(): index is %lld, and there are %zd", function,
                   (long long)i, n);
    else
      result = PyList_GetItem(list, i < 0 ? i + n : i);
  }
  Py_XINCREF(result);
  Py_DECREF(list);
  return result;
}

static PyObject *tensor_axis(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return item_of(tensor_loop(self, NULL), args, nargs, "axis");
}

static PyMethodDef tensor_methods[] = {
    {"size", FAST(tensor_size), PyDoc_STR("size(dim) -> Scalar\n\nThe size of dimension dim, as ops.size gives it.")},
    {"shape", tensor_shape, METH_NOARGS, PyDoc_STR("shape() -> list[Scalar]\n\nThe sizes of all dimensions.")},
    {"has_root", tensor_has_root, METH_NOARGS,
     PyDoc_STR("has_root() -> bool\n\nWether the logical axes are made from others, as a reshape does.")},
    {"domain", tensor_domain, METH_NOARGS, PyDoc_STR("domain() -> TensorDomain\n\nThe axes of the tensor.")},
    {"get_logical_domain", tensor_logical, METH_NOARGS,
     PyDoc_STR("get_logical_domain() -> list[IterDomain]\n\nThe axes as the user sees them, reduced ones included.")},
    {"get_loop_domain", tensor_loop, METH_NOARGS,
     PyDoc_STR("get_loop_domain() -> list[IterDomain]\n\nThe axes as loops run over them: the logical ones unless scheduled.")},
    {"get_root_domain", tensor_root, METH_NOARGS,
     PyDoc_STR("get_root_domain() -> list[IterDomain]\n\nThe axes as the defining expression makes them.")},
    {"axis", FAST(tensor_axis), PyDoc_STR("axis(i) -> IterDomain\n\nAxis i of the loop domain; negative i counts from the end.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef tensor_attributes[] = {
    {"ndim", tensor_ndim, NULL, PyDoc_STR("The number of dimensions, without reduced axes."), NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- Expr, IterDomain, TensorDomain ---- */

static PyObject *expr_text(PyObject *self) { return text_of(PART->fusion, NVFI_EXPR, PART->id, NULL); }
static PyObject *axis_text(PyObject *self) { return text_of(PART->fusion, NVFI_AXIS, PART->id, NULL); }
static PyObject *domain_text(PyObject *self) { return text_of(PART->fusion, NVFI_DOMAIN, PART->id, NULL); }

static PyObject *expr_input(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return item_of(list_of(PART->fusion, NVFI_EXPR_INPUTS, PART->id, NULL), args, nargs, "input");
}

static PyObject *expr_output(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
  return item_of(list_of(PART->fusion, NVFI_EXPR_OUTPUTS, PART->id, NULL), args, nargs, "output");
}

static PyObject *expr_name(PyObject *self, IGNORED) { return text_of(PART->fusion, NVFI_EXPR_NAME, PART->id, NULL); }

static PyMethodDef expr_methods[] = {
    {"name", expr_name, METH_NOARGS, PyDoc_STR("name() -> str\n\nThe name of the operation, as fd.ops has it.")},
    {"input", FAST(expr_input), PyDoc_STR("input(i) -> Val\n\nOperand i: tensors and scalars in the order of the arguments.")},
    {"output", FAST(expr_output), PyDoc_STR("output(i) -> TensorView\n\nResult i.")},
    {NULL, NULL, 0, NULL},
};

static PyObject *axis_is_reduction(PyObject *self, IGNORED) { return truth_of(self, NVFI_IS_REDUCTION); }

static PyObject *axis_extent(PyObject *self, IGNORED) {
  PyObject *zero = PyLong_FromLong(0);
  if (!zero) return NULL;
  PyObject *extent = item_of(list_of(PART->fusion, NVFI_AXIS_EXTENT, PART->id, NULL), &zero, 1, "extent");
  Py_DECREF(zero);
  return extent;
}

/* What makes the axis, flat: (kind, whether the factor is inner, sources, results, factor), or None. */
static PyObject *axis_transform(PyObject *self, IGNORED) {
  nvf_error error = {0};
  nvf_value *items = NULL;
  int64_t count = 0;
  if (!alive() || !check(nvfi_list(PART->fusion->handle, NVFI_AXIS_DEF, PART->id, &items, &count, &error), &error)) return NULL;
  int64_t kind = count ? items[0].integer : -1, inner = count ? items[1].integer : 0;
  nvf_free(items);
  if (kind < 0) Py_RETURN_NONE;
  PyObject *sources = list_of(PART->fusion, NVFI_AXIS_SOURCES, PART->id, iter_domain_type);
  PyObject *results = sources ? list_of(PART->fusion, NVFI_AXIS_RESULTS, PART->id, iter_domain_type) : NULL;
  PyObject *factor = results ? list_of(PART->fusion, NVFI_AXIS_FACTOR, PART->id, NULL) : NULL;
  PyObject *tuple = factor ? Py_BuildValue("(LLOOO)", (long long)kind, (long long)inner, sources, results, factor) : NULL;
  Py_XDECREF(sources);
  Py_XDECREF(results);
  Py_XDECREF(factor);
  return tuple;
}

static PyMethodDef axis_methods[] = {
    {"_transform", axis_transform, METH_NOARGS, PyDoc_STR("_transform() -> tuple | None\n\nWhat makes the axis.")},
    {"is_reduction", axis_is_reduction, METH_NOARGS, PyDoc_STR("is_reduction() -> bool\n\nWhether the axis is folded by the expression that makes the tensor.")},
    {"extent", axis_extent, METH_NOARGS, PyDoc_STR("extent() -> Scalar\n\nThe number of elements; of an expanded axis the size that it shows.")},
    {NULL, NULL, 0, NULL},
};

/* Parts are compared by what they name: a new object is made at each request. */
static PyObject *part_compare(PyObject *self, PyObject *other, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(self) != Py_TYPE(other)) Py_RETURN_NOTIMPLEMENTED;
  PartObject *a = PART, *b = (PartObject *)other;
  return PyBool_FromLong((a->fusion == b->fusion && a->id == b->id) == (op == Py_EQ));
}

static Py_hash_t part_hash(PyObject *self) {
  return (Py_hash_t)(((uintptr_t)PART->fusion >> 4) * 31 + PART->id) & PY_SSIZE_T_MAX;
}

static PyTypeObject *make_type(PyObject *module, const char *name, unsigned int flags, PyTypeObject *base, PyType_Slot *slots) {
  PyType_Spec spec = {
      .name = name,
      .basicsize = sizeof(PartObject),
      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | flags,
      .slots = slots,
  };
  PyObject *type = PyType_FromSpecWithBases(&spec, (PyObject *)base);
  if (type && PyModule_AddType(module, (PyTypeObject *)type)) Py_CLEAR(type);
  return (PyTypeObject *)type;
}

static PyTypeObject *make_part_type(PyObject *module, const char *name, PyTypeObject *base, reprfunc text, PyMethodDef *methods,
                                    const char *doc) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, part_dealloc}, {Py_tp_repr, text},   {Py_tp_hash, part_hash}, {Py_tp_richcompare, part_compare},
      {Py_tp_methods, methods},      {Py_tp_doc, (void *)doc}, {0, NULL},
  };
  return make_type(module, name, 0, base, slots);
}

int add_part_types(PyObject *module) {
  static PyMethodDef none[] = {{NULL, NULL, 0, NULL}};
  expr_type = make_part_type(module, "nvfuser_go.Expr", statement_type, expr_text, expr_methods, PyDoc_STR("An operation of a fusion."));
  iter_domain_type = make_part_type(module, "nvfuser_go.IterDomain", NULL, axis_text, axis_methods, PyDoc_STR("An axis of a tensor of a fusion."));
  tensor_domain_type = make_part_type(module, "nvfuser_go.TensorDomain", NULL, domain_text, none, PyDoc_STR("The axes of a tensor of a fusion."));
  return expr_type && iter_domain_type && tensor_domain_type ? 0 : -1;
}

int add_val_types(PyObject *module) {
  PyType_Slot slots[64] = {
      {Py_tp_dealloc, val_dealloc},   {Py_tp_repr, val_text},       {Py_tp_hash, val_hash}, {Py_nb_bool, val_bool},
      {Py_tp_methods, val_methods},   {Py_tp_getset, val_attributes},
      {Py_tp_doc, (void *)PyDoc_STR("A value of a fusion: a TensorView or a Scalar.\n\n"
                                    "Operators on values add operations: + - * / % ** & | ^ << >> @ < <= > >=, unary - ~ and\n"
                                    "abs(). x // y rounds down. == and != add operations when the other operand is a value\n"
                                    "or a number; values are hashed by identity.")},
  };
  memcpy(slots + 7, operator_slots, (size_t)num_operator_slots * sizeof *slots);
  PyType_Slot statement_slots[] = {
      {Py_tp_dealloc, part_dealloc}, {Py_tp_doc, (void *)PyDoc_STR("A part of a fusion: a Val or an Expr.")}, {0, NULL}};
  statement_type = make_type(module, "nvfuser_go.Statement", Py_TPFLAGS_BASETYPE, NULL, statement_slots);
  if (!statement_type) return -1;
  val_type = make_type(module, "nvfuser_go.Val", Py_TPFLAGS_BASETYPE, statement_type, slots);
  if (!val_type) return -1;
  /* So that numpy's scalars on the left leave the operator to us. */
  if (PyObject_SetAttrString((PyObject *)val_type, "__array_ufunc__", Py_None)) return -1;
  PyType_Slot scalar_slots[] = {
      {Py_tp_doc, (void *)PyDoc_STR("A scalar of a fusion: a size, an input scalar, a constant, or made from those.")}, {0, NULL}};
  scalar_type = make_type(module, "nvfuser_go.Scalar", 0, val_type, scalar_slots);
  PyType_Slot tensor_slots[] = {
      {Py_tp_methods, tensor_methods},
      {Py_tp_getset, tensor_attributes},
      {Py_tp_doc, (void *)PyDoc_STR("A tensor of a fusion: an input or the result of an operation. It has no elements yet.")},
      {0, NULL}};
  tensor_view_type = make_type(module, "nvfuser_go.TensorView", 0, val_type, tensor_slots);
  return scalar_type && tensor_view_type ? 0 : -1;
}
