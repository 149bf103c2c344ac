"""Tests which results are in the judge's memory for outputs (services/worker/python/runner.py).

    output_memory_test.py FOLDER

FOLDER is services/worker/python.
"""

import pathlib
import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: there is no PyTorch")
    sys.exit(77)

RUNNER = {"__name__": "runner"}
FOLDER = pathlib.Path(sys.argv.pop(1))
for file in ("task_values", "definition_task", "gpu_mode_task", "gpu_mode_eval", "task_draws", "runner"):
    exec((FOLDER / f"{file}.py").read_text(), RUNNER)
RUNNER["import_torch"]()


class OutputMemoryTest(unittest.TestCase):
    def setUp(self):
        self.bytes = torch.zeros(400, dtype=torch.uint8)
        self.memory = RUNNER["OutputMemory"]()
        self.memory.add(self.bytes.data_ptr() + 100, 100)

    def taken(self, result):
        try:
            self.memory.refuse(result, result.shape)
        except RUNNER["TookOutputMemory"]:
            return True
        return False

    def test_results_beside_the_memory_are_not_in_it(self):
        # An oracle's outputs are kept in wider types than those of its results.
        for dtype in (torch.uint8, torch.bfloat16, torch.float32):
            with self.subTest(dtype=dtype):
                self.assertFalse(self.taken(self.bytes[:100].view(dtype)))
                self.assertFalse(self.taken(self.bytes[200:].view(dtype)))
        self.assertFalse(self.taken(torch.zeros(100)))

    def test_results_that_touch_the_memory_are_in_it(self):
        for first, last in ((98, 102), (100, 200), (120, 140), (198, 202), (0, 400)):
            with self.subTest(first=first, last=last):
                self.assertTrue(self.taken(self.bytes[first:last].view(torch.bfloat16)))
        self.assertTrue(self.taken(self.bytes[::50][:3]))
        self.assertFalse(self.taken(self.bytes[::99][:2]))


if __name__ == "__main__":
    unittest.main()
