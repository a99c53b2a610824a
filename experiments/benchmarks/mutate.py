"""Mutations of files: of bytes, words and lines, of JSON by its structure, inside archives."""

from __future__ import annotations

import io
import json
import random
import re
import zipfile
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Mutator = Callable[[random.Random, bytes, Sequence[bytes]], bytes]
"""Gets chance, a valid file, and all valid files of its format."""

NUMBERS = (
    "0", "-1", "1", "2", "0.5", "-0", "1e-320", "1e308", "-1e308", "1e400", "nan", "inf", "-inf",
    "NaN", "Infinity", "-Infinity", "100000000", "100000001", "2147483648", "4294967296",
    "9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "18446744073709551616", "1" + "0" * 399, "-" + "9" * 400, "7" * 5000,
    "0.1" + "0" * 400 + "1", "0x" + "f" * 400,
)  # fmt: skip
WORDS = (
    "", "true", "false", "null", "None", "[]", "{}", "[[]]", '""', '"x"', '"\\ud800"', '"\\u0000"',
    '"\u202e\u0301"', '"' + "y" * 100_000 + '"', "[" * 2_000, "[" * 2_000 + "]" * 2_000,
    '{"a":' * 500 + "1" + "}" * 500, "[0,1]", "[-1,-1]", '{"kind":"all"}', "all", "'", '"', "\x00",
    "\ufeff", "\r", ",,", "=", ":", "%", "@data", "|   ",
)  # fmt: skip
BYTES = (0x00, 0x01, 0x0A, 0x0D, 0x20, 0x22, 0x27, 0x2C, 0x2D, 0x30, 0x39, 0x5B, 0x7B, 0x7F, 0xFF)
WORD = re.compile(r'"(?:[^"\\]|\\.)*"|[-+]?[\w.]+|[^\s\w]|\n')
RAW = re.compile(r'"@raw(\d+)@"')


