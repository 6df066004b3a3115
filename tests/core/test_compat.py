"""What of torch is not public stands in one file."""

import re
from pathlib import Path

import askew

PRIVATE = re.compile(r"\btorch(\.\w+)*\._[a-zA-Z]|\bmodules\.\w+\._|\btorch\S* import _"
                     r"|\b_(reversed_padding_repeated_twice|conv_forward|all_weights)\b")


def test_only_compat_names_private_parts_of_torch():
    folder = Path(askew.__file__).parent
    lines = {f"{path.relative_to(folder)}:{number}: {line.strip()}"
             for path in folder.rglob("*.py") if path.name != "compat.py"
             for number, line in enumerate(path.read_text().splitlines(), start=1) if PRIVATE.search(line)}
    assert not lines


def test_the_pattern_finds_them():
    for line in ("torch._foreach_add(a, b)", "torch.utils._pytree", "from torch.utils import _pytree",
                 "nn.modules.batchnorm._BatchNorm"):
        assert PRIVATE.search(line)
    assert not PRIVATE.search("torch.__version__")
