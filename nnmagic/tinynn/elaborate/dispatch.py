"""Map each node of the tree to the function that elaborates it."""

from __future__ import annotations

from synr import ast

from nnmagic.tinynn.elaborate.assignments import (
    elaborate_assign,
    elaborate_set_shape,
    elaborate_unpack,
    elaborate_update_name,
    elaborate_walrus,
    elaborate_write_out,
)
from nnmagic.tinynn.elaborate.calls import elaborate_call
from nnmagic.tinynn.elaborate.changing_calls import elaborate_call_statement, elaborate_changing_call
from nnmagic.tinynn.elaborate.changing_lists import elaborate_list_part
from nnmagic.tinynn.elaborate.closures import elaborate_lambda, elaborate_nested_function
from nnmagic.tinynn.elaborate.comprehensions import elaborate_comprehension
from nnmagic.tinynn.elaborate.conditions import elaborate_chain, elaborate_conditional, elaborate_logical
from nnmagic.tinynn.elaborate.context import NodeTable
from nnmagic.tinynn.elaborate.dictionaries import (
    elaborate_dictionary,
    elaborate_dictionary_comprehension,
    elaborate_set,
)
from nnmagic.tinynn.elaborate.dictionary_items import elaborate_change_table
from nnmagic.tinynn.elaborate.element_assignments import elaborate_update
from nnmagic.tinynn.elaborate.expressions import (
    elaborate_constant,
    elaborate_ellipsis,
    elaborate_invalid,
    elaborate_name,
    elaborate_slice,
    elaborate_tuple,
    refuse_starred,
)
from nnmagic.tinynn.elaborate.formatted_strings import elaborate_formatted_string
from nnmagic.tinynn.elaborate.growing_lists import elaborate_append, elaborate_change, elaborate_grow
from nnmagic.tinynn.elaborate.if_statements import elaborate_if
from nnmagic.tinynn.elaborate.imports import elaborate_import
from nnmagic.tinynn.elaborate.loops import elaborate_for, elaborate_while
from nnmagic.tinynn.elaborate.matching import elaborate_match
from nnmagic.tinynn.elaborate.printing import elaborate_print
from nnmagic.tinynn.elaborate.statements import (
    elaborate_assert,
    elaborate_break,
    elaborate_continue,
    elaborate_invalid_statement,
    elaborate_raise,
    elaborate_return,
)
from nnmagic.tinynn.elaborate.tables import elaborate_table_part
from nnmagic.tinynn.syntax import tree

#: The whole language. A statement that is not listed, such as ``pass``, does nothing.
NODES = NodeTable(
    expressions={
        ast.Var: elaborate_name,
        ast.Attr: elaborate_name,
        ast.Constant: elaborate_constant,
        ast.Call: elaborate_call,
        tree.ChangingCall: elaborate_changing_call,
        ast.Tuple: elaborate_tuple,
        ast.ArrayLiteral: elaborate_tuple,
        ast.Slice: elaborate_slice,
        tree.Conditional: elaborate_conditional,
        tree.Logical: elaborate_logical,
        tree.Chain: elaborate_chain,
        tree.NamedExpr: elaborate_walrus,
        tree.FormattedString: elaborate_formatted_string,
        tree.Printed: elaborate_print,
        tree.Dictionary: elaborate_dictionary,
        tree.DictionaryComprehension: elaborate_dictionary_comprehension,
        tree.MadeSet: elaborate_set,
        tree.Lambda: elaborate_lambda,
        tree.Comprehension: elaborate_comprehension,
        tree.EllipsisLiteral: elaborate_ellipsis,
        tree.Invalid: elaborate_invalid,
        tree.Starred: refuse_starred,
        tree.ListPart: elaborate_list_part,
        tree.TablePart: elaborate_table_part,
    },
    statements={
        ast.Assign: elaborate_assign,
        tree.UpdateName: elaborate_update_name,
        tree.SetShape: elaborate_set_shape,
        tree.Import: elaborate_import,
        tree.Append: elaborate_append,
        tree.ChangeList: elaborate_change,
        tree.Grow: elaborate_grow,
        tree.ChangeTable: elaborate_change_table,
        tree.Unpack: elaborate_unpack,
        tree.WriteOut: elaborate_write_out,
        tree.UpdateElements: elaborate_update,
        tree.CallStatement: elaborate_call_statement,
        ast.Return: elaborate_return,
        tree.Break: elaborate_break,
        tree.Continue: elaborate_continue,
        ast.If: elaborate_if,
        tree.For: elaborate_for,
        tree.While: elaborate_while,
        tree.MatchNode: elaborate_match,
        ast.Assert: elaborate_assert,
        tree.Raise: elaborate_raise,
        tree.DefinitionNode: elaborate_nested_function,
        tree.InvalidStatement: elaborate_invalid_statement,
    },
)
