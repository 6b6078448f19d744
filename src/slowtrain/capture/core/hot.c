/* The quick way past the wrappers, and where spans are kept until they are written.

A wrapper in Python costs a step what it touches: after a step the caches are empty, and each object, each bytecode and
each table that it needs comes from memory. A `Front` stands before a wrapper. In a steady step it does what the wrapper
would do, by itself; whenever anything is out of the ordinary (another thread, another line, a trace, a result that is
wanted, a look that is due) it hands the call on, before it has changed anything. So what is recorded is said in one
place, in Python; and where this file was not compiled, nothing is missing but speed (fronts.py).

It reads and writes the slots of the wrappers' own objects (state.py), whose places are asked for once, in `bind`.
Needs the interpreter's lock, as everything here does. Linux only: the clock is that of `time.perf_counter_ns` there. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>

#define FIELDS 5
#define FIRST_ROOM 1024
#define KEPT_ROOM 65536 /* rows whose memory is kept from one writing to the next */
#define KERAS (-2)      /* state.KERAS */

/* -- rows */

static inline int64_t
clock_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

/* Whether `found` is an integer of 64 bits. Raises nothing: an error of the script's may be on its way. */
static int
whole(PyObject *found, int64_t *number)
{
    int overflow = 1;
    if (found != NULL && PyLong_Check(found))
        *number = PyLong_AsLongLongAndOverflow(found, &overflow);
    return !overflow;
}

#define GENERATIONS 3

typedef struct {
    PyObject_HEAD
    int64_t *data;
    Py_ssize_t used, room, bad;
    int64_t generations[GENERATIONS], collecting; /* names of garbage collections; when the one going on began */
} Rows;

static void
push(Rows *rows, int64_t name, int64_t start, int64_t end, int64_t thread, int64_t value)
{
    if (rows->used == rows->room) {
        Py_ssize_t room = rows->room ? 2 * rows->room : FIRST_ROOM;
        int64_t *data = PyMem_Realloc(rows->data, room * FIELDS * sizeof(int64_t));
        if (data == NULL)
            return; /* no memory: the script has other troubles than a span less */
        rows->data = data;
        rows->room = room;
    }
    int64_t *row = rows->data + FIELDS * rows->used++;
    row[0] = name;
    row[1] = start;
    row[2] = end;
    row[3] = thread;
    row[4] = value;
}

/* Never raises: it is called in the script's own threads. `take` tells. */
static PyObject *
rows_emit(Rows *rows, PyObject *given)
{
    int64_t row[FIELDS];
    if (!PyTuple_CheckExact(given) || PyTuple_GET_SIZE(given) != FIELDS)
        goto bad;
    for (int i = 0; i < FIELDS; i++)
        if (!whole(PyTuple_GET_ITEM(given, i), &row[i]))
            goto bad;
    push(rows, row[0], row[1], row[2], row[3], row[4]);
    Py_RETURN_NONE;
bad:
    rows->bad++;
    Py_RETURN_NONE;
}

static PyObject *
rows_take(Rows *rows, PyObject *Py_UNUSED(nothing))
{
    if (rows->bad) {
        PyErr_Format(PyExc_ValueError, "%zd of %zd spans are not %d integers of 64 bits", rows->bad,
                     rows->bad + rows->used, FIELDS);
        rows->bad = 0;
        return NULL;
    }
    PyObject *taken = PyBytes_FromStringAndSize((char *)rows->data, rows->used * FIELDS * sizeof(int64_t));
    if (taken != NULL) {
        rows->used = 0;
        if (rows->room > KEPT_ROOM) {
            PyMem_Free(rows->data);
            rows->data = NULL;
            rows->room = 0;
        }
    }
    return taken;
}

static Py_ssize_t
rows_length(Rows *rows)
{
    return rows->used;
}

static void
rows_dealloc(Rows *rows)
{
    PyMem_Free(rows->data);
    Py_TYPE(rows)->tp_free((PyObject *)rows);
}

