/* The operators of Val. Each is an operation of the table, found by name. */
#include "extension.h"

#define OPERATORS(X) \
  X(add) X(sub) X(mul) X(truediv) X(remainder) X(pow) X(matmul) X(bitwise_and) X(bitwise_or) X(bitwise_xor) \
  X(bitwise_left_shift) X(bitwise_right_shift) X(neg) X(abs) X(bitwise_not) X(eq) X(ne) X(lt) X(le) X(gt) X(ge)

#define NUMBER(name) OP_##name,
enum { OPERATORS(NUMBER) NUM_OPERATORS };
#define NAME(name) #name,
static const char *const names[] = {OPERATORS(NAME)};
static int32_t numbers[NUM_OPERATORS]; /* of the operation; -1: there is none */

void find_operators(void) {
  for (int i = 0; i < NUM_OPERATORS; i++) numbers[i] = nvf_op(names[i]);
}

static PyObject *apply(int operator, PyObject *x, PyObject *y) {
  PyObject *operands[] = {x, y};
  if (numbers[operator] < 0) Py_RETURN_NOTIMPLEMENTED;
  return alive() ? call_operation(numbers[operator], names[operator], operands, y ? 2 : 1, NULL) : NULL;
}

/* Whether to leave the operator to the class of the other operand. What can
 * never be an operand is not left to it: the operation says what is wrong. */
static int leave(PyObject *x, PyObject *y) {
  PyObject *other = is_val(x) ? y : x;
  return !is_operand(other) && !is_never_operand(other);
}

static PyObject *binary(int operator, PyObject *x, PyObject *y) {
  if (leave(x, y)) Py_RETURN_NOTIMPLEMENTED;
  return apply(operator, x, y);
}

#define BINARY(name) \
  static PyObject *operator_##name(PyObject *x, PyObject *y) { return binary(OP_##name, x, y); }
#define UNARY(name) \
  static PyObject *operator_##name(PyObject *x) { return apply(OP_##name, x, NULL); }

BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(truediv)
BINARY(remainder)
BINARY(matmul)
BINARY(bitwise_and)
BINARY(bitwise_or)
BINARY(bitwise_xor)
BINARY(bitwise_left_shift)
BINARY(bitwise_right_shift)
UNARY(neg)
UNARY(abs)
UNARY(bitwise_not)

static PyObject *operator_floordiv(PyObject *x, PyObject *y) {
  if (leave(x, y)) Py_RETURN_NOTIMPLEMENTED;
  return floor_divide(x, y);
}

static PyObject *operator_pow(PyObject *x, PyObject *y, PyObject *modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary(OP_pow, x, y);
}

static PyObject *operator_positive(PyObject *x) {
  Py_INCREF(x);
  return x;
}

static PyObject *compare(PyObject *x, PyObject *y, int op) {
  static const int comparisons[] = {
      [Py_LT] = OP_lt, [Py_LE] = OP_le, [Py_EQ] = OP_eq, [Py_NE] = OP_ne, [Py_GT] = OP_gt, [Py_GE] = OP_ge,
  };
  /* == with anything else is false, as everywhere in Python. */
  if ((op == Py_EQ || op == Py_NE) && !is_operand(y) && !foreign_advice(y)) Py_RETURN_NOTIMPLEMENTED;
  /* A complete fusion has no new operations: there it asks for the same value, as `in` and sets do. */
  if ((op == Py_EQ || op == Py_NE) && is_val(x) && is_val(y)) {
    PartObject *a = (PartObject *)x, *b = (PartObject *)y;
    int64_t is_complete;
    if (!fact_of(a->fusion, NVFI_FROZEN, 0, &is_complete)) return NULL;
    if (is_complete) return PyBool_FromLong((a->fusion == b->fusion && a->id == b->id) == (op == Py_EQ));
  }
  return binary(comparisons[op], x, y);
}

PyType_Slot operator_slots[] = {
    {Py_nb_add, operator_add},
    {Py_nb_subtract, operator_sub},
    {Py_nb_multiply, operator_mul},
    {Py_nb_true_divide, operator_truediv},
    {Py_nb_floor_divide, operator_floordiv},
    {Py_nb_remainder, operator_remainder},
    {Py_nb_power, operator_pow},
    {Py_nb_matrix_multiply, operator_matmul},
    {Py_nb_and, operator_bitwise_and},
    {Py_nb_or, operator_bitwise_or},
    {Py_nb_xor, operator_bitwise_xor},
    {Py_nb_lshift, operator_bitwise_left_shift},
    {Py_nb_rshift, operator_bitwise_right_shift},
    {Py_nb_negative, operator_neg},
    {Py_nb_positive, operator_positive},
    {Py_nb_absolute, operator_abs},
    {Py_nb_invert, operator_bitwise_not},
    {Py_tp_richcompare, compare},
};
const int num_operator_slots = sizeof operator_slots / sizeof *operator_slots;
