"""Tensors of tern in Python: exchanged with NumPy, PyTorch, CuPy and others by DLPack, without a copy, and
read from and written to safetensors files.

    import numpy, tern
    t = tern.from_dlpack(numpy.arange(6.0).reshape(2, 3))    shares the memory
    a = numpy.from_dlpack(t)                                  and so does this
    weights = tern.load("net.safetensors")                    {name: Tensor}

The standard library is all that it needs. The C library is $TERN_LIBRARY, or the libtern.so of the
installation or checkout that this file belongs to, or the system's.
"""

import ctypes
import ctypes.util
import glob
import os
import sys

__all__ = ["DType", "Error", "Tensor", "from_dlpack", "load", "save", "library_path"]

CPU, CUDA = 1, 2  # tern's kinds of devices
DLPACK_CPU, DLPACK_CUDA, DLPACK_CUDA_HOST = 1, 2, 3
_VERSION = (1, 0)


class Error(RuntimeError):
    """What the C library said; the Python line of the call comes first."""


# ---- the library ---------------------------------------------------------------------------------


def library_path():
    """Path of the C library that is used; None: there is none."""
    if os.environ.get("TERN_LIBRARY"):
        return os.environ["TERN_LIBRARY"]
    here = os.path.dirname(os.path.abspath(__file__))
    for pattern in ("../build/release/lib/libtern.so", "../../../lib*/libtern.so",
                    "../../../lib/*/libtern.so"):
        found = sorted(glob.glob(os.path.join(here, pattern)))
        if found:
            return os.path.normpath(found[0])
    return ctypes.util.find_library("tern")


class Device(ctypes.Structure):
    """tern_dev_t"""

    _fields_ = [("kind", ctypes.c_int16), ("index", ctypes.c_int16)]

    def __repr__(self):
        return "cpu" if self.kind == CPU else f"cuda:{self.index}"


class _Stream(ctypes.Structure):
    _fields_ = [("device", Device), ("handle", ctypes.c_void_p)]


class _ToArgs(ctypes.Structure):
    _fields_ = [("size_", ctypes.c_size_t), ("device", Device), ("non_blocking", ctypes.c_bool),
                ("copy", ctypes.c_bool), ("dtype", ctypes.c_int), ("format", ctypes.c_int)]


class _Tensors(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(ctypes.c_void_p)),
                ("names", ctypes.POINTER(ctypes.c_char_p)), ("count", ctypes.c_int64)]


class _Names(ctypes.Structure):
    _fields_ = [("names", ctypes.POINTER(ctypes.c_char_p)), ("count", ctypes.c_int64)]


_P, _S, _I, _L = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int64
_SIGNATURES = {  # name: (result, arguments); sites are strings that stay
    "tern_set_owned_mode": (ctypes.c_bool, [ctypes.c_bool]),
    "tern_failed": (ctypes.c_bool, []),
    "tern_error_text": (_S, []),
    "tern_error_clear": (None, []),
    "tern_retain": (_P, [_P]),
    "tern_release": (None, [_P]),
    "tern_live_tensors": (_L, []),
    "tern_ndim": (_I, [_P]),
    "tern_size": (_L, [_P, _I]),
    "tern_stride": (_L, [_P, _I]),
    "tern_dtype": (_I, [_P]),
    "tern_dtype_name": (_S, [_I]),
    "tern_dtype_parse": (_I, [_S]),
    "tern_dtype_size": (_L, [_I]),
    "tern_device": (Device, [_P]),
    "tern_to_at": (_P, [_S, _P, ctypes.POINTER(_ToArgs)]),
    "tern_detach_at": (_P, [_S, _P]),
    "tern_read_at": (_I, [_S, _P, _I, _P, _I, _L]),
    "tern_describe_at": (_S, [_S, _P, ctypes.c_char_p, ctypes.c_size_t]),
    "tern_dev_parse_at": (_I, [_S, _S, ctypes.POINTER(Device)]),
    "tern_current_stream_at": (_Stream, [_S, Device]),
    "tern_stream_synchronize_at": (_I, [_S, _Stream]),
    "tern_to_dlpack_at": (_P, [_S, _P]),
    "tern_to_dlpack_unversioned_at": (_P, [_S, _P]),
    "tern_from_dlpack_at": (_P, [_S, _P]),
    "tern_from_dlpack_unversioned_at": (_P, [_S, _P]),
    "tern_state_create_at": (_P, [_S]),
    "tern_state_free": (None, [_P]),
    "tern_state_set_at": (_I, [_S, _P, _S, _P]),
    "tern_state_set_text_at": (_I, [_S, _P, _S, _S]),
    "tern_state_save_at": (_I, [_S, _P, _S]),
    "tern_state_load_at": (_P, [_S, _S]),
    "tern_state_tensors": (_Tensors, [_P]),
    "tern_state_unread": (_Names, [_P]),
    "tern_state_unread_dtype": (_S, [_P, _S]),
    "tern_state_text": (_S, [_P, _S]),
    "tern_state_text_keys": (_Names, [_P]),
}