/* A callback of the collector's. It has no frame: collections come anywhere, and a script may trace its own frames. */
static PyObject *
rows_collected(Rows *rows, PyObject *const *args, Py_ssize_t count)
{
    int64_t generation = -1, collected = 0;
    if (count != 2 || !PyUnicode_Check(args[0]) || !PyDict_Check(args[1]))
        Py_RETURN_NONE;
    if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
        rows->collecting = clock_ns();
        Py_RETURN_NONE;
    }
    whole(PyDict_GetItemString(args[1], "generation"), &generation);
    whole(PyDict_GetItemString(args[1], "collected"), &collected);
    if (generation >= 0 && generation < GENERATIONS)
        push(rows, rows->generations[generation], rows->collecting, clock_ns(), (int64_t)PyThread_get_thread_ident(),
             collected);
    Py_RETURN_NONE;
}

static PyObject *
rows_collector(Rows *rows, PyObject *names)
{
    int64_t *into = rows->generations;
    if (!PyArg_ParseTuple(names, "LLL", &into[0], &into[1], &into[2]))
        return NULL;
    return PyObject_GetAttrString((PyObject *)rows, "_collected");
}

static PyMethodDef rows_methods[] = {
    {"_collected", (PyCFunction)(void (*)(void))rows_collected, METH_FASTCALL, "For gc.callbacks."},
    {"collector", (PyCFunction)rows_collector, METH_VARARGS,
     "For gc.callbacks: a row for each collection, with what it freed. Given the names of the three generations."},
    {"emit", (PyCFunction)rows_emit, METH_O, "Adds (name, start_ns, end_ns, thread, value)."},
    {"take", (PyCFunction)rows_take, METH_NOARGS, "All rows so far, packed; they are gone from here. Raises ValueError."},
    {NULL},
};

static PySequenceMethods rows_sequence = {.sq_length = (lenfunc)rows_length};

static PyTypeObject RowsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "slowtrain.capture.core.hot.Rows",
    .tp_basicsize = sizeof(Rows),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_dealloc = (destructor)rows_dealloc,
    .tp_methods = rows_methods,
    .tp_as_sequence = &rows_sequence,
};

/* -- slots of the wrappers' objects */

static PyTypeObject *flags_type, *known_type, *progress_type, *read_type;
static struct { Py_ssize_t busy, left, loops, steps, traces, name, code, at; } flags;
static struct { Py_ssize_t left, kind, name, size, code, at; } known_of;
static struct { Py_ssize_t steps, kind, wanted, boundary; } progress_of;
static struct { Py_ssize_t name, code, at, asker, asker_at, in_loops; } read_of;
static PyObject *zero, *one, *text_known, *text_number;

#define SLOT(object, offset) (*(PyObject **)((char *)(object) + (offset)))

static int
number_at(PyObject *object, Py_ssize_t offset, int64_t *number)
{
    return whole(SLOT(object, offset), number);
}

static void
put(PyObject *object, Py_ssize_t offset, PyObject *stolen)
{
    if (stolen == NULL) { /* no memory: the script's function is not to be called with an error on its way */
        PyErr_Clear();
        return;
    }
    PyObject *before = SLOT(object, offset);
    SLOT(object, offset) = stolen;
    Py_XDECREF(before);
}

static void
add(PyObject *object, Py_ssize_t offset, int64_t count)
{
    int64_t before;
    if (number_at(object, offset, &before))
        put(object, offset, PyLong_FromLongLong(before + count));
}

/* -- fronts */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *original, *wrapper; /* what was replaced, and what replaces it */
    PyObject *after;              /* told of what is rare, once the call has been made; or None */
    PyObject *main, *progress;    /* Flags of the main thread; Progress or None */
    PyObject *names;              /* of a step its Known, of readbacks a tuple of Reads, of hooks names by class */
    Rows *rows;
    /* What is known of the object that was called last: looked up in its dictionary, it costs as much as the rest. */
    PyObject *last, *known;
    PyTypeObject *kind; /* of the last hook's owner */
    int64_t kind_name;
    unsigned long thread;
    PyObject *dict, *weak;
} Front;

/* An error of the script's that is on its way, while something of ours might raise another. */
typedef struct { PyObject *type, *value, *trace; } Error;

static Error
set_aside(void)
{
    Error error;
    PyErr_Fetch(&error.type, &error.value, &error.trace);
    return error;
}