def of_bytes(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Flip, set, cut, insert, repeat or splice bytes."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(out)) if out else 0
        length = min(rng.choice((1, 2, 4, 16, 256)), len(out) - at)
        match rng.randrange(7):
            case 0 if out:
                out[at] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at] = rng.choice(BYTES)
            case 2:
                del out[at : at + length]
            case 3:
                out[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
            case 4:
                out[at:at] = out[at : at + length] * rng.choice((1, 2, 50))
            case 5:
                del out[at:]
            case _:
                other = rng.choice(others)
                cut = rng.randrange(len(other) + 1)
                out[at : at + length] = other[cut : cut + rng.choice((4, 64, len(other)))]
    return bytes(out)


def of_text(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace, drop, repeat or swap words or lines; sometimes bytes."""
    if rng.random() < 0.25:
        return of_bytes(rng, data, others)
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5))):
        if rng.random() < 0.3:
            parts = text.splitlines(keepends=True)
            other = rng.choice(others).decode("utf-8", "replace").splitlines(keepends=True)
            text = "".join(_moved(rng, parts, rng.choice(other or [""])))
            continue
        spans = [m.span() for m in WORD.finditer(text)]
        if not spans:
            break
        start, end = rng.choice(spans)
        old = text[start:end]
        match rng.randrange(5):
            case 0 | 1:
                new = rng.choice(NUMBERS if rng.random() < 0.6 else WORDS)
            case 2:
                new = ""
            case 3:
                new = old + rng.choice((" ", ",", "", "\n")) + old
            case _:
                one, two = rng.choice(spans)
                new = text[one:two]
        text = text[:start] + new + text[end:]
    return text.encode("utf-8", "surrogatepass")


def _moved(rng: random.Random, parts: list[str], other: str) -> list[str]:
    if not parts:
        return [other]
    i, j = rng.randrange(len(parts)), rng.randrange(len(parts))
    match rng.randrange(4):
        case 0:
            del parts[i]
        case 1:
            parts.insert(i, parts[j])
        case 2:
            parts[i], parts[j] = parts[j], parts[i]
        case _:
            parts.insert(i, other)
    return parts


def of_json(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Replace, drop, rename, wrap, repeat or swap values; sometimes words or bytes."""
    if rng.random() < 0.2:
        return of_text(rng, data, others)
    root = json.loads(data)
    raw: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(root))
        if rng.random() < 0.5:
            # Most places are entries of lists, which are all read alike.
            places = [(h, k) for h, k in places if isinstance(h, dict)] or places
        if not places:
            break
        holder, key = rng.choice(places)
        match rng.randrange(8):
            case 0 | 1 | 2:
                raw.append(rng.choice(NUMBERS if rng.random() < 0.6 else WORDS))
                holder[key] = f"@raw{len(raw) - 1}@"
            case 3:
                del holder[key]
            case 4:
                holder[key] = [holder[key]] if rng.random() < 0.5 else {"x": holder[key]}
            case 5 if isinstance(holder, list):
                holder[key:key] = [holder[key]] * rng.choice((1, 2, 30))
            case 5:
                holder[rng.choice([*holder, key + "_", "", "\u0000"])] = holder.pop(key)
            case 6:
                other, at = rng.choice(places)
                if other is not holder or at != key:
                    mine, theirs = _copy(holder[key]), _copy(other[at])
                    holder[key], other[at] = theirs, mine
            case _:
                holder[key] = _copy(rng.choice(places)[0])
    text = json.dumps(root)
    if rng.random() < 0.03:
        brace = rng.choice([m.end() for m in re.finditer(r"\{", text)] or [0])
        twice = re.match(r'\s*("[^"]*"\s*:\s*[^,{}\[\]]+)[,}]', text[brace:])
        text = text[:brace] + (f"{twice[1]}, " if twice else "") + text[brace:]
    return RAW.sub(lambda m: raw[int(m[1])], text).encode("utf-8", "surrogatepass")


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _places(value: Any) -> Any:
    """Every holder with every key in it; long lists by a few of their ends."""
    if isinstance(value, dict):
        for key, own in list(value.items()):
            yield value, key
            yield from _places(own)
    elif isinstance(value, list):
        ends = range(len(value)) if len(value) < 40 else (*range(10), *range(-5, 0))
        for key in ends:
            yield value, key
            yield from _places(value[key])


def of_archive(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change members of an archive, and pack it again; sometimes bytes of the whole."""
    if rng.random() < 0.15:
        return of_bytes(rng, data, others)
    members = _unpacked(data)
    for _ in range(rng.choice((1, 1, 2))):
        names = sorted(members)
        if not names:
            break
        name = "schema.json" if rng.random() < 0.5 and "schema.json" in members else None
        name = name or rng.choice(names)
        match rng.randrange(12):
            case 0:
                del members[name]
            case 1:
                members[rng.choice(("a.npy", "schema.json", "../x", name + "_"))] = members[name]
            case 2:
                other = _unpacked(rng.choice(others))
                members[name] = other[rng.choice(sorted(other))]
            case 3:
                members[name] = of_bytes(rng, members[name], list(members.values()))
            case _ if name.endswith(".json"):
                members[name] = _json_or_bytes(rng, members[name])
            case _:
                members[name] = _array(rng, members[name])
    out, how = io.BytesIO(), rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in members.items():
            # Without the time of day, so that a case can be repeated.
            packed.writestr(zipfile.ZipInfo(name), content, how)
    return out.getvalue()


def _unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _json_or_bytes(rng: random.Random, data: bytes) -> bytes:
    try:
        return of_json(rng, data, [data])
    except (ValueError, RecursionError):
        return of_bytes(rng, data, [data])


def _array(rng: random.Random, data: bytes) -> bytes:
    """Change an array: some of its entries, its type or its shape."""
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        # numpy has headers read by Python's own parser, which raises what it likes.
        return of_bytes(rng, data, [data])
    if not isinstance(array, np.ndarray):
        # Several in an archive: the parts of a sparse matrix.
        return of_bytes(rng, data, [data])
    match rng.randrange(6):
        case 0 | 1 | 2 if array.size:
            array = array.copy()
            flat = array.reshape(-1)
            part = flat[rng.choice(array.dtype.names)] if array.dtype.names else flat
            at = rng.randrange(len(flat))
            if part.dtype.kind in "iuf":
                info = np.iinfo(part.dtype) if part.dtype.kind in "iu" else np.finfo(part.dtype)
                some = [0, 1, 2, info.max, info.min, 7]
                some += [np.nan, np.inf, 0.5] if part.dtype.kind == "f" else []
                part[at] = rng.choice(some)
        case 3:
            array = array[: rng.randrange(len(array) + 1)] if array.ndim else array[None]
        case 4 if array.dtype.names is None and array.dtype.kind in "iufb":
            kinds = ("f4", "f8", "i1", "i8", "u8", "U3", "c16", "M8[s]", ">f8")
            array = array.astype(rng.choice(kinds))
        case _:
            array = array[..., None] if rng.random() < 0.5 else array.ravel()[::-1]
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
