# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The allow-list for FP8 state, which Transformer Engine pickles into the bytes of a tensor.

Its tensors contain their storages, in torch's legacy format.
"""

import re
from typing import Any

from seatrial.checkpoints.pickle_rules import (
    ARCHIVE_RULES,
    STORAGE_BYTES,
    Made,
    Name,
    PickleRule,
    Rules,
    Storage,
    no_arguments,
    plain_attributes,
)

_LEGACY_STORAGE = re.compile(
    re.escape(
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."
        b"\x80\x02}q\0(X\x10\0\0\0protocol_versionq\1M\xe9\3X\r\0\0\0little_endianq\2\x88"
        b"X\n\0\0\0type_sizesq\3}q\4(X\5\0\0\0shortq\5K\2X\3\0\0\0intq\6K\4"
        b"X\4\0\0\0longq\7K\4uu.\x80\x02(X\7\0\0\0storageq\0"
    )
    + rb"ctorch\n(?P<kind>[A-Za-z0-9]{1,30})\nq\x01"
    + rb"X(?P<length>[\x01-\x14])\0\0\0(?P<key>[0-9]{1,20})q\x02"
    + rb"X(?:\x03\0\0\0cpu|\x06\0\0\0cuda:[0-9])q\x03"
    + rb"(?:K(?P<u1>.)|M(?P<u2>..)|J(?P<i4>....))Ntq\x04Q\."
    + rb"\x80\x02\]q\0X(?P=length)\0\0\0(?P=key)q\x01a\.(?P<count>.{8})",
    re.DOTALL,
)
"""The format of a separately pickled storage (torch 2.13.0, serialization.py, `_legacy_save`):
five pickles in which only the class, the key, the device and the count vary."""


def _legacy(arguments: Any) -> Storage | None:
    """Parse a storage in torch's legacy format. None if torch would not write it like this."""
    if len(arguments) != 1 or type(arguments[0]) is not bytes:
        return None
    found = _LEGACY_STORAGE.match(arguments[0])
    if found is None or found["length"][0] != len(found["key"]):
        return None
    kind, count = found["kind"].decode(), int.from_bytes(found["count"], "little")
    told = int.from_bytes(found["u1"] or found["u2"] or found["i4"], "little")
    size = len(arguments[0]) - found.end()
    if kind not in STORAGE_BYTES or told != count or size != count * STORAGE_BYTES[kind]:
        return None
    return Storage(kind, found["key"].decode(), count)


def _recipe_state(state: Any) -> bool:
    """Accept FP8 settings but no functions, because Transformer Engine would call them."""
    plain = (bool, int, float, str, type(None), Made)
    return plain_attributes(state) and all(isinstance(one, plain) for one in state.values())


def _format(arguments: Any) -> bool:
    return (
        len(arguments) == 1 and type(arguments[0]) is Made and arguments[0].kind == _FORMAT_VALUES
    )


def _two_numbers(arguments: Any) -> bool:
    return len(arguments) == 2 and all(type(one) in (int, float) for one in arguments)


_RECIPES = "transformer_engine.common.recipe"
_FORMAT_VALUES = Name(_RECIPES, "_FormatHelper")
_FROM_ARCHIVES = (
    Name("collections", "OrderedDict"),
    Name("torch._utils", "_rebuild_tensor_v2"),
)
STORAGE_LOADERS = frozenset(
    {
        Name("torch.storage", "_load_from_bytes"),
        Name("megatron.core.safe_globals", "safe_load_from_bytes"),
    }
)
"""Functions that load a separately pickled storage."""
EXTRA_STATE_RULES: Rules = {
    **{
        name: ARCHIVE_RULES[name]
        for name in ARCHIVE_RULES
        if name.module == "torch" or name in _FROM_ARCHIVES
    },
    **dict.fromkeys(
        STORAGE_LOADERS,
        PickleRule(
            call=lambda arguments: _legacy(arguments) is not None,
            make=lambda _, arguments: _legacy(arguments),
        ),
    ),
    **dict.fromkeys(
        (
            *(
                Name(_RECIPES, name)
                for name in (
                    *("DelayedScaling", "Float8CurrentScaling", "Float8BlockScaling"),
                    *("MXFP8BlockScaling", "NVFP4BlockScaling", "MMParams", "QParams"),
                )
            ),
            Name("megatron.core.extensions.transformer_engine", "TEDelayedScaling"),
        ),
        PickleRule(new=no_arguments, build=_recipe_state),
    ),
    Name(_RECIPES, "Format"): PickleRule(call=_format),
    _FORMAT_VALUES: PickleRule(new=_two_numbers),
}
"""FP8 state, which Transformer Engine pickles into a tensor (megatron-core 0.19.2,
safe_globals.py; the classes are in Transformer Engine, common/recipe)."""