static PyObject *
put_back(Error error, PyObject *result)
{
    PyErr_Restore(error.type, error.value, error.trace);
    return result;
}

/* The same once `after` has run, and with it what waited for Python to run: what a signal's handler of the script's
raises there is let out, in place of the result, as a wrapper's `guard` lets it out. */
static PyObject *
let_out(Error error, PyObject *result)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        return put_back(error, result);
    }
    Py_XDECREF(error.type);
    Py_XDECREF(error.value);
    Py_XDECREF(error.trace);
    Py_XDECREF(result);
    return NULL;
}

#define HAND_ON(to) PyObject_Vectorcall((to), args, nargsf, names)
#define IN_MAIN(front) (PyThread_get_thread_ident() == (front)->thread)

/* Whether a frame is at the instruction that two slots of `object` say. */
static int
stands_at(PyFrameObject *frame, PyObject *object, Py_ssize_t code_offset, Py_ssize_t at_offset)
{
    PyObject *code = SLOT(object, code_offset), *at = SLOT(object, at_offset);
    if (frame == NULL || code == NULL || at == NULL || !PyLong_CheckExact(at))
        return 0;
#if PY_VERSION_HEX < 0x030B0000
    int same = (PyObject *)frame->f_code == code;
    long here = frame->f_lasti * (long)sizeof(_Py_CODEUNIT);
#else
    PyCodeObject *its = PyFrame_GetCode(frame);
    int same = (PyObject *)its == code;
    Py_DECREF(its);
    long here = PyFrame_GetLasti(frame);
#endif
    return same && PyLong_AsLong(at) == here;
}

/* Whether the caller is there. A front has no frame of its own.

Slots are read after the frame, whose making may collect garbage, and so run Python that changes them. */
static int
called_from(PyObject *object, Py_ssize_t code_offset, Py_ssize_t at_offset)
{
    PyFrameObject *frame = PyEval_GetFrame();
    return stands_at(frame, object, code_offset, at_offset);
}

/* state.py, Read: the one of `reads` whose method asks a tensor for its values, called from its place; borrowed, or NULL. */
static PyObject *
asked_from(PyObject *reads, PyObject *me)
{
    PyFrameObject *method = PyEval_GetFrame(), *asker = method ? PyFrame_GetBack(method) : NULL;
    PyObject *in_loops = SLOT(me, flags.loops) == zero ? Py_False : Py_True, *found = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reads) && found == NULL; i++) {
        PyObject *read = PyTuple_GET_ITEM(reads, i);
        if (SLOT(read, read_of.in_loops) == in_loops && stands_at(method, read, read_of.code, read_of.at) &&
            stands_at(asker, read, read_of.asker, read_of.asker_at))
            found = read;
    }
    Py_XDECREF(asker);
    return found;
}

/* What we noted in `object` under that name; NULL without an error where there is nothing.

`last` is a weak reference: no other object can come to be at its address unseen. Of one that is gone it says None. */
static PyObject *
noted(Front *front, PyObject *object, PyObject *text)
{
    if (front->last != NULL && PyWeakref_GET_OBJECT(front->last) == object && object != Py_None)
        return Py_NewRef(front->known);
    PyObject *known = PyObject_GetAttr(object, text), *last = known ? PyWeakref_NewRef(object, NULL) : NULL;
    if (last == NULL) {
        PyErr_Clear();
        Py_XDECREF(known);
        return NULL;
    }
    PyObject *last_before = front->last, *known_before = front->known;
    front->last = last;
    front->known = Py_NewRef(known);
    Py_XDECREF(last_before); /* once both are set: what is freed may come back here */
    Py_XDECREF(known_before);
    return known;
}

