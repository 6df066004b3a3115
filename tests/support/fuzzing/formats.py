"""Good files of each kind, and damage behind their checksums and compression."""

from __future__ import annotations

import contextlib
import copy
import gzip
import io
import json
import math
import pickle
import wave
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from askew.core.ownership import Ownership
from askew.core.population import Population
from fuzzing.mutate import EDGES, damaged

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def python2_batch(images: np.ndarray, labels: list[int], fortran: bool = False) -> bytes:
    """A batch in the very form of the published ones: cPickle of Python 2, protocol 2, numpy 1."""
    puts = iter(range(1, 10**6))

    def put() -> bytes:
        number = next(puts)
        return b"q" + bytes([number]) if number < 256 else b"r" + number.to_bytes(4, "little")

    def word(text: str) -> bytes:
        return b"U" + bytes([len(text)]) + text.encode() + put()

    def integer(value: int) -> bytes:
        return b"K" + bytes([value]) if value < 256 else b"M" + value.to_bytes(2, "little")

    def many(parts: list[bytes]) -> bytes:  # a thousand at a time, as pickle has them
        return b"]" + put() + b"".join(b"(" + b"".join(parts[at : at + 1000]) + b"e"
                                       for at in range(0, len(parts), 1000))

    content = images.tobytes("F" if fortran else "C")
    start = b"\x80\x02}" + put() + b"("
    parts = [
        start, word("batch_label"), word("training batch 1 of 5"), word("labels"), many([integer(y) for y in labels]),
        word("data"), b"cnumpy.core.multiarray\n_reconstruct\n", put(), b"cnumpy\nndarray\n", put(), b"K\x00\x85",
        put(), word("b"), b"\x87", put(), b"R", put(), b"(K\x01", *map(integer, images.shape), b"\x86", put(),
        b"cnumpy\ndtype\n", put(), word("u1"), b"K\x00K\x01\x87", put(), b"R", put(),
        b"(K\x03", word("|"), b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t", put(), b"b",
        b"\x88" if fortran else b"\x89",
        b"T" + len(content).to_bytes(4, "little") + content, put(), b"t", put(), b"b",
        word("filenames"), many([word(f"leptodactylus_s_{i:06d}.png") for i in range(len(labels))]), b"u."]
    return b"".join(parts)


def cifar(folder: Path) -> list[Path]:
    draw = np.random.default_rng(0)
    images, labels = draw.integers(0, 256, (3, 3072), dtype=np.uint8), [7, 0, 9]
    records = np.concatenate([np.array(labels, np.uint8)[:, None], images], axis=1)
    (folder / "data_batch_1.bin").write_bytes(records.tobytes())
    (folder / "data_batch_2").write_bytes(python2_batch(images, labels))
    for protocol in (2, 4):
        content = pickle.dumps({"data": images, "labels": labels}, protocol=protocol)
        (folder / f"data_batch_{protocol + 1}").write_bytes(content)
    return sorted(folder.iterdir())


