"""List the attribute classes that the metadata section of Relay text can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CONSTANT_KEY = "relay.Constant"
VAR_KEY = "tir.Var"
INCOMPLETE_KEY = "IncompleteType"
RELAY_VAR_KEY = "relay.Var"

#: How TVM stores a field of an attribute class: as inline text, or as the number of another node.
REF, INT, BOOL, FLOAT, STR = "ref", "int", "bool", "float", "str"


@dataclass(frozen=True, slots=True)
class AttrsClass:
    """An attribute class of TVM and how each field is stored."""

    key: str
    storage: Mapping[str, str]


def _attrs_class(name: str, **storage: str) -> AttrsClass:
    return AttrsClass(f"relay.attrs.{name}", storage)


_SCAN = _attrs_class("ScanopAttrs", axis=REF, dtype=STR, exclusive=REF)

#: The operators that are registered without (or with another) attribute class. With a metadata
#: section, Relay prints their attributes as ``meta[relay.attrs.X][k]``, elsewhere by name.
METADATA_ATTRS: dict[str, AttrsClass] = {
    "collapse_sum_to": _attrs_class("InitOpAttrs", shape=REF, dtype=STR),
    "cumprod": _SCAN,
    "cumsum": _SCAN,
    "dft": _attrs_class("DFTAttrs", inverse=REF),
    "nn.avg_pool2d_grad": _attrs_class(
        "AvgPool2DAttrs",
        pool_size=REF,
        strides=REF,
        dilation=REF,
        padding=REF,
        layout=REF,
        out_layout=REF,
        ceil_mode=BOOL,
        count_include_pad=BOOL,
    ),
    "nn.dilate": _attrs_class("DilateAttrs", strides=REF, dilation_value=FLOAT),
    "scatter_elements": _attrs_class("ScatterElementsAttrs", axis=REF, reduction=REF),
    "scatter_nd": _attrs_class("ScatterNDAttrs", mode=REF),
    "stft": _attrs_class(
        "StftAttrs", n_fft=INT, hop_length=INT, win_length=INT, normalized=BOOL, onesided=BOOL
    ),
    "trilu": _attrs_class("TriluAttrs", upper=BOOL),
    "unique": _attrs_class("UniqueAttrs", sorted=BOOL, return_counts=BOOL),
    "vision.all_class_non_max_suppression": _attrs_class(
        "AllClassNonMaximumSuppressionAttrs", output_format=STR
    ),
    "vision.get_valid_counts": _attrs_class(
        "GetValidCountsAttrs", score_threshold=REF, id_index=INT, score_index=INT
    ),
    "vision.non_max_suppression": _attrs_class(
        "NonMaximumSuppressionAttrs",
        force_suppress=BOOL,
        top_k=INT,
        coord_start=INT,
        score_index=INT,
        id_index=INT,
        return_indices=BOOL,
        invalid_to_bottom=BOOL,
    ),
    "vision.roi_align": _attrs_class(
        "ROIAlignAttrs", pooled_size=REF, spatial_scale=FLOAT, sample_ratio=INT, layout=STR, mode=STR
    ),
    "vision.roi_pool": _attrs_class("ROIPoolAttrs", pooled_size=REF, spatial_scale=FLOAT, layout=STR),
}
CLASSES = {attrs_class.key: attrs_class for attrs_class in METADATA_ATTRS.values()}