/* The name that Python gives to a call that traced its function; 0 if that fails, with the error that it left. */
static int64_t
named_after(Front *front, PyObject *const *args, Py_ssize_t count, PyObject *names, PyObject *known, int64_t start,
            int64_t end)
{
    PyObject *given = PyTuple_New(count), *keywords = PyDict_New(), *told = NULL;
    int64_t name = 0;
    if (given != NULL && keywords != NULL) {
        for (Py_ssize_t i = 0; i < count; i++)
            PyTuple_SET_ITEM(given, i, Py_NewRef(args[i]));
        for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++)
            if (PyDict_SetItem(keywords, PyTuple_GET_ITEM(names, i), args[count + i]) < 0)
                break;
        if (!PyErr_Occurred())
            told = PyObject_CallFunction(front->after, "OOOLL", given, keywords, known, (long long)start, (long long)end);
        whole(told, &name);
    }
    Py_XDECREF(told);
    Py_XDECREF(given);
    Py_XDECREF(keywords);
    return name;
}

/* Whether a step of this kind may be counted by itself: nobody waits for its beginning or its result. */
static int
counts(PyObject *progress, PyObject *known)
{
    return SLOT(progress, progress_of.wanted) == Py_False && SLOT(progress, progress_of.boundary) == Py_None &&
           SLOT(progress, progress_of.kind) == SLOT(known, known_of.kind); /* small integers are one object each */
}

/* tensorflow.py, `call`: Function.__call__ */
static PyObject *
call_function(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Front *front = (Front *)self;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *me = front->main, *known;
    int64_t left, name, size, traces, traced, at, steps;
    if (!IN_MAIN(front) || count < 1)
        return HAND_ON(front->wrapper);
    if (SLOT(me, flags.busy) != zero)
        return HAND_ON(front->original);
    known = noted(front, args[0], text_known);
    if (known == NULL)
        return HAND_ON(front->wrapper);
    if (Py_TYPE(known) != known_type || !number_at(known, known_of.left, &left) || left <= 1 ||
        !number_at(known, known_of.name, &name) || !number_at(known, known_of.size, &size) ||
        !number_at(me, flags.traces, &traces))
        goto wrapper;
    if (SLOT(me, flags.loops) == zero) {
        if (!counts(front->progress, known) || !called_from(known, known_of.code, known_of.at))
            goto wrapper;
        add(front->progress, progress_of.steps, 1);
    }
    else if (!number_at(known, known_of.at, &at) || !number_at(me, flags.steps, &steps) || at != KERAS - steps)
        goto wrapper;
    put(known, known_of.left, PyLong_FromLongLong(left - 1));
    put(me, flags.busy, Py_NewRef(one));
    int64_t start = clock_ns();
    PyObject *result = HAND_ON(front->original);
    int64_t end = clock_ns();
    Error error = set_aside();
    add(me, flags.busy, -1);
    if (number_at(me, flags.traces, &traced) && traced != traces)
        name = named_after(front, args, count, names, known, start, end);
    push(front->rows, name, start, end, front->thread, size);
    Py_DECREF(known);
    return let_out(error, result);
wrapper:
    Py_DECREF(known);
    return HAND_ON(front->wrapper);
}

/* datasets.py, `__next__`: OwnedIterator.__next__ */
static PyObject *
call_element(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Front *front = (Front *)self;
    PyObject *me = front->main, *number;
    int64_t left, name, value = 0;
    if (!IN_MAIN(front) || PyVectorcall_NARGS(nargsf) != 1 || names != NULL)
        return HAND_ON(front->wrapper);
    if (SLOT(me, flags.busy) != zero)
        return HAND_ON(front->original);
    if (!number_at(me, flags.left, &left) || left <= 1 || !number_at(me, flags.name, &name) ||
        !called_from(me, flags.code, flags.at))
        return HAND_ON(front->wrapper);
    number = noted(front, args[0], text_number);
    int told = whole(number, &value);
    Py_XDECREF(number);
    if (!told)
        return HAND_ON(front->wrapper);
    put(me, flags.left, PyLong_FromLongLong(left - 1));
    int64_t start = clock_ns();
    PyObject *result = HAND_ON(front->original);
    int64_t end = clock_ns();
    if (result == NULL && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        Error error = set_aside();
        Py_XDECREF(PyObject_CallOneArg(front->after, args[0]));
        result = let_out(error, NULL);
        end = clock_ns();
    }
    push(front->rows, name, start, end, front->thread, value);
    return result;
}

