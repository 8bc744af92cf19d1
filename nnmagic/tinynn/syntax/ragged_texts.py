"""Hold the statements that a list of lists, or a dictionary of lists, is written as.

``items`` has all items in the order in which they came; ``next`` and ``prev`` have the places of the items
behind and before each in its inner list, or -1. ``first``, ``last`` and ``count`` say of each inner list
where its items begin and end, and how many there are. Of a dictionary, ``slot`` has the number of the list of
each key. ``place`` is the number of the inner list at hand.
"""

from __future__ import annotations

import textwrap

#: The names that the texts hold. Those after ``slot`` are new in each text.
PARTS = (
    "size",
    "items",
    "next",
    "prev",
    "first",
    "last",
    "count",
    "slot",
    "place",
    "at",
    "list",
    "key",
    "step",
    "item",
)


def _under(head: str, body: str) -> str:
    return f"{head}\n{textwrap.indent(body.strip(), '    ')}\n"


_NOTHING = """
{items} = []
{next} = []
{prev} = []
"""
#: ``[[] for _ in range(number)]``.
BEGIN = (
    _NOTHING
    + """
{size} = max({number}, 0)
{first} = numpy.full({size}, -1)
{last} = numpy.full({size}, -1)
{count} = numpy.zeros({size}, dtype=int)
"""
)
_OF_NO_LIST = """
{first} = []
{last} = []
{count} = []
"""
#: ``[]``, to which lists are appended, and ``{}``.
BEGIN_LIST = _NOTHING + _OF_NO_LIST
BEGIN_DICTIONARY = "{slot} = {{}}\n" + BEGIN_LIST
#: A list more, and one of a key.
ANOTHER = """
{first}.append(-1)
{last}.append(-1)
{count}.append(0)
"""
ANOTHER_LAST = ANOTHER + "{place} = len({count}) - 1\n"
_OF_KEY = ANOTHER + "{slot}[{key}] = len({count}) - 1\n"
#: Statements that find the place of an inner list, and that of a key, for which there may be none yet.
PLACE = "{place} = ({index}) + 0\n"
FOUND = "{key} = {index}\n{place} = {slot}[{key}]\n"
ENSURED = "{key} = {index}\n" + _under("if {key} not in {slot}:", _OF_KEY) + "{place} = {slot}[{key}]\n"
#: The same of a key for which there may be none: -1.
FOUND_OR_NONE = "{key} = {index}\n{place} = -1\n" + _under("if {key} in {slot}:", "{place} = {slot}[{key}]")


def each(target: str, items: str, body: str) -> str:
    """Return a loop."""
    return _under(f"for {target} in {items}:", body)


ANOTHER_EACH = each("{step}", "range({number})", ANOTHER)
KEY_EACH = each("{key}", "{number}", _under("if {key} not in {slot}:", _OF_KEY))

APPEND = """
{items}.append({item})
{next}.append(-1)
{prev}.append({last}[{place}])
if {count}[{place}] == 0:
    {first}[{place}] = len({next}) - 1
else:
    {next}[{last}[{place}]] = len({next}) - 1
{last}[{place}] = len({next}) - 1
{count}[{place}] += 1
"""
#: The same of a list from which nothing is taken.
APPEND_ONLY = APPEND.replace("{prev}.append({last}[{place}])\n", "")
CLEAR = """
{first}[{place}] = -1
{last}[{place}] = -1
{count}[{place}] = 0
"""
COLLECT = """
{list} = []
{at} = {first}[{place}]
while {at} >= 0:
    {list}.append({items}[{at}])
    {at} = {next}[{at}]
"""
#: The items that take the places of those that were collected.
PUT_BACK = """
{at} = {first}[{place}]
for {item} in {list}:
    {items}[{at}] = {item}
    {at} = {next}[{at}]
"""
GO_OVER = """
{at} = {first}[{place}]
while {at} >= 0:
    {target} = {items}[{at}]
    {at} = {next}[{at}]
"""
#: The same of a place that may be none.
GO_OVER_ANY = GO_OVER.replace(
    "{at} = {first}[{place}]\n", "{at} = -1\n" + _under("if {place} >= 0:", "{at} = {first}[{place}]")
)
_UNLINK = """
if {prev}[{at}] >= 0:
    {next}[{prev}[{at}]] = {next}[{at}]
else:
    {first}[{place}] = {next}[{at}]
if {next}[{at}] >= 0:
    {prev}[{next}[{at}]] = {prev}[{at}]
else:
    {last}[{place}] = {prev}[{at}]
{count}[{place}] -= 1
"""
_POP = (
    _under("if {count}[{place}] == 0:", "raise IndexError('pop from empty list')")
    + "{at} = {end}[{place}]\n{item} = {items}[{at}]\n"
    + _UNLINK
)
POP = {"-1": _POP.replace("{end}", "{last}"), "0": _POP.replace("{end}", "{first}")}
REMOVE = (
    "{at} = {first}[{place}]\n"
    + _under("while {at} >= 0 and {items}[{at}] != ({item}):", "{at} = {next}[{at}]")
    + _under("if {at} < 0:", "raise ValueError('list.remove(x): x not in list')")
    + _UNLINK
)
#: The assignment of an item of an inner list.
SET_ITEM = """
{step} = ({number}) + 0
if {step} < 0:
    {step} += {count}[{place}]
if {step} < 0 or {step} >= {count}[{place}]:
    raise IndexError('list assignment index out of range')
{at} = {first}[{place}]
while {step} > 0:
    {at} = {next}[{at}]
    {step} -= 1
{items}[{at}] {sign} {item}
"""
#: All items, one inner list behind the other.
ALL = """
{list} = []
for {step} in range(len({count})):
    {at} = {first}[{step}]
    while {at} >= 0:
        {list}.append({items}[{at}])
        {at} = {next}[{at}]
"""
