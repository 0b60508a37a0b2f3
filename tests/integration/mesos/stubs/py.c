#include <stdio.h>
#include <stdlib.h>
long PyArg_ParseTuple(void) { fprintf(stderr, "mesos stub: PyArg_ParseTuple called\n"); abort(); }
long PyDict_GetItemString(void) { fprintf(stderr, "mesos stub: PyDict_GetItemString called\n"); abort(); }
long PyErr_Format(void) { fprintf(stderr, "mesos stub: PyErr_Format called\n"); abort(); }
long PyErr_Occurred(void) { fprintf(stderr, "mesos stub: PyErr_Occurred called\n"); abort(); }
long PyErr_Print(void) { fprintf(stderr, "mesos stub: PyErr_Print called\n"); abort(); }
long PyEval_InitThreads(void) { fprintf(stderr, "mesos stub: PyEval_InitThreads called\n"); abort(); }
long PyEval_RestoreThread(void) { fprintf(stderr, "mesos stub: PyEval_RestoreThread called\n"); abort(); }
long PyEval_SaveThread(void) { fprintf(stderr, "mesos stub: PyEval_SaveThread called\n"); abort(); }
long PyGILState_Ensure(void) { fprintf(stderr, "mesos stub: PyGILState_Ensure called\n"); abort(); }
long PyGILState_Release(void) { fprintf(stderr, "mesos stub: PyGILState_Release called\n"); abort(); }
long PyImport_ImportModule(void) { fprintf(stderr, "mesos stub: PyImport_ImportModule called\n"); abort(); }
long PyInt_FromLong(void) { fprintf(stderr, "mesos stub: PyInt_FromLong called\n"); abort(); }
long PyIter_Next(void) { fprintf(stderr, "mesos stub: PyIter_Next called\n"); abort(); }
long PyList_GetItem(void) { fprintf(stderr, "mesos stub: PyList_GetItem called\n"); abort(); }
long PyList_New(void) { fprintf(stderr, "mesos stub: PyList_New called\n"); abort(); }
long PyList_SetItem(void) { fprintf(stderr, "mesos stub: PyList_SetItem called\n"); abort(); }
long PyList_Size(void) { fprintf(stderr, "mesos stub: PyList_Size called\n"); abort(); }
long PyModule_AddObject(void) { fprintf(stderr, "mesos stub: PyModule_AddObject called\n"); abort(); }
long PyModule_GetDict(void) { fprintf(stderr, "mesos stub: PyModule_GetDict called\n"); abort(); }
long PyObject_CallMethod(void) { fprintf(stderr, "mesos stub: PyObject_CallMethod called\n"); abort(); }
long PyObject_GetIter(void) { fprintf(stderr, "mesos stub: PyObject_GetIter called\n"); abort(); }
long PyString_AsStringAndSize(void) { fprintf(stderr, "mesos stub: PyString_AsStringAndSize called\n"); abort(); }
long PyType_Ready(void) { fprintf(stderr, "mesos stub: PyType_Ready called\n"); abort(); }
long Py_InitModule4_64(void) { fprintf(stderr, "mesos stub: Py_InitModule4_64 called\n"); abort(); }
void *PyExc_Exception[8];
void *PyExc_TypeError[8];
void *_Py_NoneStruct[8];