/* keras.py, `step`: a model's train_function, test_function or predict_function */
static PyObject *
call_step(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Front *front = (Front *)self;
    PyObject *me = front->main;
    int64_t left, name;
    if (!IN_MAIN(front))
        return HAND_ON(front->wrapper);
    if (SLOT(me, flags.busy) != zero || SLOT(me, flags.steps) != zero)
        return HAND_ON(front->original);
    if (!number_at(me, flags.left, &left) || left <= 1 || !number_at(front->names, known_of.name, &name) ||
        !counts(front->progress, front->names))
        return HAND_ON(front->wrapper);
    add(front->progress, progress_of.steps, 1);
    put(me, flags.steps, Py_NewRef(one));
    add(me, flags.loops, 1);
    int64_t start = clock_ns();
    PyObject *result = HAND_ON(front->original);
    int64_t end = clock_ns();
    Error error = set_aside();
    put(me, flags.steps, Py_NewRef(zero));
    add(me, flags.loops, -1);
    if (number_at(me, flags.left, &left) && left > 1) /* else a look is due, at the next call */
        put(me, flags.left, PyLong_FromLongLong(left - 1));
    push(front->rows, name, start, end, front->thread, 1);
    return put_back(error, result);
}

/* callbacks.py, `usual`: a hook of each batch */
static PyObject *
call_hook(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Front *front = (Front *)self;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *me = front->main;
    int64_t left;
    if (!IN_MAIN(front) || count < 1)
        return HAND_ON(front->wrapper);
    if (SLOT(me, flags.busy) != zero)
        return HAND_ON(front->original);
    if (!number_at(me, flags.left, &left) || left <= 1)
        return HAND_ON(front->wrapper);
    if (Py_TYPE(args[0]) != front->kind) {
        PyObject *name = PyDict_GetItemWithError(front->names, (PyObject *)Py_TYPE(args[0]));
        if (!whole(name, &front->kind_name)) {
            PyErr_Clear();
            return HAND_ON(front->wrapper);
        }
        Py_XSETREF(front->kind, (PyTypeObject *)Py_NewRef(Py_TYPE(args[0])));
    }
    int64_t name = front->kind_name;
    put(me, flags.left, PyLong_FromLongLong(left - 1));
    int64_t start = clock_ns();
    PyObject *result = HAND_ON(front->original);
    push(front->rows, name, start, clock_ns(), front->thread, 0);
    return result;
}

/* tensors.py, `_numpy`: _EagerTensorBase._numpy */
static PyObject *
call_readback(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    Front *front = (Front *)self;
    PyObject *me = front->main, *read;
    int64_t left, name;
    if (!IN_MAIN(front) || PyVectorcall_NARGS(nargsf) != 1 || names != NULL)
        return HAND_ON(front->wrapper);
    if (SLOT(me, flags.busy) != zero)
        return HAND_ON(front->original);
    read = asked_from(front->names, me);
    if (read == NULL || !number_at(read, read_of.name, &name) || !number_at(me, flags.left, &left) || left <= 1)
        return HAND_ON(front->wrapper);
    put(me, flags.left, PyLong_FromLongLong(left - 1));
    int64_t start = clock_ns();
    PyObject *result = HAND_ON(front->original);
    push(front->rows, name, start, clock_ns(), front->thread, 0);
    return result;
}

static PyTypeObject FrontType;

