"""What a sampler's code can reach that no sampler may read: clock, environment, network, files.

Nor may its module import a model runtime: gigabytes, in a process that holds no model.

A run cannot show that a clock is never read, the compiled code can: every name that the class, or a
function of its module that it uses, looks up is resolved and compared with a list.
"""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Iterator
from itertools import pairwise
from types import CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any

MODEL_RUNTIME = "a model runtime"
FORBIDDEN_MODULES = MappingProxyType(
    {
        "time": "the clock",
        "datetime": "the clock",
        "socket": "the network",
        "http": "the network",
        "urllib": "the network",
        "httpx": "the network",
        "requests": "the network",
        "tokenizers": "a tokenizer",
        "sentencepiece": "a tokenizer",
        "transformers": MODEL_RUNTIME,
        "torch": MODEL_RUNTIME,
        "vllm": MODEL_RUNTIME,
        "open_clip": MODEL_RUNTIME,
    }
)
ENVIRONMENT_NAMES = frozenset({"environ", "environb", "getenv"})
FILE_NAMES = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})
NUMPY_FILE_NAMES = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap"})


def forbidden_reads(sampler_class: type) -> tuple[str, ...]:
    """Sorted texts such as `the clock (time, in select)`; empty when nothing such is read."""
    found = set(_runtimes_imported(sampler_class.__module__))
    for function in _own_functions(sampler_class):
        for code in _nested_codes(function.__code__):
            found |= set(_reads(code, function))
    return tuple(sorted(found))


def _reads(code: CodeType, function: FunctionType) -> Iterator[str]:
    imported = _names(code, "IMPORT_NAME")
    looked_up = {_module_of(function.__globals__.get(n)) for n in _names(code, "LOAD_GLOBAL")}
    for module in imported | looked_up:
        root = module.partition(".")[0]
        if root in FORBIDDEN_MODULES:
            yield f"{FORBIDDEN_MODULES[root]} ({root}, in {function.__name__})"
    for name in ENVIRONMENT_NAMES.intersection(code.co_names):
        yield f"the environment ({name}, in {function.__name__})"
    for name in _file_names(code, function):
        yield f"a file ({name}, in {function.__name__})"


def _file_names(code: CodeType, function: FunctionType) -> Iterator[str]:
    """Weights are read once, where the module is imported; `select` reads no file."""
    yield from FILE_NAMES.intersection(code.co_names)
    for step, following in pairwise(dis.get_instructions(code)):
        if step.opname != "LOAD_GLOBAL":
            continue
        value = function.__globals__.get(step.argval, getattr(builtins, str(step.argval), None))
        if value is open:
            yield "open"
        elif _module_of(value) == "numpy" and following.argval in NUMPY_FILE_NAMES:
            yield f"numpy.{following.argval}"


def _runtimes_imported(module_name: str) -> Iterator[str]:
    module = sys.modules.get(module_name)
    for value in vars(module).values() if module else ():
        root = _module_of(value).partition(".")[0]
        if FORBIDDEN_MODULES.get(root) == MODEL_RUNTIME:
            yield f"{MODEL_RUNTIME} ({root}, imported by {module_name})"


def _names(code: CodeType, opname: str) -> set[str]:
    return {str(step.argval) for step in dis.get_instructions(code) if step.opname == opname}


def _module_of(value: Any) -> str:
    if isinstance(value, ModuleType):
        return value.__name__
    return str(getattr(value, "__module__", None) or "")


def _own_functions(sampler_class: type) -> list[FunctionType]:
    """Methods of the class, and what they call in the class's own module, however deep."""
    waiting: list[Any] = [cls for cls in sampler_class.__mro__ if cls is not object]
    functions: list[FunctionType] = []
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, type):
            waiting += [_unwrapped(member) for member in vars(value).values()]
        elif isinstance(value, FunctionType):
            functions.append(value)
            waiting += _same_module_values(value, sampler_class.__module__)
    return functions


def _same_module_values(function: FunctionType, module_name: str) -> list[Any]:
    codes = _nested_codes(function.__code__)
    names = {name for code in codes for name in _names(code, "LOAD_GLOBAL")}
    values = [function.__globals__.get(name) for name in names]
    return [
        value
        for value in values
        if isinstance(value, type | FunctionType) and value.__module__ == module_name
    ]


def _unwrapped(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return getattr(member, "__func__", member)


def _nested_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested_codes(constant)