def _open():
    path = library_path()
    if path is None:
        raise ImportError("there is no libtern.so: set TERN_LIBRARY to its path")
    where = "TERN_LIBRARY is" if os.environ.get("TERN_LIBRARY") else "the library is"
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{where} '{path}', which cannot be loaded: {error}") from None
    for name, (result, arguments) in _SIGNATURES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{where} '{path}', which has no {name}: it is no libtern.so, or one "
                              "of another version than this file") from None
        function.restype, function.argtypes = result, arguments
    return library


_lib = _open()
_sites = {}  # the library keeps pointers to them


def _site():
    """ "file.py:12" of the first caller outside of this module."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    key = (frame.f_code.co_filename, frame.f_lineno)
    if key not in _sites:
        place = f"{os.path.basename(key[0])}:{key[1]}".encode(errors="backslashreplace")
        _sites[key] = ctypes.create_string_buffer(place)
    return ctypes.cast(_sites[key], ctypes.c_char_p)


def _check(kind=Error):
    """Raises what is pending, and clears it."""
    if _lib.tern_failed():
        text = _lib.tern_error_text()
        _lib.tern_error_clear()
        raise kind(text.decode(errors="backslashreplace"))  # a path need not be UTF-8


def _owned(function, *arguments, kind=Error):
    """The result of a call as a Tensor of its own reference."""
    before = _lib.tern_set_owned_mode(True)
    try:
        pointer = function(_site(), *arguments)
    finally:
        _lib.tern_set_owned_mode(before)
    _check(kind)
    return Tensor(pointer)


# ---- capsules ------------------------------------------------------------------------------------

_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = [_P, _S, _P]
_python.PyCapsule_GetName.restype, _python.PyCapsule_GetName.argtypes = _S, [_P]
_python.PyCapsule_GetPointer.restype, _python.PyCapsule_GetPointer.argtypes = _P, [_P, _S]
_python.PyCapsule_SetName.restype, _python.PyCapsule_SetName.argtypes = _I, [_P, _S]

# names have to outlive the capsules that point to them
_VERSIONED, _USED_VERSIONED = b"dltensor_versioned", b"used_dltensor_versioned"
_PLAIN, _USED_PLAIN = b"dltensor", b"used_dltensor"
_END_CAPSULE = ctypes.cast(_lib.tern_dlpack_capsule_end, ctypes.c_void_p)


def _stream_number(device):
    """The protocol's number for tern's current stream of a CUDA device: 1 is the default one."""
    stream = _lib.tern_current_stream_at(_site(), device)
    _check()
    return stream.handle or 1


def from_dlpack(source):
    """A Tensor that shares the memory of an array of another library (anything with __dlpack__, or a
    capsule). What is read-only there is copied."""
    if hasattr(source, "__dlpack__"):
        kind, index = source.__dlpack_device__()
        options = {}
        if int(kind) == DLPACK_CUDA:
            options["stream"] = _stream_number(Device(CUDA, int(index)))
        try:
            capsule = source.__dlpack__(max_version=_VERSION, **options)
        except TypeError:  # from before version 1
            capsule = source.__dlpack__(**options)
    else:
        capsule = source
    address = id(capsule)
    name = _python.PyCapsule_GetName(address) if type(capsule).__name__ == "PyCapsule" else None
    if name not in (_VERSIONED, _PLAIN):
        raise TypeError(f"{type(source).__name__} has no __dlpack__, or a capsule that was used")
    pointer = _python.PyCapsule_GetPointer(address, name)
    versioned = name == _VERSIONED
    _python.PyCapsule_SetName(address, _USED_VERSIONED if versioned else _USED_PLAIN)
    return _owned(_lib.tern_from_dlpack_at if versioned else _lib.tern_from_dlpack_unversioned_at,
                  pointer, kind=BufferError)


# ---- tensors -------------------------------------------------------------------------------------


class DType(str):
    """Name of a dtype as tern prints it: "f32", "bf16", "i64", ..."""


class Tensor:
    """One reference to a tensor of the C library; `handle` is its address."""

    def __init__(self, handle):
        self.handle = handle

    def __del__(self):
        if getattr(self, "handle", None) and _lib is not None:
            _lib.tern_release(self.handle)
            self.handle = None

    # A copy by members would be a second owner of one reference.

    def __copy__(self):
        """The same tensor."""
        return Tensor(_lib.tern_retain(self.handle))

    def __deepcopy__(self, memo):
        """Values of its own; without a history, which a copy cannot have."""
        copied = memo[id(self)] = self.detach().to(copy=True)
        return copied

    def __reduce_ex__(self, protocol):
        raise TypeError("a Tensor is not pickled: tern.save(path, {name: tensor}) writes files, and "
                        "t.numpy() is an array, which is pickled")

    # There are no ops here, and Python's own answers to these would be about the object, not its values.

    def __bool__(self):
        raise TypeError("bool() of a Tensor: there are no ops here; bool(t.numpy()) is one of its values")

    def __eq__(self, other):
        if other is self:  # as dictionaries ask that hold it weakly
            return True
        if isinstance(other, (Tensor, int, float, complex)):
            raise TypeError("== of a Tensor: there are no ops here; t.numpy() == other compares values, "
                            "and 'is' asks for the same object")
        return NotImplemented  # arrays compare their values with it

    __hash__ = object.__hash__

    @property
    def shape(self):
        return tuple(_lib.tern_size(self.handle, d) for d in range(_lib.tern_ndim(self.handle)))

    @property
    def strides(self):
        """In elements."""
        return tuple(_lib.tern_stride(self.handle, d) for d in range(_lib.tern_ndim(self.handle)))

    @property
    def dtype(self):
        return DType(_lib.tern_dtype_name(_lib.tern_dtype(self.handle)).decode())

    @property
    def device(self):
        return _lib.tern_device(self.handle)

    def __repr__(self):
        text = ctypes.create_string_buffer(4096)
        _lib.tern_describe_at(_site(), self.handle, text, len(text))
        _check()
        return text.value.decode()

    def to(self, device=None, dtype=None, copy=False):
        """Itself, or a copy where it should be: tern_to. device: "cpu", "cuda", "cuda:1"."""
        arguments = _ToArgs(size_=ctypes.sizeof(_ToArgs), copy=copy)
        if device is not None:
            _lib.tern_dev_parse_at(_site(), _bytes("to", "the device", str(device)),
                                   ctypes.byref(arguments.device))
            _check()
        if dtype is not None:
            arguments.dtype = _lib.tern_dtype_parse(_bytes("to", "the dtype", dtype))
            if arguments.dtype == 0:
                raise Error(f"'{dtype}' is no dtype: bool, u8, i8, i16, i32, i64, f16, bf16, f32, f64")
        before = _lib.tern_set_owned_mode(True)
        try:
            moved = _lib.tern_to_at(_site(), self.handle, ctypes.byref(arguments))
        finally:
            _lib.tern_set_owned_mode(before)
        _check()
        if moved != self.handle:
            return Tensor(moved)
        _lib.tern_release(moved)  # what gives back its argument gives one reference more
        return self

    def detach(self):
        return _owned(_lib.tern_detach_at, self.handle)

    def tolist(self):
        """Nested lists of Python's numbers; waits for the device."""
        codes = {"bool": "?", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q"}
        code = codes.get(self.dtype, "d")
        dtype = self.dtype if code != "d" else "f64"
        count = 1
        for extent in self.shape:
            count *= extent
        kind = {"?": ctypes.c_bool, "B": ctypes.c_uint8, "b": ctypes.c_int8, "h": ctypes.c_int16,
                "i": ctypes.c_int32, "q": ctypes.c_int64, "d": ctypes.c_double}[code]
        values = (kind * max(count, 1))()
        _lib.tern_read_at(_site(), self.handle, _lib.tern_dtype_parse(dtype.encode()),
                          ctypes.byref(values), 0, count * ctypes.sizeof(kind))
        _check()
        return _nested(list(values)[:count], self.shape)

    def numpy(self):
        """A NumPy array over the same memory (a copy of a tensor on a device)."""
        import numpy

        return numpy.from_dlpack(self.to("cpu"))

    def __array__(self, dtype=None, copy=None):
        """For numpy.asarray and the like: a copy where one is asked for, or another dtype."""
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(f"a view of {array.dtype} as {dtype} needs a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    # -- the protocol

    def __dlpack_device__(self):
        device = self.device
        return (DLPACK_CUDA, device.index) if device.kind == CUDA else (DLPACK_CPU, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A capsule. On a device the producer's stream is waited for, so any stream may read."""
        source = self
        if dl_device is not None and tuple(map(int, dl_device)) != self.__dlpack_device__():
            if int(dl_device[0]) != DLPACK_CPU or copy is False:
                raise BufferError(f"the tensor lies on {self.device!r}, not on {dl_device}")
            source = self.to("cpu")
        elif copy:
            source = self.to(copy=True)
        if source.device.kind == CUDA and stream != -1:
            _lib.tern_stream_synchronize_at(
                _site(), _lib.tern_current_stream_at(_site(), source.device))
            _check()
        versioned = max_version is not None and max_version[0] >= 1
        export = _lib.tern_to_dlpack_at if versioned else _lib.tern_to_dlpack_unversioned_at
        pointer = export(_site(), source.handle)
        _check(BufferError)
        return _python.PyCapsule_New(pointer, _VERSIONED if versioned else _PLAIN,
                                     _END_CAPSULE)


def _nested(values, shape):
    if not shape:
        return values[0]
    if len(shape) == 1:
        return values
    step = len(values) // shape[0] if shape[0] else 0
    return [_nested(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _bytes(call, what, text):
    """A text for C, which would end at a NUL: two names could become one."""
    if not isinstance(text, str):
        raise TypeError(f"{call}: {what} is {text!r}, not a str")
    if "\0" in text:
        raise Error(f"{_site().value.decode()}: {call}: a NUL in {what} {text!r}")
    return text.encode()


def _path(call, path):
    """A path for C, which would name another file."""
    path = os.fsencode(path)
    if b"\0" in path:
        raise Error(f"{_site().value.decode()}: {call}: a NUL in the path {path!r}")
    return path


# ---- files ---------------------------------------------------------------------------------------


def load(path):
    """{name: Tensor} of a safetensors file, on the CPU: of all of it, so one tensor of a dtype that tern
    does not have is an error."""
    state = _lib.tern_state_load_at(_site(), _path("load", path))
    _check()
    try:
        unread = _lib.tern_state_unread(state)
        if unread.count:
            dtype = _lib.tern_state_unread_dtype(state, unread.names[0]).decode()
            raise Error(f"{_site().value.decode()}: load: {os.fspath(path)}: the tensor "
                        f"'{unread.names[0].decode()}' is of {dtype}, which tern does not have")
        entries = _lib.tern_state_tensors(state)
        return {entries.names[i].decode(): Tensor(_lib.tern_retain(entries.tensors[i]))
                for i in range(entries.count)}
    finally:
        _lib.tern_state_free(state)


def save(path, tensors, texts=None):
    """Writes {name: Tensor, or anything with __dlpack__} to a safetensors file, whole or not at all."""
    if not hasattr(tensors, "items"):
        raise TypeError(f"save: {type(tensors).__name__} is no dict of tensors by name; the path comes first")
    state = _lib.tern_state_create_at(_site())
    _check()
    try:
        for name, value in tensors.items():
            value = value if isinstance(value, Tensor) else from_dlpack(value)
            _lib.tern_state_set_at(_site(), state, _bytes("save", "the name", name),
                                   value.handle)
            _check()
        for key, text in (texts or {}).items():
            _lib.tern_state_set_text_at(_site(), state, _bytes("save", "the key", key),
                                        _bytes("save", "the text", text))
            _check()
        _lib.tern_state_save_at(_site(), state, _path("save", path))
        _check()
    finally:
        _lib.tern_state_free(state)