static PyObject *
front_made(vectorcallfunc call, PyObject *args)
{
    PyObject *original, *wrapper, *after, *main, *progress, *names, *rows;
    if (flags_type == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "bind() first");
        return NULL;
    }
    if (!PyArg_ParseTuple(args, "OOOO!OOO!", &original, &wrapper, &after, flags_type, &main, &progress, &names, &RowsType,
                          &rows))
        return NULL;
    if ((call == call_function || call == call_step) && Py_TYPE(progress) != progress_type) {
        PyErr_SetString(PyExc_TypeError, "progress is none");
        return NULL;
    }
    PyTypeObject *kind = call == call_step       ? known_type
                         : call == call_readback ? &PyTuple_Type
                         : call == call_hook     ? &PyDict_Type
                                                 : NULL; /* any */
    int right = kind == NULL || Py_TYPE(names) == kind;
    for (Py_ssize_t i = 0; right && call == call_readback && i < PyTuple_GET_SIZE(names); i++)
        right = Py_TYPE(PyTuple_GET_ITEM(names, i)) == read_type;
    if (!right) {
        PyErr_SetString(PyExc_TypeError, "names are none");
        return NULL;
    }
    PyObject *ident = PyObject_GetAttrString(main, "ident");
    if (ident == NULL)
        return NULL;
    unsigned long thread = PyLong_AsUnsignedLong(ident);
    Py_DECREF(ident);
    if (PyErr_Occurred())
        return NULL;
    Front *front = PyObject_GC_New(Front, &FrontType);
    if (front == NULL)
        return NULL;
    front->vectorcall = call;
    front->original = Py_NewRef(original);
    front->wrapper = Py_NewRef(wrapper);
    front->after = Py_NewRef(after);
    front->main = Py_NewRef(main);
    front->progress = Py_NewRef(progress);
    front->names = Py_NewRef(names);
    front->rows = (Rows *)Py_NewRef(rows);
    front->last = front->known = NULL;
    front->kind = NULL;
    front->kind_name = 0;
    front->thread = thread;
    front->dict = front->weak = NULL;
    PyObject_GC_Track(front);
    return (PyObject *)front;
}

static int
front_traverse(Front *front, visitproc visit, void *arg)
{
    Py_VISIT(front->original);
    Py_VISIT(front->wrapper);
    Py_VISIT(front->after);
    Py_VISIT(front->main);
    Py_VISIT(front->progress);
    Py_VISIT(front->names);
    Py_VISIT(front->last);
    Py_VISIT(front->known);
    Py_VISIT(front->kind);
    Py_VISIT(front->dict);
    return 0;
}

/* Only what may lead back here: it may still be called by what is freed later. */
static int
front_clear(Front *front)
{
    Py_CLEAR(front->dict);
    return 0;
}

static void
front_dealloc(Front *front)
{
    PyObject_GC_UnTrack(front);
    if (front->weak != NULL)
        PyObject_ClearWeakRefs((PyObject *)front);
    Py_XDECREF(front->original);
    Py_XDECREF(front->wrapper);
    Py_XDECREF(front->after);
    Py_XDECREF(front->main);
    Py_XDECREF(front->progress);
    Py_XDECREF(front->names);
    Py_XDECREF(front->rows);
    Py_XDECREF(front->last);
    Py_XDECREF(front->known);
    Py_XDECREF(front->kind);
    Py_XDECREF(front->dict);
    PyObject_GC_Del(front);
}

static PyObject *
front_get(PyObject *front, PyObject *object, PyObject *Py_UNUSED(type))
{
    return object == NULL || object == Py_None ? Py_NewRef(front) : PyMethod_New(front, object);
}

static PyObject *
front_repr(Front *front)
{
    return PyObject_Repr(front->original);
}

/* A function is copied and pickled by its name. */
static PyObject *
front_reduce(PyObject *front, PyObject *Py_UNUSED(nothing))
{
    return PyObject_GetAttrString(front, "__qualname__");
}

static PyObject *
front_itself(PyObject *front, PyObject *Py_UNUSED(memo))
{
    return Py_NewRef(front);
}

static PyMethodDef front_methods[] = {
    {"__reduce__", front_reduce, METH_NOARGS, NULL},
    {"__copy__", front_itself, METH_NOARGS, NULL},
    {"__deepcopy__", front_itself, METH_O, NULL},
    {NULL},
};

static PyMemberDef front_members[] = {
    {"_slowtrain_wrapper", T_OBJECT, offsetof(Front, wrapper), READONLY, "What does the same in Python."},
    {NULL},
};

static PyGetSetDef front_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL},
};

static PyTypeObject FrontType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "slowtrain.capture.core.hot.Front",
    .tp_basicsize = sizeof(Front),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .tp_vectorcall_offset = offsetof(Front, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_traverse = (traverseproc)front_traverse,
    .tp_clear = (inquiry)front_clear,
    .tp_dealloc = (destructor)front_dealloc,
    .tp_descr_get = front_get,
    .tp_repr = (reprfunc)front_repr,
    .tp_methods = front_methods,
    .tp_members = front_members,
    .tp_getset = front_getset,
    .tp_dictoffset = offsetof(Front, dict),
    .tp_weaklistoffset = offsetof(Front, weak),
};

