"""Elementary functions on vectors of eight floats, with a relative error of about 2e-7.

The polynomials are minimax approximations. The one for 2**x is exact at 0: arguments near 0 belong to the slowest modes
of the scan, where an error would accumulate over thousands of steps.
"""

import math

import numpy as np

from mambamatcher.kernels.build import inlined
from mambamatcher.kernels.lanes import Lanes, at_least, at_most, low_bits_as_power_of_two, madd, splat, where_one

ZERO, ONE, TWO = (np.float32(value) for value in (0.0, 1.0, 2.0))
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))

# Adding this to x leaves round(x) + 127, the exponent field of 2 ** round(x), in the low bits.
_ROUNDING = np.float32(1.5 * 2**23 + 127)
_LOWEST, _HIGHEST = np.float32(-127), np.float32(128)  # exponents that give 0 and infinity

# (2**f - 1) / f on [-1/2, 1/2]
_Q0, _Q1, _Q2, _Q3, _Q4 = (np.float32(c) for c in (0.69314718, 0.24022348, 0.055503331, 0.0096663730, 0.0013400436))
# 2 atanh(s) / s in powers of s**2, s in [0, 1/3]
_L0, _L1, _L2, _L3, _L4 = (np.float32(c) for c in (2.0, 0.66666311, 0.40025115, 0.27957666, 0.28191546))
# coefficients of the derivative of (exp(e) - 1) / e, in powers of e
_S0, _S1, _S2, _S3, _S4, _S5 = (np.float32(1 / c) for c in (2, 3, 8, 30, 144, 840))


@inlined
def split_exp2(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """Return 2**round(x), f and q such that 2**x = 2**round(x) * (1 + f * q)."""
    x = at_most(at_least(x, splat(_LOWEST)), splat(_HIGHEST))
    rounded = x + splat(_ROUNDING)
    f = x - (rounded - splat(_ROUNDING))
    q = madd(f, splat(_Q4), splat(_Q3))
    q = madd(f, madd(f, madd(f, q, splat(_Q2)), splat(_Q1)), splat(_Q0))
    return low_bits_as_power_of_two(rounded), f, q


@inlined
def exp2(x: Lanes) -> Lanes:
    """Return 2**x; results below 1.2e-38 are flushed to 0."""
    scale, f, q = split_exp2(x)
    return madd(f, q, splat(ONE)) * scale


@inlined
def sigmoid(x: Lanes) -> Lanes:
    """Return 1 / (1 + exp(-x))."""
    return splat(ONE) / (splat(ONE) + exp2(x * splat(-LOG2_E)))


@inlined
def softplus(x: Lanes) -> Lanes:
    """Return log(1 + exp(x)), accurate for very negative x too."""
    magnitude = at_least(x, splat(ZERO) - x)
    y = exp2(magnitude * splat(-LOG2_E))
    s = y / (splat(TWO) + y)
    r = s * s
    p = madd(r, splat(_L4), splat(_L3))
    p = madd(r, madd(r, madd(r, p, splat(_L2)), splat(_L1)), splat(_L0))
    return madd(s, p, at_least(x, splat(ZERO)))


@inlined
def hold(x: Lanes, decay_rate: Lanes, delta: Lanes) -> Lanes:
    """Return (exp(delta * A) - 1) / A, the input factor of the zero-order hold.

    `decay_rate` is A * log2(e), and x is delta * decay_rate. Near zero the result is delta times a polynomial, which
    avoids cancellation and the division by A = 0.
    """
    scale, f, q = split_exp2(x)
    far = (madd(f, q, splat(ONE)) * scale - splat(ONE)) * splat(LOG2_E) / decay_rate
    return where_one(scale, delta * splat(LOG2_E) * q, far)


@inlined
def hold_slope(x: Lanes, decay_rate: Lanes, delta: Lanes, decay: Lanes, held: Lanes) -> Lanes:
    """Return the derivative of `hold` with respect to A: (delta * exp(delta * A) - hold) / A, or its series near 0."""
    scale, f, _ = split_exp2(x)
    e = f * splat(LN_2)
    series = madd(e, splat(_S5), splat(_S4))
    series = madd(e, madd(e, madd(e, madd(e, series, splat(_S3)), splat(_S2)), splat(_S1)), splat(_S0))
    far = (delta * decay - held) * splat(LOG2_E) / decay_rate
    return where_one(scale, delta * delta * series, far)
