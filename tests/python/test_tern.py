#!/usr/bin/env python3
"""python/tern.py: memory is shared with NumPy and PyTorch in both directions, files go both ways, mistakes
say what is wrong. What needs a package that is not there is skipped with its name.

    TERN_LIBRARY=build/release/libtern.so python3 tests/python/test_tern.py
"""

import array
import copy
import ctypes.util
import gc
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
import unittest
import weakref

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))

import tern  # noqa: E402


def needs(name):
    found = importlib.util.find_spec(name) is not None
    return unittest.skipUnless(found, f"the package {name} is not installed")


class Files(unittest.TestCase):
    def test_a_file_comes_back(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
        there = tern.load(os.path.join(golden, "python_dtypes.safetensors"))
        self.assertEqual({"bool", "uint8", "bfloat16", "scalar", "empty"} - there.keys(), set())
        self.assertEqual(there["bool"].tolist(), [[True, False, True], [True, False, False]])
        self.assertEqual(there["scalar"].tolist(), 2.5)
        self.assertEqual(there["empty"].shape, (3, 0, 2))
        self.assertEqual(there["bfloat16"].dtype, "bf16")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "copy.safetensors")
            tern.save(path, there, texts={"who": "tern"})
            again = tern.load(path)
        self.assertEqual(list(again), list(there))
        for name, t in there.items():
            self.assertEqual((again[name].shape, again[name].dtype), (t.shape, t.dtype))
            self.assertEqual(str(again[name].tolist()), str(t.tolist()))

    def test_mistakes_name_the_line(self):
        with self.assertRaises(tern.Error) as caught:
            tern.load("nowhere.safetensors")
        self.assertIn("test_tern.py:", str(caught.exception))
        self.assertIn("nowhere.safetensors", str(caught.exception))
        self.assertFalse(tern._lib.tern_failed())

    def test_a_dtype_that_tern_does_not_have_is_an_error(self):
        header = (b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
                  b'"w":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[1,4]}}')
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "eight.safetensors")
            with open(path, "wb") as file:
                file.write(len(header).to_bytes(8, "little") + header + b"1234")
            with self.assertRaises(tern.Error) as caught:
                tern.load(path)
        self.assertIn("test_tern.py:", str(caught.exception))
        self.assertIn("eight.safetensors: the tensor 'w' is of F8_E4M3, which tern does not have",
                      str(caught.exception))

    def test_a_path_with_a_nul_names_no_other_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            for odd in (path + "\0.safetensors", os.fsencode(path) + b"\0"):
                with self.assertRaisesRegex(tern.Error, "test_tern.py:.*save: a NUL in the path"):
                    tern.save(odd, {})
                self.assertEqual(os.listdir(folder), [])
                with self.assertRaisesRegex(tern.Error, "test_tern.py:.*load: a NUL in the path"):
                    tern.load(odd)

    def test_names_of_files_need_not_be_utf8(self):
        with self.assertRaisesRegex(tern.Error, r"nowhere\\xff: cannot open: No such file"):
            tern.load(b"nowhere\xff")
        self.assertFalse(tern._lib.tern_failed())
        code = compile("tern.load('nowhere')", os.fsdecode(b"odd\xff.py"), "exec")
        with self.assertRaisesRegex(tern.Error, r"^odd\\udcff.py:1: state_load: nowhere"):
            exec(code)
        self.assertFalse(tern._lib.tern_failed())

    def test_what_is_no_text_is_named(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
        one = tern.load(os.path.join(golden, "python_dtypes.safetensors"))["int32"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            for tensors, texts, words in (({3: one}, {}, "the name is 3"), ({}, {3: ""}, "the key is 3"),
                                          ({}, {"a": 3}, "the text is 3")):
                with self.assertRaisesRegex(TypeError, words + ", not a str"):
                    tern.save(path, tensors, texts=texts)
        with self.assertRaisesRegex(TypeError, "str is no dict of tensors by name; the path comes first"):
            tern.save({"a": one}, path)  # as safetensors' save_file has them
        with self.assertRaisesRegex(TypeError, "the dtype is 3"):
            one.to(dtype=3)
        with self.assertRaisesRegex(tern.Error, "a NUL in the device"):
            one.to("cpu\0x")

    def test_a_library_that_is_none_is_named(self):
        module = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
        for path, words in (("/nowhere/libtern.so", "cannot be loaded"),
                            (ctypes.util.find_library("c"), "has no tern_set_owned_mode")):
            done = subprocess.run([sys.executable, "-B", "-c", "import tern"], cwd=module, text=True,
                                  env=dict(os.environ, TERN_LIBRARY=path), stderr=subprocess.PIPE,
                                  check=False)
            self.assertIn(f"ImportError: TERN_LIBRARY is '{path}', which {words}", done.stderr)

    def test_names_with_a_nul_are_refused(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
        t = tern.load(os.path.join(golden, "python_dtypes.safetensors"))["int32"]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "nul.safetensors")
            for tensors, texts in (({"a": t, "a\0b": t}, {}), ({"a": t}, {"k\0": "v"}),
                                   ({"a": t}, {"k": "v\0w"})):
                with self.assertRaises(tern.Error) as caught:
                    tern.save(path, tensors, texts)
                self.assertIn("test_tern.py:", str(caught.exception))
                self.assertIn("a NUL in the ", str(caught.exception))
                self.assertFalse(os.path.exists(path))


class Protocol(unittest.TestCase):
    """tern on both sides: no package needed."""

    def setUp(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
        self.t = tern.load(os.path.join(golden, "python_dtypes.safetensors"))["int32"]

    def test_both_kinds_of_capsules(self):
        for options in ({}, {"max_version": (1, 0)}, {"max_version": (0, 8)}):
            capsule = self.t.__dlpack__(**options)
            back = tern.from_dlpack(capsule)
            self.assertEqual(back.tolist(), self.t.tolist())
            with self.assertRaises(TypeError):
                tern.from_dlpack(capsule)  # used

    def test_a_capsule_that_nobody_takes_gives_its_tensor_back(self):
        before = tern._lib.tern_live_tensors()
        for options in ({}, {"max_version": (1, 0)}):
            capsule = self.t.__dlpack__(**options)
            self.assertEqual(tern._lib.tern_live_tensors(), before + 1)
            del capsule
            gc.collect()
            self.assertEqual(tern._lib.tern_live_tensors(), before)

    def test_who_refuses_a_capsule_is_heard(self):
        """The capsule ends while the exception is on its way."""
        before = tern._lib.tern_live_tensors()
        for options in ({}, {"max_version": (1, 0)}):
            with self.assertRaisesRegex(TypeError, "PyCapsule"):
                int(self.t.__dlpack__(**options))
            gc.collect()
            self.assertEqual(tern._lib.tern_live_tensors(), before)

    def test_copies_and_devices(self):
        self.assertEqual(self.t.__dlpack_device__(), (1, 0))
        copy = tern.from_dlpack(self.t.__dlpack__(copy=True))
        self.assertEqual(copy.tolist(), self.t.tolist())
        with self.assertRaises(BufferError):
            self.t.__dlpack__(dl_device=(2, 0))
        self.assertIs(self.t.to("cpu"), self.t)
        self.assertEqual(self.t.to(dtype="f64").dtype, "f64")
        with self.assertRaises(tern.Error):
            self.t.to("nonsense")

    def test_what_has_no_dlpack(self):
        with self.assertRaises(TypeError):
            tern.from_dlpack(array.array("f", [1.0]))


class Copies(unittest.TestCase):
    def setUp(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden")
        self.load = lambda: tern.load(os.path.join(golden, "python_dtypes.safetensors"))["int32"]

    def test_each_copy_is_an_owner(self):
        before = tern._lib.tern_live_tensors()
        t = self.load()
        values = t.tolist()
        shallow, deep = copy.copy(t), copy.deepcopy([t, t])
        self.assertIs(deep[0], deep[1])
        self.assertEqual(shallow.handle, t.handle)
        self.assertNotEqual(deep[0].handle, t.handle)
        del shallow
        gc.collect()
        others = [tern.from_dlpack(self.load().to(dtype="f64").__dlpack__()) for _ in range(4)]
        self.assertEqual((t.dtype, t.tolist()), ("i32", values))
        del t
        gc.collect()
        others += [self.load().to(dtype="f64") for _ in range(4)]
        self.assertEqual((deep[0].dtype, deep[1].tolist()), ("i32", values))
        del deep, others
        gc.collect()
        self.assertEqual(tern._lib.tern_live_tensors(), before)

    def test_what_changes_nothing_leaves_nothing(self):
        before = tern._lib.tern_live_tensors()
        t = self.load()
        for _ in range(3):
            self.assertIs(t.to("cpu"), t)
            self.assertIs(t.to(dtype=t.dtype), t)
            tern.from_dlpack(t.__dlpack__(dl_device=(1, 0)))
        del t
        gc.collect()
        self.assertEqual(tern._lib.tern_live_tensors(), before)

    def test_what_would_be_about_the_object_is_refused(self):
        t, u = self.load(), self.load()
        with self.assertRaisesRegex(TypeError, r"bool\(t.numpy\(\)\)"):
            bool(t)
        for other in (u, copy.copy(t), 0, 1.0, True):
            for ask in (lambda: t == other, lambda: other == t, lambda: t != other):
                with self.assertRaisesRegex(TypeError, r"t.numpy\(\) == other"):
                    ask()
        self.assertFalse(t == None)  # noqa: E711
        self.assertTrue(t != "a")

    def test_each_is_a_key(self):
        t, u = self.load(), self.load()
        names = {t: "t", u: "u"}
        self.assertEqual((names[t], names[u], len({t, u, t})), ("t", "u", 2))
        self.assertIn(t, [t, u])
        weak = weakref.WeakKeyDictionary({t: "t", u: "u"})
        self.assertEqual((weak[t], weak[u]), ("t", "u"))

    def test_addresses_are_not_pickled(self):
        with self.assertRaisesRegex(TypeError, "tern.save"):
            pickle.dumps(self.load())


@needs("numpy")
class WithNumPy(unittest.TestCase):
    DTYPES = {"bool": "bool", "u8": "uint8", "i8": "int8", "i16": "int16", "i32": "int32",
              "i64": "int64", "f16": "float16", "f32": "float32", "f64": "float64"}

    def test_memory_is_shared_in_both_directions(self):
        import numpy

        for name, dtype in self.DTYPES.items():
            a = numpy.ones((2, 3), dtype=dtype)
            t = tern.from_dlpack(a)
            self.assertEqual((t.shape, t.strides, t.dtype), ((2, 3), (3, 1), name))
            a[1, 2] = 0
            self.assertEqual(t.tolist()[1][2], 0)
            b = numpy.from_dlpack(t)
            self.assertEqual(b.dtype, a.dtype)
            self.assertEqual(b.ctypes.data, a.ctypes.data)
            self.assertTrue((t.numpy() == a).all())

    def test_what_asks_for_an_array_gets_one(self):
        import numpy

        t = tern.from_dlpack(numpy.ones((2, 3), dtype="float32"))
        self.assertEqual(numpy.asarray(t).shape, (2, 3))
        self.assertEqual(numpy.asarray(t).ctypes.data, t.numpy().ctypes.data)
        self.assertEqual(numpy.array(t, dtype="int64").tolist(), [[1, 1, 1], [1, 1, 1]])

    def test_an_array_of_a_tensor_leaves_nothing(self):
        import numpy

        a = numpy.ones((2, 3), dtype="float32")
        before, count = tern._lib.tern_live_tensors(), sys.getrefcount(a)
        t = tern.from_dlpack(a)
        for _ in range(3):
            self.assertEqual(t.numpy().shape, (2, 3))
            self.assertEqual(numpy.asarray(t).ctypes.data, a.ctypes.data)
            self.assertTrue((t == a).all() and (a == t).all())
        del t
        gc.collect()
        self.assertEqual(tern._lib.tern_live_tensors(), before)
        self.assertEqual(sys.getrefcount(a), count)

    def test_views_and_lives(self):
        import numpy

        a = numpy.arange(24, dtype="float32").reshape(2, 3, 4)
        view = tern.from_dlpack(a.transpose(2, 0, 1)[::2])
        self.assertEqual(view.tolist(), a.transpose(2, 0, 1)[::2].tolist())
        count = sys.getrefcount(a)
        t = tern.from_dlpack(a)
        self.assertGreater(sys.getrefcount(a), count)
        del t
        gc.collect()
        self.assertEqual(sys.getrefcount(a), count)
        kept = numpy.from_dlpack(tern.from_dlpack(numpy.arange(1000)))
        gc.collect()
        self.assertEqual(int(kept.sum()), 499500)  # the memory outlives both owners' names

    def test_what_cannot_be_shared(self):
        import numpy

        with self.assertRaises(BufferError) as caught:
            tern.from_dlpack(numpy.arange(6)[::-1])
        self.assertIn("a stride is negative", str(caught.exception))
        with self.assertRaises(BufferError):
            tern.from_dlpack(numpy.zeros(3, dtype="complex64"))
        still = numpy.arange(4.0)
        still.flags.writeable = False
        try:
            t = tern.from_dlpack(still)
        except BufferError:
            return  # a NumPy that hands out no read-only arrays
        self.assertNotEqual(numpy.from_dlpack(t).ctypes.data, still.ctypes.data)


@needs("torch")
class WithTorch(unittest.TestCase):
    def test_memory_is_shared_in_both_directions(self):
        import torch

        for name, dtype in {**WithNumPy.DTYPES, "bf16": "bfloat16"}.items():
            a = torch.ones(2, 3, dtype=getattr(torch, dtype))
            t = tern.from_dlpack(a)
            self.assertEqual((t.shape, t.dtype), ((2, 3), name))
            a[1, 2] = 0
            self.assertEqual(t.tolist()[1][2], 0)
            b = torch.from_dlpack(t)
            self.assertEqual((b.dtype, b.data_ptr()), (a.dtype, a.data_ptr()))

    def test_leaves_are_refused(self):
        import torch

        with self.assertRaises(BufferError):
            tern.from_dlpack(torch.ones(2, requires_grad=True))

    @unittest.skipUnless(os.environ.get("TERN_TEST_DEVICE") == "cuda", "no real GPU was asked for")
    def test_memory_of_a_gpu_is_shared(self):
        import torch

        a = torch.arange(6.0, device="cuda")
        t = tern.from_dlpack(a)
        self.assertEqual(repr(t.device), "cuda:0")
        b = torch.from_dlpack(t)
        self.assertEqual(b.data_ptr(), a.data_ptr())
        self.assertEqual(t.tolist(), [0, 1, 2, 3, 4, 5])
        with self.assertRaises(BufferError):
            t.__dlpack__(dl_device=(1, 0), copy=False)


if __name__ == "__main__":
    unittest.main(verbosity=2)
