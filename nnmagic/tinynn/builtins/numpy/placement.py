"""Define NumPy's put, place and put_along_axis as functions that return the changed array.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.put.html
"""

from __future__ import annotations

from nnmagic.tinynn.builtins.argument_checks import choice_argument, formula, one_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, numpy_function
from nnmagic.tinynn.values.values import LoopCall, Operand, Value

_PUT = """
def put(a, ind, v):
    flat = ravel(a).copy()
    places, values = ravel(asarray(ind)), ravel(asarray(v))
    flat[PLACES] = values[arange(len(places)) % len(values)]
    return flat.reshape(a.shape)
"""

_PLACE = """
def place(a, mask, vals):
    values, chosen = ravel(asarray(vals)), ravel(asarray(mask)) != 0
    taken = values[(cumsum(chosen) - 1) % len(values)].astype(a.dtype)
    return where(chosen, taken, ravel(a)).reshape(a.shape)
"""

_ALONG = """
def put_along_axis(a, indices, values):
    flat = AS_IT_IS.copy()
    flat[INDEX] = values
    return flat.reshape(a.shape)
"""

#: Places among the elements, by what is to happen to those that are out of range.
_PLACES = {"raise": "places", "wrap": "places % a.size", "clip": "clip(places, 0, a.size - 1)"}


def _put(call: Arguments) -> Value:
    places = _PLACES[choice_argument(call, "mode", tuple(_PLACES), "raise")]
    return _text(call, _PUT.replace("PLACES", places), "a", "ind", "v")


def _along_axis(call: Arguments) -> Value:
    """Assign to the elements that an index along one axis chooses, beside those of the other axes."""
    rank = formula(call, "a").rank
    if "axis" not in call:
        text = _ALONG.replace("AS_IT_IS", "ravel(a)").replace("INDEX", "indices")
        return _text(call, text, "a", "indices", "values")
    axis = one_axis(call, "axis", rank)
    others = (
        f"arange(a.shape[{number}]).reshape({(*[1] * number, -1, *[1] * (rank - number - 1))})"
        for number in range(rank)
    )
    parts = ("indices" if number == axis else other for number, other in enumerate(others))
    text = _ALONG.replace("AS_IT_IS", "a").replace("INDEX", ", ".join(parts))
    return _text(call, text, "a", "indices", "values")


def _text(call: Arguments, text: str, *parameters: str) -> LoopCall:
    given = tuple(Operand(call.given[parameter].value, call.at(parameter)) for parameter in parameters)
    return LoopCall("text", given, text=text.lstrip())


#: By their names; a cell calls them as statements.
PLACEMENT = {
    row.name: row
    for row in (
        numpy_function("put", "a ind v mode?", _put, "Assign to elements by their places among all."),
        numpy_function(
            "place",
            "a mask vals",
            lambda call: _text(call, _PLACE, "a", "mask", "vals"),
            "Assign to the elements of a mask, beginning anew where values end.",
        ),
        numpy_function(
            "put_along_axis", "a indices values axis?", _along_axis, "Assign by indices along an axis."
        ),
    )
}
