"""Eight floats at once inside Numba: a vector type that LLVM maps onto the registers of any CPU.

Left to vectorise scalar loops by itself, LLVM gives up on the scan (the arrays might overlap) and the loop runs six
times slower. With the vector spelled out there is nothing to give up on, on AVX, SSE and NEON alike.
"""

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.cgutils import get_or_insert_function
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8

Lanes: TypeAlias = Any  # for annotations: Python itself never holds such a vector

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_INDEX = ir.IntType(32)


class LanesType(types.Type):
    """The Numba type of eight float32 side by side."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _define_operator(symbol: Callable, instruction: str) -> None:
    """Let `symbol` work between two vectors."""

    @infer_global(symbol)
    class _Template(AbstractTemplate):
        def generic(self, args: tuple, kws: dict) -> Any:
            return signature(lanes, lanes, lanes) if args == (lanes, lanes) else None

    @lower_builtin(symbol, LanesType, LanesType)
    def _lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


_define_operator(operator.add, "fadd")
_define_operator(operator.sub, "fsub")
_define_operator(operator.mul, "fmul")
_define_operator(operator.truediv, "fdiv")


def _pointer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    array = context.make_array(sig.args[0])(context, builder, args[0])
    return builder.gep(array.data, [args[1]])


def _vector_pointer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.bitcast(_pointer(context, builder, sig, args), _VECTOR.as_pointer())


def _repeat(builder: Any, value: Any) -> Any:
    undefined = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(_INTEGERS, [0] * LANES))


@intrinsic
def load(typing: Any, array: Any, offset: Any) -> Any:
    """Read the eight floats that lie `offset` floats after the start of `array`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_vector_pointer(context, builder, sig, args), align=4)

    return lanes(array, types.intp), emit


@intrinsic
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Write eight floats `offset` floats after the start of `array`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _vector_pointer(context, builder, sig, args), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), emit


@intrinsic
def prefetch(typing: Any, array: Any, offset: Any) -> Any:
    """Ask for the cache line that lies `offset` floats after the start of `array`, without waiting for it."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(_pointer(context, builder, sig, args), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INDEX, _INDEX, _INDEX])
        read, keep, data = (ir.Constant(_INDEX, value) for value in (0, 3, 1))
        builder.call(get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """Repeat one float in every lane."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _repeat(builder, args[0])

    return lanes(types.float32), emit


@intrinsic
def spread(typing: Any, array: Any, offset: Any) -> Any:
    """Read the float that lies `offset` floats after the start of `array` into every lane."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _repeat(builder, builder.load(_pointer(context, builder, sig, args)))

    return lanes(array, types.intp), emit


def _choose(comparison: str) -> Callable:
    """Return an intrinsic that takes its second argument where the comparison holds; a NaN in the first stays."""

    def build(typing: Any, value: Any, bound: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, args[0], args[1]), args[1], args[0])

        return lanes(lanes, lanes), emit

    return build


at_most = intrinsic(_choose(">"))
at_least = intrinsic(_choose("<"))


@intrinsic
def madd(typing: Any, factor: Any, other: Any, term: Any) -> Any:
    """Return factor * other + term, rounded once on every CPU that can.

    Spelled out, because left to itself the compiler may fuse either product of a * b + c * d, now this and now that.
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32"), args)

    return lanes(lanes, lanes, lanes), emit


@intrinsic
def where_one(typing: Any, value: Any, then: Any, otherwise: Any) -> Any:
    """Take `then` where `value` is exactly one."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = ir.Constant(_VECTOR, [1.0] * LANES)
        return builder.select(builder.fcmp_ordered("==", args[0], one), args[1], args[2])

    return lanes(lanes, lanes, lanes), emit


@intrinsic
def low_bits_as_power_of_two(typing: Any, value: Any) -> Any:
    """Move the low nine bits of each float into its sign and exponent, which makes 2 ** (bits - 127)."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        shifted = builder.shl(builder.bitcast(args[0], _INTEGERS), ir.Constant(_INTEGERS, [23] * LANES))
        return builder.bitcast(shifted, _VECTOR)

    return lanes(lanes), emit


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """Add the eight lanes, halves first."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = args[0]
        for half in (4, 2, 1):
            undefined = ir.Constant(vector.type, ir.Undefined)
            index = ir.VectorType(_INDEX, half)
            lower = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(half))))
            upper = builder.shuffle_vector(vector, undefined, ir.Constant(index, list(range(half, 2 * half))))
            vector = builder.fadd(lower, upper)
        return builder.extract_element(vector, ir.Constant(_INDEX, 0))

    return types.float32(lanes), emit