#define MAKER(name, call) \
    static PyObject *name(PyObject *Py_UNUSED(module), PyObject *args) { return front_made(call, args); }
MAKER(make_function, call_function)
MAKER(make_element, call_element)
MAKER(make_step, call_step)
MAKER(make_hook, call_hook)
MAKER(make_readback, call_readback)

/* The place of a slot in the instances of `type`; -1 with an error where it has none. */
static Py_ssize_t
place(PyObject *type, const char *slot)
{
    PyObject *found = PyObject_GetAttrString(type, slot);
    Py_ssize_t offset = -1;
    if (found != NULL && Py_IS_TYPE(found, &PyMemberDescr_Type) &&
        ((PyMemberDescrObject *)found)->d_member->type == T_OBJECT_EX)
        offset = ((PyMemberDescrObject *)found)->d_member->offset;
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s is no slot", slot);
    Py_XDECREF(found);
    return offset;
}

static PyObject *
bind(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *f, *k, *p, *r;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &f, &PyType_Type, &k, &PyType_Type, &p, &PyType_Type, &r))
        return NULL;
    struct { Py_ssize_t *offset; PyObject *type; const char *slot; } wanted[] = {
        {&flags.busy, f, "busy"}, {&flags.left, f, "left"}, {&flags.loops, f, "loops"}, {&flags.steps, f, "steps"},
        {&flags.traces, f, "traces"}, {&flags.name, f, "name"}, {&flags.code, f, "code"}, {&flags.at, f, "at"},
        {&known_of.left, k, "left"}, {&known_of.kind, k, "kind"}, {&known_of.name, k, "name"},
        {&known_of.size, k, "size"}, {&known_of.code, k, "code"}, {&known_of.at, k, "at"},
        {&progress_of.steps, p, "steps"}, {&progress_of.kind, p, "kind"}, {&progress_of.wanted, p, "wanted"},
        {&progress_of.boundary, p, "boundary"},
        {&read_of.name, r, "name"}, {&read_of.code, r, "code"}, {&read_of.at, r, "at"}, {&read_of.asker, r, "asker"},
        {&read_of.asker_at, r, "asker_at"}, {&read_of.in_loops, r, "in_loops"},
    };
    Py_ssize_t found[sizeof wanted / sizeof *wanted];
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if ((found[i] = place(wanted[i].type, wanted[i].slot)) < 0)
            return NULL;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        *wanted[i].offset = found[i];
    flags_type = (PyTypeObject *)Py_NewRef(f);
    known_type = (PyTypeObject *)Py_NewRef(k);
    progress_type = (PyTypeObject *)Py_NewRef(p);
    read_type = (PyTypeObject *)Py_NewRef(r);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"bind", bind, METH_VARARGS, "bind(Flags, Known, Progress, Read): their slots. Raises TypeError, AttributeError."},
    {"function", make_function, METH_VARARGS, "A front of Function.__call__."},
    {"element", make_element, METH_VARARGS, "A front of OwnedIterator.__next__."},
    {"step", make_step, METH_VARARGS, "A front of a Keras step."},
    {"hook", make_hook, METH_VARARGS, "A front of a callback's hook."},
    {"readback", make_readback, METH_VARARGS, "A front of _EagerTensorBase._numpy."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "hot",
    .m_doc = "Fronts before wrappers, and rows of spans.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC
PyInit_hot(void)
{
    if (PyType_Ready(&RowsType) < 0 || PyType_Ready(&FrontType) < 0)
        return NULL;
    zero = PyLong_FromLong(0);
    one = PyLong_FromLong(1);
    text_known = PyUnicode_InternFromString("_slowtrain_known");
    text_number = PyUnicode_InternFromString("_slowtrain");
    PyObject *module = PyModule_Create(&definition);
    if (!zero || !one || !text_known || !text_number || module == NULL)
        return NULL;
    if (PyModule_AddObject(module, "Rows", Py_NewRef((PyObject *)&RowsType)) < 0)
        return NULL;
    return module;
}
