"""One spelling for each value, whatever type an engine or the oracle has it in.

Integers, booleans, text and null stay JSON values. Everything else becomes text that begins with its kind, so that
equal text means equal values of equal kinds: f: binary floating point, d: decimal, b: bytes in hexadecimal,
date:, ts: without a zone, tz: an instant in UTC. Lists and structs stay lists and objects.
"""
import datetime
import decimal

UTC = datetime.timezone.utc
EPOCH = datetime.datetime(1970, 1, 1)


def value(v):
    """Spells a Python value as an engine's client returns it."""
    if v is None or isinstance(v, (bool, int, str)):
        return v
    if isinstance(v, float):
        return "f:" + repr(v)
    if isinstance(v, decimal.Decimal):
        return "d:" + format(v, "f")
    if isinstance(v, (bytes, bytearray, memoryview)):
        return "b:" + bytes(v).hex()
    if isinstance(v, datetime.datetime):
        if v.tzinfo is None:
            return "ts:" + v.isoformat(timespec="microseconds")
        return "tz:" + v.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")
    if isinstance(v, datetime.date):
        return "date:" + v.isoformat()
    if isinstance(v, dict):
        return {k: value(x) for k, x in v.items()}
    if callable(getattr(v, "asDict", None)):  # a Spark Row; it is a tuple too, and so is Trino's, which has every attribute
        return value(v.asDict(recursive=True))
    if isinstance(v, (list, tuple)):
        return [value(x) for x in v]
    raise TypeError(f"no spelling for {type(v).__name__}")


def micros(n):
    """A datetime without a zone from microseconds since the epoch."""
    return EPOCH + datetime.timedelta(microseconds=n)


def instant(n):
    """A datetime in UTC from microseconds since the epoch."""
    return micros(n).replace(tzinfo=UTC)