# Of numpy's names, of marks and of the memo: what a pickle can do harm with, and what ours must not take.
_PICKLED = (b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"cnumpy\nndarray\n", b"c_codecs\nencode\n",
            b"cbuiltins\neval\n", b"R", b"b", b"(", b"t", b"u", b"s", b"a", b"e", b"h\x01", b"r\xff\xff\xff\x7f",
            b"j\xff\xff\xff\x7f", b"U\x02u1", b"U\x02O8", b"K\x00K\x01\x87", b"}", b"]", b")", b"\x85", b"\x86",
            b"\x87", b"N", b"\x88", b"\x8a\xff", b"0", b"2", b"\x81", b"\x92", b"\x8f", b"\x90", b"\x91", b"F1\n",
            b"I1\n", b"L1L\n", b"G\0\0\0\0\0\0\0\0", b"l", b"d",
            b"T\xff\xff\xff\x7f", b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f")


def in_pickle(content: bytes, draw: Random) -> bytes:
    """Opcodes put in, between or in place of others."""
    for _ in range(draw.choice((1, 2, 5, 30))):
        at = draw.randrange(min(len(content), 400)) if draw.random() < 0.7 else draw.randrange(len(content))
        put_in = b"".join(draw.choices(_PICKLED, k=draw.choice((1, 2, 8))))
        content = content[:at] + put_in + content[at + draw.randrange(4) :]
    return content


def in_idx(content: bytes, draw: Random) -> bytes:
    """Numbers of dimensions and sizes that cannot be, and other damage, gzip'd where the file is."""
    packed = content[:2] == b"\x1f\x8b"
    plain = bytearray(gzip.decompress(content) if packed else content)
    if draw.random() < 0.5:
        dimensions, kind = draw.choice((0, 1, 2, 3, 4, 64, 65, 255)), draw.choice(((1,), (0, 1), (2**16, 2**31), EDGES))
        sizes = [draw.choice(kind) % 2**32 for _ in range(dimensions)]
        fitting = math.prod(sizes) % 2**64  # as arithmetic in 64 bits has it
        content = bytes(fitting) if fitting < 1000 else bytes(plain)
        changed = bytes([0, 0, 8, dimensions]) + b"".join(size.to_bytes(4, "big") for size in sizes) + content
    else:
        changed = damaged(bytes(plain), draw)
    return gzip.compress(changed, mtime=0) if packed else changed


def in_png(content: bytes, draw: Random) -> bytes:
    """A size that cannot be, with a checksum that is right; other formats have none."""
    at = content.find(b"IHDR")
    if at < 0:
        return damaged(content, draw)
    size = b"".join((draw.choice((1, 7, 9000, *EDGES)) % 2**31).to_bytes(4, "big") for _ in range(2))
    head = b"IHDR" + size + content[at + 12 : at + 17]
    return content[:at] + head + zlib.crc32(head).to_bytes(4, "big") + content[at + 21 :]


def in_zip(content: bytes, draw: Random) -> bytes:
    """Damage to one member, whose checksum is then right; or to what the archive says of it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        chosen = draw.choice(old.namelist())
        for info in old.infolist():
            member = old.read(info)
            if info.filename == chosen:
                head = 10 + int.from_bytes(member[8:10], "little")
                member = draw.choice((damaged(member, draw), damaged(member[:head], draw) + member[head:],
                                      member[:head] + damaged(member[head:], draw)))
            new.writestr(info.filename, member, draw.choice(METHODS) if draw.random() < 0.1 else zipfile.ZIP_DEFLATED)
    written = bytearray(out.getvalue())
    if draw.random() < 0.2:  # flags, method, sizes and offsets of an entry in the central directory
        at = written.rindex(b"PK\x01\x02") + draw.choice((8, 10, 20, 24, 28, 30, 42))
        written[at : at + 2] = (draw.choice(EDGES) % 2**16).to_bytes(2, "little")
    return bytes(written)


def in_arrays(content: bytes, draw: Random) -> bytes:
    """Arrays of a good archive with other numbers, of other types and shapes; left out, exchanged."""
    if draw.random() < 0.3:
        return in_zip(content, draw)
    with np.load(io.BytesIO(content)) as file:
        arrays = {name: file[name] for name in file.files}
    for _ in range(draw.choice((1, 1, 2, 4))):
        name = draw.choice(sorted(arrays))
        arrays[name] = _other(arrays[name], arrays[draw.choice(sorted(arrays))], draw)
        if draw.random() < 0.1:
            del arrays[name]
        if not arrays:
            break
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def _other(array: np.ndarray, another: np.ndarray, draw: Random) -> np.ndarray:
    if array.dtype.kind == "U" and array.ndim == 0:
        return np.array(damaged(str(array).encode(), draw).decode("latin-1"))
    types = (np.float64, np.float16, np.uint64, np.int8, np.complex64, bool, "U3", "S2", "M8[s]")
    way = draw.randrange(8)
    if way == 0:
        return another
    if way == 1 and array.dtype.kind in "biuf":
        with np.errstate(all="ignore"):
            return array.astype(draw.choice(types))
    if way == 2:
        return array.reshape(draw.choice(((-1,), (1, *array.shape), (*array.shape, 1), (-1, 1))))
    if way == 3:
        return array[: draw.randrange(len(array) + 1)] if array.ndim else array
    if way == 4:
        return np.concatenate([array, array]) if array.ndim else array
    if way == 5:
        return np.zeros(draw.choice(((), (0,), (0, 10**9), (3, 0), (2, 2, 2))), array.dtype)
    changed = array.astype(np.float64 if array.dtype.kind == "f"
                           else np.int64) if array.dtype.kind in "biuf" else array.copy()
    if changed.size and changed.dtype.kind in "if":
        at = draw.randrange(changed.size)
        edges = (-1, 0, 1, 2**31, 2**62, -(2**63)) if changed.dtype.kind == "i" else (np.nan, np.inf, 1e300, -1.5)
        changed.reshape(-1)[at] = draw.choice((*edges, changed.reshape(-1)[draw.randrange(changed.size)]))
    return changed


def archives(folder: Path) -> list[Path]:
    draw = np.random.default_rng(0)
    np.savez(folder / "split_here.npz", x=draw.normal(size=(20, 3)), y=np.arange(20) % 2, clients=np.arange(20) % 3)
    np.savez_compressed(folder / "split.npz", x_train=draw.integers(0, 256, (8, 2, 3), dtype=np.uint8),
                        x_test=np.ones((4, 2, 3), np.uint8),
                        y_train=np.array(["cat", "dog"] * 4), y_test=np.array(["dog", "cat"] * 2))
    return sorted(folder.iterdir())


LABELS = np.arange(30) % 3


def populations(folder: Path) -> list[Path]:
    rest = {"validation": Ownership.of([[20], [21, 22]]), "test": Ownership.of([[0, 1], [2]]),
            "groups": np.array([1, 0]),
            "server": np.array([28, 29])}
    for name, parts, more in (("full.npz", [range(10), range(10, 20)], rest),
                              ("plain.npz", [range(5), range(5, 10), range(10, 30)], {}),
                              ("shared.npz", [range(20), range(10, 30)], {})):
        Population.of(Ownership.of(parts), LABELS, 3, scheme="iid(clients=2)", **more).save(folder / name)
    return sorted(folder.iterdir())


def clip(path: Path, samples: int) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((8_000 * np.sin(np.arange(samples) / 9)).astype("<i2").tobytes())


def tables(folder: Path) -> list[Path]:
    rows = [f"{i},{i * 0.5},{'ab'[i % 2]},north" for i in range(12)]
    (folder / "words.csv").write_text("\n".join(["a,b,y,site", *rows]) + "\n")
    quoted = [f'{i}.5,1e{i},{i % 2},"s, {i}"' for i in range(8)]
    (folder / "quoted.csv").write_text("\r\n".join(['\ufeff"a","b","y","site"', *quoted, ""]))
    gaps = [f"{'NA' if i % 5 == 1 else i};{'uvw'[i % 3] if i % 4 else ''};{i % 2};{i % 3}" for i in range(12)]
    (folder / "gaps.csv").write_text("\n".join(["a;b;y;site", *gaps]) + "\n")
    return sorted(folder.iterdir())


def parquets(folder: Path) -> list[Path]:
    import pyarrow as arrow
    import pyarrow.parquet as parquet

    columns = {"a": [float(i) for i in range(12)], "b": list(range(12)), "y": ["u", "v"] * 6, "site": [1, 2, 3] * 4,
               "flag": [True, False] * 6, "list": [[1, 2]] * 12}
    parquet.write_table(arrow.table(columns), folder / "snappy.parquet")
    parquet.write_table(arrow.table(columns), folder / "plain.parquet", compression="none", use_dictionary=False)
    parquet.write_table(arrow.table(columns), folder / "gzip.parquet", compression="gzip", row_group_size=5,
                        data_page_version="2.0")
    return sorted(folder.iterdir())


def counts(folder: Path) -> list[Path]:
    (folder / "named.csv").write_text("client,cat,dog,cow\nNorth,10,2,0\nSouth,3,40,5\n\"East, far\",1,1,1\n")
    (folder / "bare.csv").write_text("1;2;30\n4;5;60\n")
    return sorted(folder.iterdir())


def images(folder: Path) -> list[Path]:
    from PIL import Image

    draw = np.random.default_rng(0)
    for number, name in enumerate(("elm", "oak")):
        (folder / name).mkdir()
        for ending in ("png", "jpg", "bmp", "gif", "webp", "tif", "ppm", "pgm", "pbm"):
            mode = {"pgm": "L", "pbm": "1", "gif": "P"}.get(ending, "RGBA" if ending == "png" and number else "RGB")
            picture = Image.fromarray(draw.integers(0, 256, (9, 7, 3), dtype=np.uint8))
            picture.convert(mode).save(folder / name / f"a.{ending}")
    return sorted(folder.glob("*/*"))


def rearranged_json(content: bytes, draw: Random) -> bytes:
    """Values of an object of JSON exchanged, left out, or put where others stood; other files are damaged as they
    are."""
    try:
        whole = json.loads(content)
    except ValueError:
        return damaged(content, draw)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
            places.append((value, key))
            walk(value[key])

    walk(whole)
    for _ in range(draw.choice((1, 1, 2, 4))):
        holder, key = draw.choice(places)
        other, there = draw.choice(places)
        with contextlib.suppress(LookupError):  # what was changed before may be gone
            if draw.random() < 0.2:
                del holder[key]
            else:
                holder[key] = draw.choice((None, True, -1, 0, 1.5, 2**40, 1e308, float("nan"), "", "x", "a\0b", [], {},
                                           [[]], "9" * 5000, draw.choice(STEPS), copy.deepcopy(other[there])))
    return json.dumps(whole).encode()


STEPS = ("mlp(hidden=[3])", "mlp(hidden=[1000000000])", "resnet20()", "tf_cifar", "float32", "uint8", "int64",
         "../model.safetensors", "model.safetensors")


def facts(folder: Path) -> list[Path]:
    (folder / "rates.json").write_text(json.dumps({"this machine": {"mlp on digits": 1234.5, "cnn on mnist": 2e4}}))
    return [folder / "rates.json"]


ODD = (None, True, -1, 0, 1e308, float("nan"), 10**400, "", "x" * 300, "\u2028<b>", [], [[]], [None], {}, {"a": 1},
       [1, 2])


def in_json(content: bytes, draw: Random) -> bytes:
    """One value of JSON, or of a line of it, exchanged or gone; other texts are damaged as bytes."""
    lines = content.split(b"\n")
    whole = content[:1] == b"{" and lines[0] in (b"{", b"{}")
    at = 0 if whole else draw.randrange(max(1, len(lines) - 1))
    try:
        value = json.loads(content if whole else lines[at])
    except ValueError:
        return damaged(content, draw)
    holder, places = value, []
    while isinstance(holder, dict | list) and holder and (not places or draw.random() < 0.8):
        places.append((holder, draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))))
        holder = holder[places[-1][1]]
    if places:
        parent, key = places[-1]
        if draw.random() < 0.2:
            del parent[key]
        else:
            parent[key] = draw.choice(ODD)
    lines[at] = json.dumps(value).encode()
    return lines[0] if whole else b"\n".join(lines)
