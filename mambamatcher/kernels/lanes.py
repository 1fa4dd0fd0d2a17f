"""A SIMD vector of eight floats for Numba, which LLVM maps to the vector registers of any CPU (AVX, SSE, NEON).

LLVM does not vectorise the scan's scalar loops by itself, because the arrays might overlap; they run six times slower.
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

Lanes: TypeAlias = Any  # for annotations only: the vector exists only in compiled code

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INTEGERS = ir.VectorType(ir.IntType(32), LANES)
_INDEX = ir.IntType(32)


class LanesType(types.Type):
    """The Numba type of a vector of eight float32."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _define_operator(symbol: Callable, instruction: str) -> None:
    """Define an arithmetic operator for two vectors."""

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
    """Load the eight floats that start at `array[offset]`; the offset counts floats from the start of the data."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_vector_pointer(context, builder, sig, args), align=4)

    return lanes(array, types.intp), emit


@intrinsic
def store(typing: Any, array: Any, offset: Any, value: Any) -> Any:
    """Store eight floats from `array[offset]` on; see `load`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _vector_pointer(context, builder, sig, args), align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), emit


@intrinsic
def prefetch(typing: Any, array: Any, offset: Any) -> Any:
    """Start fetching the cache line of `array[offset]` without waiting for it; see `load`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(_pointer(context, builder, sig, args), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INDEX, _INDEX, _INDEX])
        read, keep, data = (ir.Constant(_INDEX, value) for value in (0, 3, 1))
        builder.call(get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), [pointer, read, keep, data])
        return context.get_dummy_value()

    return types.void(array, types.intp), emit


@intrinsic
def splat(typing: Any, value: Any) -> Any:
    """Broadcast a scalar to all lanes."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _repeat(builder, args[0])

    return lanes(types.float32), emit


@intrinsic
def spread(typing: Any, array: Any, offset: Any) -> Any:
    """Load the float `array[offset]` and broadcast it to all lanes; see `load`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _repeat(builder, builder.load(_pointer(context, builder, sig, args)))

    return lanes(array, types.intp), emit


def _choose(comparison: str) -> Callable:
    """Return an intrinsic that selects its second argument where the comparison holds; NaN in the first is kept."""

    def build(typing: Any, value: Any, bound: Any) -> Any:
        def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.select(builder.fcmp_ordered(comparison, args[0], args[1]), args[1], args[0])

        return lanes(lanes, lanes), emit

    return build


at_most = intrinsic(_choose(">"))
at_least = intrinsic(_choose("<"))


@intrinsic
def madd(typing: Any, factor: Any, other: Any, term: Any) -> Any:
    """Return factor * other + term, as a fused multiply-add where the CPU has one.

    Explicit, because in a * b + c * d the compiler may fuse either product, and which one may change.
    """

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32"), args)

    return lanes(lanes, lanes, lanes), emit


@intrinsic
def where_one(typing: Any, value: Any, then: Any, otherwise: Any) -> Any:
    """Select `then` where `value` is exactly 1, else `otherwise`."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = ir.Constant(_VECTOR, [1.0] * LANES)
        return builder.select(builder.fcmp_ordered("==", args[0], one), args[1], args[2])

    return lanes(lanes, lanes, lanes), emit


@intrinsic
def low_bits_as_power_of_two(typing: Any, value: Any) -> Any:
    """Shift the low nine bits of each float into its sign and exponent, which gives 2 ** (bits - 127)."""

    def emit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        shifted = builder.shl(builder.bitcast(args[0], _INTEGERS), ir.Constant(_INTEGERS, [23] * LANES))
        return builder.bitcast(shifted, _VECTOR)

    return lanes(lanes), emit


@intrinsic
def total(typing: Any, value: Any) -> Any:
    """Return the sum of the eight lanes, computed by repeated halving."""

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
