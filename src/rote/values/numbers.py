"""The text of a float in canonical JSON: ECMAScript's Number::toString, as RFC 8785 section 3.2.2.3 asks.

Frozen: every hash depends on it. Python's repr gives the same shortest digits; only their layout differs.
"""

# ECMAScript writes whole numbers in full up to 21 digits.
DIGITS_WHOLE_MAX = 21
# ECMAScript leads small fractions with at most six zeros, the one before the point included.
ZEROS_LEADING_MAX = 6


def float_text(number: float) -> str:
    """Return the canonical text of a finite float; both zeros give `0`."""
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    digits, point = _decimal(abs(number))
    count = len(digits)
    if count <= point <= DIGITS_WHOLE_MAX:
        return sign + digits + "0" * (point - count)
    if 0 < point <= DIGITS_WHOLE_MAX:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -ZEROS_LEADING_MAX < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _decimal(number: float) -> tuple[str, int]:
    """Return the shortest digits of a positive float, and the place of the point among them."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).rstrip("0")
    stripped = digits.lstrip("0")
    point = len(whole) + int(exponent or "0") - (len(digits) - len(stripped))
    return stripped, point
