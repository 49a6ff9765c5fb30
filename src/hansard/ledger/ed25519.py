"""Ed25519 verification with the strictest common rules; it cannot sign and never sees a private key.

Cofactorless: [S]B = R + [k]A must hold exactly. Refused before that: S >= L, and any A or R that is not the canonical
encoding of a point or is of low order. Time depends on the inputs, which are public.
"""

from functools import cache
from hashlib import sha512

Point = tuple[int, int, int, int]
"""Extended coordinates X, Y, Z, T with x = X/Z, y = Y/Z, xy = T/Z."""

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
_NEUTRAL: Point = (0, 1, 1, 0)
_ORDER_8_Y = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
# The y of the eight points of low order; with canonical encodings only, y alone tells them.
_LOW_ORDER_Y = frozenset({0, 1, P - 1, _ORDER_8_Y, P - _ORDER_8_Y})
_SIGN = 1 << 255


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether this is a valid signature of the message; False, never an error, for any bytes whatever."""
    if len(public) != 32 or len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    key = _decode(public)
    if s >= L or key is None or _y(signature[:32]) in _LOW_ORDER_Y:
        return False
    k = int.from_bytes(sha512(signature[:32] + public + message).digest(), "little") % L
    x, y, z, t = key
    # Comparing encodings also refuses every non-canonical R, since _encode never writes one.
    return _encode(_sum_of_multiples(s, k, (-x, y, z, -t))) == signature[:32]


def is_strict(encoded: bytes) -> bool:
    """Whether the y is canonical and not of low order; whether the point is on the curve is another question."""
    y = _y(encoded)
    return y < P and y not in _LOW_ORDER_Y


def _y(encoded: bytes) -> int:
    return int.from_bytes(encoded, "little") & ~_SIGN


def _decode(encoded: bytes) -> Point | None:
    if not is_strict(encoded):
        return None
    y = _y(encoded)
    u, v = (y * y - 1) % P, (_D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if (v * x * x - u) % P:
        x = x * _ROOT_OF_MINUS_ONE % P
    if (v * x * x - u) % P:
        return None
    # x = 0 is of low order and already gone, so either sign is a canonical encoding.
    if x & 1 != encoded[31] >> 7:
        x = P - x
    return x, y, 1, x * y % P


def _encode(point: Point) -> bytes:
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _add(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * _D * p[3] * q[3] % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times_16(point: Point) -> Point:
    x, y, z, _ = point
    for _ in range(4):
        a, b = x * x % P, y * y % P
        g, h, e = a - b, a + b, -2 * x * y % P
        f = g + 2 * z * z % P
        x, y, z = e * f % P, g * h % P, f * g % P
    return x, y, z, e * h % P


def _multiples(point: Point, count: int) -> list[Point]:
    table = [_NEUTRAL]
    while len(table) < count:
        table.append(_add(table[-1], point))
    return table


@cache
def _base_multiples() -> list[Point]:
    base = _decode((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    assert base is not None
    return _multiples(base, 256)


def _sum_of_multiples(s: int, k: int, point: Point) -> Point:
    # Straus: one run of doublings for both scalars, taking k by four bits and s by eight.
    near, base = _multiples(point, 16), _base_multiples()
    total = _NEUTRAL
    for shift in range(252, -1, -4):
        total = _add(_times_16(total), near[k >> shift & 15])
        if shift % 8 == 0:
            total = _add(total, base[s >> shift & 255])
    return total
